"""Tags of a schema of any type: listing, adding and removing them. Pure; what an entity is: `tag_entities`.

The formats load when they are first used: a registry that starts has no need of them.
"""

from headwater.schemas.model import ParsedSchema, SchemaType
from headwater.schemas.tag_entities import Entity, Tags, json_tags


def tagged_entities(schema: ParsedSchema) -> dict[Entity, list[str]]:
    """Every entity of the schema that has tags, outer ones first. Raises SchemaError."""
    match schema.schema_type:
        case SchemaType.AVRO:
            from headwater.schemas.avro.tags import avro_entities

            return json_tags(avro_entities(schema.formatted("resolved")))
        case SchemaType.JSON:
            from headwater.schemas.jsonschema.tags import json_schema_entities

            return json_tags(json_schema_entities(schema.canonical)[1])
        case SchemaType.PROTOBUF:
            from headwater.schemas.protobuf.tags import protobuf_tags

            return protobuf_tags(schema.canonical)


def with_tags(schema: ParsedSchema, add: Tags, remove: Tags) -> str:
    """The schema's text with tags added, and then others removed.
    Raises SchemaError for an entity that is not there.
    """
    match schema.schema_type:
        case SchemaType.AVRO:
            from headwater.schemas.avro.tags import avro_with_tags

            return avro_with_tags(schema.canonical, add, remove)
        case SchemaType.JSON:
            from headwater.schemas.jsonschema.tags import json_schema_with_tags

            return json_schema_with_tags(schema.canonical, add, remove)
        case SchemaType.PROTOBUF:
            from headwater.schemas.protobuf.tags import protobuf_with_tags

            return protobuf_with_tags(schema.canonical, add, remove)

"""Tags of a schema of any type: listing, adding and removing them. Pure; what an entity is: `tag_entities`."""

from headwater.schemas.avro.tags import avro_entities, avro_with_tags
from headwater.schemas.jsonschema.tags import json_schema_entities, json_schema_with_tags
from headwater.schemas.model import ParsedSchema, SchemaType
from headwater.schemas.protobuf.tags import protobuf_tags, protobuf_with_tags
from headwater.schemas.tag_entities import Entity, Tags, json_tags


def tagged_entities(schema: ParsedSchema) -> dict[Entity, list[str]]:
    """Every entity of the schema that has tags, outer ones first. Raises SchemaError."""
    match schema.schema_type:
        case SchemaType.AVRO:
            return json_tags(avro_entities(schema.formatted("resolved")))
        case SchemaType.JSON:
            return json_tags(json_schema_entities(schema.canonical)[1])
        case SchemaType.PROTOBUF:
            return protobuf_tags(schema.canonical)


def with_tags(schema: ParsedSchema, add: Tags, remove: Tags) -> str:
    """The schema's text with tags added, and then others removed. Raises SchemaError for an entity that is not there."""
    match schema.schema_type:
        case SchemaType.AVRO:
            return avro_with_tags(schema.canonical, add, remove)
        case SchemaType.JSON:
            return json_schema_with_tags(schema.canonical, add, remove)
        case SchemaType.PROTOBUF:
            return protobuf_with_tags(schema.canonical, add, remove)

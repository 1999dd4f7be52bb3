"""JsonSchemaConverter: records in JSON with the id of their JSON Schema in a registry, as Confluent's converter has
them.
"""

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import LOW, flag, text, whole
from headwater.connect.converters.avro.names import has_string_keys
from headwater.connect.converters.json_converter import JsonConverter, decoded
from headwater.connect.converters.jsonschema.columns import column_reader
from headwater.connect.converters.jsonschema.schemas import ONE_OF, JsonSchemaOptions, connect_schema, json_schema
from headwater.connect.converters.registry import REGISTRY_DEF, Reading, RegistryConverter
from headwater.connect.data.json_text import dumps
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema, parse
from headwater.schemas.jsonschema import JsonSchema


class JsonValues(JsonConverter):
    """JSON as JsonConverter has it, but for maps with other keys than strings and for structs that stand for one of
    several types.
    """

    def __init__(self, *, numeric: bool = False) -> None:
        self.configure({"schemas.enable": "false", "decimal.format": "NUMERIC" if numeric else "BASE64"})

    def to_json(self, schema: Schema | None, value: Any) -> Any:
        if schema is None or schema.name != ONE_OF or value is None:
            if schema is not None and isinstance(value, Struct) and value.schema is not schema:
                bare = value.schema  # of a default: it has no default itself
                schema = bare if bare.changed(optional=schema.optional, default=schema.default) == schema else schema
            return super().to_json(schema, value)
        for each in schema.fields:
            found = value.get(each.name)
            if found is not None:
                return self.to_json(each.schema, found)
        return super().to_json(schema, None)

    def _map_to_json(self, schema: Schema | None, value: dict[Any, Any]) -> Any:
        if schema is None or has_string_keys(schema):
            return super()._map_to_json(schema, value)
        keys, values = schema.key_schema, schema.value_schema
        return [{"key": self.to_json(keys, key), "value": self.to_json(values, each)} for key, each in value.items()]

    def _map_from_json(self, schema: Schema, value: Any) -> dict[Any, Any]:
        if has_string_keys(schema):
            return super()._map_from_json(schema, value)
        if not isinstance(value, list) or any(not isinstance(each, dict) for each in value):
            raise DataError("Maps with non-string fields should be encoded as JSON array of objects")
        pairs = [[each.get("key"), each.get("value")] for each in value]
        try:
            return {self.from_json(schema.key_schema, k): self.from_json(schema.value_schema, v) for k, v in pairs}
        except TypeError:
            raise DataError("The keys of a map cannot be structs, arrays or maps") from None

    def _struct_from_json(self, schema: Schema, value: Any) -> Struct:
        if schema.name != ONE_OF:
            return super()._struct_from_json(schema, value)
        for each in schema.fields:
            if _is_of(each.schema, value):
                return Struct(schema, {each.name: self.from_json(each.schema, value)})
        raise DataError("Did not find matching oneof field for data")


def _is_of(schema: Schema, value: Any) -> bool:
    """Whether a value of JSON may be of this type, as far as Confluent's converter looks."""
    match schema.type:
        case Type.BOOLEAN:
            return isinstance(value, bool)
        case Type.STRING | Type.BYTES:
            return isinstance(value, str)
        case Type.FLOAT32 | Type.FLOAT64:
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case Type.ARRAY:
            return isinstance(value, list)
        case Type.MAP:
            return isinstance(value, dict | list)
        case Type.STRUCT:
            return isinstance(value, dict) and value.keys() <= {each.name for each in schema.fields}
    return isinstance(value, int) and not isinstance(value, bool)


class JsonSchemaConverter(RegistryConverter):
    doc = "JSON, with JSON Schemas in a registry: what Confluent's JsonSchemaConverter and JSON Schema serializers read and write. Needs `schema.registry.url`."
    schema_type = SchemaType.JSON
    config_def = REGISTRY_DEF + ConfigDef(
        whole("schemas.cache.config", 1000, LOW, "How many schemas are kept ready.", AtLeast(1)),
        text("decimal.format", "BASE64", LOW, "How decimals are written: BASE64 (their bytes) or NUMERIC.", OneOf("BASE64", "NUMERIC", ignore_case=True)),
        flag("object.additional.properties", True, LOW, "Whether the schemas of structs allow properties that they do not name."),
        flag("use.optional.for.nonrequired", False, LOW, "Whether a property that a schema does not list as required is an optional field."),
    )  # fmt: skip

    def setup(self, config: Mapping[str, Any]) -> None:
        super().setup(config)
        self._values = JsonValues(numeric=config["decimal.format"].upper() == "NUMERIC")
        self._options = JsonSchemaOptions(
            not config["object.additional.properties"], config["use.optional.for.nonrequired"]
        )

    def own_schema(self, schema: Schema | None) -> StoredSchema:
        if schema is None:
            raise DataError("A value without a schema has no JSON Schema: use JsonConverter with schemas.enable=false")
        made = dumps(json_schema(schema, self._values.to_json, self._options))
        return StoredSchema(parse(SchemaType.JSON, made).canonical, SchemaType.JSON)

    def writer(self, schema: Schema | None, target: ParsedSchema) -> Callable[[Any], bytes]:
        return lambda value: dumps(self._values.to_json(schema, value)).encode("utf-8", "replace")

    def reader(self, writer: ParsedSchema, latest: ParsedSchema | None, version: int | None) -> Reading:
        parsed = latest or writer
        assert isinstance(parsed, JsonSchema)
        schema = connect_schema(parsed, self._values.from_json, self._options, version if latest is None else None)
        columns = functools.cache(lambda: column_reader(schema))
        return Reading(schema, lambda data: self._values.from_json(schema, decoded(data)), columns)

"""JSON, with its schema in an envelope (`{"schema": ..., "payload": ...}`) or without: byte for byte as Apache's
JsonConverter.

The text of a schema is made once per schema. Reading is as lenient as Jackson's nodes are: a field that wants a number
and finds text reads 0, as Apache's does.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, flag, text, whole
from headwater.connect.converters.base import CONVERTER_TYPE, Converter
from headwater.connect.converters.json_schema import schema_from_json, schema_to_json
from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.java_text import to_float32
from headwater.connect.data.json_text import Raw, dumps, number, quoted
from headwater.connect.data.schema import NULL, Schema, SchemaAndValue, Type
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import fits, type_of
from headwater.connect.errors import DataError

Writer = Callable[[Any], str]
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def decoded(data: bytes) -> Any:
    """JSON with exact decimals; what follows it is not looked at, as Jackson does not."""
    try:
        text = bytes(data).decode("utf-8").lstrip()
        return _DECODER.raw_decode(text)[0] if text else None
    except (ValueError, RecursionError, ArithmeticError) as error:  # the last: an exponent that no decimal has
        raise DataError(f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}") from None


class JsonConverter(Converter):
    doc = "JSON, with the schema in each message or without schemas."
    config_def = ConfigDef(
        CONVERTER_TYPE,
        flag("schemas.enable", True, HIGH, "Whether each message has its schema beside it: `schema` and `payload`."),
        whole("schemas.cache.size", 1000, HIGH, "How many schemas are kept ready."),
        text(
            "decimal.format",
            "BASE64",
            LOW,
            "How decimals are written: BASE64 (their bytes) or NUMERIC.",
            OneOf("BASE64", "NUMERIC", ignore_case=True),
        ),
        flag(
            "replace.null.with.default",
            True,
            LOW,
            "Whether a null in a field with a default value becomes that default.",
        ),
        text(
            "schema.content",
            None,
            HIGH,
            "A schema, as JSON, that counts for all messages: these are read as payloads alone. Only with schemas.enable.",
        ),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._with_schemas = config["schemas.enable"]
        self._numeric = config["decimal.format"].upper() == "NUMERIC"
        self._with_default = config["replace.null.with.default"]
        self._cached_max = max(1, config["schemas.cache.size"])
        self._texts: dict[Schema, Raw] = {}
        self._writers: dict[Schema, Writer] = {}
        self._envelope: tuple[str, Schema | None] | None = None
        self._schemas: dict[str, Schema | None] = {}
        self._given = self._given_schema(config["schema.content"])

    def _given_schema(self, content: str | None) -> Schema | None:
        if not self._with_schemas or not content:
            return None
        try:
            return schema_from_json(_DECODER.decode(content), self.from_json)
        except ValueError as error:
            raise DataError(f"schema.content is not JSON: {error}") from None

    # Writing

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = self._writer(schema)(value)
        if not self._with_schemas:
            return payload.encode("utf-8", "replace")
        return f'{{"schema":{self._schema_text(schema)},"payload":{payload}}}'.encode("utf-8", "replace")

    def from_connect_run(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if schema is None:
            return super().from_connect_run(topic, schema, values)
        write = self._writer(schema)
        if not self._with_schemas:
            return [write(value).encode("utf-8", "replace") for value in values]
        head = f'{{"schema":{self._schema_text(schema)},"payload":'
        return [f"{head}{write(value)}}}".encode("utf-8", "replace") for value in values]

    def _writer(self, schema: Schema | None) -> Writer:
        """Of values of a schema, made once: quick for what fits it exactly, and `to_json` for all the rest."""
        if schema is None:
            return lambda value: dumps(self.to_json(None, value))
        found = self._writers.get(schema)
        if found is None:
            if len(self._writers) >= self._cached_max:
                self._writers.clear()
            found = self._writers[schema] = self._new_writer(schema)
        return found

    def _new_writer(self, schema: Schema) -> Writer:
        def any_value(value: Any) -> str:
            return dumps(self.to_json(schema, value))

        if schema.name in s.LOGICAL_NAMES:
            return any_value
        match schema.type:
            case Type.STRING:
                return lambda value: quoted(value) if type(value) is str else any_value(value)
            case Type.FLOAT64:
                return lambda value: number(value) if type(value) is float else any_value(value)
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 as kind:
                most = 1 << _BITS[kind] - 1
                return lambda value: str(value) if type(value) is int and -most <= value < most else any_value(value)
            case Type.STRUCT:
                fields = [(f"{quoted(each.name)}:", self._new_writer(each.schema)) for each in schema.fields]

                def struct(value: Any) -> str:
                    if type(value) is not Struct or value.schema is not schema:
                        return any_value(value)
                    pairs = zip(fields, value.values_without_defaults(), strict=True)
                    return "{" + ",".join([name + write(each) for (name, write), each in pairs]) + "}"

                return struct
        return any_value

    def _schema_text(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        found = self._texts.get(schema)
        if found is None:
            if len(self._texts) >= self._cached_max:
                self._texts.clear()
            found = self._texts[schema] = Raw(dumps(schema_to_json(schema, self.to_json)))
        return found

    def to_json(self, schema: Schema | None, value: Any) -> Any:
        """A value that `dumps` writes."""
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and self._with_default:
                return self.to_json(schema, schema.default)
            if schema.optional:
                return None
            raise DataError("Conversion error: null value for field that is required and has no default value")
        if schema is not None and schema.name in s.LOGICAL_NAMES:
            return self._logical_to_json(schema, value)
        kind = schema.type if schema is not None else type_of(value)
        if kind is None or (schema is not None and not fits(schema, value)):
            raise DataError(f"Invalid type for {kind.name if kind else 'unknown schema'}: {type(value).__name__}")
        match kind:
            case Type.ARRAY:
                inner = schema.value_schema if schema is not None else None
                return [self.to_json(inner, each) for each in value]
            case Type.MAP:
                return self._map_to_json(schema, value)
            case Type.STRUCT:
                if schema is not None and value.schema != schema:
                    raise DataError("Mismatching schema.")
                fields = value.schema.fields
                return {each.name: self.to_json(each.schema, value.get_without_default(each.name)) for each in fields}
            case Type.BYTES:
                return b64encode(bytes(value)).decode("ascii")
            case Type.FLOAT32:
                return Raw(number(value, single=True))
        return value

    def _map_to_json(self, schema: Schema | None, value: dict[Any, Any]) -> Any:
        keys = schema.key_schema if schema is not None else None
        values = schema.value_schema if schema is not None else None
        if keys.type is Type.STRING if keys is not None else all(isinstance(key, str) for key in value):
            return {str(self.to_json(keys, key)): self.to_json(values, each) for key, each in value.items()}
        return [[self.to_json(keys, key), self.to_json(values, each)] for key, each in value.items()]

    def _logical_to_json(self, schema: Schema, value: Any) -> Any:
        if not fits(schema, value):
            raise DataError(f"Invalid type for {schema.name}: {type(value).__name__}")
        match schema.name:
            case s.DECIMAL:
                if self._numeric:
                    return Raw(str(value))
                return b64encode(logical.decimal_to_bytes(schema, value)).decode("ascii")
            case s.DATE:
                return logical.date_to_days(value)
            case s.TIME:
                return logical.time_to_millis(value)
        return logical.timestamp_to_millis(value)

    # Reading

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        if self._envelope is not None:
            payload = self._payload_behind(data, self._envelope[0])
            if payload is not None:
                return SchemaAndValue(self._envelope[1], self.from_json(self._envelope[1], payload[0]))
        found = decoded(data)
        if not self._with_schemas:
            return SchemaAndValue(None, self.from_json(None, found))
        if self._given is not None:
            return SchemaAndValue(self._given, self.from_json(self._given, found))
        if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
                "fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter "
                "configuration."
            )
        schema = self._schema_of(found["schema"])
        self._envelope = self._envelope_of(data, found["schema"], schema)
        return SchemaAndValue(schema, self.from_json(schema, found["payload"]))

    @staticmethod
    def _envelope_of(data: bytes, found: Any, schema: Schema | None) -> tuple[str, Schema | None] | None:
        """The text before the payload, if it is nothing but the schema: most messages of a topic begin with the same,
        which need not be read again.
        """
        text = bytes(data).decode("utf-8", "replace")
        inner = re.match(r'\s*\{\s*"schema"\s*:', text)
        if inner is None:
            return None
        try:
            read, end = _DECODER.raw_decode(text[inner.end() :].lstrip())
        except ValueError:
            return None
        at = len(text) - len(text[inner.end() :].lstrip()) + end
        between = re.compile(r'\s*,\s*"payload"\s*:\s*').match(text, at)
        return (text[: between.end()], schema) if between is not None and read == found else None

    @staticmethod
    def _payload_behind(data: bytes, envelope: str) -> tuple[Any] | None:
        try:
            text = bytes(data).decode("utf-8")
            if not text.startswith(envelope):
                return None
            payload, end = _DECODER.raw_decode(text, len(envelope))
        except (ValueError, RecursionError, ArithmeticError):
            return None
        return (payload,) if text[end:] == "}" else None

    def _schema_of(self, found: Any) -> Schema | None:
        if found is None:
            return None
        text = json.dumps(found, default=str)
        if text not in self._schemas:
            if len(self._schemas) >= self._cached_max:
                self._schemas.clear()
            self._schemas[text] = schema_from_json(found, self.from_json)
        return self._schemas[text]

    def from_json(self, schema: Schema | None, value: Any) -> Any:
        if schema is None:
            return _plain(value)
        if value is None:
            if schema.default is not None and self._with_default:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        if schema.name in s.LOGICAL_NAMES:
            return _logical_from_json(schema, value)
        numeric = isinstance(value, int | Decimal) and not isinstance(value, bool)
        match schema.type:
            case Type.BOOLEAN:
                return value is True
            case Type.STRING:
                return value if isinstance(value, str) else None
            case Type.FLOAT32:
                return to_float32(_double(value)) if numeric else 0.0
            case Type.FLOAT64:
                return _double(value) if numeric else 0.0
            case Type.BYTES:
                return _base64(value)
            case Type.ARRAY:
                entries = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
                return [self.from_json(schema.value_schema, each) for each in entries]
            case Type.MAP:
                return self._map_from_json(schema, value)
            case Type.STRUCT:
                return self._struct_from_json(schema, value)
        return _low_bits(int(value), _BITS[schema.type]) if numeric else 0

    def _struct_from_json(self, schema: Schema, value: Any) -> Struct:
        if not isinstance(value, dict):
            raise DataError("Structs should be encoded as JSON objects")
        made = Struct(schema)
        for field in schema.fields:
            made.put(field.name, self.from_json(field.schema, value.get(field.name)))
        return made

    def _map_from_json(self, schema: Schema, value: Any) -> dict[Any, Any]:
        keys, values = schema.key_schema, schema.value_schema
        if keys is None or keys.type is Type.STRING:
            if not isinstance(value, dict):
                raise DataError("Maps with string fields should be encoded as JSON objects")
            return {key: self.from_json(values, each) for key, each in value.items()}
        if not isinstance(value, list) or any(not isinstance(each, list) or len(each) != 2 for each in value):
            raise DataError("Maps with non-string fields should be encoded as JSON array of tuples")
        try:
            return {self.from_json(keys, key): self.from_json(values, each) for key, each in value}
        except TypeError:
            raise DataError("The keys of a map cannot be structs, arrays or maps") from None


def _double(value: int | Decimal) -> float:
    try:
        return float(value) + 0.0  # a decimal has no negative zero
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _low_bits(value: int, bits: int) -> int:
    low = value & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low


def _base64(value: Any) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise DataError("Invalid bytes field") from None


def _plain(value: Any) -> Any:
    """Without a schema: whole numbers of 64 bits, other numbers as floats of 64."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _low_bits(value, 64)
    if isinstance(value, Decimal):
        return _double(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _logical_from_json(schema: Schema, value: Any) -> Any:
    if schema.name == s.DECIMAL:
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return Decimal(value)
        data = _base64(value)
        if data is None:
            raise DataError("Invalid type for Decimal, underlying representation should be numeric or bytes")
        return logical.bytes_to_decimal(schema, data)
    small = schema.name != s.TIMESTAMP
    if not isinstance(value, int) or isinstance(value, bool) or (small and not -(1 << 31) <= value < 1 << 31):
        raise DataError(f"Invalid type for {schema.name}, underlying representation should be an integer")
    if schema.name == s.DATE:
        return logical.days_to_date(value)
    return logical.millis_to_time(value) if small else logical.millis_to_timestamp(_low_bits(value, 64))

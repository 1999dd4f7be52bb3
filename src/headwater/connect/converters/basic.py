"""The simple converters: strings, bytes, numbers, booleans, and headers in Connect's own notation."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, text
from headwater.connect.converters.base import CONVERTER_TYPE, Converter
from headwater.connect.data import schema as s
from headwater.connect.data.java_text import java_float, java_string
from headwater.connect.data.runs import Column
from headwater.connect.data.schema import NULL, Schema, SchemaAndValue, Type
from headwater.connect.data.validation import fits
from headwater.connect.data.values import parse_text, text_of
from headwater.connect.errors import ConfigError, DataError


def _all_are(kind: type, values: Sequence[Any]) -> bool:
    """Exactly of this class: what derives from it may have a text of its own."""
    return set(map(type, values)) <= {kind}


class StringConverter(Converter):
    doc = "Text, in an encoding. Whatever is not text is written as Java's toString writes it."
    config_def = ConfigDef(
        CONVERTER_TYPE,
        text("converter.encoding", "UTF-8", HIGH, "The name of the encoding; one that Python knows too."),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._encoding = config["converter.encoding"]
        try:
            "".encode(self._encoding)
        except LookupError:
            raise ConfigError.of("converter.encoding", self._encoding, "not an encoding that is known here") from None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        single = schema is not None and schema.type is Type.FLOAT32 and isinstance(value, float)
        return (java_float(value) if single else java_string(value)).encode(self._encoding, "replace")

    def from_connect_run(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        encoding = self._encoding
        if _all_are(str, values):
            try:
                return [value.encode(encoding) for value in values]
            except UnicodeEncodeError:  # a lone surrogate, or what the encoding does not have
                return [value.encode(encoding, "replace") for value in values]
        return super().from_connect_run(topic, schema, values)

    def to_connect_run(self, topic: str, data: Sequence[bytes | None]) -> Column:
        encoding = self._encoding
        found = [None if each is None else str(each, encoding, "replace") for each in data]
        return Column(s.OPTIONAL_STRING, found)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(s.OPTIONAL_STRING, None if data is None else data.decode(self._encoding, "replace"))


class ByteArrayConverter(Converter):
    doc = "Bytes as they are."
    config_def = ConfigDef(CONVERTER_TYPE)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")
        return None if value is None else bytes(value)

    def from_connect_run(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
        if (schema is None or schema.type is Type.BYTES) and _all_are(bytes, values):
            return list(values)
        return super().from_connect_run(topic, schema, values)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(s.OPTIONAL_BYTES, data)

    def to_connect_run(self, topic: str, data: Sequence[bytes | None]) -> Column:
        return Column(s.OPTIONAL_BYTES, list(data))


class _NumberConverter(Converter):
    config_def = ConfigDef(CONVERTER_TYPE)
    schema: ClassVar[Schema]
    layout: ClassVar[str]

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if not fits(self.schema, value):
            raise DataError(f"Failed to serialize to {self.schema.type} (was {type(value).__name__})")
        return struct.pack(self.layout, value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != struct.calcsize(self.layout):
            raise DataError(f"Failed to deserialize {self.schema.type}: {len(data)} bytes")
        return SchemaAndValue(self.schema, struct.unpack(self.layout, data)[0])


class ShortConverter(_NumberConverter):
    doc, schema, layout = "A number of 16 bits.", s.INT16.as_optional(), ">h"


class IntegerConverter(_NumberConverter):
    doc, schema, layout = "A number of 32 bits.", s.OPTIONAL_INT32, ">i"


class LongConverter(_NumberConverter):
    doc, schema, layout = "A number of 64 bits.", s.OPTIONAL_INT64, ">q"


class FloatConverter(_NumberConverter):
    doc, schema, layout = "A float of 32 bits.", s.FLOAT32.as_optional(), ">f"


class DoubleConverter(_NumberConverter):
    doc, schema, layout = "A float of 64 bits.", s.OPTIONAL_FLOAT64, ">d"


class BooleanConverter(Converter):
    doc = "One byte: 1 for true, 0 for false."
    config_def = ConfigDef(CONVERTER_TYPE)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type {type(value).__name__}")
        return None if value is None else b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("BooleanConverter: a byte of 0 or 1 is needed")
        return SchemaAndValue(s.OPTIONAL_BOOLEAN, None if data is None else data == b"\x01")


class SimpleHeaderConverter(Converter):
    doc = "Headers as text; numbers, booleans, dates, arrays and maps are recognised when they are read."
    for_records = False

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else text_of(value, schema).encode("utf-8", "replace")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return NULL if data is None else parse_text(data.decode("utf-8", "replace"))

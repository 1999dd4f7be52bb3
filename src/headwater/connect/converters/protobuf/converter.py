"""ProtobufConverter: records as Protobuf messages with the id of their schema in a registry, as Confluent's converter
has them.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.config.validators import AtLeast
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import LOW, flag, whole
from headwater.connect.converters.protobuf import from_protobuf
from headwater.connect.converters.protobuf.columns import column_reader
from headwater.connect.converters.protobuf.to_protobuf import Printer, ProtobufOptions, message_value
from headwater.connect.converters.registry import REGISTRY_DEF, Reading, RegistryConverter
from headwater.connect.data.schema import Schema
from headwater.connect.data.validation import validate
from headwater.connect.errors import DataError
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema, parse
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_reader, compile_message_writer
from headwater.schemas.protobuf.types import Message


class ProtobufConverter(RegistryConverter):
    doc = "Protobuf, with schemas in a registry: what Confluent's ProtobufConverter and Protobuf serializers read and write. Values are structs. Needs `schema.registry.url`."
    schema_type = SchemaType.PROTOBUF
    config_def = REGISTRY_DEF + ConfigDef(
        whole("schemas.cache.config", 1000, LOW, "How many schemas are kept ready.", AtLeast(1)),
        flag("enhanced.protobuf.schema.support", False, LOW, "Whether structs that are read have the messages' names with their packages."),
        flag("scrub.invalid.names", True, LOW, "Whether characters that Protobuf's names cannot have become underscores."),
        flag("optional.for.nullables", False, LOW, "Whether optional fields are `optional` in Protobuf, so that null is kept."),
        flag("wrapper.for.nullables", False, LOW, "Whether optional fields are wrappers (google.protobuf.StringValue), so that null is kept."),
    )  # fmt: skip

    def setup(self, config: Mapping[str, Any]) -> None:
        super().setup(config)
        self._options = ProtobufOptions(
            config["enhanced.protobuf.schema.support"],
            config["scrub.invalid.names"],
            config["optional.for.nullables"],
            config["wrapper.for.nullables"],
        )

    def own_schema(self, schema: Schema | None) -> StoredSchema:
        if schema is None:
            raise DataError("A value without a schema cannot be written as Protobuf")
        return StoredSchema(
            parse(SchemaType.PROTOBUF, Printer(self._options).file(schema)).canonical, SchemaType.PROTOBUF
        )

    def message_indexes(self, target: ParsedSchema) -> tuple[int, ...]:
        """What is written is the first message of its file, also of one that the registry has."""
        del target
        return (0,)

    def writer(self, schema: Schema | None, target: ParsedSchema) -> Callable[[Any], bytes]:
        assert schema is not None
        assert isinstance(target, ProtobufSchema)
        make, encode = message_value(schema, self._options), compile_message_writer(message_at(target, (0,)))

        def write(value: Any) -> bytes:
            validate(schema, value)
            return encode(make(value))

        return write

    def reader_at(
        self, writer: ParsedSchema, latest: ParsedSchema | None, version: int | None, message_indexes: tuple[int, ...]
    ) -> Reading:
        assert isinstance(writer, ProtobufSchema)
        message = message_at(writer, message_indexes or (0,))
        if latest is not None:
            assert isinstance(latest, ProtobufSchema)
            message = latest.messages.get(message.full_name, message)
        schema = from_protobuf.SchemaReader(self._options).schema(message, version if latest is None else None)
        decode, make = compile_message_reader(message), from_protobuf.message_value(schema, message)
        columns = functools.cache(lambda: column_reader(message, schema))
        return Reading(schema, lambda data: make(decode(data)), columns)


def message_at(schema: ProtobufSchema, indexes: tuple[int, ...]) -> Message:
    """By the way to it: its place among the outermost messages, then within each."""
    try:
        found = schema.file.messages[indexes[0]]
        for index in indexes[1:]:
            found = found.messages[index]
    except IndexError:
        raise DataError(f"The schema has no message at {'.'.join(map(str, indexes))}") from None
    return found

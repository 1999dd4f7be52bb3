"""A column of Protobuf messages, each with the id of its schema and the path to its message before it, into typed Arrow
columns; and back.

    batch = consumer.poll_arrow(1, schema=ProtobufColumns("http://localhost:8081", subject="orders-value"))

    serializer = ProtobufColumnSerializer("http://localhost:8081", TEXT, subject="orders-value")
    producer.send_arrow(table, "orders", value="order", encode={"value": serializer})

Messages of several versions side by side all come out as the reader's: the schema that was given, the latest of a
subject when it is first needed, or else that of the first record. The message is the one that is named, or else the one
that records have. The `protobuf` package is not needed. Null stays null. Owns what it has compiled; for one thread at a
time.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.client.schema_registry.client import RegisteredSchema, SchemaRegistryClient
from headwater.client.schema_registry.framed_columns import (
    PREFIX_BYTES,
    ColumnSerializer,
    Encode,
    ReaderColumns,
    in_groups,
)
from headwater.schemas import SchemaType, StoredSchema, incompatibilities
from headwater.schemas.columns import NoColumns
from headwater.schemas.columns.protobuf import (
    DecodeMessages,
    OtherMessage,
    protobuf_columns,
    protobuf_rows,
)
from headwater.schemas.columns.protobuf_arrow import message_type
from headwater.schemas.columns.protobuf_shapes import shape_of
from headwater.schemas.framing import SchemaId, read_indexes
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.types import Message

if TYPE_CHECKING:
    import pyarrow as pa

GivenMessage = str | StoredSchema | type | None


def stored_protobuf(given: GivenMessage) -> tuple[StoredSchema | None, str]:
    """The text of a .proto file, or a class that protoc generated; and the message that a class is of."""
    if given is None or isinstance(given, StoredSchema):
        return given, ""
    if isinstance(given, str):
        return StoredSchema(given, SchemaType.PROTOBUF), ""
    descriptor = getattr(given, "DESCRIPTOR", None)
    if descriptor is None:
        raise UserError(
            f"{given!r} is no schema", "", "Give the text of a .proto file, or a class that protoc generated"
        )
    others = [each.name for each in descriptor.file.dependencies if not each.name.startswith("google/")]
    if others:
        raise UserError(
            f"The class {descriptor.full_name} cannot be taken as a schema",
            f"its file imports {others[0]}",
            "Register it with ProtobufSerializer, and name the subject here",
        )
    text = base64.b64encode(descriptor.file.serialized_pb).decode()
    return StoredSchema(text, SchemaType.PROTOBUF), str(descriptor.full_name)


def message_at(schema: ProtobufSchema, path: tuple[int, ...]) -> Message:
    """Raises DataError if the schema has none there."""
    messages = schema.file.messages
    found: Message | None = None
    for index in path:
        if index >= len(messages):
            raise DataError(f"the schema has no message at {'.'.join(map(str, path))}")
        found = messages[index]
        messages = found.messages
    assert found is not None
    return found


def path_of(schema: ProtobufSchema, name: str) -> tuple[int, ...] | None:
    """The way to a message by its full name; the outermost first message if the name is empty."""
    waiting: list[tuple[tuple[int, ...], Message]] = [
        ((index,), each) for index, each in enumerate(schema.file.messages)
    ]
    while waiting:
        path, message = waiting.pop(0)
        if not name or message.full_name == name:
            return path
        waiting += [((*path, index), each) for index, each in enumerate(message.messages)]
    return None


class ProtobufColumns(ReaderColumns):
    format_name = "Protobuf"
    schema_type = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: GivenMessage = None,
        *,
        subject: str = "",
        message: str = "",
    ) -> None:
        reader, named = stored_protobuf(schema)
        super().__init__(registry, reader, subject)
        self._message = message or named
        self._decoders: dict[tuple[int, bytes], DecodeMessages] = {}

    def known_type(self) -> "pa.DataType | None":
        reader = self.known_reader()
        if reader is None:
            return None
        parsed = self.parsed_as(ProtobufSchema, reader)
        path = path_of(parsed, self._message)
        return None if path is None else message_type(shape_of(message_at(parsed, path)))

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        first = next((each.as_py() for each in column if each.is_valid), None)
        assert first is not None  # whoever has an id has bytes
        try:
            return self._one_message(schema_id, path_bytes(first), column)
        except OtherMessage:
            return self._several_messages(schema_id, column)
        except DataError as error:
            raise self.undecodable(str(error)) from error

    def _several_messages(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        import pyarrow as pa

        try:
            paths = [None if data is None else path_bytes(data) for data in column.to_pylist()]
            found = list(dict.fromkeys(path for path in paths if path is not None))
            names = pa.array(paths, pa.binary())
            return in_groups(column, names, found, lambda path, part: self._one_message(schema_id, path, part))
        except DataError as error:
            raise self.undecodable(str(error)) from error

    def _one_message(self, schema_id: int, path: bytes, column: "pa.Array") -> "pa.Array":
        decode = self._decoders.get((schema_id, path))
        if decode is None:
            decode = self._decoders[schema_id, path] = self._compile(schema_id, path)
        return decode(column, PREFIX_BYTES, path)

    def _compile(self, schema_id: int, path: bytes) -> DecodeMessages:
        stored = self.written_with(schema_id)
        writer = self.parsed_as(ProtobufSchema, stored)
        written = message_at(writer, read_indexes(path, 0)[0])
        reader = self.parsed_as(ProtobufSchema, self.reader_beside(stored))
        if not self._message:
            self._message = written.full_name
        found = path_of(reader, self._message)
        if found is None or written.full_name != self._message:
            raise self.undecodable(f"a record is a {written.full_name}, not a {self._message} of the reader's schema")
        wrong = incompatibilities(reader, writer)
        if wrong:
            raise self.undecodable(f"what was written with the schema {schema_id} cannot be read: {wrong[0].message}")
        try:
            return protobuf_columns(shape_of(message_at(reader, found)))
        except NoColumns as error:
            raise UserError(
                "These records cannot be read as columns", str(error), "Read them one by one, with ProtobufDeserializer"
            ) from error


def path_bytes(data: bytes) -> bytes:
    """As they stand in the record, which need not be the shortest way to write them."""
    return data[PREFIX_BYTES : read_indexes(data, PREFIX_BYTES)[1]]


class ProtobufColumnSerializer(ColumnSerializer):
    """Of structs, for a message; the path to the message stands behind the schema's id."""

    format_name = "Protobuf"

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: GivenMessage = None,
        *,
        subject: str,
        message: str = "",
        auto_register_schemas: bool = True,
        normalize_schemas: bool = False,
    ) -> None:
        given, named = stored_protobuf(schema)
        super().__init__(registry, given, subject, auto_register=auto_register_schemas, normalize=normalize_schemas)
        self._message = message or named

    def compile(self, registered: RegisteredSchema) -> tuple[Encode, bytes]:
        parsed = self.parsed_as(ProtobufSchema, registered.schema)
        path = path_of(parsed, self._message)
        if path is None:
            raise self.unencodable(f"the schema of {self._subject!r} has no message {self._message}")
        try:
            return protobuf_rows(shape_of(message_at(parsed, path))), SchemaId(registered.id, None, path).prefix()
        except NoColumns as error:
            raise self.unencodable(str(error), "Send messages one by one, with ProtobufSerializer") from error

"""A column of Protobuf messages, each with the id of its schema and the path to its message before it, into typed Arrow columns; and back.

    batch = consumer.poll_arrow(1, schema=ProtobufColumns("http://localhost:8081", subject="orders-value"))

    producer.send_arrow(table, "orders", value="order", encode={"value": ProtobufColumnSerializer("http://localhost:8081", TEXT, subject="orders-value")})

Messages of several versions side by side all come out as the reader's: the schema that was given, the latest of a subject when it is first
needed, or else that of the first record. The message is the one that is named, or else the one that records have. The `protobuf` package is not
needed. Null stays null. Owns what it has compiled; for one thread at a time.
"""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.columns import FramedColumns, in_groups
from headwater.client.schema_registry.settings import registry_for
from headwater.schemas import SchemaType, StoredSchema, incompatibilities
from headwater.schemas.columns import NoColumns
from headwater.schemas.columns.protobuf import (
    DecodeMessages,
    EncodeMessages,
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

_PREFIX_BYTES = 5
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


class ProtobufColumns(FramedColumns):
    format_name = "Protobuf"

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: GivenMessage = None,
        *,
        subject: str = "",
        message: str = "",
    ) -> None:
        self.registry = registry_for(registry)
        self._reader, named = stored_protobuf(schema)
        self._message = message or named
        self._subject = subject
        self._decoders: dict[tuple[int, bytes], DecodeMessages] = {}

    def known_type(self) -> "pa.DataType | None":
        reader = self._known_reader()
        if reader is None:
            return None
        parsed = self._parsed(reader)
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
        return decode(column, _PREFIX_BYTES, path)

    def _compile(self, schema_id: int, path: bytes) -> DecodeMessages:
        stored = self.registry.schema_by_id(schema_id, self._subject or None)
        if stored.schema_type is not SchemaType.PROTOBUF:
            raise self.undecodable(f"the schema {schema_id} is {stored.schema_type}, not Protobuf")
        writer = self._parsed(stored)
        written = message_at(writer, read_indexes(path, 0)[0])
        reader_stored = self._known_reader()
        if reader_stored is None:
            reader_stored = self._reader = stored
        reader = self._parsed(reader_stored)
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

    def _known_reader(self) -> StoredSchema | None:
        if self._reader is None and self._subject:
            self._reader = self.registry.version(self._subject).schema
        return self._reader

    def _parsed(self, schema: StoredSchema) -> ProtobufSchema:
        parsed = self.registry.parsed(schema)
        if not isinstance(parsed, ProtobufSchema):
            raise self.undecodable(f"the reader's schema is {parsed.schema_type}, not Protobuf")
        return parsed


def path_bytes(data: bytes) -> bytes:
    """As they stand in the record, which need not be the shortest way to write them."""
    return data[_PREFIX_BYTES : read_indexes(data, _PREFIX_BYTES)[1]]


class ProtobufColumnSerializer:
    """A function of a column of structs, for `send_arrow`: messages with the schema's id and the path to the message before each. Null stays null.

    The schema is registered under the subject when the first column comes; without a schema, the subject's latest version is written.
    """

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
        self.registry = registry_for(registry)
        self._given, named = stored_protobuf(schema)
        self._message = message or named
        self._subject = subject
        self._auto_register = auto_register_schemas
        self._normalize = normalize_schemas
        self._prefix = b""
        self._encode: EncodeMessages | None = None

    def __call__(self, column: "pa.Array") -> "pa.Array":
        if self._encode is None:
            self._prepare()
        assert self._encode is not None
        try:
            return self._encode(column, self._prefix)
        except DataError as error:
            raise _unencodable(str(error)) from error

    def _prepare(self) -> None:
        if self._given is None:
            registered = self.registry.version(self._subject)
        else:
            ask = self.registry.register if self._auto_register else self.registry.lookup
            registered = ask(self._subject, self._given, normalize=self._normalize)
        parsed = self.registry.parsed(registered.schema)
        if not isinstance(parsed, ProtobufSchema):
            raise _unencodable(f"the schema of {self._subject!r} is {parsed.schema_type}")
        path = path_of(parsed, self._message)
        if path is None:
            raise _unencodable(f"the schema of {self._subject!r} has no message {self._message}")
        self._prefix = SchemaId(registered.id, None, path).prefix()
        try:
            self._encode = protobuf_rows(shape_of(message_at(parsed, path)))
        except NoColumns as error:
            raise UserError(
                "A column cannot be encoded as Protobuf",
                str(error),
                "Send messages one by one, with ProtobufSerializer",
            ) from error


def _unencodable(why: str) -> UserError:
    return UserError("A column cannot be encoded as Protobuf", why)

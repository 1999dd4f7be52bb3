"""Keys and values that name a schema of a registry, as JSON for people: what `headwater consume`,
`kafka-console-consumer` and PRINT show.

What names no schema (before its data or in a header), names one that the registry does not know, or is not what its
schema says, is shown as it stands. Owns the readers that it has made, one for each schema, and asks for each schema
once; after many that nobody knows it asks no more, since such a topic has other bytes in it.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import UserError
from headwater.client.schema_registry import SchemaRegistryClient, SchemaRegistryError
from headwater.schemas import SchemaError, SchemaType
from headwater.schemas.framing import KEY_HEADER, VALUE_HEADER, SchemaId, read_indexes, read_schema_id
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    from headwater.client.types import FetchedRecord, Header

_NOT_FOUND: Final = 404
_UNKNOWN_MAX: Final = 100
Read = Callable[[bytes, bytes], Any]  # of the path of a Protobuf message, if a header has it, and the data


class Reader(NamedTuple):
    """Of one schema."""

    schema_type: SchemaType
    read: Read


def _say_nothing(_: str) -> None:
    pass


class RegisteredRecords:
    """`is_required`: a registry that does not answer is an error, not a warning after which all is shown as it stands.
    `warn` is given the sentence.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient | str,
        *,
        keys: bool = True,
        values: bool = True,
        is_required: bool = True,
        warn: Callable[[str], None] = _say_nothing,
    ) -> None:
        self._registry = registry if isinstance(registry, SchemaRegistryClient) else SchemaRegistryClient(registry)
        self._keys, self._values, self._is_required = keys, values, is_required
        self._warn = warn
        self._readers: dict[SchemaId, Reader | None] = {}
        self._asks = True

    def records(self, records: "list[FetchedRecord]") -> "list[FetchedRecord]":
        return [self._record(each) for each in records]

    def _record(self, record: "FetchedRecord") -> "FetchedRecord":
        key, value = record.key, record.value
        if self._keys:
            key = self.text(key, _header(record.headers, KEY_HEADER))
        if self._values:
            value = self.text(value, _header(record.headers, VALUE_HEADER))
        return record if key is record.key and value is record.value else record._replace(key=key, value=value)

    def text(self, data: bytes | None, header: bytes | None = None) -> bytes | None:
        """In JSON, if it can be."""
        found = self.read(data, header) if data is not None else None
        return data if found is None else found[1].encode()

    def read(self, data: bytes, header: bytes | None = None) -> tuple[SchemaType, str] | None:
        """The type of the schema, and the text in JSON; None of what has none."""
        if header is None and data[:1] not in (b"\0", b"\1"):
            return None
        try:
            schema_id, at = read_schema_id(data if header is None else header)
            reader = self._reader(schema_id)
            if reader is None:
                return None
            value = reader.read(b"", data[at:]) if header is None else reader.read(header[at:], data)
            return reader.schema_type, json.dumps(_plain(value), ensure_ascii=False, default=str)
        except (DataError, ValueError, RecursionError):  # the last: nested too deep to be read or written
            return None

    def _reader(self, schema_id: SchemaId) -> Reader | None:
        if schema_id in self._readers:
            return self._readers[schema_id]
        if not self._asks:
            return None
        try:
            found = self._readers[schema_id] = self._made(schema_id)
        except UserError as error:
            if self._is_required:
                raise
            self._asks = False
            self._warn(f"records are shown as they stand: {error}")
            return None
        if found is None and list(self._readers.values()).count(None) >= _UNKNOWN_MAX:
            self._asks = False
        return found

    def _made(self, schema_id: SchemaId) -> Reader | None:
        try:
            if schema_id.guid is not None:
                stored = self._registry.schema_by_guid(schema_id.guid)
            else:
                assert schema_id.id is not None
                stored = self._registry.schema_by_id(schema_id.id)
        except SchemaRegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        if stored.schema_type is SchemaType.JSON:
            return Reader(SchemaType.JSON, lambda _, data: json.loads(data))
        try:
            parsed = self._registry.parsed(stored)
            make = _avro_reader if stored.schema_type is SchemaType.AVRO else _protobuf_reader
            return Reader(stored.schema_type, make(parsed))
        except (SchemaError, RecursionError):
            return None


def _header(headers: "tuple[Header, ...]", name: str) -> bytes | None:
    return next((each.value for each in reversed(headers) if each.key == name), None)


def _avro_reader(parsed: Any) -> Read:
    from headwater.schemas.avro.decoding import compile_reader

    read = compile_reader(parsed.root)
    return lambda _, data: read(data)


def _protobuf_reader(parsed: Any) -> Read:
    from headwater.client.schema_registry.protobuf_columns import message_at
    from headwater.schemas.columns.protobuf_rows import read_message
    from headwater.schemas.columns.protobuf_shapes import shape_of

    def read(path: bytes, data: bytes) -> Any:
        indexes, at = read_indexes(path, 0) if path else read_indexes(data, 0)
        try:
            return read_message(shape_of(message_at(parsed, indexes)), data if path else data[at:])
        except SchemaError as error:  # a message that contains itself
            raise DataError(str(error)) from error

    return read


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value

"""Keys and values that name a schema of a registry, as JSON for people: what `headwater consume --registry` shows.

What does not begin with the id of a schema, names one that the registry does not know, or is not what its schema says,
is shown as it stands. Owns the readers that it has made, one for each schema.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.client.schema_registry import SchemaRegistryClient, SchemaRegistryError
from headwater.schemas import SchemaError, SchemaType
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    from headwater.client.types import FetchedRecord

_PREFIX_BYTES: Final = 5
_NOT_FOUND: Final = 404
Reader = Callable[[bytes], Any]


class RegisteredRecords:
    def __init__(self, registry: SchemaRegistryClient | str) -> None:
        self._registry = registry if isinstance(registry, SchemaRegistryClient) else SchemaRegistryClient(registry)
        self._readers: dict[int, Reader | None] = {}

    def records(self, records: "list[FetchedRecord]") -> "list[FetchedRecord]":
        return [each._replace(key=self.text(each.key), value=self.text(each.value)) for each in records]

    def text(self, data: bytes | None) -> bytes | None:
        """In JSON, if it can be."""
        if data is None or len(data) < _PREFIX_BYTES or data[0] != 0:
            return data
        schema_id = int.from_bytes(data[1:_PREFIX_BYTES])
        if schema_id not in self._readers:
            self._readers[schema_id] = self._reader(schema_id)
        read = self._readers[schema_id]
        if read is None:
            return data
        try:
            return json.dumps(_plain(read(data[_PREFIX_BYTES:])), ensure_ascii=False, default=str).encode()
        except (DataError, ValueError):
            return data

    def _reader(self, schema_id: int) -> Reader | None:
        try:
            stored = self._registry.schema_by_id(schema_id)
        except SchemaRegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            return None
        if stored.schema_type is SchemaType.JSON:
            return json.loads
        try:
            parsed = self._registry.parsed(stored)
            return _avro_reader(parsed) if stored.schema_type is SchemaType.AVRO else _protobuf_reader(parsed)
        except SchemaError:
            return None


def _avro_reader(parsed: Any) -> Reader:
    from headwater.schemas.avro.decoding import compile_reader

    return compile_reader(parsed.root)


def _protobuf_reader(parsed: Any) -> Reader:
    from headwater.client.schema_registry.protobuf_columns import message_at
    from headwater.schemas.columns.protobuf_rows import read_message
    from headwater.schemas.columns.protobuf_shapes import shape_of
    from headwater.schemas.framing import read_indexes

    def read(data: bytes) -> Any:
        path, at = read_indexes(data, 0)
        try:
            return read_message(shape_of(message_at(parsed, path)), data[at:])
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

"""What is in a file: JSON lines, an Avro container, or Parquet. Each record is encoded, or at least checked, when it
comes, so that one that does not fit is told of by itself; the same records give the same bytes.
"""

import hashlib
import io
import zlib
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.connect.converters.avro.to_avro import avro_schema, avro_value
from headwater.connect.converters.json_converter import JsonConverter
from headwater.connect.data.arrow_rows import arrow_schema, plain
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.validation import validate
from headwater.connect.errors import DataError
from headwater.schemas import SchemaError, SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.json_text import compact_json
from headwater.schemas.model import DataError as SchemaDataError

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMAS_MAX: Final = 100
_BLOCK_BYTES: Final = 64 * 1024


class Encoded(NamedTuple):
    schema: Schema | None  # what all records of a file have in common
    data: Any
    size_bytes: int


class Format:
    extension: str

    def encode(self, record: SinkRecord) -> Encoded:
        """DataError: the record does not fit."""
        raise NotImplementedError

    def file(self, schema: Schema | None, data: Sequence[Any]) -> bytes:
        raise NotImplementedError


class JsonLines(Format):
    extension = "json"

    def __init__(self) -> None:
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"})

    def encode(self, record: SinkRecord) -> Encoded:
        line = self._converter.from_connect(record.topic, record.value_schema, record.value)
        assert line is not None
        return Encoded(None, line, len(line) + 1)

    def file(self, schema: Schema | None, data: Sequence[bytes]) -> bytes:
        del schema
        return b"".join(line + b"\n" for line in data)


def _schema(record: SinkRecord, wanted: str) -> Schema:
    if record.value_schema is None:
        raise DataError(
            f"{wanted} files need values with a schema: AvroConverter, JsonSchemaConverter, or JsonConverter with schemas.enable=true"
        )
    return record.value_schema


class AvroContainer(Format):
    """Blocks of records behind the schema. The marker between blocks is made of the schema, not of chance."""

    extension = "avro"

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._writers: dict[Schema, tuple[bytes, Callable[[Any], bytes]]] = {}

    def encode(self, record: SinkRecord) -> Encoded:
        schema = _schema(record, "Avro")
        try:
            data = self._writer(schema)[1](avro_value(schema, record.value))
        except (SchemaError, SchemaDataError) as error:
            raise DataError(f"The record does not fit into Avro: {error}") from error
        return Encoded(schema, data, len(data))

    def _writer(self, schema: Schema) -> tuple[bytes, Callable[[Any], bytes]]:
        found = self._writers.get(schema)
        if found is None:
            if len(self._writers) >= _SCHEMAS_MAX:
                self._writers.clear()
            parsed = parse(SchemaType.AVRO, compact_json(avro_schema(schema)))
            assert isinstance(parsed, AvroSchema)
            found = self._writers[schema] = (parsed.canonical.encode(), compile_writer(parsed.root))
        return found

    def file(self, schema: Schema | None, data: Sequence[bytes]) -> bytes:
        assert schema is not None
        text = self._writer(schema)[0]
        marker = hashlib.sha256(text).digest()[:16]
        out = bytearray(b"Obj\x01" + _long(2))
        for part in (b"avro.schema", text, b"avro.codec", self._codec.encode()):
            out += _long(len(part)) + part
        out += _long(0) + marker
        block, count = bytearray(), 0
        for each in data:
            block += each
            count += 1
            if len(block) >= _BLOCK_BYTES:
                out += self._block(block, count) + marker
                block, count = bytearray(), 0
        if count:
            out += self._block(block, count) + marker
        return bytes(out)

    def _block(self, block: bytearray, count: int) -> bytes:
        stored = bytes(block)
        if self._codec == "deflate":
            compress = zlib.compressobj(wbits=-15)
            stored = compress.compress(stored) + compress.flush()
        return _long(count) + _long(len(stored)) + stored


def _long(number: int) -> bytes:
    """A whole number that is not negative, as Avro writes longs."""
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


class Parquet(Format):
    """A struct is a row. Sizes are those of the values, as they would stand uncompressed."""

    extension = "parquet"

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._schemas: dict[Schema, pa.Schema] = {}

    def encode(self, record: SinkRecord) -> Encoded:
        schema = _schema(record, "Parquet")
        if schema.type is not Type.STRUCT:
            raise DataError(f"Parquet files need structs, not {schema.type}; the transform HoistField makes one")
        validate(schema, record.value)
        self._arrow(schema)
        row = plain(schema, record.value)
        return Encoded(schema, row, _size(row))

    def _arrow(self, schema: Schema) -> "pa.Schema":
        found = self._schemas.get(schema)
        if found is None:
            if len(self._schemas) >= _SCHEMAS_MAX:
                self._schemas.clear()
            found = self._schemas[schema] = arrow_schema(schema)
        return found

    def file(self, schema: Schema | None, data: Sequence[Any]) -> bytes:
        """Of rows, and of columns of several."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert schema is not None
        out = io.BytesIO()
        columns, tables = self._arrow(schema), []
        for is_row, pieces in groupby(data, key=lambda each: isinstance(each, dict)):
            if is_row:
                tables.append(pa.Table.from_pylist(list(pieces), schema=columns))
            else:
                tables += [pa.Table.from_arrays(each.flatten(), schema=columns) for each in pieces]
        # one piece, so that a file has the same bytes whichever way its records came
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        pq.write_table(table, out, compression=self._codec)
        return out.getvalue()


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return 4 + sum(map(_size, value))
    if isinstance(value, str):
        return 4 + len(value.encode())
    if isinstance(value, bytes):
        return 4 + len(value)
    return 1 if value is None or isinstance(value, bool) else 8

"""The KAFKA format: a single column in the bytes of Kafka's own serializers; and NONE, which has no columns at all."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, Final

from headwater.sql.formats.port import Field, FormatOptions, Row, RowError, RowSerde
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import Base

_NUMBERS: Final = {
    Base.INTEGER: struct.Struct(">i"),
    Base.BIGINT: struct.Struct(">q"),
    Base.DOUBLE: struct.Struct(">d"),
}


class KafkaFormat:
    name = "KAFKA"

    def check(self, fields: Sequence[Field], /) -> None:
        if len(fields) > 1:
            shown = types.listed((each.name, each.type) for each in fields)
            raise SqlError(f"The 'KAFKA' format only supports a single field. Got: [{shown}]")
        for each in fields:
            if each.type.base not in (*_NUMBERS, Base.STRING, Base.BYTES):
                raise SqlError(
                    f"The 'KAFKA' format does not support type '{each.type.base.value}', column: {types.quoted(each.name)}"
                )

    def serde(self, fields: Sequence[Field], _options: FormatOptions, /) -> RowSerde:
        return _serde_of(fields[0] if fields else None)


@functools.lru_cache(maxsize=1000)
def _serde_of(field: Field | None) -> _KafkaSerde:
    """One for each column, so that a lane sees that the key which it read is the one that it writes."""
    return _KafkaSerde(field)


class _KafkaSerde:
    name = "KAFKA"

    def __init__(self, field: Field | None) -> None:
        self._field = field
        # What it reads it writes again as the same bytes; of a NaN, floats may change them.
        self.exact = field is not None and field.type.base is not Base.DOUBLE

    def serialize(self, value: Row) -> bytes:
        assert self._field is not None
        item = value[0]
        number = _NUMBERS.get(self._field.type.base)
        if number is not None:
            return number.pack(item)
        return bytes(item) if self._field.type.base is Base.BYTES else str(item).encode("utf-8", "replace")

    def deserialize(self, data: bytes) -> Row:
        if self._field is None:
            return []
        number = _NUMBERS.get(self._field.type.base)
        try:
            if number is not None:
                return [number.unpack(data)[0]]
            item: Any = bytes(data) if self._field.type.base is Base.BYTES else data.decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise RowError(f"field {self._field.name}: {error}") from None
        return [item]

    def deserialize_all(self, cells: list[bytes | None]) -> list[Row | None]:
        number = None if self._field is None else _NUMBERS.get(self._field.type.base)
        if number is None:
            return [None if cell is None else self.deserialize(cell) for cell in cells]
        unpack = number.unpack
        return [None if cell is None else list(unpack(cell)) for cell in cells]


class NoneFormat:
    name = "NONE"

    def check(self, fields: Sequence[Field], /) -> None:
        if fields:
            raise SqlError("The 'NONE' format can only be used when no columns are defined.")

    def serde(self, _fields: Sequence[Field], _options: FormatOptions, /) -> RowSerde:
        return _NoneSerde()


class _NoneSerde:
    name = "NONE"

    def serialize(self, _value: Row, /) -> bytes:
        return b""

    def deserialize(self, _data: bytes, /) -> Row:
        return []

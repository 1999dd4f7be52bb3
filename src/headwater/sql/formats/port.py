"""What a format is, and the errors of bytes that are no row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headwater.sql.language.types import Type
from headwater.streams.serdes.port import SerdeError

if TYPE_CHECKING:
    from headwater.sql.formats.registry.port import Schemas

Row = list[Any]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Type


class RowSerde(Protocol):
    """A serde of `headwater.streams` whose values are rows."""

    @property
    def name(self) -> str: ...

    def serialize(self, value: Row, /) -> bytes: ...

    def deserialize(self, data: bytes, /) -> Row: ...


class RowError(SerdeError):
    """A record is no row of its source: it is left out, and the processing log says why."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    wrap_single: bool = True  # a single column stands in an object of its own
    delimiter: str = ","
    # What only formats with a schema registry look at.
    subject: str | None = (
        None  # where the schema of the topic's keys or values is; None: rows within a query, which nobody else reads
    )
    schema_id: int | None = None  # the schema to write with, where the statement names one
    full_name: str | None = None  # of the record or message
    # Of a record of Avro, where nothing says how it is called. Its bytes are the same whatever it is called.
    record_name: str | None = field(default=None, compare=False)
    nullable: str | None = None  # how Protobuf tells NULL from a default: OPTIONAL or WRAPPER
    schemas: Schemas | None = field(default=None, compare=False, repr=False)


class Format(Protocol):
    """`check` raises SqlError where columns do not fit the format."""

    name: str

    def check(self, fields: Sequence[Field], /) -> None: ...

    def serde(self, fields: Sequence[Field], options: FormatOptions, /) -> RowSerde: ...

"""What the three kinds of schemas have in common: columns out of a schema, a schema out of columns, and functions that
read and write rows by a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.sql.formats.port import Field, FormatOptions, Row


class Unsupported(Exception):
    """A type of a schema that SQL does not have."""


class Codec(Protocol):
    schema_type: SchemaType
    can_unwrap: bool  # a single column may stand alone, without a record around it

    def schema(self, fields: Sequence[Field], *, wrapped: bool, options: FormatOptions) -> StoredSchema:
        """The schema that rows of these columns are written with."""

    def columns(self, schema: ParsedSchema, *, single: str | None, upper: bool, full_name: str | None) -> list[Field]:
        """The columns of a schema; `single`: all of it is one column of this name. Raises SqlError."""

    def reader(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, indexes: tuple[int, ...]
    ) -> Callable[[bytes], Row | None]:
        """A function from what was written with `schema` to a row. It raises DataError and EvaluationError."""

    def writer(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, full_name: str | None
    ) -> tuple[Callable[[Row], bytes], tuple[int, ...]]:
        """A function from a row to bytes, and the way to the message within its file, which Protobuf writes before
        them.
        """


def name_of(name: str, upper: bool) -> str:
    return name.upper() if upper else name

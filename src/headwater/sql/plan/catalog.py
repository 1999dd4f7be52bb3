"""What exists: streams, tables and types. A catalog is changed by whole statements only; a statement that fails changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.functions.scope import MadeFunction
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError, did_you_mean
from headwater.sql.language.tree import Role, SourceKind, WindowKind
from headwater.sql.language.types import Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    role: Role = Role.VALUE
    header: str | None = None

    @property
    def is_key(self) -> bool:
        return self.role in (Role.KEY, Role.PRIMARY_KEY)

    def __str__(self) -> str:
        role = f" {self.role.value}" if self.role is not Role.VALUE else ""
        return f"{types.quoted(self.name)} {self.type}{role}"


def changed_or_missing(before: Sequence[T], after: Sequence[T]) -> list[T]:
    """Columns that have not stayed where and what they were. More may stand behind them."""
    return [each for place, each in enumerate(before) if list(after[place : place + 1]) != [each]]


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """The windows in the keys of a source. `kept_ms`: how far behind the newest a window may be that the query which
    makes them still has; None where no query of ours makes them.
    """

    kind: WindowKind
    size_ms: int | None  # sessions have none
    kept_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RowFormat:
    name: str
    options: FormatOptions = field(default_factory=FormatOptions)


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A stream or a table: its topic, and how records become rows."""

    name: str
    kind: SourceKind
    topic: str
    columns: tuple[Column, ...]
    key_format: RowFormat
    value_format: RowFormat
    window: SourceWindow | None = None
    timestamp_column: str | None = None
    timestamp_format: str | None = None
    partitions: int = 1
    replicas: int = 1
    read_only: bool = False
    statement: str = ""
    made_by_query: str | None = None  # the id of the query that writes it

    @property
    def key_columns(self) -> list[Column]:
        return [each for each in self.columns if each.is_key]

    @property
    def value_columns(self) -> list[Column]:
        return [each for each in self.columns if each.role is Role.VALUE]

    @property
    def header_columns(self) -> list[Column]:
        return [each for each in self.columns if each.role in (Role.HEADER, Role.HEADERS)]

    @property
    def key_fields(self) -> list[Field]:
        return [Field(each.name, each.type) for each in self.key_columns]

    @property
    def value_fields(self) -> list[Field]:
        return [Field(each.name, each.type) for each in self.value_columns]


@dataclass(slots=True)
class Catalog:
    sources: dict[str, SourceInfo] = field(default_factory=dict)
    custom_types: dict[str, Type] = field(default_factory=dict)
    functions: dict[str, MadeFunction] = field(default_factory=dict)  # of CREATE FUNCTION
    withheld: dict[str, SqlError] = field(default_factory=dict)  # those whose code is not here, and why

    def copy(self) -> Catalog:
        return replace(
            self,
            sources=dict(self.sources),
            custom_types=dict(self.custom_types),
            functions=dict(self.functions),
            withheld=dict(self.withheld),
        )

    def __iter__(self) -> Iterator[SourceInfo]:
        return iter(self.sources.values())

    def over(self, topic: str) -> list[str]:
        """The names of all streams and tables over a topic."""
        return sorted(each.name for each in self if each.topic == topic)

    def others_over(self, source: SourceInfo) -> list[str]:
        """The names of other streams and tables over the same topic."""
        return [name for name in self.over(source.topic) if name != source.name]

    def find(self, name: str, position: Position | None = None) -> SourceInfo:
        found = self.sources.get(name)
        if found is None:
            raise SqlError(
                f"{name} does not exist.",
                hint=did_you_mean(name, self.sources, "SHOW STREAMS; and SHOW TABLES; list what there is."),
                position=position,
            )
        return found

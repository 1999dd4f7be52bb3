"""The columns that an expression may name, and where in a row they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError, did_you_mean
from headwater.sql.language.types import Type


@dataclass(slots=True)
class Scope:
    """The columns that an expression may name: (source or None, name) -> (place in the row, type)."""

    columns: dict[tuple[str | None, str], tuple[int, Type]] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    width: int = 0

    def find(self, column: tree.Column) -> tuple[int, Type]:
        found = self.columns.get((column.source, column.name))
        if found is not None:
            return found
        if column.source is None and column.name in self.ambiguous:
            raise SqlError(
                f"Column '{column.name}' is ambiguous.",
                why="Several of the joined sources have it",
                hint=f"Write its source before it, as in `s`.{types.quoted(column.name)}.",
                position=column.position,
            )
        sources = dict.fromkeys(source for source, _ in self.columns if source is not None)
        has_sources = bool(sources) or not self.columns  # rows of groups have columns and no sources
        if column.source is not None and column.source not in sources and has_sources:
            raise SqlError(
                f"'{column.source}' is not a valid stream/table name or alias.",
                hint=did_you_mean(column.source, sources),
                position=column.position,
            )
        shown = f"{column.source}.{column.name}" if column.source else column.name
        names = [name for source, name in self.columns if source == column.source]
        raise SqlError(
            f"Column '{shown}' cannot be resolved.",
            hint=did_you_mean(column.name, names),
            position=column.position,
        )

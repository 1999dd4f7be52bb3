"""Several streams and tables of one query over one topic. A topology has one source for a topic, which decodes its
records once and begins at one place: so they must be declared alike, and begin alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from headwater.sql.language.errors import Position, SqlError
from headwater.sql.plan.catalog import SourceInfo

_WITHOUT_NAMES: Final = ("KAFKA", "DELIMITED", "NONE")  # formats whose bytes have no names of columns


def check_shared(first: SourceInfo, other: SourceInfo, reset: str | None, position: Position) -> None:
    """`first` and `other` are over one topic, and in one query. `reset`: where its streams begin. Raises SqlError."""
    if first.name == other.name:
        return
    names = f"{first.name} and {other.name}"
    if _declared(first) != _declared(other):
        raise SqlError(
            f"{names} are both over the topic {first.topic}, and declared differently: one query cannot read both.",
            why="Its records are decoded once",
            hint=f"Copy one of them first: CREATE {other.kind.value} ... AS SELECT * FROM {other.name}.",
            position=position,
        )
    if first.kind is not other.kind and reset == "latest":
        raise SqlError(
            f"{names} are both over the topic {first.topic}: the stream cannot begin at its end.",
            why="A table is read from the beginning, and what both read is read once",
            hint="SET 'auto.offset.reset'='earliest';",
            position=position,
        )


def _declared(source: SourceInfo) -> tuple[Any, ...]:
    """What decides which rows its records are."""
    of_key = [(_name(each.name, source.key_format.name), each.type) for each in source.key_fields]
    of_value = [(_name(each.name, source.value_format.name), each.type) for each in source.value_fields]
    time = (source.timestamp_column, source.timestamp_format)
    formats = [
        replace(each, options=replace(each.options, schema_id=None))
        for each in (source.key_format, source.value_format)
    ]  # but for the schema that is written with
    return of_key, of_value, formats, source.window, time


def _name(name: str, in_format: str) -> str:
    return "" if in_format in _WITHOUT_NAMES else name


def check_pushed(streams: tuple[str, ...], tables: tuple[str, ...]) -> None:
    """Of a push query, which reads its tables to their end before its streams. Raises SqlError."""
    both = sorted(set(streams) & set(tables))
    if both:
        raise SqlError(
            f"A push query cannot join a stream and a table over one topic, {both[0]}.",
            why="It reads the table to its end before the stream begins",
            hint="Ask a stream that a persistent query makes: CREATE STREAM ... AS SELECT ...",
        )

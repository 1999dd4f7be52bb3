"""Which field of a record goes into which column: `id=key, name=value.name, __ttl=value.ttl, seen=header.seen,
made=now()`.

Names with other characters than letters, digits, underscores and dashes stand in double quotes, in which two are one.
"""

import json
import re
from typing import Any, Final, NamedTuple

from headwater.connect.data.record import SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError

TTL: Final = "__ttl"
TIMESTAMP: Final = "__timestamp"
NOW: Final = "now()"
_NAME: Final = r'"(?:[^"]|"")+"|[\w-]+'
_ENTRY: Final = re.compile(rf"\s*({_NAME})\s*=\s*(now\(\)|(?:key|value|header)(?:\.(?:{_NAME}))*)\s*(?:,|$)")


class Source(NamedTuple):
    """`part` is key, value, header or now(); `path` leads to a field in it, empty for the whole."""

    part: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.part, *self.path))


def parse(text: str) -> dict[str, Source]:
    """Columns and where their values come from."""
    found: dict[str, Source] = {}
    at = 0
    while at < len(text.rstrip().rstrip(",")) or not found:
        entry = _ENTRY.match(text, at)
        if entry is None:
            raise ConfigError(f"mapping: expected column=key.field, column=value.field, column=header.name or column=now() at {text[at:].strip()!r}")  # fmt: skip
        column, source = _unquoted(entry[1]), entry[2]
        if column in found:
            raise ConfigError(f"mapping: the column {column!r} is mapped twice")
        part, *path = [source] if source == NOW else [_unquoted(each) for each in re.findall(_NAME, source)]
        if part == "header" and len(path) != 1:
            raise ConfigError("mapping: a header has one name, as in header.seen")
        found[column] = Source(part, tuple(path))
        at = entry.end()
    return found


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def value_of(record: SinkRecord, source: Source) -> Any:
    """What stands there, or None. Raises DataError where there can be no field."""
    if source.part == "header":
        return next((each.value for each in reversed(record.headers) if each.key == source.path[0]), None)
    found = record.key if source.part == "key" else record.value
    for name in source.path:
        if found is None:
            return None
        found = _field(found, name, source)
    return found


def _field(holder: Any, name: str, source: Source) -> Any:
    if isinstance(holder, str):  # a converter that leaves JSON as it is
        try:
            holder = json.loads(holder)
        except ValueError:
            holder = None
    if isinstance(holder, Struct):
        if holder.schema.field(name) is None:
            raise DataError(f"mapping: the record has no field {source}")
        return holder.get(name)
    if isinstance(holder, dict):
        return holder.get(name)
    raise DataError(f"mapping: {source} is a field, and the record's {source.part} has none")

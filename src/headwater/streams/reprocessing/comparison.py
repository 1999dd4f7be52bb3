"""Two versions of an output topic, compared by the latest record of each key; and what makes one of the other. Pure.

A topic is read as a table: by partition and key, the last record counts, and one without a value is none. Records
without a key cannot be compared; they are counted. Partitions are compared one by one (`together` adds them up), so
only the rows of one are in memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.streams.model.record import Headers

EXAMPLES: Final = 10


class Row(NamedTuple):
    value: bytes
    timestamp: int
    headers: Headers


Place = tuple[int, bytes]  # partition and key


@dataclass(slots=True)
class Table:
    rows: dict[Place, Row] = field(default_factory=dict)
    keyless: int = 0

    def take(self, partition: int, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        if key is None:
            self.keyless += 1
        elif value is None:
            self.rows.pop((partition, key), None)
        else:
            self.rows[partition, key] = Row(value, timestamp, headers)


class Difference(NamedTuple):
    """A key, with its value in both versions; None where a version has no row."""

    partition: int
    key: bytes
    former: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True)
class Comparison:
    topic: str
    equal: int
    changed: int
    missing: int  # rows that only the former version has
    added: int
    keyless: int
    examples: tuple[Difference, ...]

    @property
    def differences(self) -> int:
        return self.changed + self.missing + self.added


def compare(topic: str, former: Table, new: Table, examples: int = EXAMPLES) -> Comparison:
    found = list(_differences(former.rows, new.rows))
    return Comparison(
        topic,
        equal=len(former.rows.keys() & new.rows.keys())
        - sum(each.former is not None and each.new is not None for each in found),
        changed=sum(each.former is not None and each.new is not None for each in found),
        missing=sum(each.new is None for each in found),
        added=sum(each.former is None for each in found),
        keyless=former.keyless + new.keyless,
        examples=tuple(found[:examples]),
    )


def together(topic: str, parts: Iterable[Comparison], examples: int = EXAMPLES) -> Comparison:
    """The whole topic, of the comparisons of its partitions in their order. Each is forgotten before the next is
    made."""
    whole = Comparison(topic, 0, 0, 0, 0, 0, ())
    for part in parts:
        whole = Comparison(
            topic,
            equal=whole.equal + part.equal,
            changed=whole.changed + part.changed,
            missing=whole.missing + part.missing,
            added=whole.added + part.added,
            keyless=whole.keyless + part.keyless,
            examples=(*whole.examples, *part.examples)[:examples],
        )
    return whole


def _differences(former: Mapping[Place, Row], new: Mapping[Place, Row]) -> Iterable[Difference]:
    places = [
        place
        for place in former.keys() | new.keys()
        if (one := former.get(place)) is None or (two := new.get(place)) is None or one.value != two.value
    ]
    for place in sorted(places):
        left, right = former.get(place), new.get(place)
        yield Difference(*place, left and left.value, right and right.value)


class Correction(NamedTuple):
    """A record that the former version's topic needs to show the new version's row; None deletes it."""

    partition: int
    key: bytes
    row: Row | None


def corrections(former: Table, new: Table) -> list[Correction]:
    """Behind these, the former version's topic shows the new version's table. The same again gives none."""
    return [
        Correction(each.partition, each.key, new.rows.get((each.partition, each.key)))
        for each in _differences(former.rows, new.rows)
    ]

"""Queries answered from the last commits of the tasks at hand: rows for JSON, by partition, each in the order of its
store.

Whoever asks for rows gets no more than a process can hold beside its work: their number is limited, and so is what
their keys and values weigh.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headwater.client.partitioner import partition_for_key
from headwater.streams.query.readable import Readable, opened
from headwater.streams.query.store_query import StoreQuery, plain
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.spec import StoreKind
from headwater.streams.topology.stores import StorePlan

Row = dict[str, Any]

BYTES_MAX: Final = 16 * 1024 * 1024  # of rows, about: JSON makes more of it, and doors that ask others take 64 MiB


class Found(NamedTuple):
    """`truncated`: there are more rows than these."""

    rows: list[Row]
    truncated: bool = False


def answer(tasks: Sequence[tuple[Readable, StorePlan]], query: StoreQuery, partitions: int = 0) -> Found:
    """A row for each that was found, with its partition; at most `limit`, and at most one that goes beyond BYTES_MAX.

    Of a value by key there is at most one, and `count` gives one row with the count of all. `partitions`: how many the
    store has in all, where not all of them are here.
    """
    if query.operation.gives == "value":
        tasks = _likely_first(tasks, query.key, partitions)
    else:
        tasks = sorted(tasks, key=lambda each: each[0].partition)
    found: list[Row] = []
    weight = 0
    for task, plan in tasks:
        shaped = _Shape(plan, task)
        with opened(task, plan) as store:
            ask = getattr(store, query.operation.method)
            given = ask(*query.arguments, **({"reverse": True} if query.reverse else {}))
            match query.operation.gives:
                case "count":
                    found.append({"partition": task.partition, "count": given})
                case "value" if given is not None:
                    return Found([{"partition": task.partition, **shaped.value(given)}])
                case "rows":
                    for each in given:
                        if len(found) == query.limit or weight > BYTES_MAX:
                            return Found(found, truncated=True)
                        found.append({"partition": task.partition, **shaped.row(query, each)})
                        weight += _weight(found[-1])
    return Found(found)


def _weight(value: Any) -> int:
    """About the bytes that it takes as JSON."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value) + 2
    if isinstance(value, dict):
        return sum([len(str(name)) + 4 + _weight(item) for name, item in value.items()])
    if isinstance(value, list | tuple):
        return sum([2 + _weight(item) for item in value])
    return 8


def _likely_first(
    tasks: Sequence[tuple[Readable, StorePlan]], key: Any, partitions: int
) -> Sequence[tuple[Readable, StorePlan]]:
    """Where the default partitioner puts the key; an application may have put it elsewhere."""
    if len(tasks) < 2:
        return tasks
    task, plan = tasks[0]
    raw = (plan.key or task.settings.key).serialize(key)
    likely = partition_for_key(raw, partitions or 1 + max(task.partition for task, _ in tasks))
    return sorted(tasks, key=lambda each: each[0].partition != likely)


class _Shape:
    """How rows of one store become JSON: a timestamped one has `(value, timestamp)` for each value."""

    def __init__(self, plan: StorePlan, task: Readable) -> None:
        self._kind = plan.spec.kind
        self._stamped = plan.versioned or (plan.spec.timestamped and self._kind is not StoreKind.SESSION)
        self._key: Serde = plan.key or task.settings.key
        self._value: Serde = plan.value or task.settings.value

    def value(self, given: Any) -> Row:
        if self._stamped:
            value, timestamp = given
            return {"value": plain(value, self._value), "timestamp": timestamp}
        return {"value": plain(given, self._value)}

    def row(self, query: StoreQuery, given: tuple[Any, ...]) -> Row:
        match self._kind:
            case StoreKind.KEY_VALUE:
                return {"key": plain(given[0], self._key), **self.value(given[1])}
            case StoreKind.VERSIONED:
                value, timestamp, valid_to = given
                return {"value": plain(value, self._value), "timestamp": timestamp, "valid_to": valid_to}
            case StoreKind.SESSION:
                key, start, end, value = given
                return {"key": plain(key, self._key), "start": start, "end": end, **self.value(value)}
            case StoreKind.WINDOW:
                key, start, value = given if len(given) == 3 else (query.key, *given)
                return {"key": plain(key, self._key), "start": start, **self.value(value)}

"""Functions that take whole columns (`evaluate_all`), before and behind the loop over records.

The first nodes behind a source, up to the last such function, run over the run's records by column, if they are filters
and maps of values, one behind the other: then nothing but their own order can be seen. So do the last nodes before a
topic, behind a join, an aggregation or a table, where the function says that nobody changes a value after it was made
(`values_stay`): they are kept until the last record is through. Elsewhere such a function is called record by record.
"""

from collections.abc import Callable
from itertools import compress
from typing import Any

from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map_values import StreamMapValues
from headwater.streams.engine.table_filter import TableFilterProcessor
from headwater.streams.engine.table_map_values import TableMapValuesProcessor
from headwater.streams.engine.table_to_stream import TableToStream
from headwater.streams.model.processor import Processor

Step = StreamFilter | StreamMapValues
TableStep = TableFilterProcessor | TableMapValuesProcessor


def leading_steps(first: str, children: dict[str, list[str]], nodes: dict[str, Processor]) -> list[str]:
    """The nodes behind the source `first` that run by column; none where no function takes columns."""
    found: list[str] = []
    last = 0
    here = first
    while len(children[here]) == 1:
        (here,) = children[here]
        node = nodes[here]
        if type(node) not in (StreamFilter, StreamMapValues):
            break
        found.append(here)
        if hasattr(_function(node), "evaluate_all"):
            last = len(found)
    return found[:last]


def trailing_steps(first: str, children: dict[str, list[str]], nodes: dict[str, Processor]) -> tuple[list[str], str]:
    """The nodes from `first` on that run by column behind the loop, and the one behind them; none unless the function
    of the first takes columns of values that stay: those before it are for the loop.
    """
    found: list[str] = []
    here = first
    if not _trails(nodes[here]) or not getattr(_function(nodes[here]), "values_stay", False):
        return [], here
    while _trails(nodes[here]) and len(children[here]) == 1:
        found.append(here)
        (here,) = children[here]
    return found, here


def _trails(node: Processor) -> bool:
    if isinstance(node, TableFilterProcessor):
        return node.store_name is None and not node.versioned
    if isinstance(node, TableMapValuesProcessor):
        return node.store_name is None
    return type(node) in (StreamFilter, StreamMapValues, TableToStream)


class LeadingSteps:
    """These nodes, as a function of a source's columns."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self.maps = any(isinstance(step, StreamMapValues) for step in steps)

    def __call__(self, keys: list[Any], values: list[Any]) -> tuple[list[bool], list[Any]]:
        """Which records are left, and their values; what was left out has None there."""
        count, left = len(values), list(range(len(values)))
        for step in self._steps:
            results = _all(_function(step), keys, values)
            if isinstance(step, StreamMapValues):
                values = results
                continue
            kept = [at for at, found in enumerate(results) if bool(found) != step.negated]
            if len(kept) < len(results):
                left = [left[at] for at in kept]
                keys, values = [keys[at] for at in kept], [values[at] for at in kept]
        if len(left) == count:
            return [True] * count, values
        passes, spread = [False] * count, [None] * count
        for at, value in zip(left, values, strict=True):
            passes[at], spread[at] = True, value
        return passes, spread


class TableSteps:
    """These nodes of a table, as a function of columns: keys, new and old values of rows. A function gets new and old
    value of a row one after the other, as from the nodes.
    """

    def __init__(self, steps: list[TableStep]) -> None:
        self._steps = steps

    def __call__(self, keys: list[Any], new: list[Any], old: list[Any]) -> tuple[list[bool], list[Any]]:
        """Which changes are told, and the new values of their rows."""
        told = [True] * len(keys)
        for step in self._steps:
            if not step.send_old_values:
                new, old = _computed(step, keys, new), [None] * len(keys)
                continue
            both = [value for pair in zip(new, old, strict=True) for value in pair]
            both = _computed(step, [key for key in keys for _ in range(2)], both)
            new, old = both[::2], both[1::2]
            if isinstance(step, TableFilterProcessor):
                rows = zip(told, new, old, strict=True)
                told = [so_far and not (one is None and other is None) for so_far, one, other in rows]
        return told, new


def _computed(step: TableStep, keys: list[Any], values: list[Any]) -> list[Any]:
    """What `step.compute` gives for each: what is not there stays away."""
    there = [at for at, value in enumerate(values) if value is not None]
    results = _all(_function(step), [keys[at] for at in there], [values[at] for at in there])
    found: list[Any] = [None] * len(values)
    for at, result in zip(there, results, strict=True):
        if isinstance(step, TableMapValuesProcessor):
            found[at] = result
        elif bool(result) != step.negated:
            found[at] = values[at]
    return found


class TrailingSteps:
    """These nodes, as a function of what a run has for a topic: keys as bytes; key and value, and behind a table the
    old value, of each record; timestamps, and partitions where each record names its own.
    """

    def __init__(self, first: str, steps: list[Any]) -> None:
        self.first = first
        of_table = [each for each in steps if isinstance(each, TableFilterProcessor | TableMapValuesProcessor)]
        self._of_table = TableSteps(of_table)
        self._run = LeadingSteps([each for each in steps if isinstance(each, StreamFilter | StreamMapValues)])
        self.begins_at_table = isinstance(steps[0], TableFilterProcessor | TableMapValuesProcessor | TableToStream)
        self.ends_at_stream = not self.begins_at_table or any(isinstance(each, TableToStream) for each in steps)

    def __call__(self, raw_keys: list[Any], records: list[tuple[Any, ...]], *more: list[Any]) -> tuple[list[Any], ...]:
        """The same columns, with values instead of records."""
        if self.begins_at_table:
            columns = [[record[place] for record in records] for place in range(3)]
            told, values = self._of_table(*columns)
            rest = [list(compress(column, told)) for column in (raw_keys, columns[0], values, *more)]
            raw_keys, keys, values, *others = rest
        else:
            keys, values, others = [key for key, _ in records], [value for _, value in records], list(more)
        passes, values = self._run(keys, values)
        return tuple(list(compress(column, passes)) for column in (raw_keys, values, *others))


def _function(step: Any) -> Callable[[Any, Any], Any] | None:
    """None: the node has none."""
    function: Callable[[Any, Any], Any] | None = getattr(step, "predicate", None) or getattr(step, "mapper", None)
    return function


def _all(function: Callable[[Any, Any], Any] | None, keys: list[Any], values: list[Any]) -> list[Any]:
    whole = getattr(function, "evaluate_all", None)
    if whole is not None:
        results: list[Any] = whole(keys, values)
        return results
    assert function is not None
    return [function(key, value) for key, value in zip(keys, values, strict=True)]

"""Functions that take whole columns (`evaluate_all`), before and behind the loop over records.

The first nodes behind a source, up to the last such function, run over the run's records by column, if they are filters
and maps of values, one behind the other: then nothing but their own order can be seen. So do the last nodes before a
topic, behind a join, where the function says that nobody changes a value after it was made (`values_stay`): they are
kept until the last record is through. Elsewhere such a function is called record by record.
"""

from collections.abc import Callable
from itertools import compress
from typing import Any

from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map_values import StreamMapValues
from headwater.streams.model.processor import Processor

Step = StreamFilter | StreamMapValues


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
    """The nodes from `first` on that run by column behind the loop, and the one behind them; none where no function of
    theirs takes columns of values that stay.
    """
    found: list[str] = []
    here = first
    while type(nodes[here]) in (StreamFilter, StreamMapValues) and len(children[here]) == 1:
        found.append(here)
        (here,) = children[here]
    stays = any(getattr(_function(nodes[each]), "values_stay", False) for each in found)
    return (found if stays else []), here


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


class TrailingSteps:
    """These nodes, as a function of what a run has for a topic: keys as bytes, pairs of key and value, timestamps."""

    def __init__(self, first: str, steps: list[Step]) -> None:
        self.first = first
        self._run = LeadingSteps(steps)

    def __call__(
        self, raw_keys: list[bytes | None], pairs: list[tuple[Any, Any]], times: list[int]
    ) -> tuple[list[bytes | None], list[Any], list[int]]:
        passes, values = self._run([key for key, _ in pairs], [value for _, value in pairs])
        return list(compress(raw_keys, passes)), list(compress(values, passes)), list(compress(times, passes))


def _function(step: Any) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any] = step.predicate if isinstance(step, StreamFilter) else step.mapper
    return function


def _all(function: Callable[[Any, Any], Any], keys: list[Any], values: list[Any]) -> list[Any]:
    whole = getattr(function, "evaluate_all", None)
    if whole is not None:
        results: list[Any] = whole(keys, values)
        return results
    return [function(key, value) for key, value in zip(keys, values, strict=True)]

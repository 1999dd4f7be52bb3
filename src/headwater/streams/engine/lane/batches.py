"""Functions that take whole columns (`evaluate_all`), before the loop over records.

The first nodes behind a source, up to the last such function, run over the run's records by column, if they are filters
and maps of values, one behind the other: then nothing but their own order can be seen. Elsewhere such a function is
called record by record.
"""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.processor import Processor
from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map_values import StreamMapValues

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


def _function(step: Any) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any] = step.predicate if isinstance(step, StreamFilter) else step.mapper
    return function


def _all(function: Callable[[Any, Any], Any], keys: list[Any], values: list[Any]) -> list[Any]:
    whole = getattr(function, "evaluate_all", None)
    if whole is not None:
        results: list[Any] = whole(keys, values)
        return results
    return [function(key, value) for key, value in zip(keys, values, strict=True)]

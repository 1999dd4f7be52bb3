"""`filter` and `filter_not` of a stream."""

from collections.abc import Callable
from typing import Any

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class StreamFilter(Processor):
    """Passes on what the predicate holds for, or what it does not hold for."""

    def __init__(self, predicate: Callable[[Any, Any], Any], negated: bool = False) -> None:
        self.predicate = predicate
        self.negated = negated

    def process(self, record: Record) -> None:
        if bool(self.predicate(record.key, record.value)) != self.negated:
            self.forward(record)

"""`split`: each record goes to the first branch whose predicate holds."""

from collections.abc import Callable
from typing import Any

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class StreamBranch(Processor):
    """`children` has a name per predicate, and one more if there is a default branch. Both lists grow while the
    topology is written.
    """

    def __init__(self, predicates: list[Callable[[Any, Any], Any]], children: list[str]) -> None:
        self.predicates = predicates
        self.children = children

    def process(self, record: Record) -> None:
        for predicate, child in zip(self.predicates, self.children, strict=False):
            if predicate(record.key, record.value):
                self.context.forward(record, child)
                return
        if len(self.children) > len(self.predicates):
            self.context.forward(record, self.children[-1])

"""`peek` and `foreach`: a function sees each record; `peek` passes it on."""

from collections.abc import Callable
from typing import Any

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class StreamPeek(Processor):
    """The function is called before the record goes on."""

    def __init__(self, action: Callable[[Any, Any], Any], goes_on: bool = True) -> None:
        self.action = action
        self.goes_on = goes_on

    def process(self, record: Record) -> None:
        self.action(record.key, record.value)
        if self.goes_on:
            self.forward(record)

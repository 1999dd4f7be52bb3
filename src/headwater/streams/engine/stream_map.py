"""`map`, `select_key` and `flat_map` of a stream: a new key, and with it perhaps another partition."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class StreamMap(Processor):
    """One record for one: the function returns a key and a value."""

    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.mapper = mapper

    def process(self, record: Record) -> None:
        key, value = as_pair(self.mapper(record.key, record.value), "map")
        self.forward(Record(key, value, record.timestamp, record.headers))


class StreamSelectKey(Processor):
    """The same value under another key."""

    def __init__(self, selector: Callable[[Any, Any], Any]) -> None:
        self.selector = selector

    def process(self, record: Record) -> None:
        self.forward(Record(self.selector(record.key, record.value), record.value, record.timestamp, record.headers))


class StreamFlatMap(Processor):
    """Any number of records for one: the function returns pairs of key and value."""

    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self.mapper = mapper

    def process(self, record: Record) -> None:
        for pair in self.mapper(record.key, record.value):
            key, value = as_pair(pair, "flat_map")
            self.forward(Record(key, value, record.timestamp, record.headers))


def as_pair(result: Any, operator: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise UserError(f"The function of {operator} gave {result!r}", "a tuple of key and value is needed")
    return result

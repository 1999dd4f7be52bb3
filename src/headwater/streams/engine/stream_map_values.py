"""`map_values` and `flat_map_values` of a stream: the key stays, and so does the partition."""

from collections.abc import Callable
from typing import Any

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class StreamMapValues(Processor):
    """One value for one."""

    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self.mapper = mapper

    def process(self, record: Record) -> None:
        value = self.mapper(record.key, record.value)
        self.forward(Record(record.key, value, record.timestamp, record.headers))


class StreamFlatMapValues(Processor):
    """Any number of values for one."""

    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self.mapper = mapper

    def process(self, record: Record) -> None:
        for value in self.mapper(record.key, record.value):
            self.forward(Record(record.key, value, record.timestamp, record.headers))

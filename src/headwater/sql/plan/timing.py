"""Sets the timestamp of records to what one of their columns says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.sql.plan.windowed import bare
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class SetTimestamp(Processor):
    """A record whose column says no time is dropped, and counted as such. `time_of` has told why."""

    def __init__(self, time_of: Callable[[Any, str], int], place: int, *, in_key: bool) -> None:
        self._time_of = time_of
        self._place = place
        self._in_key = in_key

    def process(self, record: Record) -> None:
        holder = bare(record.key) if self._in_key else record.value
        if holder is None:
            self.forward(record)
            return
        time = self._time_of(holder[self._place], "A row of the result")
        if time < 0:
            self.context.drop("no timestamp")
            return
        self.forward(record.with_timestamp(time))

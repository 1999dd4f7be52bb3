"""Sets the timestamp of records to what one of their columns says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.sql.plan.windowed import bare
from headwater.sql.values import EvaluationError
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Record


class SetTimestamp(Processor):
    """A record whose column says no time is dropped, and counted as such."""

    def __init__(self, time_of: Callable[[Any], int], place: int, *, in_key: bool) -> None:
        self._time_of = time_of
        self._place = place
        self._in_key = in_key

    def process(self, record: Record) -> None:
        holder = bare(record.key) if self._in_key else record.value
        if holder is None:
            self.forward(record)
            return
        try:
            time = self._time_of(holder[self._place])
        except EvaluationError:
            time = -1
        if time < 0:
            self.context.drop("no timestamp")
            return
        self.forward(record.with_timestamp(time))

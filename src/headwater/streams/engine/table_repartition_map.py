"""`group_by` of a table: the old value leaves its group, the new one enters its own; two records if the group
changes.
"""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Change, Record


class TableRepartitionMap:
    """The supplier: `mapper(key, value)` gives the group's key and the value."""

    def __init__(self, mapper: Callable[[Any, Any], Any]) -> None:
        self._mapper = mapper
        self.use_versioned_semantics = False

    def __call__(self) -> Processor:
        return TableRepartitionMapProcessor(self._mapper, self.use_versioned_semantics)


class TableRepartitionMapProcessor(Processor):
    def __init__(self, mapper: Callable[[Any, Any], Any], versioned: bool) -> None:
        self._mapper = mapper
        self._versioned = versioned

    def process(self, record: Record) -> None:
        if record.key is None:
            raise UserError("A row of a table that is grouped has no key")
        change = record.value
        if self._versioned and not change.is_latest:
            return
        new, old = self._pair(record.key, change.new), self._pair(record.key, change.old)
        if old is not None and new is not None and old[0] == new[0]:
            self._forward(record, new[0], Change(new[1], old[1], change.is_latest))
            return
        if old is not None:
            self._forward(record, old[0], Change(None, old[1], change.is_latest))
        if new is not None:
            self._forward(record, new[0], Change(new[1], None, change.is_latest))

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        pair = self._mapper(key, value)
        if pair is None:
            return None
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UserError(
                f"The function of group_by gave {pair!r}", "for a table it gives the group's key and the value"
            )
        return None if pair[0] is None or pair[1] is None else pair

    def _forward(self, record: Record, key: Any, change: Change) -> None:
        self.forward(Record(key, change, record.timestamp, record.headers))

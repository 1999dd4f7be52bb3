"""`filter` and `filter_not` of a table: a row that does not hold any more becomes a tombstone."""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.computed_table import ComputedTableProcessor
from headwater.streams.engine.table import ComputedGetter, TableSupplier, View, store_view
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.model.processor import Processor


class TableFilter:
    """The supplier. It asks its parent for old values where that costs nothing, to leave out needless tombstones."""

    def __init__(
        self, parent: TableSupplier, predicate: Callable[[Any, Any], Any], negated: bool, store_name: str | None
    ) -> None:
        self._parent = parent
        self._predicate = predicate
        self._negated = negated
        self._store_name = store_name
        self.use_versioned_semantics = False
        self._send_old_values = parent.enable_sending_old_values(False)

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if self._store_name is not None or self._parent.enable_sending_old_values(force_materialization):
            self._send_old_values = True
        return self._send_old_values

    def compute(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self._predicate(key, value)) != self._negated else None

    def _compute_found(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        return found if found is not None and bool(self._predicate(key, found[0])) != self._negated else None

    def view(self) -> View:
        if self._store_name is not None:
            return store_view(self._store_name)
        above = self._parent.view()
        return View(lambda: ComputedGetter(above.make(), self._compute_found), above.store_names)

    def __call__(self) -> Processor:
        return TableFilterProcessor(
            self._predicate,
            self._negated,
            self.compute,
            self._store_name,
            self._send_old_values,
            self.use_versioned_semantics,
        )


class TableFilterProcessor(ComputedTableProcessor):
    def __init__(
        self,
        predicate: Callable[[Any, Any], Any],
        negated: bool,
        compute: Callable[[Any, Any], Any],
        store_name: str | None,
        send_old_values: bool,
        versioned: bool,
    ) -> None:
        super().__init__(compute, store_name, send_old_values, skips_missing=not versioned)
        self.predicate = predicate  # of values that are there
        self.negated = negated
        self.versioned = versioned

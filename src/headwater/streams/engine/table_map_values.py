"""`map_values` of a table: a function of each value that is there; a tombstone stays one."""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.computed_table import ComputedTableProcessor
from headwater.streams.engine.table import ComputedGetter, TableSupplier, View, store_view
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.model.processor import Processor


class TableMapValues:
    """The supplier."""

    def __init__(self, parent: TableSupplier, mapper: Callable[[Any, Any], Any], store_name: str | None) -> None:
        self._parent = parent
        self._mapper = mapper
        self._store_name = store_name
        self._send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if self._store_name is not None or self._parent.enable_sending_old_values(force_materialization):
            self._send_old_values = True
        return self._send_old_values

    def compute(self, key: Any, value: Any) -> Any:
        return None if value is None else self._mapper(key, value)

    def _compute_found(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        if found is None:
            return None
        value = self._mapper(key, found[0])
        return None if value is None else (value, found[1])

    def view(self) -> View:
        if self._store_name is not None:
            return store_view(self._store_name)
        above = self._parent.view()
        return View(lambda: ComputedGetter(above.make(), self._compute_found), above.store_names)

    def __call__(self) -> Processor:
        return TableMapValuesProcessor(self._mapper, self.compute, self._store_name, self._send_old_values)


class TableMapValuesProcessor(ComputedTableProcessor):
    def __init__(
        self,
        mapper: Callable[[Any, Any], Any],
        compute: Callable[[Any, Any], Any],
        store_name: str | None,
        send_old_values: bool,
    ) -> None:
        super().__init__(compute, store_name, send_old_values, skips_missing=False)
        self.mapper = mapper  # of values that are there

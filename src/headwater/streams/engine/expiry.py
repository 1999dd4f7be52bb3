"""Rows whose time to live is over, in the stores of a task: deleted before a record that moves stream time is
processed.

Where the store is a table's, the deletion is a change of the table, with stream time as its timestamp, so that what was
made of the row goes, too. Processors are not told: for them the row is absent.
"""

from collections.abc import Callable, Iterable
from typing import Any

from headwater.streams.model.processor import Processor
from headwater.streams.model.record import Change, Record
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.expiring import ExpiringKeyValues
from headwater.streams.topology.stores import StorePlan

Failed = Callable[[Exception, str], None]


class ExpiringTable(Processor):
    """The node of a table whose store may have a time to live."""

    store_name: str | None
    send_old_values: bool

    def row_expired(self, key: Any, old: Any, stream_time_ms: int) -> None:
        self.forward(Record(key, Change(None, old if self.send_old_values else None), stream_time_ms))


class ExpiringRows:
    """One store, its serdes, and the node of its table, if it has one."""

    def __init__(
        self, store: ExpiringKeyValues, key: Serde, value: Serde, node: tuple[str, ExpiringTable] | None
    ) -> None:
        self._store = store
        self._read_key = key.deserialize
        self._read_value = value.deserialize
        self._node = node

    def expire(self, stream_time_ms: int, failed: Failed) -> None:
        gone = self._store.expire(stream_time_ms)
        if self._node is None:
            return
        name, table = self._node
        for key, value in gone:
            try:
                table.row_expired(self._read_key(key), self._read_value(value), stream_time_ms)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the policy decides
                failed(error, name)


def expiring_rows(
    plans: Iterable[StorePlan], stores: dict[str, Any], nodes: dict[str, Processor], key: Serde, value: Serde
) -> list[ExpiringRows]:
    """Of the stores of a task, in bytes, and its nodes."""
    found = []
    for plan in plans:
        store = stores[plan.name]
        if isinstance(store, ExpiringKeyValues):
            tables = [(n, p) for n, p in nodes.items() if isinstance(p, ExpiringTable) and p.store_name == plan.name]
            found.append(ExpiringRows(store, plan.key or key, plan.value or value, tables[0] if tables else None))
    return found

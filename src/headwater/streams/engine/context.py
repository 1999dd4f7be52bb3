"""What each node sees of its task: `NodeContext`, one per processor, made by the task that owns it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.streams.engine.read_only_store import ReadOnlyStore
from headwater.streams.model.processor import Cancellable, Forward, TimeKind
from headwater.streams.model.record import Origin, Record, RecordMetadata

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task


class NodeContext:
    """The `Context` of one processor."""

    __slots__ = ("_by_child", "_forward", "_stores", "_task", "node_name")

    def __init__(self, task: "Task", node_name: str, stores: Mapping[str, Any]) -> None:
        self._task = task
        self.node_name = node_name
        self._stores = stores
        self._forward: Forward | None = None
        self._by_child: dict[str, Forward] = {}

    def link(self, forward: Forward, by_child: dict[str, Forward]) -> None:
        """The task has made all nodes: these are the children."""
        self._forward = forward
        self._by_child = by_child

    @property
    def application_id(self) -> str:
        return self._task.settings.application_id

    @property
    def task_id(self) -> str:
        return self._task.task_id

    @property
    def partition(self) -> int:
        return self._task.partition

    @property
    def stream_time_ms(self) -> int:
        if self._task.plan.is_global:
            raise UserError(f"{self.node_name} asks for stream time", "the processor of a global store has none")
        return self._task.stream_time_ms

    @property
    def wall_clock_ms(self) -> int:
        return self._task.wall_clock_ms

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._task.record_metadata

    @property
    def children(self) -> list[str]:
        return list(self._by_child)

    @property
    def emit_interval_ms(self) -> int:
        return self._task.settings.emit_interval_ms

    @property
    def origin(self) -> Origin:
        return self._task.origin

    def resume(self, record: Record, origin: Origin, step: Forward | None = None) -> None:
        self._task.resume(self.node_name, record, origin, step or self.forward)

    def forward(self, record: Record, child: str | None = None) -> None:
        if child is None:
            assert self._forward is not None, "forward before the task is linked"
            self._forward(record)
            return
        target = self._by_child.get(child)
        if target is None:
            raise UserError(
                f"{self.node_name} has no child {child}", f"its children are {', '.join(self._by_child) or 'none'}"
            )
        target(record)

    def store(self, name: str) -> Any:
        store = self._stores.get(name)
        if store is None and name in self._task.global_stores:
            store = ReadOnlyStore(name, self._task.global_stores[name])
        if store is None and self._task.plan.is_global:
            raise UserError(
                f"{self.node_name} has no store {name}",
                f"the processor of a global store has global ones only: {', '.join(self._stores)}",
            )
        if store is None:
            raise UserError(
                f"{self.node_name} has no store {name}",
                f"it is connected to {', '.join(self._stores) or 'none'}",
                "name it in stores=[...] of process(...)",
            )
        return store

    def schedule(self, interval_ms: int, kind: TimeKind, callback: Callable[[int], None]) -> Cancellable:
        return self._task.schedule(self.node_name, interval_ms, kind, callback)

    def commit(self) -> None:
        self._task.commit_requested = True

    def drop(self, reason: str) -> None:
        self._task.drop(reason)

    def drop_late(self, by_ms: int, reason: str = "late") -> None:
        self._task.drop_late(self.node_name, by_ms, reason)

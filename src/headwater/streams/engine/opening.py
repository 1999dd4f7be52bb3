"""From the plan of a store to the store that nodes see: bytes on the state of a task, its changelog, and serdes on
top.
"""

from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.streams.engine.failures import ClusterFailure, StreamsError
from headwater.streams.engine.suppress_buffer import SuppressBuffer
from headwater.streams.engine.typed_stores import (
    ExpiringTableStore,
    KeyValueStore,
    SessionStore,
    TimestampedKeyValueStore,
    TimestampedWindowStore,
    VersionedStore,
    WindowStore,
)
from headwater.streams.model.record import Origin, OutputRecord
from headwater.streams.stores.build import build_cached_store, build_store, is_cacheable
from headwater.streams.stores.cache import CachedChange, StoreCache
from headwater.streams.stores.expiring import ExpiringKeyValues
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.port import Changelog
from headwater.streams.stores.session import Sessions
from headwater.streams.stores.spec import StoreKind
from headwater.streams.stores.state import TaskState
from headwater.streams.stores.versioned import Versions
from headwater.streams.stores.window import Windows
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task
    from headwater.streams.engine.task_settings import TaskSettings

_SEGMENT_BYTES: Final = 8  # Kafka Streams counts them for keys of windows and sessions
AnyStore = KeyValues | Windows | Sessions | Versions


def open_bytes(plan: StorePlan, task: "Task", state: TaskState) -> AnyStore:
    """The store in bytes, which tells the task of every change. Whoever restores it, restores this."""
    topic = plan.changelog_topic(task.settings.application_id)
    logged = topic is not None and plan.spec.logged and plan.source_topic is None
    changelog = _changelog(task, topic) if logged and topic is not None else None
    room = task.settings.cache
    if room is None or not plan.caching or not is_cacheable(plan.spec):
        return build_store(plan.spec, state, changelog, task)

    def tell(key: bytes, change: CachedChange) -> None:
        if cache.on_change is not None and change.value is None and change.old is None:
            return  # it came and went, and nobody was told of it
        made_by = change.context
        outside = task.leave_record(Origin(made_by.metadata, made_by.record), made_by.timestamp)
        try:
            store.log(key, change.value)
            if cache.on_change is not None:
                cache.on_change(key, change)
        except (StreamsError, ClusterFailure):
            raise
        except Exception as error:
            raise task.change_failed(plan.name, change.context, error) from error
        finally:
            task.return_to_record(*outside)

    key_bytes = 0 if plan.spec.kind is StoreKind.KEY_VALUE else _SEGMENT_BYTES
    cache = StoreCache(room, task.change_context, tell, key_bytes, plan.name)
    store = build_cached_store(plan.spec, state, changelog, cache)
    task.caches.append(cache)
    state.on_discard(cache.clear)
    return store


def _changelog(task: "Task", topic: str) -> Changelog:
    partition, log = task.partition, task.log_change

    def changed(key: bytes, value: bytes | None, timestamp: int | None) -> None:
        log(OutputRecord(topic, partition, key, value, task.record_timestamp if timestamp is None else timestamp))

    return changed


def is_cached(store: Any) -> bool:
    """Of a store with serdes: whether a record cache stands before its changelog."""
    return getattr(store, "cache", None) is not None


class SerdesOfTask(Protocol):
    """A task, or who stands for one where stores are only read."""

    @property
    def settings(self) -> "TaskSettings": ...

    def tombstone_at(self, timestamp: int) -> None: ...


def typed(plan: StorePlan, store: AnyStore, task: SerdesOfTask) -> Any:
    """The same store with serdes."""
    key, value = plan.key or task.settings.key, plan.value or task.settings.value
    if isinstance(store, KeyValues):
        if plan.buffer:
            return SuppressBuffer(store, key, value)
        if isinstance(store, ExpiringKeyValues) and plan.spec.timestamped:
            return ExpiringTableStore(store, key, value, task.tombstone_at)
        if plan.spec.timestamped:
            return TimestampedKeyValueStore(store, key, value, task.tombstone_at)
        return KeyValueStore(store, key, value)
    if isinstance(store, Windows):
        return (TimestampedWindowStore if plan.spec.timestamped else WindowStore)(store, key, value)
    if isinstance(store, Sessions):
        return SessionStore(store, key, value)
    return VersionedStore(store, key, value)

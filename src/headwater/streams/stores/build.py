"""From the description of a store to the store, on the state of a task."""

from headwater.streams.stores.cache import StoreCache
from headwater.streams.stores.cached import CachedKeyValues, CachedSessions, CachedWindows
from headwater.streams.stores.expiring import ExpiringKeyValues, TaskTimes
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.port import Changelog
from headwater.streams.stores.session import Sessions
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import TaskState
from headwater.streams.stores.versioned import Versions
from headwater.streams.stores.window import Windows

AnyStore = KeyValues | Windows | Sessions | Versions


def build_store(
    spec: StoreSpec, state: TaskState, changelog: Changelog | None = None, times: TaskTimes | None = None
) -> AnyStore:
    """`changelog` is told of every change; None for a store that is not logged. `times`: of the task, where it writes
    to the store.
    """
    state = state.part(spec)
    match spec.kind:
        case StoreKind.KEY_VALUE:
            if spec.ttl_ms is not None:
                return ExpiringKeyValues(spec, spec.ttl_ms, state, changelog, times)
            return KeyValues(spec, state, changelog)
        case StoreKind.WINDOW:
            return Windows(spec, state, changelog)
        case StoreKind.SESSION:
            return Sessions(spec, state, changelog)
        case StoreKind.VERSIONED:
            return Versions(spec, state, changelog)


def is_cacheable(spec: StoreSpec) -> bool:
    """Not versions, of which each counts; nor duplicates; nor rows that expire of themselves."""
    return spec.kind is not StoreKind.VERSIONED and spec.ttl_ms is None and not spec.retain_duplicates


def build_cached_store(
    spec: StoreSpec, state: TaskState, changelog: Changelog | None, cache: StoreCache
) -> CachedKeyValues | CachedWindows | CachedSessions:
    """The same with a record cache, of a store that `is_cacheable`."""
    state = state.part(spec)
    match spec.kind:
        case StoreKind.KEY_VALUE:
            return CachedKeyValues(spec, state, changelog, cache)
        case StoreKind.WINDOW:
            return CachedWindows(spec, state, changelog, cache)
        case _:
            return CachedSessions(spec, state, changelog, cache)

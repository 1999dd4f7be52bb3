"""Stores for processors: `app.add_store(key_value_store("seen", value="long"))`, then `process(...,
stores=["seen"])`. `store_type` is where the rows lie: "lmdb", "rocksDB" or "in_memory"; by default as the application
says. With `caching=True`, and a record cache of the application (`cache_max_bytes`), the changelog gets the last change
per key of a commit.
"""

from dataclasses import replace

from headwater.base.errors import UserError
from headwater.streams.dsl import store_types
from headwater.streams.dsl.time_to_live import refuse_ttl, time_to_live
from headwater.streams.dsl.windows import Duration, milliseconds
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.topology.stores import StorePlan


def key_value_store(
    name: str,
    *,
    key: SerdeLike | None = None,
    value: SerdeLike | None = None,
    timestamped: bool = False,
    ttl: Duration | None = None,
    logging: bool = True,
    caching: bool = False,
    store_type: str | None = None,
) -> StorePlan:
    """`get`, `put`, `delete`, `range`, `all`, `prefix`. A timestamped one keeps `(value, timestamp)`, as tables do.

    With `ttl=` a row is deleted when stream time is further than that beyond its timestamp: its own in a timestamped
    store, else that of the record that put it.
    """
    spec = StoreSpec(
        name,
        timestamped=timestamped,
        ttl_ms=time_to_live(ttl),
        logged=logging,
        store_type=store_types.store_type(store_type),
    )
    return StorePlan(spec, resolve_optional(key), resolve_optional(value), caching=caching)


def window_store(
    name: str,
    retention: Duration,
    size: Duration,
    *,
    key: SerdeLike | None = None,
    value: SerdeLike | None = None,
    retain_duplicates: bool = False,
    ttl: Duration | None = None,
    logging: bool = True,
    caching: bool = False,
    store_type: str | None = None,
) -> StorePlan:
    """`put(key, value, start)`, `get(key, start)`, `fetch(key, from, to)`; forgets what is older than the retention."""
    refuse_ttl(name, ttl, "a window store", "it forgets what is older than its retention")
    retention_ms, size_ms = _not_negative(name, retention, "retention"), _not_negative(name, size, "size")
    if size_ms > retention_ms:
        raise UserError(
            f"The store {name} keeps windows of {size_ms} ms for {retention_ms} ms",
            "they would be gone before they end",
            "Its retention must not be less than the size",
        )
    spec = StoreSpec(
        name,
        StoreKind.WINDOW,
        timestamped=False,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        retain_duplicates=retain_duplicates,
        logged=logging,
        store_type=store_types.store_type(store_type),
    )
    return StorePlan(spec, resolve_optional(key), resolve_optional(value), caching=caching)


def session_store(
    name: str,
    retention: Duration,
    *,
    key: SerdeLike | None = None,
    value: SerdeLike | None = None,
    ttl: Duration | None = None,
    logging: bool = True,
    caching: bool = False,
    store_type: str | None = None,
) -> StorePlan:
    """`put(key, start, end, value)`, `find_sessions(key, earliest_end, latest_start)`, `remove`."""
    refuse_ttl(name, ttl, "a session store", "it forgets what is older than its retention")
    spec = StoreSpec(
        name,
        StoreKind.SESSION,
        timestamped=False,
        retention_ms=_not_negative(name, retention, "retention"),
        logged=logging,
        store_type=store_types.store_type(store_type),
    )
    return StorePlan(spec, resolve_optional(key), resolve_optional(value), caching=caching)


def versioned_store(
    name: str,
    history: Duration,
    *,
    key: SerdeLike | None = None,
    value: SerdeLike | None = None,
    ttl: Duration | None = None,
    logging: bool = True,
    store_type: str | None = None,
) -> StorePlan:
    """`put(key, value, timestamp)`, `get(key)`, `get_as_of(key, timestamp)`, `history(...)`."""
    refuse_ttl(name, ttl, "a versioned store", "its history says how long versions are kept")
    spec = StoreSpec(
        name,
        StoreKind.VERSIONED,
        timestamped=False,
        retention_ms=_not_negative(name, history, "history"),
        logged=logging,
        store_type=store_types.store_type(store_type),
    )
    return StorePlan(spec, resolve_optional(key), resolve_optional(value))


def _not_negative(name: str, duration: Duration, what: str) -> int:
    found = milliseconds(duration, what)
    if found < 0:
        raise UserError(f"The {what} of the store {name} is {found} ms", "it must not be negative")
    return found


def check_store(store: object) -> None:
    if not isinstance(store, StorePlan):
        raise UserError(f"{store!r} is no store", "", 'key_value_store("name") and others make stores')


def global_store(store: StorePlan) -> StorePlan:
    """The same as a store that every task reads: in memory, without a changelog of its own and without a cache."""
    check_store(store)
    refuse_ttl(store.name, store.spec.ttl_ms, "a global store", "its rows are those of its topic")
    return replace(store, spec=replace(store.spec, logged=False), caching=False)

"""How a table is kept: the name of its store, serdes, retention. Where a plain name is given, the rest is as usual."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.base.errors import UserError
from headwater.streams.dsl.store_types import store_type
from headwater.streams.dsl.time_to_live import refuse_ttl, time_to_live
from headwater.streams.dsl.windows import Duration, milliseconds
from headwater.streams.plan.graph import Graph
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.topology.name_rules import check_optional_name
from headwater.streams.topology.stores import StorePlan


@dataclass(frozen=True, slots=True)
class Materialized:
    """Kafka Streams' `Materialized`. `history_ms` makes a versioned store, which keeps versions that long.

    `ttl` deletes rows when stream time is further than that beyond their timestamp; each is a change of the table.
    `caching=False`: each change goes on at once, also where the application has a record cache (`cache_max_bytes`).
    `store_type` is where the rows lie: "lmdb", "rocksDB" or "in_memory"; by default as the application says.
    """

    name: str | None = None
    key: SerdeLike | None = None
    value: SerdeLike | None = None
    retention_ms: int | None = None
    history_ms: int | None = None
    ttl: Duration | None = None
    logging: bool = True
    caching: bool = True
    store_type: str | None = None
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_optional_name(self.name, "a store")
        for option in ("retention_ms", "history_ms"):
            given = getattr(self, option)
            if given is not None:
                object.__setattr__(self, option, milliseconds(given, option))
            if (getattr(self, option) or 0) < 0:
                raise UserError(f"{option} of a store cannot be {given}", "it must not be negative")


_WHO_CAN: Final = "app.table, to_table, and count, reduce and aggregate of a grouped stream can"

StoreLike = str | Materialized | None


def materialized(store: StoreLike) -> Materialized:
    if store is not None and not isinstance(store, str | Materialized):
        raise UserError("store= is a name or a Materialized", f"it was given {store!r}")
    return store if isinstance(store, Materialized) else Materialized(store)


@dataclass(frozen=True, slots=True)
class Kept:
    """A `Materialized` with its name, generated where none was given, and serdes filled in."""

    given: Materialized
    store_name: str
    queryable_name: str | None
    key: Serde | None
    value: Serde | None

    @property
    def versioned(self) -> bool:
        return self.given.history_ms is not None

    def key_value(self, logged: bool = True, expires: bool = False, caching: bool = True) -> StorePlan:
        """The plan of a table's store: timestamped, or versioned. `expires`: its node can tell others of rows whose
        time is over.
        """
        self._check_ttl(expires)
        history = self.given.history_ms
        spec = StoreSpec(
            self.store_name,
            StoreKind.KEY_VALUE if history is None else StoreKind.VERSIONED,
            timestamped=history is None,
            retention_ms=history or 0,
            ttl_ms=time_to_live(self.given.ttl),
            logged=self.given.logging and logged,
            store_type=store_type(self.given.store_type),
            changelog_config=dict(self.given.topic_config),
        )
        return StorePlan(spec, self.key, self.value, caching=self.given.caching and caching)

    def _check_ttl(self, expires: bool) -> None:
        ttl = self.given.ttl
        if ttl is None:
            return
        if self.versioned:
            refuse_ttl(self.store_name, ttl, "a versioned store", "its history says how long versions are kept")
        if not expires:
            refuse_ttl(self.store_name, ttl, "that of an operator which cannot expire rows", _WHO_CAN)
        if self.queryable_name is None:
            raise UserError("A store with a ttl needs a name", "", 'Materialized("name", ttl=...)')


def keep(graph: Graph, store: StoreLike, prefix: str, key: Serde | None, value: Serde | None) -> Kept:
    """With a name of the graph's where none was given, which takes a number then."""
    given = materialized(store)
    name = graph.new_store_name(prefix) if given.name is None else given.name
    return Kept(given, name, given.name, resolve_optional(given.key) or key, resolve_optional(given.value) or value)


def keep_count(graph: Graph, store: StoreLike, prefix: str, key: Serde | None, value: Serde | None) -> Kept:
    """As `keep`, for `count` of a stream: a `Materialized` without a name takes two numbers there in Kafka Streams."""
    if isinstance(store, Materialized) and store.name is None:
        graph.new_store_name(prefix)
    return keep(graph, store, prefix, key, value)


def keep_if_named(
    graph: Graph, store: StoreLike, prefix: str | None, key: Serde | None, value: Serde | None
) -> Kept | None:
    """None where there is to be no store: operators of tables keep one only if it has a name."""
    if store is None:
        return None
    given = materialized(store)
    if given.name is None:
        if given.history_ms is not None:
            raise UserError("A versioned store needs a name", "", 'Materialized("name", history_ms=...)')
        refuse_ttl("without a name", given.ttl, "that of an operator which cannot expire rows", _WHO_CAN)
        if prefix is not None:
            graph.new_store_name(prefix)  # Kafka Streams takes a number here and does not show it
    key, value = resolve_optional(given.key) or key, resolve_optional(given.value) or value
    return Kept(given, given.name or "", given.name, key, value)

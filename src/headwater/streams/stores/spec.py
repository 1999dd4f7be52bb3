"""What a store is: its kind and its times. The plan describes stores so, `build` makes them on the state of a task."""

from dataclasses import dataclass, field
from enum import StrEnum


class StoreKind(StrEnum):
    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"


class StoreType(StrEnum):
    """Where rows lie: by Kafka Streams' names (`default.dsl.store`) where it has them."""

    LMDB = "lmdb"
    ROCKSDB = "rocksDB"
    IN_MEMORY = "in_memory"


@dataclass(frozen=True, slots=True)
class StoreSpec:
    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    timestamped: bool = True
    """Values carry 8 bytes of timestamp: what the DSL uses for key-value and window stores."""
    retention_ms: int = 0
    """Of windows and sessions by stream time, of versions as history retention."""
    window_size_ms: int | None = None
    segment_interval_ms: int | None = None
    """None: Kafka Streams' default, half of the retention, and a minute at least."""
    ttl_ms: int | None = None
    """Of key-value stores: a row is deleted when stream time is further than this beyond its timestamp.
    None: it stays.
    """
    retain_duplicates: bool = False
    time_ordered: bool = False
    """Can be asked by time over all keys: for results that are emitted when windows close."""
    logged: bool = True
    """Has a changelog topic."""
    store_type: StoreType | None = None
    """Where rows lie; None: as of the application. What is in memory is restored from the changelog at each start."""
    changelog_config: dict[str, str] = field(default_factory=dict, hash=False)

    def lies_in(self, default: StoreType) -> StoreType:
        """`default`: of the application. What nothing restores cannot be in memory alone: it would be lost whenever the
        task moves, and be it to the next process on the same machine.
        """
        chosen = self.store_type or default
        return StoreType.LMDB if chosen is StoreType.IN_MEMORY and not self.logged else chosen

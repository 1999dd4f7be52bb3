"""What a store is: its kind and its times. The plan describes stores so, `build` makes them on the state of a task."""

from dataclasses import dataclass, field
from enum import StrEnum


class StoreKind(StrEnum):
    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"


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
    """Of key-value stores: a row is deleted when stream time is further than this beyond its timestamp. None: it stays."""
    retain_duplicates: bool = False
    time_ordered: bool = False
    """Can be asked by time over all keys: for results that are emitted when windows close."""
    logged: bool = True
    """Has a changelog topic."""
    persistent: bool = True
    """On disk where there is one; else in memory, and restored from the changelog at each start."""
    changelog_config: dict[str, str] = field(default_factory=dict, hash=False)

"""What all tasks of an application share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headwater.streams.engine.failures import ErrorPolicy
from headwater.streams.model.time import TimestampExtractor, fail_on_invalid_timestamp
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.cache import CacheBytes
from headwater.streams.stores.spec import StoreType


@dataclass(frozen=True, slots=True)
class TaskSettings:
    application_id: str
    key: Serde  # where neither the stream nor the call names one
    value: Serde
    extractor: TimestampExtractor = fail_on_invalid_timestamp
    errors: ErrorPolicy = field(default_factory=ErrorPolicy)
    emit_interval_ms: int = 1000
    partition_count: Callable[[str], int] | None = None  # of a topic, for partitioners
    checks_partitions: bool = False  # that partitioners choose one that the topic has: the count is a cluster's
    store_type: StoreType = StoreType.LMDB  # where stores lie that do not say it
    cache_max_bytes: int = 0  # of the record cache of each slot; 0: there is none
    cache: CacheBytes | None = None  # that of this slot
    late_records_topic: str | None = (
        None  # where records go that are late for windows and joins; None: they are counted only
    )

    def with_cache(self) -> "TaskSettings":
        """For the tasks of one slot, which share it."""
        return replace(self, cache=CacheBytes(self.cache_max_bytes) if self.cache_max_bytes else None)

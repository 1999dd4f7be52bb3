"""The settings of one log, under the names that topics know them by. Immutable: a change makes a new one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.records.compression import CODEC_IDS

INT64_MAX: Final = (1 << 63) - 1
UNLIMITED: Final = -1
KEEP_PRODUCERS_CODEC: Final = -1


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 86_400_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = UNLIMITED
    max_message_bytes: int = 1_048_588
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    codec: int = KEEP_PRODUCERS_CODEC
    codec_level: int | None = None
    log_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = 86_400_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    min_in_sync_replicas: int = 1

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "LogConfig":
        """From typed values by topic config name; a name that is missing has Kafka's default."""
        fields = {field: values[name] for name, field in _NUMBERS.items() if values.get(name) is not None}
        policy = values.get("cleanup.policy", "delete")
        policies = {part.strip() for part in policy.split(",")} if isinstance(policy, str) else set(policy)
        codec = str(values.get("compression.type", "producer"))
        if codec == "uncompressed":
            codec = "none"
        if "compact" in policies and "max_compaction_lag_ms" in fields:  # only what is rolled can be compacted
            fields["segment_ms"] = min(fields.get("segment_ms", cls().segment_ms), fields["max_compaction_lag_ms"])
        return cls(
            **fields,
            cleanup_delete="delete" in policies,
            cleanup_compact="compact" in policies,
            codec=CODEC_IDS.get(codec, KEEP_PRODUCERS_CODEC),
            codec_level=values.get(f"compression.{codec}.level"),
            log_append_time=values.get("message.timestamp.type", "CreateTime") == "LogAppendTime",
        )


_NUMBERS: Final = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "max.message.bytes": "max_message_bytes",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "producer.id.expiration.ms": "producer_id_expiration_ms",
    "delete.retention.ms": "delete_retention_ms",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
    "min.insync.replicas": "min_in_sync_replicas",
}

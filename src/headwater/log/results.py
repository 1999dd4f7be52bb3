"""What a log answers. Plain classes with slots: one is made per append, on the hot path."""

from typing import NamedTuple


class AppendResult:
    """Where a batch stands now; `duplicate` if it has stood there before."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate", "last_offset", "log_start_offset")

    def __init__(
        self, base_offset: int, last_offset: int, append_time_ms: int, log_start_offset: int, duplicate: bool
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms  # -1 unless the topic has log-append time
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return f"AppendResult({self.base_offset}..{self.last_offset}, duplicate={self.duplicate})"


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int

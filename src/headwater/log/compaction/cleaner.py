"""Runs the compactions of a broker: chooses the dirtiest log, sends the work to a worker process, swaps the result in.

The loop only plans and renames. One log is cleaned by one worker at a time, `log.cleaner.threads` logs at once. The
offset up to which a log is clean is written down (`cleaner-offset-checkpoint`, as Kafka has it) after the new names are
on the device. A log that cannot be cleaned is left alone for a while, and counted. Results of a log that has changed
meanwhile (truncated, deleted) are dropped; names that were swapped in before are on the device before the log is
cleaned again, as after a cleaning that is complete.

Only what lies below the recovery point that the device has is cleaned. So whatever is missing past it after a crash was
lost, and not left out by us: recovery need not guess.

Owned by the loop, through the manager of the logs.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.base.ids import TopicPartition
from headwater.base.ports import NO_DESCRIPTORS, SyncDirectory
from headwater.log.compaction.decisions import Dirtiness
from headwater.log.compaction.job import Cleaned, CleanedSegment, CleaningJob, Pace, no_pace, remove_cleaned
from headwater.log.compaction.planning import cleanable_to, is_due_for, job_for, state_of
from headwater.log.compaction.swapping import NoRoomError, is_unchanged, swap_in

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.manager import LogManager

RETRY_MS: Final = 600_000
CHECKPOINT_MS: Final = 1_000  # more than one takes to be on the device
SPARE_BYTES: Final = 64 << 20  # of the disk, which a cleaning leaves to others

logger = logging.getLogger("headwater.log")


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The broker settings `log.cleaner.*`."""

    enabled: bool = True
    threads: int = 1
    backoff_ms: int = 15_000
    map_bytes: int = 128 << 20
    pace: Pace = no_pace


@dataclass(slots=True)
class CleanerCounts:
    """For metrics."""

    cleanings: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0


class Cleaner:
    def __init__(self, manager: "LogManager", settings: Callable[[], CleanerSettings] = CleanerSettings) -> None:
        self._manager = manager
        self.settings = settings
        self.clean_to: dict[TopicPartition, int] = {}
        self.counts = CleanerCounts()
        self._busy: dict[str, Log] = {}  # by directory: a worker is in it
        self._void: set[str] = set()  # of these, the directories of logs that were truncated since
        self._left_alone: dict[TopicPartition, int] = {}  # until when, by the monotonic clock
        self._rests_until_ms = 0
        self._awaits_checkpoint = False  # there is more to clean as soon as it is on the device

    # What is dirty

    def dirtiness(self, log: "Log", now_ms: int) -> Dirtiness:
        """Of one log, for whoever wants to show it."""
        upper_offset = cleanable_to(log, self._manager.high_watermark_of(log))
        return state_of(log, self.clean_to.get(log.partition), upper_offset, now_ms)

    def _may_clean_to(self, log: "Log") -> int:
        upper_offset = cleanable_to(log, self._manager.high_watermark_of(log))
        synced = self._manager.synced_recovery_point(log.partition)
        self._awaits_checkpoint |= synced < upper_offset
        return min(upper_offset, synced)

    @property
    def busy_count(self) -> int:
        return len(self._busy)

    def is_busy(self, log: "Log") -> bool:
        """A worker is in it, or its result waits to be swapped in."""
        return log.directory in self._busy

    @property
    def uncleanable_count(self) -> int:
        return len(self._left_alone)

    # Running

    def tick(self, now_ms: int, monotonic_ms: int) -> None:
        """Starts what is due, if a worker is free."""
        settings = self.settings()
        if not settings.enabled or monotonic_ms < self._rests_until_ms:
            return
        for partition in [each for each, until_ms in self._left_alone.items() if until_ms <= monotonic_ms]:
            del self._left_alone[partition]
        while len(self._busy) < settings.threads:
            log = self._dirtiest(now_ms, monotonic_ms)
            if log is None:
                rest_ms = min(settings.backoff_ms, CHECKPOINT_MS) if self._awaits_checkpoint else settings.backoff_ms
                self._rests_until_ms = monotonic_ms + rest_ms
                return
            try:
                self._start(log, now_ms, monotonic_ms, settings)
            except OSError as error:
                self._leave_alone(log, monotonic_ms, repr(error))

    def _dirtiest(self, now_ms: int, monotonic_ms: int) -> "Log | None":
        best: Log | None = None
        best_ratio = -1.0
        self._awaits_checkpoint = False
        for log in self._manager.logs.values():
            if (
                not log.config.cleanup_compact
                or log.failed is not None
                or log.directory in self._busy
                or log.partition in self._left_alone
                or log.partition in self._manager.moves.under_way
            ):
                continue
            if log.recovery_point < log.active.base_offset and not log.flusher.under_way:
                log.flush()  # a killed process has left it so; what is not on the device is not cleaned
            try:
                state = state_of(log, self.clean_to.get(log.partition), self._may_clean_to(log), now_ms)
            except OSError as error:
                self._leave_alone(log, monotonic_ms, repr(error))
                continue
            if state.ratio > best_ratio and is_due_for(log, state, now_ms):
                best, best_ratio = log, state.ratio
        if self._awaits_checkpoint:
            self._manager.write_checkpoints()
        return best

    def _start(self, log: "Log", now_ms: int, monotonic_ms: int, settings: CleanerSettings) -> None:
        clean_to, upper_offset = self.clean_to.get(log.partition), self._may_clean_to(log)
        job = job_for(log, clean_to, upper_offset, now_ms, settings.map_bytes, settings.pace)
        needed_bytes = sum(segment.size_bytes for segment in job.segments) + SPARE_BYTES
        usable_bytes = log.context.disk.usage(log.directory)[1]
        if usable_bytes < needed_bytes:
            reason = f"it may take {needed_bytes} bytes of disk, and {usable_bytes} are free"
            self._leave_alone(log, monotonic_ms, reason)
            return
        from headwater.log.compaction.cleaning import clean  # not at the start of a broker

        self._busy[log.directory] = log
        log.context.scheduler.compute(clean, log.context.disk, job, done=partial(self._cleaned, log, job, monotonic_ms))

    def _cleaned(
        self, log: "Log", job: CleaningJob, monotonic_ms: int, result: Any, error: BaseException | None
    ) -> None:
        """The worker is done: its files wait to be swapped in."""
        if error is not None:
            self._release(log)
            if self._is_there(log):
                self._leave_alone(log, monotonic_ms, repr(error))
            return
        assert isinstance(result, Cleaned)
        self._swap(log, job, monotonic_ms, result, list(result.segments))

    def _is_there(self, log: "Log") -> bool:
        return self._manager.logs.get(log.partition) is log and log.failed is None

    def _swap(
        self, log: "Log", job: CleaningJob, monotonic_ms: int, result: Cleaned, left: list[CleanedSegment]
    ) -> None:
        """One group in a turn of the loop, so that requests go on in between."""
        facts = {segment.base_offset: segment for segment in job.segments}
        is_void = not self._is_there(log) or log.directory in self._void
        drop = partial(self._drop, log, left, is_begun=len(left) < len(result.segments))
        if left and (is_void or not is_unchanged(log, facts, left[0])):
            logger.info("event=compaction-dropped partition=%s reason='the log has changed'", log.partition)
            drop()
        elif left:
            try:
                swap_in(log, left[0])
                del left[0]
            except NoRoomError as error:
                drop()
                self._leave_alone(log, monotonic_ms, str(error))
                return
            except OSError as error:
                del left[0]
                log.fail(error)
                drop()
                return
            log.context.scheduler.call_soon(partial(self._swap, log, job, monotonic_ms, result, left))
        else:
            log.context.disk.submit(SyncDirectory(log.directory), partial(self._finished, log, result))

    def _release(self, log: "Log") -> bool:
        """Nobody is at it any more, and the next may be looked for. Whether it was truncated meanwhile."""
        del self._busy[log.directory]
        self._rests_until_ms = 0
        is_void = log.directory in self._void
        self._void.discard(log.directory)
        return is_void

    def _drop(self, log: "Log", left: list[CleanedSegment], *, is_begun: bool) -> None:
        """Of what the worker made, this much is not needed. `is_begun`: other groups were swapped in before."""
        try:
            remove_cleaned(log.context.disk, log.directory, [segment.base_offset for segment in left])
        except OSError as error:  # the directory went with its topic
            logger.info("event=files-not-removed directory=%s error=%r", log.directory, str(error))
        if is_begun and self._is_there(log):
            log.context.disk.submit(SyncDirectory(log.directory), partial(self._finished, log, None))
        else:
            self._release(log)

    def _finished(self, log: "Log", result: Cleaned | None, error: OSError | None) -> None:
        """The new names are on the device. Without a result, the rest of it was dropped: nothing more counts as clean
        then.
        """
        is_void = self._release(log)
        if error is not None and error.errno in NO_DESCRIPTORS:
            return  # the next flush syncs the directory; until then more counts as dirty than is
        if error is not None:
            log.fail(error)
            return
        if result is None:
            return
        counts = self.counts
        counts.cleanings += 1
        counts.bytes_read += result.bytes_read
        counts.bytes_written += result.bytes_written
        counts.records_read += result.records_read
        counts.records_kept += result.records_kept
        logger.info(
            "event=compacted partition=%s clean_to=%d bytes=%d->%d records=%d->%d keys=%d",
            log.partition, result.end_offset, result.bytes_read, result.bytes_written, result.records_read,
            result.records_kept, result.key_count,
        )  # fmt: skip
        if self._is_there(log) and not is_void and result.end_offset <= log.log_end_offset:
            self.clean_to[log.partition] = result.end_offset
            self._manager.checkpoint_cleaner(log)

    def _leave_alone(self, log: "Log", monotonic_ms: int, reason: str) -> None:
        self.counts.failures += 1
        self._left_alone[log.partition] = monotonic_ms + RETRY_MS
        logger.error("event=compaction-failed partition=%s reason=%r", log.partition, reason)

    # What else happens to logs

    def loaded(self, log: "Log", checkpoint: int | None) -> None:
        """What the last process wrote down, as far as the log still has it."""
        if checkpoint is not None:
            self.clean_to[log.partition] = min(checkpoint, log.log_end_offset)

    def truncated(self, log: "Log") -> None:
        """What comes in the place of what was cut may look the same, from outside."""
        if log.directory in self._busy:
            self._void.add(log.directory)
        clean_to = self.clean_to.get(log.partition)
        if clean_to is not None and clean_to > log.log_end_offset:
            self.clean_to[log.partition] = log.log_end_offset
            self._manager.checkpoint_cleaner(log)

    def deleted(self, partition: TopicPartition) -> None:
        self.clean_to.pop(partition, None)
        self._left_alone.pop(partition, None)

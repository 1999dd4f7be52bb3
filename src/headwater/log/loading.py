"""Makes a `Log` of a partition's directory.

After a clean shutdown (or after `recovery.recover` has put the directory in order) one listing of the directory and the
sizes of its `.log` files are enough: where the log ends is the recovery point of the checkpoint, and the producers'
state lies in the snapshot of that offset. No segment is read. Only where these do not fit together (a directory that
was copied, a checkpoint that is missing) are the last batches looked at.
"""

import logging

from headwater.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.base.ports import Disk
from headwater.log import names
from headwater.log.checkpoint import (
    CheckpointError,
    Epochs,
    format_partition_metadata,
    parse_epochs,
    parse_partition_metadata,
    read_if_present,
)
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.leader_epochs import LeaderEpochs
from headwater.log.log import Log
from headwater.log.producer_state import ProducerStates
from headwater.log.recovery import first_to_scan
from headwater.log.scan import headers_from
from headwater.log.segment import Segment
from headwater.log.truncation import load_producers, truncate_fully

logger = logging.getLogger("headwater.log")


def create_log(
    context: LogContext, partition: TopicPartition, topic_id: TopicId, directory: str, config: LogConfig
) -> Log:
    """A new log with one empty segment. Raises OSError."""
    disk = context.disk
    disk.make_directory(directory)
    disk.write_file(f"{directory}/{names.PARTITION_METADATA}", format_partition_metadata(topic_id), durable=False)
    segment = Segment.create(disk, context.handles, directory, 0, config.index_interval_bytes)
    log = Log(
        context,
        partition,
        topic_id,
        directory,
        config,
        segments=[segment],
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        epochs=LeaderEpochs(disk, f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}", []),
        producers=ProducerStates(),
        snapshot_offsets=[],
    )
    log.flusher.is_new = log.flusher.directory_dirty = True
    return log


def load_log(
    context: LogContext,
    partition: TopicPartition,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    log_end_offset: int | None = None,
    epochs: Epochs | None = None,
) -> Log:
    """The log in `directory`, which is in order. `log_end_offset` is given where recovery has found it, `epochs` where
    it could not write them down.
    """
    disk = context.disk
    found = disk.list_directory(directory)
    entries = names.own_files(found)
    segments = [
        Segment(
            disk,
            context.handles,
            directory,
            names.offset_of(name),
            disk.file_size(f"{directory}/{name}"),
            config.index_interval_bytes,
        )
        for name in entries
        if name.endswith(names.LOG)
    ]
    if not segments:
        segments = [Segment.create(disk, context.handles, directory, log_start_offset, config.index_interval_bytes)]
    for name in entries:
        if names.is_leftover(name):
            disk.remove(f"{directory}/{name}")
    recovered = log_end_offset is not None
    if log_end_offset is None:
        log_end_offset = _end_offset(segments[-1], recovery_point)
    log = Log(
        context,
        partition,
        _topic_id(disk, directory, entries),
        directory,
        config,
        segments=segments,
        log_start_offset=max(log_start_offset, segments[0].base_offset),
        log_end_offset=log_end_offset,
        recovery_point=min(recovery_point, log_end_offset),
        epochs=_leader_epochs(disk, directory, entries, epochs),
        producers=ProducerStates(),
        snapshot_offsets=_snapshots(disk, directory, entries, {segment.base_offset for segment in segments}),
    )
    if (
        recovered
    ):  # what recovery wrote is not on the device yet; nor, perhaps, is what the last process made just before
        log.flusher.is_new = log.flusher.directory_dirty = log.epochs.dirty = True
        for segment in log.segments[first_to_scan(log.base_offsets, log.recovery_point) :]:
            segment.indexes_dirty = True
            segment.beginning_synced = segment.base_offset < log.recovery_point
    if log.log_start_offset > log_end_offset:
        truncate_fully(log, log.log_start_offset)
    else:
        log.producers = load_producers(log, log_end_offset)
    # Where something was lost below the recovery point, that must not lie past what comes next.
    log.owes_truncation = log.epochs.is_unwritten or log_end_offset < recovery_point
    _tell_of_foreign_files(directory, found)
    return log


def _tell_of_foreign_files(directory: str, found: list[str]) -> None:
    """Apache Kafka does not start over a file like `notes.log`, and removes one like `notes.deleted`. Here they just
    lie there.
    """
    for name in filter(names.is_foreign, found):
        logger.warning(
            "event=file-ignored path=%r reason='it is not named like a file of a log, and is left alone'",
            f"{directory}/{name}",
        )


def _end_offset(active: Segment, recovery_point: int) -> int:
    """Cleanly closed, so the recovery point is the end, if it lies in the last segment at all."""
    if not active.size_bytes:
        return active.base_offset
    if recovery_point > active.base_offset:
        return recovery_point
    end_offset = active.base_offset
    for _, header in headers_from(active.open_file(), active.offset_index.last_position(), active.size_bytes):
        end_offset = header.last_offset + 1
    return end_offset


def _snapshots(disk: Disk, directory: str, entries: list[str], bases: set[int]) -> list[int]:
    """Those at a segment's beginning and the last one; others were left by earlier shutdowns and serve nobody."""
    found = [names.offset_of(name) for name in entries if name.endswith(names.SNAPSHOT)]
    kept = [offset for offset in found if offset in bases or offset == found[-1]]
    for offset in set(found) - set(kept):
        disk.remove(f"{directory}/{names.snapshot_name(offset)}")
    return kept


def _topic_id(disk: Disk, directory: str, entries: list[str]) -> TopicId:
    if names.PARTITION_METADATA in entries:
        path = f"{directory}/{names.PARTITION_METADATA}"
        try:
            return parse_partition_metadata(disk.read_file(path))
        except CheckpointError as error:
            logger.warning("event=file-unusable path=%s reason=%r", path, str(error))
    return NO_TOPIC_ID


def _leader_epochs(disk: Disk, directory: str, entries: list[str], unwritten: Epochs | None) -> LeaderEpochs:
    path = f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}"
    epochs = LeaderEpochs(disk, path, _epochs(disk, directory, entries) if unwritten is None else unwritten)
    epochs.is_unwritten = unwritten is not None
    return epochs


def _epochs(disk: Disk, directory: str, entries: list[str]) -> Epochs:
    if names.LEADER_EPOCH_CHECKPOINT in entries:
        path = f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}"
        try:
            return parse_epochs(read_if_present(disk, path) or b"")
        except CheckpointError as error:
            logger.warning("event=file-unusable path=%s reason=%r", path, str(error))
    return []

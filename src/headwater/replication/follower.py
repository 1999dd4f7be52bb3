"""What a follower does with what its leader says: appends, cuts back where the logs differ, begins again where the
leader begins.

Truncation goes by leader epochs. The leader names the last epoch at or below ours that it knows, and where that ended;
what we have past that offset, or past our own end of that epoch, the leader never had.

A leader that has deleted all that was written under our epoch cannot tell. All that we have is deleted there, but what
it says of producers lives on, and some of it may be of records that were never committed: a batch of theirs that is
sent again would be taken for a duplicate. So what this leader has not agreed to before, and what is above the high
watermark, goes.
"""

import logging
from typing import Final

from headwater.records.reader import header_at
from headwater.replication.partition import Partition

logger = logging.getLogger("headwater.replication")

NO_EPOCH: Final = -1


def append_fetched(partition: Partition, records: memoryview, leader_start_offset: int, now_ms: int) -> None:
    """Whole batches that go on from the log's end. Raises KafkaError."""
    log = partition.log
    if log.log_end_offset <= max(log.log_start_offset, leader_start_offset):
        _begin_with_first_batch(partition, records)
    log.append_as_follower(records, partition.leader_epoch, now_ms)


def _begin_with_first_batch(partition: Partition, records: memoryview) -> None:
    """The leader's log may begin inside a batch, of which it gives the whole. What we have lies before that, if we have
    anything: it is deleted, and may even be of another history, since a leader does not know how epochs ended of which
    it has deleted everything.
    """
    log = partition.log
    header = header_at(records, 0)
    if header is not None and header.base_offset < log.log_end_offset <= header.last_offset:
        try:
            log.truncate_fully(header.base_offset)
        except OSError as error:
            log.fail(error)  # nothing of it may be left
            raise log.storage_error(error) from error


def follow_offsets(partition: Partition, high_watermark: int, log_start_offset: int) -> None:
    """The leader's high watermark and start, as far as this replica has the records. It has found no difference.
    Raises KafkaError.
    """
    partition.agreed_offset = partition.log.log_end_offset
    partition.follow_high_watermark(high_watermark)
    log = partition.log
    if log.log_start_offset < log_start_offset <= partition.high_watermark:
        log.delete_records_before(log_start_offset)


def truncate_to_agree(partition: Partition, leader_epoch: int, end_offset: int) -> None:
    """`leader_epoch` is the last at or below ours that the leader knows, `end_offset` where it ended there; NO_EPOCH if
    it has nothing left to compare with. Raises OSError.
    """
    log = partition.log
    if leader_epoch == NO_EPOCH:
        target = min(max(partition.high_watermark, partition.agreed_offset), log.log_end_offset)
    else:
        own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
        target = end_offset if own_epoch == NO_EPOCH else min(end_offset, own_end)
    logger.info(
        "event=diverged partition=%s leader_epoch=%d end_offset=%d truncated_to=%d log_end_offset=%d high_watermark=%d",
        log.partition, leader_epoch, end_offset, target, log.log_end_offset, partition.high_watermark,
    )  # fmt: skip
    if target < log.log_end_offset or leader_epoch != NO_EPOCH:
        log.truncate_to(target)
        _after_truncation(partition)
    if leader_epoch == NO_EPOCH:
        partition.agreed_offset = partition.incomparable_offset = log.log_end_offset


def begin_again(partition: Partition, offset: int) -> None:
    """The leader has nothing left of what would come next here. Raises KafkaError, OSError."""
    partition.log.truncate_fully(offset)
    _after_truncation(partition)


def _after_truncation(partition: Partition) -> None:
    log = partition.log
    partition.high_watermark = max(min(partition.high_watermark, log.log_end_offset), log.log_start_offset)
    partition.agreed_offset = min(partition.agreed_offset, log.log_end_offset)


def next_fetch(partition: Partition) -> tuple[int, int]:
    """(where to go on, the epoch of what stands before it, which the leader compares)."""
    log = partition.log
    return log.log_end_offset, NO_EPOCH if log.log_end_offset == partition.incomparable_offset else log.latest_epoch

"""What a follower does with what its leader says: appends, cuts back where the logs differ, begins again where the
leader begins.

Truncation goes by leader epochs alone. The leader names the last epoch at or below ours that it knows, and where that
ended; what we have past that offset, or past our own end of that epoch, the leader never had.

A leader that has deleted all that was written under our epoch and before cannot tell. So all of it goes here as well:
the records are deleted anyway, but what they tell of producers would live on, and some of them may never have been
committed. A batch of theirs that is sent again would be taken for a duplicate.
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
    """The leader's high watermark and start, as far as this replica has the records. Raises KafkaError."""
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
        logger.info("event=incomparable partition=%s log_end_offset=%d", log.partition, log.log_end_offset)
        begin_again(partition, log.log_end_offset)
        return
    own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
    target = end_offset if own_epoch == NO_EPOCH else min(end_offset, own_end)
    logger.info(
        "event=diverged partition=%s leader_epoch=%d end_offset=%d truncated_to=%d log_end_offset=%d high_watermark=%d",
        log.partition, leader_epoch, end_offset, target, log.log_end_offset, partition.high_watermark,
    )  # fmt: skip
    log.truncate_to(target)
    _after_truncation(partition)


def begin_again(partition: Partition, offset: int) -> None:
    """The leader has nothing left of what would come next here. Raises KafkaError, OSError."""
    partition.log.truncate_fully(offset)
    _after_truncation(partition)


def _after_truncation(partition: Partition) -> None:
    log = partition.log
    partition.high_watermark = max(min(partition.high_watermark, log.log_end_offset), log.log_start_offset)


def next_fetch(partition: Partition) -> tuple[int, int]:
    """(where to go on, the epoch of what stands before it)."""
    log = partition.log
    return log.log_end_offset, log.latest_epoch

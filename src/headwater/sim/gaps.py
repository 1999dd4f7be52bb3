"""A wide gap in a log that is led: as if compaction had left nothing of so many offsets before the record that comes
next.
"""

from headwater.base.errors import KafkaError
from headwater.log.rolling import cross_gap
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.partition import Partition


def go_on_further(partition: Partition, width: int, value: bytes, now_ms: int) -> None:
    """Puts a record with that value so far behind the leader's end. Raises OSError and KafkaError; the log is what it
    was then, unless it has failed.
    """
    log = partition.log
    end_offset = log.log_end_offset
    try:
        cross_gap(log, end_offset + width, now_ms)
        partition.append(memoryview(build_batch([Record(0, now_ms, None, value)])), now_ms)
    except (OSError, KafkaError):
        if log.failed is None:  # as a follower does, who comes to a gap with the batch behind it
            log.truncate_to(end_offset)
            log.begin_term(partition.leader_epoch)  # which went with that, where nothing was written under it
        raise

"""Control batches: markers that a coordinator writes among the records. Consumers skip them.

    key    int16 version = 0, int16 type (0 abort, 1 commit; the rest belongs to KRaft)
    value  int16 version = 0, int32 coordinator epoch

A marker is alone in its batch, which is a control and transactional one and carries the producer's id and epoch.
"""

from struct import Struct
from typing import Final, NamedTuple

from headwater.records.builder import build_batch
from headwater.records.record import Record, corrupt

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class EndTransactionMarker(NamedTuple):
    committed: bool
    coordinator_epoch: int


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends `producer_id`'s transaction on one partition."""
    key = _KEY.pack(0, COMMIT if marker.committed else ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type(record: Record) -> int:
    """The type of a record of a control batch."""
    if record.key is None or len(record.key) < _KEY.size:
        raise corrupt("a control record without a version and a type in its key")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise corrupt(f"a control record of version {version}")
    return int(kind)


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a record of a control batch; None for one of another type. A later version may add fields."""
    kind = control_type(record)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise corrupt("an end-of-transaction marker without its coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise corrupt(f"an end-of-transaction marker of version {version}")
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)

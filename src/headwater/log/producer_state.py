"""What a log knows of its producers: enough to refuse duplicates, gaps and fenced epochs, and to tell open
transactions.

Per producer id: its epoch, and its last five batches with their sequences and offsets. A batch that follows on is
accepted, one of the last five is answered with its old offset, anything else is out of order. A producer that is not
known (never was, or expired) may begin with any sequence: Kafka has answered no UNKNOWN_PRODUCER_ID since 2.4.

Saved as `<offset>.snapshot`, the state after all records before that offset:

    int16 version = 1;  uint32 CRC-32C of all that follows;  int32 count;  then 46 bytes for each producer, big endian:
    int64 producer id;  int16 epoch;  int32 last sequence;  int64 last offset;  int32 last offset - first offset of the
    last batch;  int64 timestamp;  int32 coordinator epoch;  int64 first offset of the open transaction, or -1

Owned by its log. Followers build it too, from what they are sent.
"""

from collections import deque
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from headwater.base import checksum as _crc32c
from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.transaction_index import AbortedTransaction
from headwater.records.control import EndTransactionMarker

BATCHES_KEPT: Final = 5
SEQUENCES: Final = 1 << 31  # after the last one comes 0 again
NONE: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1

_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1
_CRC_COVERS_FROM: Final = 6


class SnapshotError(Exception):
    """A snapshot that cannot be used; the state must come from an older one and the log."""


class ProducedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Verification(NamedTuple):
    """A transaction that somebody is asking the coordinator about, to begin it on this partition."""

    guard: int  # what the append must show: a marker in between makes it void
    epoch: int
    lowest_sequence: int  # the first batch of the transaction cannot come behind one that was seen already
    epoch_bump: bool  # a client of transaction version 2


class Producer:
    """One producer id. `next_sequence` is there for the append path: the sequence that follows on."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "has_forgotten",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = NONE
        self.last_timestamp = NONE
        self.transaction_first_offset = NONE
        self.next_sequence = 0
        self.has_forgotten = False  # earlier batches than those here: it comes from a snapshot
        self.batches: deque[tuple[int, int, int, int, int]] = deque(maxlen=BATCHES_KEPT)

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def last_batch(self) -> ProducedBatch | None:
        return ProducedBatch._make(self.batches[-1]) if self.batches else None

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch[0] == first_sequence and batch[1] == last_sequence:
                    return ProducedBatch._make(batch)
        return None

    def expected_sequence(self, epoch: int) -> int:
        return self.next_sequence if epoch == self.epoch else 0

    def check(self, epoch: int, first_sequence: int | None, transactional: bool) -> None:
        """Raises what a sender must be told about a batch that does not follow on.

        A coordinator's own writes have no sequence (None); only their epoch is checked.
        """
        if epoch < self.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {self.producer_id} has epoch {epoch}, and {self.epoch} has been seen",
            )
        expected = self.expected_sequence(epoch)
        if first_sequence is not None and first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {self.producer_id} sent sequence {first_sequence}, and {expected} follows",
            )
        if self.transaction_first_offset >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {self.producer_id} has an open transaction and wrote outside it"
            )

    def check_marker(self, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raises if a later epoch of the producer or of its coordinator has been seen.

        From transaction version 2 on a marker's epoch is later than its transaction's. One with the present epoch is a
        repetition if nothing is open, and otherwise it is about an earlier transaction.
        """
        is_repetition = epoch == self.epoch and (self.transaction_first_offset < 0 or epoch == EPOCH_MAX)
        if epoch < self.epoch or (transaction_version >= 2 and epoch == self.epoch and not is_repetition):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for producer {self.producer_id} with epoch {epoch}, and {self.epoch} has been seen",
            )
        if coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {coordinator_epoch}, and {self.coordinator_epoch} has been seen",
            )


def last_sequence_of(first_sequence: int, last_offset_delta: int) -> int:
    return (first_sequence + last_offset_delta) % SEQUENCES


class ProducerStates:
    __slots__ = ("_guard", "ended", "ongoing", "producers", "verifying")

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id, in offset order
        self.ended: dict[int, int] = {}  # first offset -> offset of the marker, until that is below the high watermark
        self.verifying: dict[int, Verification] = {}  # by producer id; in memory only
        self._guard = 0

    def append(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """Takes note of a batch that is in the log now, whatever its numbers: it was checked by whoever led then."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(producer_id, epoch)
        producer.set_epoch(epoch)
        self.note_batch(producer, first_sequence, first_offset, last_offset, timestamp, transactional)

    def note_batch(
        self,
        producer: Producer,
        first_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """The same for a batch of the producer's present epoch. Also in C (`server/native/append.c`), of which this is
        the oracle.
        """
        if first_sequence >= 0:  # a coordinator's own transactional writes have none
            last_sequence = (first_sequence + last_offset - first_offset) % SEQUENCES
            producer.batches.append((first_sequence, last_sequence, first_offset, last_offset, timestamp))
            producer.next_sequence = (last_sequence + 1) % SEQUENCES
        producer.last_timestamp = timestamp
        if transactional and producer.transaction_first_offset < 0:
            self.begin_transaction(producer, first_offset)

    def begin_transaction(self, producer: Producer, first_offset: int) -> None:
        producer.transaction_first_offset = first_offset
        self.ongoing[first_offset] = producer.producer_id
        self.verifying.pop(producer.producer_id, None)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this epoch's transaction has begun here. Raises INVALID_PRODUCER_EPOCH if a later epoch has been
        seen.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            return False
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, and {producer.epoch} has been seen",
            )
        return producer.transaction_first_offset >= 0 and producer.epoch == epoch

    def has_earlier_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of an earlier epoch is open here still: its marker is on its way."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.transaction_first_offset >= 0 and producer.epoch < epoch

    def begin_verification(self, producer_id: int, epoch: int, first_sequence: int, epoch_bump: bool) -> int:
        """A guard (never 0) for the append. Who asks again about the same transaction gets the same one."""
        found = self.verifying.get(producer_id)
        if found is not None and found.epoch == epoch:
            guard, first_sequence = found.guard, min(first_sequence, found.lowest_sequence)
        else:
            self._guard = guard = self._guard + 1
        self.verifying[producer_id] = Verification(guard, epoch, first_sequence, epoch_bump)
        return guard

    def may_write_in_transaction(self, producer: Producer, first_sequence: int, guard: int) -> bool:
        """Whether a transactional batch of a producer that is known here is certainly fine; `check_verification` says
        why not.
        """
        if producer.transaction_first_offset >= 0:
            return guard != 0
        found = self.verifying.get(producer.producer_id)
        return found is not None and guard == found.guard and first_sequence <= found.lowest_sequence

    def check_verification(self, producer_id: int, epoch: int, first_sequence: int, guard: int) -> None:
        """Raises if a batch may not begin a transaction here."""
        if self.has_open_transaction(producer_id, epoch):
            return
        found = self.verifying.get(producer_id)
        if found is None or found.guard != guard:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        is_unknown = producer_id not in self.producers
        if first_sequence > found.lowest_sequence or (found.epoch_bump and is_unknown and first_sequence > 0):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins a transaction with sequence {first_sequence}",
            )

    def end_transaction(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> AbortedTransaction | None:
        """Takes note of a marker; what the transaction index must be told, if it aborts something."""
        self.verifying.pop(producer_id, None)
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(producer_id, epoch)
        producer.set_epoch(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = NONE
        self.ongoing.pop(first_offset, None)
        self.ended[first_offset] = offset
        if marker.committed:
            return None
        last_stable_offset = next(iter(self.ongoing), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, last_stable_offset)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not below the high watermark."""
        ended = self.ended
        if ended:
            for first_offset in [first for first, marker in ended.items() if marker < high_watermark]:
                del ended[first_offset]
        undecided = next(iter(self.ongoing), None)
        if not ended:
            return undecided
        return min(ended) if undecided is None else min(undecided, *ended)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that have been quiet for long, except those with a transaction open."""
        producers = self.producers
        for producer in [
            producer
            for producer in producers.values()
            if producer.transaction_first_offset < 0 and now_ms - producer.last_timestamp >= expiration_ms
        ]:
            del producers[producer.producer_id]

    def to_snapshot(self) -> bytes:
        body = bytearray(len(self.producers).to_bytes(4, "big"))
        for producer in self.producers.values():
            last = producer.last_batch() or ProducedBatch(NONE, NONE, NONE, NONE, NONE)
            body += _SNAPSHOT_ENTRY.pack(
                producer.producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.first_offset,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )
        crc = int(_crc32c.crc32c(body))
        return _SNAPSHOT_VERSION.to_bytes(2, "big") + crc.to_bytes(4, "big") + bytes(body)

    @classmethod
    def from_snapshot(cls, data: bytes) -> "ProducerStates":
        try:
            version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        except struct_error:
            raise SnapshotError("it is too short") from None
        if version != _SNAPSHOT_VERSION:
            raise SnapshotError(f"version {version} is unknown")
        if int(_crc32c.crc32c(memoryview(data)[_CRC_COVERS_FROM:])) != crc:
            raise SnapshotError("its CRC is wrong")
        if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise SnapshotError(f"{len(data)} bytes do not hold {count} producers")
        states = cls()
        for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :]):
            states._load(*fields)
        states.ongoing = dict(sorted(states.ongoing.items()))
        return states

    def _load(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_first_offset: int,
    ) -> None:
        producer = self.producers[producer_id] = Producer(producer_id, epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        if last_offset >= 0 and last_sequence >= 0:
            first_sequence = (last_sequence - offset_delta) % SEQUENCES
            producer.batches.append((first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp))
            producer.next_sequence = (last_sequence + 1) % SEQUENCES
            producer.has_forgotten = True
        if transaction_first_offset >= 0:
            producer.transaction_first_offset = transaction_first_offset
            self.ongoing[transaction_first_offset] = producer_id

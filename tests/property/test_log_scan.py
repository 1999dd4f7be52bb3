"""The scan of a segment after a crash, whatever the crash has left: the compiled scanner and its twin say the same,
piece by piece, and what recovery makes of the few batches that it is told of is what it would make of all of them.

No deadlines: they run under sanitizers too.
"""

from random import Random
from struct import Struct
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import KafkaError
from headwater.log import scan
from headwater.log.appending import note_producer
from headwater.log.producer_state import ProducerStates
from headwater.records import codec, pure
from headwater.records.batch import BatchHeader, crc_of, read_header
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

compiled = pytest.importorskip("headwater.records._codec")

BASE_OFFSET = 1000
CRC = Struct(">I")
FIELDS = [
    (0, ">q"),
    (8, ">i"),
    (12, ">i"),
    (16, ">b"),
    (21, ">h"),
    (23, ">i"),
    (35, ">q"),
    (43, ">q"),
    (51, ">h"),
    (53, ">i"),
]
EXTREMES = [
    0,
    1,
    -1,
    2,
    49,
    48,
    0x7F,
    1 << 14,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 40),
    (1 << 63) - 1,
    (1 << 63) - 4,
    -(1 << 63),
]


class Segment(NamedTuple):
    data: bytes
    check_from_offset: int
    interval_bytes: int
    least_epoch: int
    piece_bytes: int


class Bytes:
    """A file that is only read."""

    path = "segment"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def pread(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


def batches(count: int, random: Random) -> list[bytearray]:
    """Mostly as a leader writes them: offsets follow on, some missing, epochs grow. Drawn by a seed, which is far
    faster.
    """
    made = []
    offset, epoch, producer_epoch, timestamp = BASE_OFFSET, 0, 0, 50
    producers = random.choice([[7], [7, 8], [-1, 7, 8], [7, 7, 7, 7 + 1024]])  # the last one gets in the way of 7
    rates = [random.choice([0, 0.02, 0.1, 0.5]) for _ in range(6)]  # of what is not everyday

    def happens(kind: int) -> bool:
        return random.random() < rates[kind]

    for _ in range(count):
        producer_id = random.choice(producers)
        producer_epoch += random.choice([1, -1]) if happens(0) else 0
        timestamp += random.choice([0, 0, 1, 5, -3])
        batch = build_batch(
            [Record(offset + at, timestamp, None, bytes(random.randrange(20))) for at in range(random.randint(1, 3))],
            base_offset=offset,
            partition_leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if happens(1) else offset,
            transactional=happens(2),
        )
        if happens(3):
            batch = build_end_transaction_marker(
                EndTransactionMarker(random.random() < 0.5, 3),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                timestamp=timestamp,
                base_offset=offset,
                partition_leader_epoch=epoch,
            )
        made.append(batch)
        offset = read_header(batch).last_offset + 1 + (random.randrange(5) if happens(4) else 0)
        epoch += random.choice([1] * 12 + [-1]) if happens(5) else 0
    return made


def damage_a_field(draw: Any, batch: bytearray) -> None:
    """One that the CRC covers is sealed anew now and then: what follows on the CRC must hold too."""
    at, layout = draw(st.sampled_from(FIELDS))
    field = Struct(layout)
    bits = field.size * 8
    number = draw(st.sampled_from(EXTREMES)) % (1 << bits)
    field.pack_into(batch, at, number - (1 << bits) if number >> (bits - 1) else number)
    if draw(st.booleans()):
        CRC.pack_into(batch, 17, crc_of(batch))


@st.composite
def segments(draw: Any) -> Segment:
    made = batches(draw(st.integers(0, 60)), Random(draw(st.integers(0, 1 << 32))))
    damage = draw(
        st.sampled_from(["none", "none", "cut", "bit", "zeroes", "noise", "field", "again", "missing", "old epoch"])
    )
    place = draw(st.integers(0, len(made) - 1)) if made else 0
    if made and damage == "field":
        damage_a_field(draw, made[place])
    elif made and damage == "again":
        made.insert(draw(st.integers(0, len(made))), made[place])
    elif made and damage == "missing":
        del made[place]
    elif made and damage == "old epoch":
        Struct(">i").pack_into(made[place], 12, draw(st.integers(-2, 2)))
    data = bytearray(b"".join(made))
    if damage == "cut":
        del data[draw(st.integers(0, len(data))) :]
    elif data and damage == "bit":
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif damage == "zeroes":
        data += bytes(draw(st.integers(1, 200)))
    elif damage == "noise":
        data += draw(st.binary(min_size=1, max_size=100))
    return Segment(
        bytes(data),
        draw(st.sampled_from([0, 0, BASE_OFFSET + 20, BASE_OFFSET + 50, 1 << 62])),
        draw(st.sampled_from([0, 100, 300, 4096])),
        draw(st.sampled_from([-1, -1, 0, 1])),
        draw(st.sampled_from([61, 70, 150, 400, 1000, 1 << 20])),
    )


def steps(module: ModuleType, segment: Segment) -> list[Any]:
    """Everything that a scanner says, fed with pieces of one size, or longer ones where it takes none of that."""
    scanner = module.BatchScanner(BASE_OFFSET, segment.check_from_offset, segment.interval_bytes, segment.least_epoch)
    said: list[Any] = []
    length = segment.piece_bytes
    try:
        while (left := len(segment.data) - scanner.valid_bytes) > 0:
            at = scanner.valid_bytes
            found = scanner.feed(segment.data[at : at + length], left)
            said += [found, scanner.valid_bytes, scanner.next_offset, scanner.latest_epoch]
            if found[0] or (scanner.valid_bytes == at and length >= left):
                break
            length = segment.piece_bytes if scanner.valid_bytes > at else length * 2
        said += [scanner.max_timestamp, scanner.max_timestamp_offset, scanner.finish()]
    except ValueError as error:
        said.append(str(error))
    return said


@given(segments())
@settings(max_examples=1000, deadline=None)
def test_both_scanners_say_the_same(segment: Segment) -> None:
    assert steps(compiled, segment) == steps(pure, segment)


@given(st.binary(max_size=300), st.integers(0, 400))
@settings(max_examples=300, deadline=None)
def test_noise_is_refused_alike(data: bytes, more: int) -> None:
    scanners = [module.BatchScanner(0, 0, 10, -1) for module in (compiled, pure)]
    assert scanners[0].feed(data, len(data) + more) == scanners[1].feed(data, len(data) + more)


class Collected:
    """What recovery collects from batches."""

    def __init__(self, least_epoch: int) -> None:
        self.states = ProducerStates()
        self.epochs = [(least_epoch, 0)]
        self.aborted: list[Any] = []

    def on_batch(self, header: BatchHeader, batch: memoryview | None) -> None:
        epoch = header.partition_leader_epoch
        if epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, header.base_offset))
        try:
            aborted = note_producer(self.states, header, batch)
        except KafkaError:
            return
        if aborted is not None:
            self.aborted.append(aborted)

    def everything(self) -> list[Any]:
        producers = [
            (
                each.producer_id,
                each.epoch,
                each.coordinator_epoch,
                each.last_timestamp,
                each.transaction_first_offset,
                each.next_sequence,
                list(each.batches),
            )
            for each in self.states.producers.values()
        ]
        return [producers, list(self.states.ongoing.items()), self.states.ended, self.epochs, self.aborted]


def walk_all(segment: Segment, collected: Collected) -> tuple[int, int, str | None]:
    """Batch by batch, and every one of them is looked at: (end of what is good, next offset, what is wrong there)."""
    data, at, offset, epoch = memoryview(segment.data), 0, BASE_OFFSET, segment.least_epoch
    while at < len(data):
        if len(data) - at < 61:
            return at, offset, f"{len(data) - at} bytes, too few for a batch"
        header = read_header(data, at)
        problem = scan.problem_of(header, offset, len(data) - at, BASE_OFFSET)
        if problem is not None:
            return at, offset, problem
        batch = data[at : at + header.size_bytes]
        is_checked = header.last_offset >= segment.check_from_offset
        if is_checked and header.partition_leader_epoch < epoch:
            return at, offset, f"leader epoch {header.partition_leader_epoch} after {epoch}"
        if (is_checked or header.is_control) and crc_of(batch) != header.crc:
            return at, offset, "a wrong CRC"
        epoch = max(epoch, header.partition_leader_epoch)
        collected.on_batch(header, batch if header.is_control else None)
        at += header.size_bytes
        offset = header.last_offset + 1
    return at, offset, None


@pytest.mark.parametrize("module", [compiled, pure], ids=["compiled", "pure"])
@given(segments())
@settings(max_examples=500, deadline=None)
def test_recovery_learns_as_much_as_from_every_batch(module: ModuleType, segment: Segment) -> None:
    told, all_of_them = Collected(segment.least_epoch), Collected(segment.least_epoch)
    with (
        mock.patch.object(codec, "BatchScanner", module.BatchScanner),
        mock.patch.object(scan, "_piece_bytes", return_value=segment.piece_bytes),
    ):
        try:
            found = scan.scan_segment(
                Bytes(segment.data),  # type: ignore[arg-type]
                BASE_OFFSET,
                segment.check_from_offset,
                segment.interval_bytes,
                told.on_batch,
                segment.least_epoch,
            )
        except ValueError:  # an offset that no index holds: the log stays offline
            return
    assert (found.valid_bytes, found.next_offset, found.problem) == walk_all(segment, all_of_them)
    assert told.everything() == all_of_them.everything()

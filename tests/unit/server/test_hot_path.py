"""The compiled hot path of Produce against the one in Python: the same answers, the same files, the same memory."""

import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.ids import LeaderEpoch, TopicId, TopicPartition
from headwater.broker.handlers import produce
from headwater.broker.rights.connection_rights import ConnectionRights
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.log.producer_state import Producer, ProducerStates
from headwater.log.segment import Segment
from headwater.records.batch import HEADER, crc_of, read_header
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.partition import Partition
from headwater.server import hot_path
from headwater.server.disk import OsDisk, OsFile
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimRandom, SimScheduler
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from unit.server.support.damage import damaged_at
from unit.server.support.pairs import pairs

NOW_MS = 1_700_000_000_000
TOPIC, TOPIC_ID = "orders", TopicId(bytes(range(16)))
VERSIONS = range(3, 14)

pytestmark = pytest.mark.skipif(not hot_path.COMPILED, reason="the hot path is not compiled")


class Side:
    """A partition in files, and one of the two ways into it. It is all that `handle_frame` wants to see of a broker."""

    def __init__(self, directory: Path, *, compiled: bool, **config: Any) -> None:
        self.passed_on = 0
        self.authorizer = None
        self.compiled = compiled
        self.woken: list[int] = []
        self.transactions = self  # and of its coordinators
        self.image, self.clock = SimpleNamespace(acl_generation=0), SimClock()
        self.disk = OsDisk(lambda _: None)
        context = LogContext(self.disk, SimScheduler(SimClock()), SimRandom(1))
        self.manager = LogManager(context, [str(directory)], lambda _: LogConfig(**config))
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)
        self.log = self.manager.create(TopicPartition(TOPIC, 0), TOPIC_ID)
        self.partition = Partition(TOPIC, TOPIC_ID, 0, self.log, LeaderEpoch(0))
        self.partitions_by_wire_name = {TOPIC.encode(): [self.partition]}
        self.partitions_by_topic_id = {TOPIC_ID: [self.partition]}

    def now_ms(self) -> int:
        return NOW_MS

    def is_verified(self, *_: object) -> bool:
        return False

    def on_progress(self, appended_bytes: int) -> None:
        self.woken.append(appended_bytes)

    def handle(self, frame: bytes, rights: ConnectionRights | None = None) -> bytes | None:
        """A frame behind its length prefix. Nothing may be read past its end."""
        _, version, correlation_id = struct.unpack_from(">hhi", frame)
        view = memoryview(bytearray(frame))
        way = hot_path.handle_frame if self.compiled else produce.handle_frame
        return way(rights or self, view, 8, len(frame), version, correlation_id)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        log, segment = self.log, self.log.active
        by_slot = {
            f"{type(each).__name__}.{name}": value
            for each in (log, segment, self.partition)
            for name in type(each).__slots__
            if isinstance(value := getattr(each, name), int | dict | list) and name not in _APART
        }
        return by_slot | {
            "data": [s.open_file().pread(0, s.size_bytes) for s in log.segments],
            "sizes": [s.open_file().size() for s in log.segments],
            "index": bytes(segment.offset_index.entries),
            "time index": bytes(segment.time_index.entries),
            "producers": log.producers.to_snapshot(),
            "batches": {key: (list(p.batches), p.next_sequence) for key, p in log.producers.producers.items()},
            "woken": self.woken,
        }


_APART = ("segments", "waiters", "produce_replies", "topic_id", "created_ms")  # objects, or made by each for itself

Pair = Callable[..., tuple[Side, Side]]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    def passed_on(broker: Any, *rest: Any) -> bytes | None:
        (broker.broker if type(broker) is ConnectionRights else broker).passed_on += 1
        return produce.handle_frame(broker, *rest)

    from headwater.server import _produce

    classes = (Partition, Log, Segment, ProducerStates, Producer, OsFile)
    _produce.configure(*classes, passed_on)
    yield from pairs(tmp_path, Side)
    _produce.configure(*classes, produce.handle_frame)


def batch(count: int = 1, size: int = 100, *, timestamp: int = NOW_MS, **fields: Any) -> bytearray:
    return build_batch([Record(at, timestamp, b"key", bytes(size)) for at in range(count)], **fields)


def frame(
    records: bytes,
    version: int = 9,
    *,
    acks: int = 1,
    index: int = 0,
    topic: str = TOPIC,
    transactional_id: str | None = None,
) -> bytes:
    data = PartitionProduceData(index=index, records=bytes(records))
    named = TopicProduceData(name=topic, topic_id=TOPIC_ID, partition_data=[data])
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[named])
    return encode_request_header(0, version, 77, "client") + b"".join(request.encode(version))


def both(sides: tuple[Side, Side], data: bytes) -> bytes | None:
    """The answer, which must be the same."""
    compiled, python = (side.handle(data) for side in sides)
    assert compiled == python
    return compiled


def assert_same(sides: tuple[Side, Side]) -> None:
    compiled, python = sides
    assert compiled.state() == python.state()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered_alike_and_without_python(pair: Pair, version: int) -> None:
    sides = pair()
    for acks in (1, -1, 0, 1):
        answer = both(sides, frame(batch(3), version, acks=acks))
        assert (answer == b"") == (acks == 0)
    assert_same(sides)
    assert sides[0].passed_on == 1, "the first opens the segment, and makes the answer that the others are like"
    assert sides[0].log.log_end_offset == 12


def test_thousands_of_batches_with_index_entries_and_segments(pair: Pair) -> None:
    sides = pair(segment_bytes=100_000, index_interval_bytes=1000)
    chance = random.Random(1)
    for each in range(1500):
        data = batch(chance.randint(1, 4), chance.randint(0, 400), timestamp=NOW_MS - chance.randint(0, 10_000))
        assert both(sides, frame(data, chance.choice(VERSIONS))) is not None, each
    assert_same(sides)
    assert len(sides[0].log.segments) > 3
    assert sides[0].passed_on < 50


def test_idempotent_producers(pair: Pair) -> None:
    sides = pair()
    sequence = (1 << 31) - 41  # so that one batch has the last number in its middle
    both(sides, frame(batch(1, producer_id=8, producer_epoch=0, base_sequence=sequence)))
    sequence += 1
    for each in range(60):  # around the end of the numbers
        count = each % 3 + 1
        data = frame(batch(count, producer_id=8, producer_epoch=0, base_sequence=sequence))
        assert both(sides, data) is not None
        if each % 7 == 0:
            assert both(sides, data) is not None, "a duplicate is answered"
        sequence = (sequence + count) % (1 << 31)
    for epoch, wrong in ((0, sequence + 1), (1, 5), (1, sequence), (0, sequence)):
        both(sides, frame(batch(1, producer_id=8, producer_epoch=epoch, base_sequence=wrong)))
    assert_same(sides)
    assert 0 < sides[0].passed_on < 30


def test_a_write_outside_an_open_transaction(pair: Pair) -> None:
    sides = pair()
    both(sides, frame(batch(1, producer_id=8, producer_epoch=0, base_sequence=0)))
    for side in sides:
        side.log.append_own(memoryview(batch(1, producer_id=8, producer_epoch=0, transactional=True)), 0, NOW_MS)
    assert both(sides, frame(batch(1, producer_id=8, producer_epoch=0, base_sequence=1))) is None
    assert_same(sides)


def transactional(count: int, sequence: int, **fields: Any) -> bytearray:
    named = {"producer_id": 8, "producer_epoch": 3, "base_sequence": sequence, "transactional": True, **fields}
    return batch(count, **named)


def begin_transaction(sides: tuple[Side, Side]) -> None:
    """With the first two records of producer 8, whose next sequence is 2."""
    for side in sides:
        guard = side.log.producers.begin_verification(8, 3, 0, False)
        side.partition.append(memoryview(transactional(2, 0)), NOW_MS, guard)


def test_rights_on_a_topic_are_none_on_a_transaction(pair: Pair) -> None:
    """The transactional id needs WRITE too, which only the general way asks for."""
    sides = pair()
    both(sides, frame(batch()))
    begin_transaction(sides)
    for side in sides:
        rights = ConnectionRights(side)
        rights.note_writable(TOPIC_ID)
        assert side.handle(frame(transactional(3, 2), transactional_id="id"), rights) is None
        assert side.handle(frame(batch()), rights) is not None
        assert side.log.log_end_offset == 4
        assert side.handle(frame(transactional(3, 2), transactional_id="id")) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_of_an_open_transaction_in_every_version_and_without_python(pair: Pair, version: int) -> None:
    sides = pair()
    both(sides, frame(batch(), version))
    begin_transaction(sides)
    for at, named in enumerate(("", "a", "id", "x" * 126)):
        data = frame(transactional(3, 2 + 3 * at), version, acks=-1 if at else 1, transactional_id=named)
        assert both(sides, data) is not None, named
    assert_same(sides)
    assert sides[0].passed_on == 1, "the one before the transaction"
    assert sides[0].log.log_end_offset == 15
    long = frame(transactional(1, 14), version, transactional_id="x" * 127)
    assert (both(sides, long) is None) == (version >= 9)
    assert both(sides, frame(transactional(3, 11), version, transactional_id="id")) is not None, "a duplicate"
    assert_same(sides)


def test_who_waits_for_more_than_a_transaction_wrote_is_told_all_the_same(pair: Pair) -> None:
    sides = pair()
    both(sides, frame(batch()))
    begin_transaction(sides)
    for side in sides:
        side.partition.waiters[side] = None
    both(sides, frame(transactional(1, 2), transactional_id="id"))
    assert_same(sides)
    assert sides[0].woken == [0]
    assert sides[0].passed_on == 1


@pytest.mark.parametrize("version", [8, 9])
def test_what_is_not_plainly_in_an_open_transaction(pair: Pair, version: int) -> None:
    sides = pair()
    both(sides, frame(batch(), version))
    assert both(sides, frame(transactional(1, 0), version, transactional_id="id")) is None, "none is open"
    begin_transaction(sides)
    before = sides[0].state()
    odd: list[tuple[bytearray, str | None, int]] = [
        (transactional(1, 2), None, 1),
        (transactional(1, 2), "id", 0),
        (transactional(1, 2, transactional=False), "id", 1),
        (transactional(1, 2, transactional=False), None, 1),
        (transactional(1, 3), "id", 1),
        (transactional(1, 2, producer_epoch=2), "id", 1),
        (transactional(1, 2, producer_epoch=4), "id", 1),
        (transactional(1, 2, producer_id=9), "id", 1),
        (transactional(1, -1, producer_id=-1, producer_epoch=-1), "id", 1),
        (batch(), "id", 1),
    ]
    for data, named, acks in odd:
        assert both(sides, frame(data, version, acks=acks, transactional_id=named)) is None
    assert sides[0].state() == sides[1].state() == before
    assert sides[0].passed_on == 2 + len(odd)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_damaged_frames_of_transactions(pair: Pair, version: int) -> None:
    sides = pair()
    both(sides, frame(batch(), version))
    begin_transaction(sides)
    sequence = 2
    chance = random.Random(version)
    for each in range(800):
        good = frame(transactional(1, sequence), version, transactional_id="id" * chance.choice((1, 9, 200)))
        if each == 0:
            for end in range(8, len(good)):
                both(sides, good[:end])
        both(sides, damaged_at(chance, good, chance.randrange(8, min(len(good), 120))))
        sequence = sides[0].log.producers.producers[8].next_sequence
    assert_same(sides)


def test_segments_roll_by_age(pair: Pair) -> None:
    sides = pair(segment_ms=5_000, timestamp_after_max_ms=1 << 40)
    for each in range(20):
        both(sides, frame(batch(timestamp=NOW_MS + each * 1000)))
    assert_same(sides)
    assert len(sides[0].log.segments) == 4


def test_who_waits_is_told(pair: Pair) -> None:
    sides = pair()
    for side in sides:
        side.partition.waiters[side] = None
    for _ in range(3):
        both(sides, frame(batch()))
    assert_same(sides)
    assert sides[0].woken == [len(batch())] * 3


def changed(**fields: int) -> bytearray:
    """A batch with other header fields, and a CRC that fits."""
    data = batch(2)
    header = read_header(data)._replace(**fields)
    HEADER.pack_into(data, 0, *header)
    if "crc" not in fields:
        HEADER.pack_into(data, 0, *header._replace(crc=crc_of(data)))
    return data


INT64 = ((1 << 63) - 1, -(1 << 63))
ODD = [
    *({"base_timestamp": at, "max_timestamp": to} for at in (*INT64, -1, NOW_MS) for to in (*INT64, -1, NOW_MS + 1)),
    *({"attributes": value} for value in (-1, 1, 4, 5, 7, 8, 16, 32, 64)),
    *({"record_count": value} for value in (0, 1, 3, -1, (1 << 31) - 1)),
    *({"last_offset_delta": value} for value in (0, -1, 2, (1 << 31) - 1)),
    {"last_offset_delta": -1, "record_count": 0},
    {"last_offset_delta": (1 << 31) - 2, "record_count": (1 << 31) - 1},
    *({"magic": value} for value in (0, 1, 3, -1)),
    *({"batch_length": value} for value in (0, -1, 49, 1 << 30)),
    {"crc": 1},
    {"producer_id": 5, "producer_epoch": -1, "base_sequence": 0},
    {"producer_id": -2},
    {"partition_leader_epoch": 9, "base_offset": 99},
]


@pytest.mark.parametrize("fields", ODD, ids=str)
def test_odd_batches(pair: Pair, fields: dict[str, int]) -> None:
    sides = pair()
    both(sides, frame(batch()))
    both(sides, frame(changed(**fields)))
    both(sides, frame(batch()))
    assert_same(sides)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_damaged_frames(pair: Pair, version: int) -> None:
    sides = pair()
    good = frame(batch(), version)
    both(sides, good)
    for end in range(8, len(good)):
        both(sides, good[:end])
    chance = random.Random(version)
    for _ in range(600):
        damaged = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randint(8, min(len(damaged), 120) - 1)
            damaged[at] = chance.choice((0, 1, 127, 128, 255, damaged[at] ^ 1 << chance.randint(0, 7)))
        both(sides, bytes(damaged))
    both(sides, frame(b"", version))
    both(sides, frame(batch(), version, index=1))
    both(sides, frame(batch(), version, index=-1))
    both(sides, frame(batch(), version, acks=2))
    if version < 13:
        both(sides, frame(batch(), version, topic="other"))
    assert_same(sides)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup_compact": True},
        {"log_append_time": True},
        {"codec": 3},
        {"max_message_bytes": 200},
        {"flush_messages": 2},
        {"timestamp_before_max_ms": 10, "timestamp_after_max_ms": 10},
    ],
    ids=str,
)
def test_settings_that_need_a_closer_look(pair: Pair, config: dict[str, Any]) -> None:
    sides = pair(**config)
    for timestamp in (NOW_MS, NOW_MS - 10, NOW_MS - 11, NOW_MS + 10, NOW_MS + 11):
        for size in (10, 100, 1000):
            both(sides, frame(batch(1, size, timestamp=timestamp)))
    assert_same(sides)


def test_what_is_not_simply_at_the_end_of_the_open_segment(pair: Pair) -> None:
    changes: list[Callable[[Side], None]] = [
        lambda side: side.partition.confirm(side.log.log_end_offset),  # another replica
        lambda side: side.partition.confirm((1 << 63) - 1),
        lambda side: setattr(side.partition, "leader_epoch", 1),
        lambda side: setattr(side.log.active, "last_offset_max", side.log.log_end_offset),
        lambda side: side.log.active.let_go(),
        lambda side: setattr(side.log.active, "limit_bytes", -1),
        lambda side: side.partition.produce_replies.clear(),
    ]
    sides = pair()
    for change in changes:
        for count in (1, 1, 2):
            both(sides, frame(batch(count)))
        for side in sides:
            change(side)
        for count in (2, 1):
            both(sides, frame(batch(count)))
        assert_same(sides)
    assert len(sides[0].log.segments) == 2


def test_a_failed_log_takes_nothing(pair: Pair) -> None:
    sides = pair()
    both(sides, frame(batch()))
    for side in sides:
        side.log.fail(OSError("gone"))
    assert both(sides, frame(batch())) is None
    assert_same(sides)


def test_what_is_tried_again_after_a_short_write_stands_alone(pair: Pair) -> None:
    compiled, python = sides = pair()
    both(sides, frame(batch()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def with_room(broker: Any, *rest: Any) -> bytes | None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return produce.handle_frame(broker, *rest)

    from headwater.server import _produce

    _produce.configure(Partition, Log, Segment, ProducerStates, Producer, OsFile, with_room)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (compiled.log.active.size_bytes + 50, hard))
        assert compiled.handle(frame(batch())) is not None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    python.handle(frame(batch()))
    assert_same(sides)


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_disk_that_takes_only_a_part_keeps_nothing_of_it(pair: Pair, room: int) -> None:
    sides = pair()
    for _ in range(3):
        both(sides, frame(batch()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sides[0].log.active.size_bytes + room, hard))
    try:
        assert both(sides, frame(batch())) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sides[0].log.failed is None
    assert_same(sides)
    assert both(sides, frame(batch())) is not None
    assert_same(sides)


def test_a_partition_that_goes_while_the_time_is_asked_for_is_not_written_to(pair: Pair) -> None:
    side, _ = pair()
    side.handle(frame(batch()))
    side.handle(frame(batch()))
    assert side.passed_on == 1

    def now_ms() -> int:
        side.partitions_by_wire_name.clear()
        side.log.on_flushed = None
        del side.partition  # the last reference
        return NOW_MS

    side.now_ms = now_ms  # type: ignore[method-assign]
    assert side.handle(frame(batch())) is None
    assert side.log.log_end_offset == 2


@pytest.mark.parametrize("slots", ["()", "('_references', 'path')"])
def test_a_build_for_other_classes_gives_way_to_python(slots: str) -> None:
    script = f"""
from headwater.server import disk
disk.OsFile = type("OsFile", (), {{"__slots__": {slots}, "_descriptor": 7}} if {slots} else {{}})
from headwater.broker.handlers import produce
from headwater.server import hot_path
print(hot_path.COMPILED, hot_path.handle_frame is produce.handle_frame)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == ["False", "True"]

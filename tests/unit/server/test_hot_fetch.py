"""The compiled hot path of Fetch against the general way: the same bytes out, the same sessions, the same counts; or it
gives way.
"""

import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import LeaderEpoch, TopicId, TopicPartition
from headwater.base.ports import FileSlice
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.fetch_sessions import FetchSessions
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.partition import Partition
from headwater.server import hot_fetch
from headwater.server.disk import OsDisk
from headwater.server.dispatch import begin
from headwater.server.outbox import release_chunks
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimRandom, SimScheduler
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from unit.server.support.pairs import pairs

NOW_MS = 1_700_000_000_000
TOPICS = {"orders": (TopicId(bytes(range(16))), 3), "events": (TopicId(bytes(range(1, 17))), 1)}
VERSIONS = range(4, 19)
FIRST_TOPIC_ID = 13
CLOSED, PARKED = b"the connection is closed", b"it is parked"
_CLIENT_ID_ENDS_AT = 16  # the hot path does not look at it, so that one which is not UTF-8 means nothing to it

pytestmark = pytest.mark.skipif(not hot_fetch.COMPILED, reason="the hot path is not compiled")


class Side:
    """Logs in files, and one of the two ways to read them. It is all that a fetch wants to see of a broker."""

    def __init__(self, directory: Path, *, compiled: bool, **config: Any) -> None:
        self.authorizer = None
        self.compiled = compiled
        self.answered_compiled = 0
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.config = BrokerConfig({})
        self.replicas = self.peers = None
        self.fetch_sessions = FetchSessions(3, SimRandom(5))
        self.image = SimpleNamespace(topic=self._topic)
        self.disk = OsDisk(lambda _: None)
        context = LogContext(self.disk, self.scheduler, SimRandom(1))
        self.manager = LogManager(context, [str(directory)], lambda _: LogConfig(**config))
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)
        self.partitions_by_wire_name: dict[bytes, list[Partition]] = {}
        self.partitions_by_topic_id: dict[bytes, list[Partition]] = {}
        for name, (topic_id, count) in TOPICS.items():
            listed = [
                Partition(
                    name, topic_id, index, self.manager.create(TopicPartition(name, index), topic_id), LeaderEpoch(0)
                )
                for index in range(count)
            ]
            self.partitions_by_wire_name[name.encode()] = self.partitions_by_topic_id[topic_id] = listed

    @property
    def partitions(self) -> list[Partition]:
        return [partition for listed in self.partitions_by_topic_id.values() for partition in listed]

    def _topic(self, name: str) -> Any:
        if name not in TOPICS:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return SimpleNamespace(topic_id=TOPICS[name][0])

    def partition_of(self, topic_id: bytes, index: int) -> Partition:
        listed = self.partitions_by_topic_id.get(bytes(topic_id), [])
        if not 0 <= index < len(listed):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return listed[index]

    replica_of = partition_of

    def handle(self, frame: bytes) -> bytes:
        """A frame behind its length prefix. Nothing may be read past its end."""
        _, version, correlation_id = struct.unpack_from(">hhi", frame)
        view = memoryview(bytearray(frame))
        if self.compiled:
            chunks = hot_fetch.handle_frame(self, view, 8, len(frame), version, correlation_id)  # type: ignore[arg-type]
            if chunks is not None:
                self.answered_compiled += 1
                return joined(chunks)
        try:
            begun = begin(self, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), view)  # type: ignore[arg-type]
        except KafkaError:
            return CLOSED
        if isinstance(begun.result, Deferred):
            begun.result.cancel()
            return PARKED
        return joined(begun.frame(begun.result))

    def state(self) -> dict[str, Any]:
        sessions = self.fetch_sessions._sessions
        segments = [segment for partition in self.partitions for segment in partition.log.segments]
        return {
            "sessions": [
                (each.session_id, each.epoch, each.last_used_ms, each.uses_topic_ids, told(each.specs))
                for each in sessions.values()
            ],
            "bytes out": [partition.bytes_out for partition in self.partitions],
            "waiters": [len(partition.waiters) for partition in self.partitions],
            "references": [
                segment.file._references if segment.file is not None else 0  # type: ignore[attr-defined]
                for segment in segments
            ],
        }


def told(specs: dict[Any, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            key, spec.topic, bytes(spec.topic_id), spec.partition, spec.fetch_offset, spec.max_bytes, spec.current_leader_epoch,
            spec.last_fetched_epoch, spec.told_high_watermark, spec.told_log_start_offset, spec.found, spec.noted_ms,
            spec.log_start_offset,
        )
        for key, spec in specs.items()
    ]  # fmt: skip


def joined(chunks: list[Any]) -> bytes:
    data = b"".join(chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks)
    release_chunks(chunks)
    assert int.from_bytes(data[:4]) == len(data) - 4
    return data


Pair = Callable[..., tuple[Side, Side]]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    yield from pairs(tmp_path, Side)


def batch(count: int = 1, size: int = 100, **fields: Any) -> bytearray:
    return build_batch([Record(at, NOW_MS, b"key", bytes(size)) for at in range(count)], **fields)


def append(sides: tuple[Side, ...], partition: int, *batches: bytearray) -> None:
    for side in sides:
        for each in batches:
            side.partitions[partition].append(memoryview(bytearray(each)), NOW_MS)


def request(
    *asked: tuple[str, int, int],
    version: int = 11,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    wait_ms: int = 500,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[tuple[str, int], ...] = (),
    rack: str = "",
    **fields: int,
) -> bytes:
    """(topic, partition, offset) of each; partitions of one topic that stand beside each other share it."""
    by_id = version >= FIRST_TOPIC_ID
    topics: list[FetchTopic] = []
    last = None
    for name, index, offset in asked:
        if name != last:
            topics.append(FetchTopic(topic=name, topic_id=topic_id(name, by_id), partitions=[]))
            last = name
        part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **fields)
        topics[-1].partitions.append(part)
    left = [ForgottenTopic(topic=name, topic_id=topic_id(name, by_id), partitions=[at]) for name, at in forgotten]
    asking = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation, session_id=session[0],
        session_epoch=session[1], topics=topics, forgotten_topics_data=left, rack_id=rack,
    )  # fmt: skip
    return encode_request_header(1, version, 77, "client") + b"".join(asking.encode(version))


def topic_id(name: str, by_id: bool) -> bytes:
    return TOPICS[name][0] if by_id and name in TOPICS else bytes(16)


def both(sides: tuple[Side, Side], frame: bytes) -> bytes:
    """The answer, which must be the same, and must leave the same behind."""
    compiled, general = (side.handle(frame) for side in sides)
    assert compiled == general, frame.hex()
    assert sides[0].state() == sides[1].state(), frame.hex()
    return compiled


def session_of(answer: bytes, version: int) -> int:
    at = 14 if version < 12 else 15
    return int.from_bytes(answer[at : at + 4])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
def test_every_version_is_answered_alike_and_without_python(pair: Pair, version: int, isolation: int) -> None:
    sides = pair()
    for partition in range(4):
        append(sides, partition, *(batch(3) for _ in range(5)))
    frames = [
        request(("orders", 0, 0), version=version, isolation=isolation),
        request(("orders", 0, 3), ("orders", 1, 7), version=version, isolation=isolation),
        request(("orders", 0, 3), ("events", 0, 6), ("orders", 2, 15), version=version, isolation=isolation),
        request(("orders", 2, 0), max_bytes=300, version=version, isolation=isolation),
        request(("orders", 2, 0), partition_max_bytes=1, version=version, isolation=isolation),
        request(("orders", 0, 15), wait_ms=0, version=version, isolation=isolation),
        request(("orders", 0, 15), ("orders", 1, 0), version=version, isolation=isolation),
    ]
    for each in frames:
        assert len(both(sides, each)) > 30
    assert sides[0].answered_compiled == len(frames)
    assert both(sides, request(("orders", 0, 15), version=version, isolation=isolation)) == PARKED


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_sessions_go_on_alike_and_without_python(pair: Pair, version: int) -> None:
    sides = pair()
    for partition in range(4):
        append(sides, partition, batch(3), batch(2))
    everything = (("orders", 0, 0), ("orders", 1, 0), ("events", 0, 0), ("orders", 2, 0))
    session = session_of(both(sides, request(*everything, version=version, session=(0, 0))), version)
    assert session
    offsets = {asked[:2]: 5 for asked in everything}
    chance = random.Random(version)
    for epoch in range(1, 40):
        moved = chance.sample(list(offsets), chance.randint(0, 2))
        for side in sides:
            side.clock.advance(7)
        append(sides, chance.randint(0, 3), batch(2))
        changed = [(*key, offsets[key]) for key in sorted(moved)]
        answer = both(sides, request(*changed, version=version, session=(session, epoch), max_bytes=500))
        assert session_of(answer, version) == session
        for key in moved:
            index = list(TOPICS).index(key[0]) * 3 + key[1]
            offsets[key] = sides[0].partitions[index].log.log_end_offset
    assert sides[0].answered_compiled == 39


def test_the_epoch_of_a_session_begins_again_after_the_last(pair: Pair) -> None:
    sides = pair()
    append(sides, 0, batch())
    session = session_of(both(sides, request(("orders", 0, 0), session=(0, 0))), 11)
    for side in sides:
        side.fetch_sessions._sessions[session].epoch = (1 << 31) - 1
    both(sides, request(session=(session, (1 << 31) - 1)))
    both(sides, request(session=(session, 1)))
    both(sides, request(session=(session, 3)))
    assert sides[0].answered_compiled == 2


def test_a_session_of_another_kind_or_with_news_goes_the_general_way(pair: Pair) -> None:
    sides = pair()
    append(sides, 0, batch())
    append(sides, 1, batch())
    session = session_of(both(sides, request(("orders", 0, 0), session=(0, 0), version=13)), 13)
    before = sides[0].answered_compiled
    both(sides, request(session=(session, 1), version=12))  # by name
    both(sides, request(session=(session + 1, 1), version=13))
    both(sides, request(("orders", 1, 0), session=(session, 1), version=13))  # another partition
    both(sides, request(session=(session, 2), forgotten=(("orders", 0),), version=13))
    assert sides[0].answered_compiled == before
    both(sides, request(session=(session, 3), version=13))
    assert sides[0].answered_compiled == before + 1


def test_segments_indexes_and_the_places_between_batches(pair: Pair) -> None:
    sides = pair(segment_bytes=3000, index_interval_bytes=500)
    chance = random.Random(3)
    for _ in range(120):
        append(sides, 0, batch(chance.randint(1, 4), chance.randint(0, 300)))
    log = sides[0].partitions[0].log
    assert len(log.segments) > 5
    for side in sides:
        for segment in side.partitions[0].log.segments[:-1]:
            segment.let_go()
    for offset in range(log.log_end_offset + 1):
        limit = chance.choice((1, 200, 900, 1500, 1 << 20))
        both(sides, request(("orders", 0, offset), partition_max_bytes=limit, wait_ms=0))
    assert sides[0].answered_compiled == log.log_end_offset + 1


def test_the_end_of_a_segment_that_was_compacted_away(pair: Pair) -> None:
    sides = pair(segment_bytes=1000)
    for _ in range(12):
        append(sides, 0, batch(2, 200))
    for side in sides:
        segment = side.partitions[0].log.segments[0]
        last = segment.size_bytes - len(batch(2, 200))
        segment.truncate(last, segment.base_offset + 2 * last // len(batch(2, 200)))
    first = sides[0].partitions[0].log.segments[0]
    for offset in range(first.base_offset, sides[0].partitions[0].log.base_offsets[1] + 1):
        both(sides, request(("orders", 0, offset), wait_ms=0))


def transactions(sides: tuple[Side, ...], partition: int, *ends: bool | None) -> None:
    """One transaction after the other, each committed, aborted or left open."""
    for producer_id, committed in enumerate(ends):
        for side in sides:
            data = batch(2, producer_id=producer_id, producer_epoch=0, transactional=True)
            side.partitions[partition].append_internal(memoryview(data), NOW_MS)
            if committed is not None:
                side.partitions[partition].append_marker(producer_id, 0, 0, committed, NOW_MS)


@pytest.mark.parametrize("ends", [(True,), (False,), (True, None), (False, True, None), (None,)], ids=str)
@pytest.mark.parametrize("isolation", [0, 1])
def test_transactions(pair: Pair, ends: tuple[bool | None, ...], isolation: int) -> None:
    sides = pair()
    append(sides, 0, batch())
    transactions(sides, 0, *ends)
    append(sides, 0, batch())
    for offset in range(sides[0].partitions[0].log.log_end_offset + 1):
        both(sides, request(("orders", 0, offset), wait_ms=0, isolation=isolation))
    assert (sides[0].answered_compiled == 0) == (isolation == 1 and False in ends)


def test_what_the_general_way_says_about_it(pair: Pair) -> None:
    changes: list[Callable[[Partition], None]] = [
        lambda partition: setattr(partition, "leader_epoch", LeaderEpoch(1)),
        lambda partition: partition.log.delete_records_before(2),
        lambda partition: setattr(partition, "high_watermark", 3),
        lambda partition: setattr(partition, "is_leader", False),
        lambda partition: partition.delete(),
    ]
    for change in changes:
        sides = pair()
        append(sides, 0, batch(3), batch(3))
        for side in sides:
            change(side.partitions[0])
        for offset in (-1, 0, 1, 3, 4, 6, 7):
            for epoch in (-1, 0, 1):
                both(sides, request(("orders", 0, offset), wait_ms=0, current_leader_epoch=epoch))
                fields = {"current_leader_epoch": epoch, "last_fetched_epoch": epoch}
                both(sides, request(("orders", 0, offset), wait_ms=0, version=12, **fields))


def test_what_is_out_of_the_ordinary(pair: Pair) -> None:
    sides = pair()
    append(sides, 0, batch(3))
    plain = sides[0].answered_compiled
    for version in (11, 12, 13):
        for frame in (
            request(version=version),
            request(("nowhere", 0, 0), version=version),
            request(("orders", 9, 0), version=version),
            request(("orders", -1, 0), version=version),
            request(("orders", 0, 0), max_bytes=-1, version=version),
            request(("orders", 0, 0), partition_max_bytes=-1, version=version),
            request(("orders", 0, 0), rack="here", version=version),
            request(("orders", 0, 0), forgotten=(("orders", 1),), version=version),
            request(("orders", 0, 0), session=(5, -1), version=version),
            request(("orders", 0, 0), min_bytes=1 << 20, version=version),
            request(("orders", 0, 0), isolation=2, version=version),
        ):
            both(sides, frame)
    assert sides[0].answered_compiled == plain


def test_many_topics_and_partitions_at_once(pair: Pair) -> None:
    sides = pair()
    for partition in range(4):
        append(sides, partition, batch(3))
    both(sides, request(*(("orders", at % 3, 0) for at in range(256))))
    both(sides, request(*((("orders", "events")[at % 2], 0, 0) for at in range(32))))
    assert sides[0].answered_compiled == 2
    both(sides, request(*(("orders", at % 3, 0) for at in range(257))))
    both(sides, request(*((("orders", "events")[at % 2], 0, 0) for at in range(33))))
    assert sides[0].answered_compiled == 2


def test_a_file_that_was_let_go_meanwhile_is_not_sent(pair: Pair) -> None:
    """Reading one partition may open a file, and the handle cache may close another for it."""
    sides = pair()
    append(sides, 0, batch(3))
    append(sides, 1, batch(3))
    for side in sides:
        side.partitions[1].log.active.close()
        side.manager.context.handles._open_files_max = 1
        side.partitions[0].log.active.recently_used = False
    frame = request(("orders", 0, 0), ("orders", 1, 0))
    compiled, general = (side.handle(frame) for side in sides)
    assert compiled == general


def test_one_that_is_called_while_it_runs_gives_way(pair: Pair) -> None:
    compiled, _ = pair()
    append((compiled,), 0, batch(3))
    frame = request(("orders", 0, 0))
    inner: list[Any] = []

    class Asking:
        def int(self, name: str) -> int:
            if not inner:
                inner.append(1)
                inner.append(hot_fetch.handle_frame(compiled, memoryview(frame), 8, len(frame), 11, 1))  # type: ignore[arg-type]
            return 1 << 20

    compiled.config = Asking()  # type: ignore[assignment]
    assert compiled.handle(frame) not in (CLOSED, PARKED)
    assert inner == [1, None]
    assert compiled.answered_compiled == 1


@pytest.mark.parametrize("slots", ["()", "('_references', 'path')"])
def test_a_build_for_other_classes_gives_way_to_python(slots: str) -> None:
    script = f"""
from headwater.server import disk
disk.OsFile = type("OsFile", (), {{"__slots__": {slots}, "_descriptor": 7}} if {slots} else {{}})
from headwater.server import hot_fetch
print(hot_fetch.COMPILED, hot_fetch.handle_frame(None, memoryview(b""), 0, 0, 11, 1))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == ["False", "None"]

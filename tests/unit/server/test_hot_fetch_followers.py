"""The compiled hot path of Fetch for followers, against the general way: the same bytes, and the leader knows the same
of them.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.base.ids import BrokerId, PartitionKey
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.rights.connection_rights import ConnectionRights
from headwater.server import hot_fetch
from headwater.server.dispatch import begin
from headwater.sim import disk as sim_disk
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from unit.replication.cluster_lab import TOPIC, TOPIC_ID, ClusterLab
from unit.server.test_hot_fetch import PARKED, joined, session_of, told

PARTITIONS = 3
VERSION = 17

pytestmark = pytest.mark.skipif(not hot_fetch.COMPILED, reason="the hot path is not compiled")


class DescribedFile(sim_disk.SimFile):
    """With a place for a descriptor, as files have it that the compiled way knows; and none in it."""

    __slots__ = ("_descriptor",)


@pytest.fixture(autouse=True)
def _simulated_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from headwater.server import _fetch

    monkeypatch.setattr(sim_disk, "SimFile", DescribedFile)
    _fetch.configure(*hot_fetch.classes(DescribedFile))
    yield
    _fetch.configure(*hot_fetch.classes())


class Side:
    """Three brokers, of which the followers do not fetch: the test does it in their place."""

    def __init__(self, *, compiled: bool) -> None:
        self.authorizer = None
        self.compiled = compiled
        self.answered_compiled = 0
        self.lab = ClusterLab(3)
        self.lab.cut = {(2, 1), (3, 1)}
        self.lab.holds_proposals = True
        self.lab.create(TOPIC, TOPIC_ID, *[(1, 2, 3)] * PARTITIONS)
        self.lab.run()

    def handle(self, frame: bytes) -> bytes:
        broker, view = self.lab.broker(1), memoryview(bytearray(frame))
        if self.compiled:
            chunks = hot_fetch.handle_frame(broker, view, 8, len(frame), VERSION, 77)
            if chunks is not None:
                self.answered_compiled += 1
                return joined(chunks)
        begun = begin(broker, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), view)
        if isinstance(begun.result, Deferred):
            begun.result.cancel()
            return PARKED
        return joined(begun.frame(begun.result))

    def state(self) -> list[Any]:
        broker = self.lab.broker(1)
        found: list[Any] = []
        for index in range(PARTITIONS):
            partition = broker.partitions[PartitionKey(TOPIC_ID, index)]
            assert partition.in_sync is not None
            followers = partition.in_sync.followers
            found.append(
                (
                    partition.high_watermark,
                    partition.bytes_out,
                    partition.others_confirmed,
                    len(partition.append_waiters),
                )
            )
            found += [
                tuple(getattr(followers[BrokerId(each)], name) for name in type(followers[BrokerId(each)]).__slots__)
                for each in (2, 3)
            ]
        for session in broker.fetch_sessions._sessions.values():
            specs = [
                tuple(value if not hasattr(value, "topic_id") else value.index for value in spec)
                for spec in told(session.specs)
            ]
            found.append((session.session_id, session.epoch, session.last_used_ms, specs))
        return [*found, len(self.lab.proposals), len(broker.woken)]


Sides = tuple[Side, Side]


@pytest.fixture
def sides() -> Sides:
    return Side(compiled=True), Side(compiled=False)


def request(
    lab: ClusterLab, session: tuple[int, int], *asked: tuple[int, int], replica: int = 2, **fields: int
) -> bytes:
    """(partition, offset) of each."""
    epoch = fields.pop("replica_epoch", lab.epoch_of(replica))
    limits = {"min_bytes": fields.pop("min_bytes", 1), "max_wait_ms": fields.pop("max_wait_ms", 500)}
    parts = [
        FetchPartition(
            partition=index, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 20,
            **{"current_leader_epoch": 0, **fields},
        )
        for index, offset in asked
    ]  # fmt: skip
    fetching = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch), max_bytes=1 << 20, isolation_level=0,
        session_id=session[0], session_epoch=session[1], forgotten_topics_data=[], rack_id="",
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=parts)] if parts else [], **limits,
    )  # fmt: skip
    return encode_request_header(1, VERSION, 77, "follower") + b"".join(fetching.encode(VERSION))


def both(sides: Sides, session: tuple[int, int], *asked: tuple[int, int], **fields: int) -> bytes:
    answers = [side.handle(request(side.lab, session, *asked, **fields)) for side in sides]
    assert answers[0] == answers[1]
    for side in sides:
        side.lab.run(1)
    assert sides[0].state() == sides[1].state()
    return answers[0]


def produce(sides: Sides, index: int, size: int = 10) -> None:
    for side in sides:
        side.lab.produce(1, bytes(size), acks=1, index=index)


def begun(sides: Sides, replica: int = 2) -> int:
    """A session of all partitions, in which nothing was read yet."""
    answer = both(sides, (0, 0), *((index, 0) for index in range(PARTITIONS)), replica=replica, max_wait_ms=0)
    return session_of(answer, VERSION)


def test_a_follower_in_sync_is_answered_without_python_and_its_position_is_known(sides: Sides) -> None:
    session = begun(sides)
    for epoch in range(1, 20):
        produce(sides, epoch % 2)
        ends = [side.lab.replica(1, PartitionKey(TOPIC_ID, epoch % 2)).log.log_end_offset for side in sides]
        assert both(sides, (session, epoch), (epoch % 2, ends[0] - 1)) != PARKED
    assert sides[0].answered_compiled == 19
    in_sync = sides[0].lab.replica(1).in_sync
    assert in_sync is not None
    assert in_sync.followers[BrokerId(2)].log_end_offset == 8


def test_who_has_rights_and_calls_itself_a_follower_is_none(sides: Sides) -> None:
    """Its position would count as that of a replica: only the general way asks for CLUSTER_ACTION."""
    session = begun(sides)
    produce(sides, 0)
    broker = sides[0].lab.broker(1)
    rights = ConnectionRights(broker)
    rights.note_readable(TOPIC_ID)
    asked = request(sides[0].lab, (session, 1), (0, 0))
    assert hot_fetch.handle_frame(rights, memoryview(bytearray(asked)), 8, len(asked), VERSION, 77) is None
    assert hot_fetch.handle_frame(broker, memoryview(bytearray(asked)), 8, len(asked), VERSION, 77) is not None


def test_what_both_followers_have_is_committed(sides: Sides) -> None:
    sessions = {replica: begun(sides, replica) for replica in (2, 3)}
    for epoch in range(1, 6):
        produce(sides, 0)
        for replica, session in sessions.items():
            both(sides, (session, epoch), (0, epoch - 1), replica=replica)
    assert sides[0].lab.replica(1).high_watermark == 4
    assert sides[0].answered_compiled == 10


def test_one_that_is_not_in_sync_or_not_known_goes_the_general_way(sides: Sides) -> None:
    session = begun(sides)
    produce(sides, 0)
    for side in sides:
        in_sync = side.lab.replica(1).in_sync
        assert in_sync is not None
        del in_sync.members[BrokerId(2)]
    both(sides, (session, 1), (0, 0))
    both(sides, (session, 2), (0, 0), replica_epoch=1)
    both(sides, (session, 3), (0, 0), replica=7, replica_epoch=1)
    assert sides[0].answered_compiled == 0


def test_one_that_went_back_is_told_the_high_watermark_again(sides: Sides) -> None:
    """Also where a request names a partition twice, and the second goes back behind the first."""
    sessions = {replica: begun(sides, replica) for replica in (2, 3)}
    for epoch in range(1, 6):
        produce(sides, 0)
        for replica, session in sessions.items():
            both(sides, (session, epoch), (0, epoch - 1), replica=replica)
    both(sides, (sessions[2], 6), (0, 3))
    both(sides, (sessions[2], 7), (0, 4), (0, 3))
    produce(sides, 0)
    both(sides, (sessions[2], 8), (0, 4))
    both(sides, (sessions[2], 9), (0, 5), (0, 4))
    assert sides[0].answered_compiled == 12


def test_hundreds_of_a_session_that_has_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are asked for are found among all without looking through them for each."""
    monkeypatch.setattr(sys.modules[__name__], "PARTITIONS", 300)
    sides = Side(compiled=True), Side(compiled=False)
    session = begun(sides)
    produce(sides, 7)
    produce(sides, 299)
    asked = random.Random(1).sample(range(PARTITIONS), 250)
    both(sides, (session, 1), *((index, 0) for index in asked))
    both(sides, (session, 2), *((index, 0) for index in asked[100:]), (asked[100], 0))  # one of them twice
    both(sides, (session, 3), *((index, 0) for index in asked[:100]))
    assert sides[0].answered_compiled == 2


@pytest.mark.parametrize("seed", range(4))
def test_random_fetches_of_followers(sides: Sides, seed: int) -> None:
    chance = random.Random(seed)
    sessions = {replica: (begun(sides, replica), 1) for replica in (2, 3)}
    for _ in range(200):
        if chance.random() < 0.6:
            produce(sides, chance.randrange(PARTITIONS), chance.choice((1, 500)))
        if chance.random() < 0.1:
            for side in sides:
                side.lab.run(300)
        replica = chance.choice((2, 3))
        asked = []
        for index in sorted(chance.sample(range(PARTITIONS), chance.randint(0, 2))):
            end = sides[1].lab.replica(1, PartitionKey(TOPIC_ID, index)).log.log_end_offset
            asked.append((index, max(0, end - chance.choice((0, 0, 1, 2)) + chance.choice((0,) * 30 + (1,)))))
        fields = {"last_fetched_epoch": chance.choice((-1, 0, 0, 0, 1))}
        if chance.random() < 0.1:
            fields["current_leader_epoch"] = chance.choice((-1, 1))
        if chance.random() < 0.1:
            fields["min_bytes"] = 400
        session, epoch = sessions[replica]
        both(sides, (session, epoch), *asked, replica=replica, **fields)
        sessions[replica] = (session, epoch + 1)
    assert sides[0].answered_compiled > 30

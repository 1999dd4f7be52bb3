"""A follower's fetcher, with a leader that says what the test wants."""

import errno
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId, TopicPartition
from headwater.base.peers import Lane, Unreachable
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.fetch_requests import FetcherSettings
from headwater.replication.fetcher import Fetcher
from headwater.replication.partition import Partition
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler
from headwater.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC_ID = TopicId(bytes(range(16)))
ME, LEADER = BrokerId(2), BrokerId(1)
SESSION = 77


class Asked:
    """The Peers port: keeps what was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, Any]] = []
        self.nudges: list[tuple[Any, Any]] = []  # beside them

    def ask(
        self,
        broker: BrokerId,
        lane: Lane,
        request: Any,
        version: int,
        done: Any,
        *,
        timeout_ms: int,
        origin: str = "",
    ) -> None:
        assert broker == LEADER
        type(request).decode(b"".join(request.encode(version)), 0, version)
        (self.requests if lane is Lane.FETCH else self.nudges).append((request, done))

    def forget(self, broker: BrokerId) -> None: ...

    def close(self) -> None: ...


class Harness:
    def __init__(self, count: int = 1, epoch: int = 0, **config: Any) -> None:
        self.clock = SimClock()
        self.disk = SimDisk(seed=1)
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(1))
        self.manager = LogManager(context, ["/data", "/more"], lambda _topic: LogConfig(**config))
        self.manager.lock()
        self.manager.claim("cluster", 2)
        self.manager.open(lambda: None)
        self.peers = Asked()
        self.fetcher = Fetcher(
            LEADER, self.peers, self.scheduler, self.clock, FetcherSettings(rest_max_ms=1000), lambda: (ME, 30)
        )
        self.partitions = [self.follow(index, epoch) for index in range(count)]
        for partition in self.partitions:
            self.fetcher.add(partition)
        self.scheduler.run_due()

    def follow(self, index: int, epoch: int = 0) -> Partition:
        name = TopicPartition("t", index)
        log = self.manager.logs.get(name) or self.manager.create(name, TOPIC_ID)
        return Partition("t", TOPIC_ID, index, log, LeaderEpoch(epoch), is_leader=False, high_watermark=0)

    @property
    def request(self) -> Any:
        """The only one that is under way."""
        assert len(self.peers.requests) == 1
        return self.peers.requests[0][0]

    def positions(self) -> dict[int, tuple[int, int, int]]:
        assert isinstance(self.request, FetchRequest)
        return {
            part.partition: (part.fetch_offset, part.last_fetched_epoch, part.current_leader_epoch)
            for topic in self.request.topics
            for part in topic.partitions
        }

    def forgotten(self) -> list[int]:
        return [index for topic in self.request.forgotten_topics_data for index in topic.partitions]

    def answer(self, *parts: PartitionData, session: int = SESSION, error: int = 0) -> None:
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))] if parts else []
        self.tell(FetchResponse(error_code=error, session_id=session, responses=topics))

    def tell(self, response: Any, problem: Unreachable | None = None) -> None:
        _, done = self.peers.requests.pop(0)
        done(response, problem)
        self.scheduler.run_due()

    def pass_time(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        self.scheduler.run_due()

    def ends(self) -> list[int]:
        return [partition.log.log_end_offset for partition in self.partitions]


def batch(offset: int, count: int = 1, epoch: int = 0) -> memoryview:
    data = bytearray(build_batch([Record(at, 1_700_000_000_000, b"k", b"v") for at in range(count)]))
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return memoryview(data)


def produced(offset: int, producer_id: int) -> memoryview:
    record = Record(0, 1_700_000_000_000, b"k", b"v")
    data = bytearray(build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0))
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = bytes(4)
    return memoryview(data)


def part(index: int = 0, records: bytes | memoryview = b"", **fields: Any) -> PartitionData:
    given = {"error_code": 0, "high_watermark": 0, "log_start_offset": 0, **fields}
    return PartitionData(partition_index=index, records=records, aborted_transactions=None, **given)


def test_who_asks_and_from_where() -> None:
    harness = Harness()
    assert harness.positions() == {0: (0, -1, 0)}
    state = harness.request.replica_state
    assert (state.replica_id, state.replica_epoch) == (ME, 30)
    harness.answer(part(records=batch(0, 3, epoch=0), high_watermark=2))
    assert harness.ends() == [3]
    assert harness.partitions[0].high_watermark == 2
    assert harness.positions() == {0: (3, 0, 0)}


def test_a_session_is_told_only_what_changed() -> None:
    harness = Harness(3)
    assert (harness.request.session_id, harness.request.session_epoch, sorted(harness.positions())) == (0, 0, [0, 1, 2])
    harness.answer(part(1, batch(0)))
    assert (harness.request.session_id, harness.request.session_epoch, sorted(harness.positions())) == (SESSION, 1, [1])
    harness.answer()
    assert (harness.request.session_epoch, harness.positions()) == (2, {})
    harness.fetcher.remove(PartitionKey(TOPIC_ID, 2))
    harness.answer(part(0, batch(0)))
    assert (sorted(harness.positions()), harness.forgotten()) == ([0], [2])


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_lost_session_begins_again_with_everything(error: ErrorCode) -> None:
    harness = Harness(2)
    harness.answer()
    harness.answer(session=0, error=int(error))
    assert (harness.request.session_epoch, sorted(harness.positions())) == (0, [0, 1])


def test_a_leader_without_room_for_sessions_is_asked_for_everything_each_time() -> None:
    harness = Harness(2)
    harness.answer(session=0)
    assert (harness.request.session_epoch, sorted(harness.positions())) == (0, [0, 1])


def test_an_answer_to_what_was_asked_in_an_earlier_term_is_dropped() -> None:
    harness = Harness()
    harness.fetcher.add(harness.follow(0, epoch=1))
    harness.answer(part(records=batch(0), high_watermark=1))
    assert harness.ends() == [0]
    assert harness.positions() == {0: (0, -1, 1)}


def test_an_answer_after_the_partition_is_gone_is_dropped() -> None:
    harness = Harness()
    harness.fetcher.remove(PartitionKey(TOPIC_ID, 0))
    harness.answer(part(records=batch(0)))
    assert harness.ends() == [0]
    assert not harness.peers.requests


def test_a_partition_that_went_wrong_rests_longer_each_time_and_the_others_go_on() -> None:
    harness = Harness(2)
    wrong = part(0, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    harness.answer(wrong)
    assert harness.forgotten() == [0]
    harness.answer(part(1, batch(0)))
    assert sorted(harness.positions()) == [1]
    harness.pass_time(20)
    harness.answer()
    assert sorted(harness.positions()) == [0]
    harness.answer(wrong)
    harness.pass_time(20)
    harness.answer()
    assert not harness.positions()
    harness.pass_time(20)
    harness.answer()
    assert sorted(harness.positions()) == [0]


def test_an_error_that_nobody_knows_is_one_partitions_and_the_others_go_on() -> None:
    harness = Harness(2)
    harness.answer(part(0, error_code=12_345), part(1, batch(0)))
    assert harness.ends() == [0, 1]
    assert harness.positions() == {1: (1, 0, 0)}
    assert harness.forgotten() == [0]
    harness.pass_time(20)
    harness.answer()
    harness.answer(part(0, batch(0)))
    assert harness.ends() == [1, 1]


def test_a_start_that_cannot_be_understood_is_asked_for_again() -> None:
    harness = Harness()
    harness.answer(part(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert isinstance(harness.request, ListOffsetsRequest)
    harness.tell(ListOffsetsResponse(topics=[]))
    harness.pass_time(20)
    harness.answer(part(records=batch(0)))
    assert harness.ends() == [1]


def test_a_leader_that_is_not_reached_is_left_alone_for_a_while() -> None:
    harness = Harness()
    for _ in range(10):
        harness.tell(None, Unreachable("closed"))
        assert not harness.peers.requests
        harness.pass_time(1000)
        assert harness.request.session_epoch == 0
    harness.tell(None, Unreachable("closed"))
    harness.fetcher.leader_is_back()
    assert harness.positions() == {0: (0, -1, 0)}


def test_nothing_is_asked_or_believed_after_the_end() -> None:
    harness = Harness()
    harness.fetcher.close()
    harness.answer(part(records=batch(0)))
    assert harness.ends() == [0]
    assert not harness.peers.requests


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(bytes(batch(0)[:-1]) + b"?", id="wrong CRC"),
        pytest.param(bytes(batch(0)[:-1]), id="cut off"),
    ],
)
def test_what_is_damaged_is_not_appended(records: bytes) -> None:
    harness = Harness()
    harness.answer(part(records=memoryview(records)))
    assert harness.ends() == [0]
    assert not harness.peers.requests
    harness.pass_time(20)
    harness.answer(part(records=batch(0)))  # the session still knows what is asked for
    assert harness.ends() == [1]


def test_batches_that_do_not_go_on_from_the_end_are_not_appended() -> None:
    harness = Harness()
    harness.answer(part(records=batch(0, 3)))
    harness.answer(part(records=batch(1, 3)))
    assert harness.ends() == [3]
    harness.pass_time(20)
    harness.answer(part(records=batch(5)))  # between them, a compacted leader has nothing left
    assert harness.ends() == [6]


def test_where_the_logs_differ_is_cut_off_in_one_step() -> None:
    harness = Harness(epoch=3)
    data = bytes(batch(0, 3, epoch=0)) + bytes(batch(3, 2, epoch=2)) + bytes(batch(5, 4, epoch=3))
    harness.answer(part(records=memoryview(data), high_watermark=6))
    assert harness.positions() == {0: (9, 3, 3)}
    harness.answer(part(diverging_epoch=EpochEndOffset(epoch=2, end_offset=7)))
    assert harness.ends() == [5], "our own end of epoch 2: what follows is of an epoch that the leader does not know"
    assert harness.partitions[0].high_watermark == 5
    assert harness.positions() == {0: (5, 2, 3)}
    harness.answer(part(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)))
    assert harness.ends() == [0], "an offset inside a batch takes the whole batch"


@pytest.mark.parametrize("epoch", [3, 0])
def test_what_a_deposed_leader_has_of_the_next_one_is_not_appended(epoch: int) -> None:
    """Seed 515781822 of cluster: a leader had answered with a stretch of its file, and was deposed, cut its log and
    followed the next leader before the stretch was read. The next leader's batches stood there now, in the place of
    some that were never committed, and whoever had one of these went on with them: nobody ever saw the difference.
    They are of a later epoch; or of an earlier one, where the next leader had more of it than the deposed one.
    """
    harness = Harness(epoch=2)
    harness.answer(part(records=memoryview(bytes(batch(0, epoch=1)) + bytes(batch(1, epoch=2)))))
    assert harness.positions() == {0: (2, 2, 2)}
    harness.answer(part(records=memoryview(bytes(batch(2, epoch=2)) + bytes(batch(3, epoch=epoch)))))
    assert harness.ends() == [2]
    harness.pass_time(20)
    harness.answer(part(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))  # by the next leader
    assert harness.ends() == [1]


def test_a_truncation_waits_for_a_descriptor_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(epoch=2, segment_bytes=80)
    for offset in range(3):
        harness.answer(part(records=batch(offset, epoch=offset)))
    assert harness.partitions[0].log.base_offsets == [0, 1, 2]
    diverging = part(diverging_epoch=EpochEndOffset(epoch=0, end_offset=1))

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(harness.disk, "open", failing)
        harness.answer(diverging)
    assert (harness.partitions[0].log.failed, harness.ends(), harness.peers.requests) == (None, [3], [])
    harness.pass_time(1000)
    assert harness.positions() == {}, "as the leader has it from before"
    harness.answer(diverging)
    assert (harness.partitions[0].log.failed, harness.ends()) == (None, [1])


def test_an_epoch_without_records_goes_though_there_is_nothing_to_cut() -> None:
    harness = Harness()
    harness.answer(part(records=batch(0, 3)))
    harness.partitions[0].log.begin_epoch(4)
    harness.answer(part())
    assert harness.positions() == {0: (3, 4, 0)}
    harness.answer(part(diverging_epoch=EpochEndOffset(epoch=0, end_offset=3)))
    assert harness.positions() == {0: (3, 0, 0)}


def test_what_the_leader_has_nothing_left_to_compare_with_goes() -> None:
    """Seed 4158525308 of cluster-storage: three records of a deposed leader had never been committed, and the next one
    had deleted its own three by the time it was fetched from. It knew no more how the old epoch ended, so the records
    stayed until they were deleted, and what they told of their producer stayed for good: when the first led again, a
    batch that was sent again was acknowledged as a duplicate, and nobody had it.
    """
    harness = Harness()
    harness.answer(part(records=batch(0, 2)))
    harness.answer(part(records=produced(2, producer_id=7), high_watermark=2))
    log = harness.partitions[0].log
    assert (harness.positions(), set(log.producers.producers)) == ({0: (3, 0, 0)}, {7})
    harness.answer(part(diverging_epoch=EpochEndOffset(epoch=-1, end_offset=3), high_watermark=3, log_start_offset=3))
    assert (log.log_start_offset, log.log_end_offset, log.producers.producers) == (3, 3, {})
    assert harness.positions() == {0: (3, -1, 0)}, "there is nothing that need be compared"
    harness.answer(part(records=batch(3), high_watermark=3, log_start_offset=3))
    assert harness.positions() == {0: (4, 0, 0)}


def test_a_log_that_the_leader_has_nothing_left_of_begins_again_where_the_leaders_begins() -> None:
    harness = Harness()
    harness.answer(part(records=batch(0, 3), high_watermark=3))
    harness.answer(part(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert isinstance(harness.request, ListOffsetsRequest)
    (asked,) = harness.request.topics[0].partitions
    assert (harness.request.replica_id, asked.timestamp, asked.current_leader_epoch) == (ME, -2, 0)
    harness.tell(_begins_at(10))
    assert (harness.partitions[0].log.log_start_offset, harness.ends(), harness.partitions[0].high_watermark) == (
        10,
        [10],
        10,
    )
    assert harness.positions() == {0: (10, -1, 0)}
    harness.answer(part(records=batch(8, 4), high_watermark=12, log_start_offset=10))  # it begins inside a batch
    assert (harness.partitions[0].log.log_start_offset, harness.ends()) == (10, [12])


def test_a_log_that_only_seemed_out_of_range_is_kept() -> None:
    harness = Harness()
    harness.answer(part(records=batch(0, 3)))
    harness.answer(part(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)))
    harness.tell(_begins_at(2))
    assert harness.ends() == [3]
    harness.pass_time(1000)
    harness.answer(part(records=batch(3)))
    assert harness.ends() == [4]


def test_what_comes_while_the_leader_holds_a_request_is_asked_for_soon() -> None:
    harness = Harness(2)
    harness.answer()
    harness.fetcher.remove(PartitionKey(TOPIC_ID, 1))
    assert not harness.peers.nudges
    harness.fetcher.add(harness.follow(1, epoch=1))
    harness.scheduler.run_due()
    ((request, done),) = harness.peers.nudges
    assert (request.session_epoch, request.topics, request.replica_state.replica_id) == (-1, [], ME)
    done(None, Unreachable("too early"))
    harness.pass_time(10)
    assert len(harness.peers.nudges) == 2, "as long as it is held"
    harness.answer()
    assert harness.positions() == {1: (0, -1, 1)}
    harness.peers.nudges[1][1](FetchResponse(error_code=0, session_id=0, responses=[]), None)
    harness.pass_time(10)
    assert len(harness.peers.nudges) == 2


def test_the_leaders_start_is_followed_as_far_as_records_are_committed() -> None:
    harness = Harness()
    harness.answer(part(records=batch(0, 3), high_watermark=1, log_start_offset=2))
    assert harness.partitions[0].log.log_start_offset == 0
    harness.answer(part(high_watermark=3, log_start_offset=2))
    assert harness.partitions[0].log.log_start_offset == 2


def test_what_is_not_on_the_device_is_not_asked_past_where_that_counts() -> None:
    harness = Harness(flush_messages=1)
    harness.answer(part(records=batch(0)))
    assert not harness.peers.requests
    harness.disk.run()
    harness.scheduler.run_due()
    assert harness.positions() == {0: (1, 0, 0)}


def test_a_failed_disk_takes_its_partition_out_and_leaves_the_others() -> None:
    harness = Harness(2)
    harness.partitions[0].log.fail(OSError("gone"))
    harness.answer(part(0, batch(0)), part(1, batch(0)))
    assert harness.ends() == [0, 1]
    assert harness.forgotten() == [0]


def _begins_at(offset: int) -> ListOffsetsResponse:
    found = ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


def test_that_there_is_no_room_for_what_the_leader_sent_is_told_then_and_only_then() -> None:
    harness = Harness()
    told: list[Partition] = []
    harness.fetcher.on_full = told.append
    harness.answer(part(records=batch(0)))
    harness.disk.faults.free_bytes = 0
    harness.answer(part(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert told == []
    harness.pass_time(1000)
    harness.answer(part(records=batch(1)))
    assert told == harness.partitions
    harness.pass_time(1000)
    harness.answer(part(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert told == harness.partitions, "that says nothing of a leader"

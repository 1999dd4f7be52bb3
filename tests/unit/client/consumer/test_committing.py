"""Commits: automatic, asked for, in order when they are tried again; and offsets that were committed, read back."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.commits import CommitOrder
from headwater.client.consumer.errors import CommitFailed
from headwater.client.consumer.membership.port import RebalanceEvent, RebalanceKind
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.wire.messages.offset_commit import OffsetCommitRequest
from unit.client.consumer.fake_log import FakeConsumer, FakeLogs, one_broker
from unit.client.reactor.fakes import CLOSE, HOLD, FakeWorld

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)


def grouped(**settings: object) -> tuple[FakeWorld, FakeLogs, FakeConsumer]:
    world, logs = one_broker(2)
    settings.setdefault("auto_offset_reset", "earliest")
    return world, logs, FakeConsumer(world, group_id="g", **settings)


def commit(consumer: FakeConsumer, offsets: dict[TopicPartition, int] | None = None) -> None:
    given = None if offsets is None else {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
    consumer.world.run(consumer.core.commit(given, None))


def test_the_order_of_commits_is_kept_partition_by_partition() -> None:
    order = CommitOrder()
    offsets = {P0: OffsetAndMetadata(1), P1: OffsetAndMetadata(1)}
    older = order.begin(offsets)
    assert order.still_newest(older, offsets) == offsets
    newer = order.begin([P1])
    assert order.still_newest(older, offsets) == {P0: OffsetAndMetadata(1)}
    assert order.still_newest(newer, {P1: OffsetAndMetadata(2)}) == {P1: OffsetAndMetadata(2)}


def test_positions_are_committed_with_their_leader_epoch_and_read_back() -> None:
    world, logs, consumer = grouped(enable_auto_commit=False)
    logs.append(P0, [b"a", b"b"], partition_leader_epoch=3)
    consumer.assign(P0)
    consumer.poll()
    commit(consumer)
    assert logs.offsets == {P0: (2, "", 3)}
    found = world.run(consumer.core.committed([P0, P1], None))
    assert found == {P0: OffsetAndMetadata(2, "", 3), P1: None}
    again = FakeConsumer(world, group_id="g", enable_auto_commit=False)
    again.assign(P0)
    assert world.run(again.core.position(P0)) == 2


def test_metadata_goes_with_an_offset() -> None:
    world, logs, consumer = grouped()
    world.run(consumer.core.commit({P1: OffsetAndMetadata(7, "host-1", 2)}, None))
    assert logs.offsets == {P1: (7, "host-1", 2)}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_commit_waits_for_what_passes(code: ErrorCode) -> None:
    _, logs, consumer = grouped()
    logs.commit_errors = [code, code]
    commit(consumer, {P0: 5})
    assert logs.offsets[P0][0] == 5
    assert len(logs.committed()) == 3


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.OFFSET_METADATA_TOO_LARGE]
)
def test_a_commit_that_cannot_get_better_is_an_error_at_once(code: ErrorCode) -> None:
    _, logs, consumer = grouped()
    logs.commit_errors = [code]
    with pytest.raises(CommitFailed) as raised:
        commit(consumer, {P0: 5})
    assert raised.value.code == code
    assert len(logs.committed()) == 1


class Member:
    """As far as commits know one."""

    group_id, member_id, group_instance_id, generation = "g", "m", "i", 3

    def __init__(self) -> None:
        self.told: list[tuple[ErrorCode, int | None]] = []

    def failed(self, code: ErrorCode, generation: int | None = None) -> None:
        self.told.append((code, generation))

    def acknowledge(self, event: RebalanceEvent) -> None:
        self.generation += 1


def test_a_member_commits_in_its_generation_and_hears_of_refusals() -> None:
    _, logs, consumer = grouped()
    member = consumer.core.membership = Member()  # type: ignore[assignment]
    commit(consumer, {P0: 5})
    request = logs.committed()[0]
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (3, "m", "i")
    logs.commit_errors = [ErrorCode.ILLEGAL_GENERATION]
    with pytest.raises(CommitFailed):
        commit(consumer, {P0: 6})
    assert member.told == [(ErrorCode.ILLEGAL_GENERATION, 3)]


def test_who_is_out_of_its_group_does_not_commit_like_one_that_never_joins() -> None:
    _, logs, consumer = grouped()
    member = consumer.core.membership = Member()  # type: ignore[assignment]
    member.generation = -1
    with pytest.raises(CommitFailed) as raised:
        commit(consumer, {P0: 5})
    assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert logs.committed() == []


def test_a_commit_goes_to_the_coordinator_again_after_the_connection_broke() -> None:
    _, logs, consumer = grouped()
    answers = [CLOSE]
    logs.broker.on(OffsetCommitRequest, lambda request: answers.pop() if answers else logs._commit(request))
    commit(consumer, {P0: 5})
    assert logs.offsets[P0][0] == 5


def test_a_commit_gives_up_when_its_time_is_over() -> None:
    world, logs, consumer = grouped()
    logs.commit_errors = [16] * 100
    with pytest.raises(CommitFailed):
        world.run(consumer.core.commit({P0: OffsetAndMetadata(5)}, 500))
    assert world.now < 1001


def test_an_older_commit_that_is_tried_again_never_overwrites_a_newer_one() -> None:
    world, logs, consumer = grouped(enable_auto_commit=False)
    consumer.assign(P0, P1)
    outcome: list[tuple[dict[TopicPartition, OffsetAndMetadata], KafkaError | None]] = []
    logs.commit_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def later(offsets: dict[TopicPartition, int]) -> None:
        given = {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
        consumer.do(lambda: consumer.core.commit_async(given, lambda *told: outcome.append(told)))

    later({P0: 10, P1: 10})
    world.pass_time(0.01)  # refused; it waits for its next try
    later({P0: 20})
    world.pass_time(2)
    consumer.poll(0)
    assert {each: offset for each, (offset, _, _) in logs.offsets.items()} == {P0: 20, P1: 10}
    retried = logs.committed()[-1].topics[0].partitions
    assert [(each.partition_index, each.committed_offset) for each in retried] == [(1, 10)]
    assert [error for _, error in outcome] == [None, None]


def test_a_commit_that_was_overtaken_says_so() -> None:
    world, logs, consumer = grouped(enable_auto_commit=False)
    consumer.assign(P0)
    outcome: list[KafkaError | None] = []
    logs.commit_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    for offset in (10, 20):
        given = {P0: OffsetAndMetadata(offset)}
        consumer.do(lambda given=given: consumer.core.commit_async(given, lambda _, error: outcome.append(error)))
        world.pass_time(0.01)
    world.pass_time(2)
    consumer.poll(0)
    assert outcome[0] is None
    assert isinstance(outcome[1], CommitFailed)
    assert outcome[1].superseded
    assert logs.offsets[P0][0] == 20


def delayed_commit(
    offsets: dict[TopicPartition, int], event: RebalanceEvent, *, breaks: bool = False, acknowledged: bool = True
) -> tuple[FakeLogs, list[KafkaError | None]]:
    """An asynchronous commit of generation 3 that is tried again after the event, and what its callback is told."""
    world, logs, consumer = grouped(enable_auto_commit=False)
    core = consumer.core
    core.membership = Member()  # type: ignore[assignment]
    core.subscription.add([P0, P1])
    first = [CLOSE] if breaks else []
    logs.broker.on(OffsetCommitRequest, lambda request: first.pop() if first else logs._commit(request))
    logs.commit_errors = [] if breaks else [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    told: list[KafkaError | None] = []
    given = {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
    consumer.do(lambda: core.commit_async(given, lambda _, error: told.append(error)))
    world.pass_time(0.01)
    assert len(logs.committed()) == 1
    world.run(core.before_listener(event))
    consumer.do(lambda: core.after_listener(event, core.membership if acknowledged else None))
    logs.offsets[P0] = (200, "", -1)  # by its new owner
    world.pass_time(2)
    for finished in core.commits.finished:
        finished.callback(finished.offsets, finished.error)
    return logs, told


@pytest.mark.parametrize("kind", [RebalanceKind.REVOKED, RebalanceKind.LOST])
@pytest.mark.parametrize("breaks", [False, True])
def test_a_commit_is_not_tried_again_for_partitions_that_were_given_up(kind: RebalanceKind, *, breaks: bool) -> None:
    """It went out in the generation of now, which is valid, and took the group back behind the new owner's offset."""
    logs, told = delayed_commit({P0: 100}, RebalanceEvent(kind, (P0,)), breaks=breaks)
    assert logs.offsets[P0][0] == 200
    assert len(logs.committed()) == 1
    assert isinstance(told[0], CommitFailed)
    assert told[0].code == ErrorCode.ILLEGAL_GENERATION
    assert "another member's" in str(told[0])


def test_a_commit_is_tried_again_for_the_partitions_that_stay() -> None:
    logs, told = delayed_commit({P0: 100, P1: 7}, RebalanceEvent(RebalanceKind.REVOKED, (P0,)))
    assert {each: offset for each, (offset, _, _) in logs.offsets.items()} == {P0: 200, P1: 7}
    assert logs.committed()[-1].generation_id_or_member_epoch == 4
    assert told == [None]


def test_a_commit_under_way_counts_until_a_member_that_closes_has_left() -> None:
    logs, told = delayed_commit({P0: 100}, RebalanceEvent(RebalanceKind.REVOKED, (P0,)), acknowledged=False)
    assert [each.generation_id_or_member_epoch for each in logs.committed()] == [3, 3]
    assert told == [None]


def test_what_is_committed_after_partitions_were_given_up_counts() -> None:
    order = CommitOrder()
    offsets = {P0: OffsetAndMetadata(1), P1: OffsetAndMetadata(1)}
    assert order.still_held(order.begin(offsets), offsets) == offsets
    before = order.begin(offsets)
    order.give_up([P0])
    assert order.still_held(before, offsets) == {P1: OffsetAndMetadata(1)}
    assert order.still_held(order.begin(offsets), offsets) == offsets


def test_callbacks_wait_for_a_poll() -> None:
    world, logs, consumer = grouped(enable_auto_commit=False)
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    told: list[object] = []
    consumer.do(lambda: consumer.core.commit_async(None, lambda *outcome: told.append(outcome)))
    world.pass_time(1)
    assert told == []
    consumer.poll(0)
    assert told == [({P0: OffsetAndMetadata(1, "", -1)}, None)]


# Automatic


def test_poll_commits_what_was_given_before_it_when_the_interval_is_over() -> None:
    world, logs, consumer = grouped(auto_commit_interval_ms=1000)
    logs.append(P0, [b"a", b"b"])
    consumer.assign(P0)
    consumer.poll(limit=1)
    world.pass_time(2)
    assert logs.offsets == {}  # only polls commit: the application may still be at work on what it has
    consumer.poll(limit=1)
    world.pass_time(0.1)
    assert logs.offsets[P0][0] == 1
    consumer.poll(0)
    world.pass_time(0.5)
    assert len(logs.committed()) == 1


def test_close_commits_the_last_positions() -> None:
    from headwater.client.consumer.membership.port import Departure

    world, logs, consumer = grouped()
    logs.append(P0, [b"a", b"b"])
    consumer.assign(P0)
    consumer.poll()
    world.run(consumer.core.close(5000, Departure.DEFAULT))
    assert logs.offsets[P0][0] == 2


def test_close_does_not_wait_longer_than_it_may() -> None:
    from headwater.client.consumer.membership.port import Departure

    world, logs, consumer = grouped()
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    logs.broker.on(OffsetCommitRequest, lambda _: HOLD)
    began = world.now
    world.run(consumer.core.close(500, Departure.DEFAULT))
    assert world.now - began < 1


def test_nothing_is_committed_without_being_asked() -> None:
    from headwater.client.consumer.membership.port import Departure

    world, logs, consumer = grouped(enable_auto_commit=False)
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    world.pass_time(20)
    consumer.poll(1)
    world.run(consumer.core.close(5000, Departure.DEFAULT))
    assert logs.committed() == []


def test_what_an_iteration_holds_ready_is_not_committed() -> None:
    world, logs, consumer = grouped(enable_auto_commit=False)
    logs.append(P0, [b"a", b"b", b"c"])
    consumer.assign(P0)
    consumer.core.iteration_buffer.extend(consumer.poll())
    assert consumer.core.iteration_buffer.popleft().value == b"a"
    commit(consumer)
    assert logs.offsets[P0][0] == 1
    assert world.run(consumer.core.position(P0)) == 1
    assert [record.value for record in consumer.poll()] == [b"b", b"c"]  # a poll after it goes on there
    commit(consumer)
    assert logs.offsets[P0][0] == 3


def test_a_member_that_the_group_has_lost_does_not_become_nobody_for_a_transaction() -> None:
    """Brokers take offsets of nobody (no member id, no generation) from transactions: a zombie would not be fenced."""
    _, _, consumer = grouped()
    assert consumer.core.group_metadata() == ("g", -1, "", None)
    member = consumer.core.membership = Member()  # type: ignore[assignment]
    assert consumer.core.group_metadata() == ("g", 3, "m", "i")
    member.member_id, member.generation = "", -1  # what a heartbeat, or max.poll.interval.ms, makes of it
    assert consumer.core.group_metadata() == ("g", 3, "m", "i")
    member.member_id, member.generation = "n", 5
    assert consumer.core.group_metadata() == ("g", 5, "n", "i")


# Reading


def test_offsets_that_a_transaction_may_change_are_waited_for() -> None:
    world, logs, consumer = grouped()
    logs.offsets[P0] = (5, "", -1)
    logs.fetch_offset_errors = [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    assert world.run(consumer.core.committed([P0], None)) == {P0: OffsetAndMetadata(5, "", -1)}
    from headwater.wire.messages.offset_fetch import OffsetFetchRequest

    assert all(request.require_stable for request in logs.broker.received(OffsetFetchRequest))


def test_without_a_group_there_are_no_commits() -> None:
    world, _ = one_broker()
    consumer = FakeConsumer(world)
    with pytest.raises(UserError, match=r"group\.id is not set"):
        world.run(consumer.core.commit({P0: OffsetAndMetadata(1)}, None))
    with pytest.raises(UserError, match=r"group\.id is not set"):
        consumer.core.group_metadata()

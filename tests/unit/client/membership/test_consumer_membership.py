"""A member of a group of the consumer protocol (KIP-848), from its application's side, on a clock of the test's own."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.membership.consumer import ConsumerMembership
from headwater.client.consumer.membership.port import Departure
from headwater.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.client.membership.group_fakes import Group
from unit.client.reactor.fakes import CLOSE, FakeBroker, FakeWorld, topic_id

ORDERS = topic_id("orders")
Owned = dict[bytes, list[int]]


class Coordinator:
    """`want` is what the member shall have; each change comes with the next answer, under the next epoch."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.epoch = 0
        self.assignment: Owned | None = {}
        self.answers: list[Any] = []  # codes, or CLOSE, that are answered first
        self.interval_ms = 5000
        broker.coordinates()
        broker.on(ConsumerGroupHeartbeatRequest, self._answer)

    def want(self, *partitions: int, topic: bytes = ORDERS) -> None:
        self.assignment = {topic: list(partitions)} if partitions else {}
        self.epoch += 1

    @property
    def beats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return self.broker.received(ConsumerGroupHeartbeatRequest)

    @property
    def told(self) -> list[Owned]:
        """What the member said that it owns, each time that it said so."""
        return [
            {bytes(topic.topic_id): list(topic.partitions) for topic in beat.topic_partitions}
            for beat in self.beats
            if beat.topic_partitions is not None
        ]

    def _answer(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        if self.answers and request.member_epoch >= 0:
            answer = self.answers.pop(0)
            if answer is CLOSE:
                return CLOSE
            if answer:
                return ConsumerGroupHeartbeatResponse(error_code=int(answer), error_message="because")
        assignment, self.assignment = self.assignment, None
        topics = [TopicPartitions(topic_id=each, partitions=indexes) for each, indexes in (assignment or {}).items()]
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch if request.member_epoch >= 0 else request.member_epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=None if assignment is None else Assignment(topic_partitions=topics),
        )


def setup(**settings: Any) -> tuple[FakeWorld, Coordinator, Group]:
    world = FakeWorld()
    broker = world.broker(0)
    world.topic("orders", 4)
    world.topic("payments", 1)
    answer_by_id(world, broker)
    return world, Coordinator(broker), Group(world, ConsumerMembership, **settings)


def answer_by_id(world: FakeWorld, broker: FakeBroker) -> None:
    """The fake broker knows topics by name; coordinators name them by id."""
    by_name = broker._metadata

    def answer(request: MetadataRequest) -> Any:
        names = {topic_id(name): name for name in world.topics}
        for topic in request.topics or []:
            if topic.name is None:
                topic.name = names.get(bytes(topic.topic_id), "?")
        return by_name(MetadataRequest(topics=[MetadataRequestTopic(name=each.name) for each in request.topics or []]))

    broker.on(MetadataRequest, answer)


def member(*partitions: int, **settings: Any) -> tuple[FakeWorld, Coordinator, Group]:
    world, coordinator, group = setup(**settings)
    coordinator.want(*partitions)
    group.poll()
    return world, coordinator, group


def test_nothing_is_said_before_the_first_poll() -> None:
    world, coordinator, group = setup()
    coordinator.want(0, 1)
    world.pass_time(20)
    assert not coordinator.beats
    group.poll()
    assert group.log == ["assigned orders-0 orders-1"]


def test_what_the_first_heartbeat_says() -> None:
    _, coordinator, group = setup(
        topics=("payments", "orders"), rack_id="r1", remote_assignor="range", max_poll_interval_ms=9000
    )
    coordinator.want(0)
    group.poll()
    first = coordinator.beats[0]
    assert (first.group_id, first.member_epoch, first.rebalance_timeout_ms) == ("billing", 0, 9000)
    assert (first.rack_id, first.server_assignor, first.instance_id) == ("r1", "range", None)
    assert first.subscribed_topic_names == ["orders", "payments"]
    assert first.subscribed_topic_regex is None
    assert first.topic_partitions == []
    assert len(first.member_id) == 22
    assert first.member_id == group.membership.member_id


def test_later_heartbeats_say_only_what_changed() -> None:
    world, coordinator, group = member(0)
    world.pass_time(11)
    acknowledgement, *rest = coordinator.beats[1:]
    assert [(each.topic_id, each.partitions) for each in acknowledgement.topic_partitions or []] == [(ORDERS, [0])]
    assert len(rest) == 2
    for beat in rest:
        assert (beat.member_epoch, beat.rebalance_timeout_ms) == (1, -1)
        assert (beat.subscribed_topic_names, beat.topic_partitions, beat.server_assignor) == (None, None, None)
    group.resubscribe("orders", "payments")
    group.poll()
    assert coordinator.beats[-1].subscribed_topic_names == ["orders", "payments"]


def test_the_coordinator_says_how_often() -> None:
    world, coordinator, _ = setup()
    coordinator.interval_ms = 500
    world, coordinator, group = world, coordinator, _
    coordinator.want(0)
    group.poll()
    before = len(coordinator.beats)
    world.pass_time(5)
    assert len(coordinator.beats) - before == pytest.approx(10, abs=1)


def test_revoked_first_acknowledged_then_assigned() -> None:
    world, coordinator, group = member(0, 1)
    coordinator.want(1, 2)
    world.pass_time(6)
    assert group.woken
    group.poll()
    assert group.log[1:] == ["revoked orders-0", "assigned orders-2"]
    assert coordinator.told == [{}, {ORDERS: [0, 1]}, {ORDERS: [1]}, {ORDERS: [1, 2]}]


def test_heartbeats_go_on_while_the_application_does_not_poll() -> None:
    world, coordinator, group = member(0, 1)
    coordinator.want(1)
    before = len(coordinator.beats)
    world.pass_time(20)
    assert len(coordinator.beats) - before == 4
    assert group.owned == ["orders-0", "orders-1"]


def test_an_empty_assignment_is_told_once() -> None:
    world, _, group = member()
    assert group.log == ["assigned"]
    world.pass_time(20)
    group.poll()
    assert group.log == ["assigned"]


def test_what_was_retracted_while_the_listener_took_it_is_revoked_again() -> None:
    world, coordinator, group = setup()
    coordinator.want(0)
    group.membership.poll_heartbeat(world.now)
    world.pass_time(0.1)
    event = group.membership.next_event()
    assert event is not None
    coordinator.want()
    world.pass_time(6)
    group.handle(event)
    group.membership.acknowledge(event)
    group.poll()
    assert group.log == ["assigned orders-0", "revoked orders-0", "assigned"]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_all_and_joins_again_with_the_same_id(code: ErrorCode) -> None:
    world, coordinator, group = member(0)
    name = group.membership.member_id
    coordinator.answers = [code]
    coordinator.want(1)
    world.pass_time(6)
    assert group.membership.generation == -1
    beats = len(coordinator.beats)
    world.pass_time(20)
    assert len(coordinator.beats) == beats  # what is lost has to be given up first
    group.poll()
    assert group.log == ["assigned orders-0", "lost orders-0", "assigned orders-1"]
    again = coordinator.beats[beats]
    assert (again.member_id, again.member_epoch, again.topic_partitions) == (name, 0, [])
    assert again.subscribed_topic_names == ["orders"]


def test_after_a_heartbeat_whose_answer_was_lost_the_next_says_everything() -> None:
    """The coordinator may have moved on to the next epoch: it forgives the old one only if it sees what is owned."""
    world, coordinator, group = member(0)
    coordinator.answers = [CLOSE]
    before = len(coordinator.beats)
    world.pass_time(6)
    lost, after = coordinator.beats[before : before + 2]
    assert lost.topic_partitions is None
    assert (after.member_epoch, after.subscribed_topic_names) == (1, ["orders"])
    assert [(each.topic_id, each.partitions) for each in after.topic_partitions or []] == [(ORDERS, [0])]
    assert group.log == ["assigned orders-0"]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_moves_costs_nothing(code: ErrorCode) -> None:
    world, coordinator, group = member(0)
    coordinator.answers = [code] * 3
    before = len(coordinator.beats)
    world.pass_time(7)
    assert len(coordinator.beats) - before >= 4
    group.poll()
    assert group.log == ["assigned orders-0"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_what_cannot_get_better_is_told_at_every_poll(code: ErrorCode) -> None:
    _, coordinator, group = setup(group_instance_id="i")
    coordinator.answers = [code]
    group.poll()
    for _ in range(2):
        with pytest.raises(KafkaError, match=f"{code.name}: because"):
            group.poll()
    assert len(coordinator.beats) == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
def test_what_may_pass_is_told_once_and_tried_again(code: ErrorCode) -> None:
    _, coordinator, group = setup()
    coordinator.answers = [code]
    coordinator.want(0)
    group.poll()
    with pytest.raises(KafkaError) as caught:
        group.poll()
    assert caught.value.code == code
    group.poll()
    assert group.owned == ["orders-0"]


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        (ErrorCode.STALE_MEMBER_EPOCH, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_MEMBER_EPOCH, True),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, False),
    ],
)
def test_a_refused_commit_asks_the_coordinator_at_once(code: ErrorCode, asks: bool) -> None:
    world, coordinator, group = member(0)
    before = len(coordinator.beats)
    group.membership.failed(code, group.membership.generation)
    world.pass_time(0.1)
    assert len(coordinator.beats) - before == asks


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_an_application_that_does_not_poll_leaves_and_comes_back(instance: str | None, epoch: int) -> None:
    world, coordinator, group = member(0, max_poll_interval_ms=20_000, group_instance_id=instance)
    world.pass_time(21)
    assert coordinator.beats[-1].member_epoch == epoch
    before = len(coordinator.beats)
    world.pass_time(60)
    assert len(coordinator.beats) == before
    coordinator.want(0)
    group.poll()
    assert group.log == ["assigned orders-0", "lost orders-0", "assigned orders-0"]


@pytest.mark.parametrize(
    ("instance", "departure", "epoch"),
    [
        (None, Departure.DEFAULT, -1),
        ("i", Departure.DEFAULT, -2),
        ("i", Departure.LEAVE, -1),
        ("i", Departure.REMAIN, -2),
        (None, Departure.REMAIN, None),
    ],
)
def test_who_says_goodbye_and_how(instance: str | None, departure: Departure, epoch: int | None) -> None:
    world, coordinator, group = member(0, group_instance_id=instance)
    world.run(group.membership.leave("closed", departure))
    last = coordinator.beats[-1].member_epoch
    assert last == (1 if epoch is None else epoch)
    before = len(coordinator.beats)
    world.pass_time(60)
    assert len(coordinator.beats) == before


def test_leaving_revokes_and_it_can_start_again() -> None:
    _, coordinator, group = member(0)
    group.leave()
    assert group.log[1:] == ["revoked orders-0"]
    coordinator.want(1)
    group.membership.start()
    group.poll()
    assert group.owned == ["orders-1"]


def test_a_pattern_is_the_brokers_to_match() -> None:
    _, coordinator, group = setup(topics=(), pattern="ord.*")
    coordinator.want(0)
    group.poll()
    assert (coordinator.beats[0].subscribed_topic_regex, coordinator.beats[0].subscribed_topic_names) == ("ord.*", [])
    assert group.owned == ["orders-0"]
    group.pattern = None
    group.resubscribe("payments")
    group.poll()
    changed = coordinator.beats[-1]
    assert (changed.subscribed_topic_regex, changed.subscribed_topic_names) == ("", ["payments"])


def test_a_broker_that_knows_no_patterns_is_not_asked_to_match_one() -> None:
    _, coordinator, group = setup(topics=(), pattern="ord.*")
    coordinator.broker.versions[ConsumerGroupHeartbeatRequest.KEY] = (0, 0)
    group.poll()
    with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
        group.poll()
    assert not coordinator.beats


def test_a_topic_whose_name_is_not_known_yet_is_taken_when_it_is() -> None:
    world, coordinator, group = setup()
    coordinator.want(0, topic=topic_id("fresh"))
    group.poll()
    assert group.log == ["assigned"]
    world.topic("fresh", 1)
    for _ in range(12):
        group.poll()
    assert group.owned == ["fresh-0"]
    assert coordinator.told[-1] == {topic_id("fresh"): [0]}


def test_a_topic_that_was_deleted_and_made_anew_is_another_one() -> None:
    world, coordinator, group = member(0)
    second = b"\7" * 16
    world.run(group.session.refresh(["orders"]))
    topic = group.session.view.topics["orders"]
    group.session.view.topics["orders"] = topic._replace(topic_id=second)
    coordinator.want(0, topic=second)
    world.pass_time(6)
    group.poll()
    assert group.log[1:] == ["revoked orders-0", "assigned orders-0"]
    assert coordinator.told[-1] == {second: [0]}


def test_the_partitions_that_the_application_knows_are_what_the_coordinator_hears() -> None:
    world, coordinator, group = member(0)
    for partitions in ((0, 1, 2, 3), (3,), (), (2, 1)):
        coordinator.want(*partitions)
        world.pass_time(5.5)
        group.poll()
        assert group.owned == [str(TopicPartition("orders", each)) for each in sorted(partitions)]
        assert coordinator.told[-1] == ({ORDERS: sorted(partitions)} if partitions else {})

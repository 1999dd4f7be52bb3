"""A member of a classic group, from its application's side, on a clock of the test's own."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import decode_subscription
from headwater.client.consumer.assignors.range import RangeAssignor
from headwater.client.consumer.assignors.spec import MemberSubscription
from headwater.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from headwater.client.consumer.membership.classic import ClassicMembership
from headwater.client.consumer.membership.port import Departure
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest
from headwater.wire.messages.leave_group import LeaveGroupRequest
from headwater.wire.messages.sync_group import SyncGroupRequest
from unit.client.membership.group_fakes import Coordinator, Group
from unit.client.reactor.fakes import HOLD, FakeWorld

EAGER = (RangeAssignor(),)
COOPERATIVE = (CooperativeStickyAssignor(),)
O0, O1, O2, P0 = (TopicPartition(*each) for each in (("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0)))


def setup(assignors=EAGER, *, leader=True, partitions=2, **settings):
    world = FakeWorld()
    broker = world.broker(0)
    world.topic("orders", partitions)
    world.topic("payments", 1)
    coordinator = Coordinator(broker, leader=leader)
    return world, coordinator, Group(world, ClassicMembership, assignors=assignors, **settings)


def follower(assignors=EAGER, *assignment: TopicPartition, **settings):
    world, coordinator, group = setup(assignors, leader=False, **settings)
    coordinator.assignment = list(assignment)
    group.poll()
    return world, coordinator, group


def test_nothing_is_joined_before_the_first_poll() -> None:
    world, coordinator, group = setup()
    world.pass_time(10)
    assert not coordinator.joins()
    group.poll()
    assert group.log == ["assigned orders-0 orders-1"]
    assert (group.membership.member_id, group.membership.generation) == ("m-1", 1)


def test_the_member_id_that_the_coordinator_gives_is_used_at_once() -> None:
    _, coordinator, group = setup()
    group.poll(0.02)
    assert [request.member_id for request in coordinator.joins()] == ["", "m-1"]


def test_what_a_join_says() -> None:
    _, coordinator, group = setup(
        (RangeAssignor(), StickyAssignor()), session_timeout_ms=7000, max_poll_interval_ms=9000, rack_id="r1"
    )
    group.poll()
    request = coordinator.joins()[-1]
    assert (request.group_id, request.protocol_type) == ("billing", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (7000, 9000)
    assert [each.name for each in request.protocols] == ["range", "sticky"]
    subscription = decode_subscription(bytes(request.protocols[0].metadata))
    assert (subscription.topics, subscription.rack_id) == (("orders",), "r1")
    assert request.reason


def test_the_leader_assigns_for_all_with_the_topics_of_all() -> None:
    _, coordinator, group = setup()
    coordinator.others["other"] = MemberSubscription(topics=("orders", "payments"))
    group.poll()
    assert coordinator.given == {"m-1": [O0], "other": [O1, P0]}
    assert group.owned == ["orders-0"]


def test_a_static_leader_that_is_back_does_not_assign() -> None:
    _, coordinator, group = setup(group_instance_id="i")
    coordinator.skip_assignment = True
    coordinator.assignment = [O1]
    group.poll()
    assert coordinator.given == {}
    assert group.owned == ["orders-1"]


def test_the_leader_joins_again_when_a_topic_grows() -> None:
    world, coordinator, group = setup()
    group.poll()
    world.topic("orders", 3)
    world.run(group.session.refresh(["orders"]))
    group.poll()
    assert group.log[1:] == ["revoked orders-0 orders-1", "assigned orders-0 orders-1 orders-2"]
    assert len(coordinator.joins()) == 3


def test_the_leader_looks_after_topics_of_others_by_itself() -> None:
    world, coordinator, group = setup(max_poll_interval_ms=10**9)
    coordinator.others["other"] = MemberSubscription(topics=("payments",))
    group.poll()
    world.topic("payments", 2)
    world.pass_time(301)
    group.poll()
    assert coordinator.given["other"] == [P0, TopicPartition("payments", 1)]


def test_a_topic_that_is_missing_is_found_soon_after_it_is_made() -> None:
    world, _coordinator, group = setup()
    group.resubscribe("later")
    group.poll()
    assert group.log == ["assigned"]
    world.topic("later", 1)
    for _ in range(15):
        group.poll()
    assert group.owned == ["later-0"]


def test_heartbeats_go_on_while_the_application_does_something_else() -> None:
    world, coordinator, _group = follower(EAGER, O0)
    world.pass_time(10)
    beats = coordinator.broker.received(HeartbeatRequest)
    assert len(beats) == 3
    assert {(each.generation_id, each.member_id) for each in beats} == {(1, "m-1")}


def test_an_eager_member_gives_up_all_before_it_joins_again() -> None:
    world, coordinator, group = follower(EAGER, O0, O1)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator.assignment = [O1]
    world.pass_time(3.5)
    assert len(coordinator.joins()) == 2  # the two of the first time: nobody has polled
    assert group.woken
    group.poll()
    assert group.log == ["assigned orders-0 orders-1", "revoked orders-0 orders-1", "assigned orders-1"]
    assert decode_subscription(bytes(coordinator.joins()[-1].protocols[0].metadata)).owned == ()


def test_heartbeats_go_on_while_a_revocation_waits_for_the_poll() -> None:
    world, coordinator, group = follower(EAGER, O0)
    coordinator.refuse(HeartbeatRequest, *[ErrorCode.REBALANCE_IN_PROGRESS] * 9)
    world.pass_time(10)
    assert len(coordinator.broker.received(HeartbeatRequest)) == 3
    assert group.membership.generation == 1


def test_a_cooperative_member_joins_with_what_it_owns_and_drops_only_what_goes() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0, O1)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator.assignment = [O0, O2]
    world.pass_time(3.5)
    subscription = decode_subscription(bytes(coordinator.joins()[2].protocols[0].metadata))
    assert (subscription.owned, subscription.generation) == ((O0, O1), 1)
    group.poll()
    assert group.log[1:] == ["revoked orders-1", "assigned orders-2", "assigned"]
    # after a revocation it joins once more, so that others can have what it gave up
    assert decode_subscription(bytes(coordinator.joins()[3].protocols[0].metadata)).owned == (O0, O2)
    assert len(coordinator.joins()) == 4


def test_a_cooperative_member_revokes_what_it_no_longer_subscribes_to_before_it_joins() -> None:
    _, coordinator, group = setup(COOPERATIVE, leader=False)
    coordinator.assignment = [O0, P0]
    group.topics = ["orders", "payments"]
    group.poll()
    group.topics = ["payments"]
    group.membership.subscription_changed()
    coordinator.assignment = [P0]
    group.poll()
    assert group.log[1] == "revoked orders-0"
    assert decode_subscription(bytes(coordinator.joins()[-1].protocols[0].metadata)).owned == (P0,)


def test_a_subscription_that_changes_while_joining_leads_to_another_join() -> None:
    world, coordinator, group = setup(leader=False)
    coordinator.assignment = [O0]
    group.membership.poll_heartbeat(world.now)
    while not coordinator.joins():
        world.pass_time(0.001)
    group.resubscribe("payments")
    coordinator.assignment = [P0]
    group.poll()
    assert group.owned == ["payments-0"]
    assert "orders-0" not in " ".join(group.log)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.ILLEGAL_GENERATION, "m-1"), (ErrorCode.UNKNOWN_MEMBER_ID, "m-2")]
)
@pytest.mark.parametrize("assignors", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_member_that_the_group_went_on_without_loses_all(assignors, code: ErrorCode, member_id: str) -> None:
    world, coordinator, group = follower(assignors, O0)
    coordinator.refuse(HeartbeatRequest, code)
    world.pass_time(3.5)
    assert group.membership.generation == -1
    group.poll()
    assert group.log == ["assigned orders-0", "lost orders-0", "assigned orders-0"]
    assert group.membership.member_id == member_id
    assert decode_subscription(bytes(coordinator.joins()[-1].protocols[0].metadata)).owned == ()


def test_a_revocation_that_nobody_saw_becomes_a_loss() -> None:
    world, coordinator, group = follower(EAGER, O0)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    world.pass_time(7)
    group.poll()
    assert group.log[1] == "lost orders-0"


def test_an_event_in_the_listeners_hands_stays_what_it_was() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0, O1)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator.assignment = [O0]
    world.pass_time(3.5)
    event = group.membership.next_event()
    assert event is not None
    coordinator.refuse(HeartbeatRequest, ErrorCode.UNKNOWN_MEMBER_ID)
    world.pass_time(3.5)
    assert group.membership.next_event() is event
    group.handle(event)
    group.membership.acknowledge(event)
    group.poll()
    assert group.log[1:3] == ["revoked orders-1", "lost orders-0"]


def test_a_listener_that_takes_longer_than_the_poll_interval_loses_the_rest() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0, O1, max_poll_interval_ms=20_000)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator.assignment = [O0]
    world.pass_time(3.5)
    event = group.membership.next_event()
    assert event is not None
    world.pass_time(30)
    assert coordinator.broker.received(LeaveGroupRequest)
    group.membership.poll_heartbeat(world.now)
    world.pass_time(1)
    assert group.membership.next_event() is event
    group.handle(event)
    group.membership.acknowledge(event)
    group.poll()
    assert group.log[1:] == ["revoked orders-1", "lost orders-0", "assigned orders-0"]


def test_a_listener_may_end_the_membership() -> None:
    world, coordinator, group = follower(EAGER, O0, O1)
    coordinator.refuse(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    world.pass_time(3.5)
    event = group.membership.next_event()
    assert event is not None
    group.handle(event)
    group.leave()
    group.membership.acknowledge(event)
    assert group.log[1:] == ["revoked orders-0 orders-1"]


def test_a_refused_commit_of_this_generation_counts_and_one_of_an_earlier_does_not() -> None:
    _, coordinator, group = follower(EAGER, O0)
    group.membership.failed(ErrorCode.ILLEGAL_GENERATION, generation=0)
    group.poll()
    assert len(coordinator.joins()) == 2
    group.membership.failed(ErrorCode.OFFSET_METADATA_TOO_LARGE, generation=1)
    group.poll()
    assert len(coordinator.joins()) == 2
    group.membership.failed(ErrorCode.REBALANCE_IN_PROGRESS, generation=1)
    group.poll()
    assert len(coordinator.joins()) == 3
    assert group.log[1] == "revoked orders-0"


def test_a_fenced_instance_is_told_at_every_poll_and_never_joins_again() -> None:
    world, coordinator, group = follower(EAGER, O0, group_instance_id="i")
    coordinator.refuse(HeartbeatRequest, ErrorCode.FENCED_INSTANCE_ID)
    world.pass_time(3.5)
    joins = len(coordinator.joins())
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            group.poll()
        assert caught.value.code == ErrorCode.FENCED_INSTANCE_ID
    assert len(coordinator.joins()) == joins
    group.leave()
    assert group.log == ["assigned orders-0", "lost orders-0"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ],
)
def test_what_may_pass_is_told_once_and_tried_again(code: ErrorCode) -> None:
    _, coordinator, group = setup()
    coordinator.refuse(JoinGroupRequest, code)
    group.poll()
    with pytest.raises(KafkaError) as caught:
        group.poll()
    assert caught.value.code == code
    group.poll()
    assert group.owned == ["orders-0", "orders-1"]


def test_a_join_that_fails_again_and_again_is_tried_with_growing_pauses() -> None:
    _, coordinator, group = setup(group_instance_id="i")
    coordinator.refuse(JoinGroupRequest, *[ErrorCode.UNKNOWN_MEMBER_ID] * 50)
    group.poll(10)
    assert 8 < len(coordinator.joins()) < 20


def test_a_coordinator_that_moves_is_followed() -> None:
    world, coordinator, group = setup()
    moved_to = Coordinator(world.broker(1), leader=False, assignment=[O1])
    coordinator.refuse(JoinGroupRequest, ErrorCode.NOT_COORDINATOR)
    world.brokers[coordinator.broker.address].coordinates()
    asked: list[object] = []

    def find(request):
        asked.append(request)
        return _coordinator_is(request, coordinator.broker if len(asked) == 1 else moved_to.broker)

    coordinator.broker.on_key(10, find)
    group.poll(1)
    assert group.owned == ["orders-1"]
    assert moved_to.joins()


def _coordinator_is(request, broker):
    from headwater.wire.messages.find_coordinator import Coordinator as Found
    from headwater.wire.messages.find_coordinator import FindCoordinatorResponse

    host, port = broker.address
    return FindCoordinatorResponse(
        coordinators=[Found(key=key, node_id=broker.id, host=host, port=port) for key in request.coordinator_keys]
    )


def test_a_rebalance_that_begins_before_the_sync_is_joined_at_once() -> None:
    _, coordinator, group = setup()
    coordinator.refuse(SyncGroupRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    group.poll()
    assert group.owned == ["orders-0", "orders-1"]
    assert group.membership.generation == 2


def test_a_broken_connection_while_joining_does_not_cost_a_cooperative_member_what_it_owns() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0)
    coordinator.broker.on(JoinGroupRequest, lambda _: HOLD)
    group.membership.failed(ErrorCode.REBALANCE_IN_PROGRESS)
    world.pass_time(5)
    assert group.membership.rebalancing
    coordinator.broker.on(JoinGroupRequest, coordinator._join)
    coordinator.broker.disconnect()
    group.poll(2)
    assert group.log == ["assigned orders-0", "assigned"]
    assert not group.membership.rebalancing


def test_no_heartbeat_is_sent_while_a_join_is_under_way() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0)
    coordinator.broker.on(JoinGroupRequest, lambda _: HOLD)
    group.membership.failed(ErrorCode.REBALANCE_IN_PROGRESS)
    world.pass_time(20)
    assert not coordinator.broker.received(HeartbeatRequest)


def test_an_application_that_does_not_poll_leaves_and_comes_back_with_the_next_poll() -> None:
    world, coordinator, group = follower(EAGER, O0, max_poll_interval_ms=20_000)
    world.pass_time(21)
    (goodbye,) = coordinator.broker.received(LeaveGroupRequest)
    assert goodbye.members[0].member_id == "m-1"
    assert goodbye.members[0].reason
    assert (group.membership.member_id, group.membership.generation) == ("", -1)
    joins = len(coordinator.joins())
    world.pass_time(60)
    assert len(coordinator.joins()) == joins
    group.poll()
    assert group.log == ["assigned orders-0", "lost orders-0", "assigned orders-0"]


def test_an_application_that_polls_now_and_then_stays() -> None:
    world, coordinator, group = follower(EAGER, O0, max_poll_interval_ms=20_000)
    for _ in range(5):
        world.pass_time(15)
        group.poll()
    assert not coordinator.broker.received(LeaveGroupRequest)
    assert len(coordinator.joins()) == 2


def test_a_poll_that_waits_long_tells_until_when() -> None:
    world, coordinator, group = follower(EAGER, O0, max_poll_interval_ms=20_000)
    group.membership.poll_heartbeat(world.now + 100)
    world.pass_time(100)
    assert not coordinator.broker.received(LeaveGroupRequest)


def test_a_static_member_that_does_not_poll_says_nothing() -> None:
    world, coordinator, group = follower(EAGER, O0, max_poll_interval_ms=20_000, group_instance_id="i")
    world.pass_time(30)
    assert not coordinator.broker.received(LeaveGroupRequest)
    beats = len(coordinator.broker.received(HeartbeatRequest))
    world.pass_time(30)
    assert len(coordinator.broker.received(HeartbeatRequest)) == beats
    group.poll()
    assert group.log[1:] == ["lost orders-0", "assigned orders-0"]


def test_leaving_revokes_and_says_why() -> None:
    world, coordinator, group = follower(EAGER, O0)
    group.leave("the consumer is closed")
    assert group.log == ["assigned orders-0", "revoked orders-0"]
    (goodbye,) = coordinator.broker.received(LeaveGroupRequest)
    assert [(each.member_id, each.reason) for each in goodbye.members] == [("m-1", "the consumer is closed")]
    world.pass_time(60)
    assert not coordinator.broker.received(HeartbeatRequest)


@pytest.mark.parametrize(
    ("instance", "departure", "leaves"),
    [
        (None, Departure.DEFAULT, True),
        ("i", Departure.DEFAULT, False),
        ("i", Departure.LEAVE, True),
        (None, Departure.REMAIN, False),
    ],
)
def test_who_says_goodbye(instance: str | None, departure: Departure, leaves: bool) -> None:
    world, coordinator, group = follower(EAGER, O0, group_instance_id=instance)
    world.run(group.membership.leave("closed", departure))
    assert bool(coordinator.broker.received(LeaveGroupRequest)) == leaves


def test_leaving_while_a_join_is_held_back_does_not_wait_for_it() -> None:
    world, coordinator, group = follower(COOPERATIVE, O0)
    coordinator.broker.on(JoinGroupRequest, lambda _: HOLD)
    group.membership.failed(ErrorCode.REBALANCE_IN_PROGRESS)
    world.pass_time(1)
    before = world.now
    group.leave()
    assert world.now - before < 0.1
    assert coordinator.broker.received(LeaveGroupRequest)


def test_leaving_a_coordinator_that_does_not_answer_takes_a_bounded_time() -> None:
    world, coordinator, group = follower(EAGER, O0)
    coordinator.broker.stop()
    before = world.now
    world.run(group.membership.leave("closed", timeout_ms=700))
    assert world.now - before < 0.8


def test_after_leaving_it_can_start_again() -> None:
    _, _coordinator, group = follower(EAGER, O0)
    group.leave()
    group.membership.start()
    group.poll()
    assert group.owned == ["orders-0"]
    assert group.membership.member_id == "m-2"


def test_an_assignor_that_fails_is_told() -> None:
    class Broken(RangeAssignor):
        name = "broken"

        def assign(self, partition_counts, members):
            raise RuntimeError("no idea")

    _, _coordinator, group = setup((Broken(),))
    group.poll()
    with pytest.raises(KafkaError, match="the assignor 'broken' failed: RuntimeError: no idea"):
        group.poll()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"nobody": [O0]}, "not a member"),
        ({"m-1": [P0]}, "does not subscribe"),
        ({"m-1": [TopicPartition("orders", 9)]}, "does not exist"),
        ({"m-1": [O0, O0]}, "two members"),
    ],
)
def test_an_assignor_that_is_wrong_does_not_reach_the_group(given, why: str) -> None:
    class Wrong(RangeAssignor):
        name = "wrong"

        def assign(self, partition_counts, members):
            return given

    _, coordinator, group = setup((Wrong(),))
    group.poll()
    with pytest.raises(KafkaError, match=why):
        group.poll()
    assert not coordinator.broker.received(SyncGroupRequest)


def test_a_sticky_member_tells_what_it_had_after_it_gave_it_up() -> None:
    _world, coordinator, group = setup((StickyAssignor(),))
    group.poll()
    group.membership.failed(ErrorCode.REBALANCE_IN_PROGRESS)
    coordinator.others["other"] = MemberSubscription(topics=("orders",))
    group.poll()
    data = decode_subscription(bytes(coordinator.joins()[-1].protocols[0].metadata)).user_data
    assert data is not None
    assert data.endswith((1).to_bytes(4, "big"))
    assert group.owned == ["orders-0"]


def test_the_coordinator_is_asked_over_a_connection_of_its_own() -> None:
    """A fetch that the broker holds back must not hold back heartbeats, nor a join a fetch."""
    world, _, group = setup()
    group.poll()
    assert len(world.dialled) == 2
    assert len(set(world.dialled)) == 1


def test_an_old_broker_gives_the_member_id_at_once_and_knows_less() -> None:
    world, coordinator, group = setup()
    for request in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest):
        coordinator.broker.versions[request.KEY] = (0, 1)

    def join(request: JoinGroupRequest):
        request.member_id = request.member_id or "given"
        return coordinator._join(request)

    coordinator.broker.on(JoinGroupRequest, join)
    group.poll()
    assert group.owned == ["orders-0", "orders-1"]
    world.pass_time(10)
    group.leave()
    (goodbye,) = coordinator.broker.received(LeaveGroupRequest)
    assert goodbye.member_id == "given"

"""A session: whom it asks, what it remembers, when it tries again."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.errors import BootstrapFailed, ConnectionFailed, UnknownTopic
from headwater.client.reactor.link import Link
from headwater.client.session import KeyType
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.wire.messages.metadata import MetadataRequest
from unit.client.reactor.fakes import CLOSE, HOLD, FakeBroker, FakeWorld


def test_the_same_question_under_way_is_asked_once() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    world.topic("orders")
    session = world.session()
    first = world.kernel.spawn(session.refresh(["orders"]))
    second = world.kernel.spawn(session.refresh(["orders"]))
    assert world.finish(first) == world.finish(second)
    assert len(broker.received(MetadataRequest)) == 1


def test_a_topic_that_is_not_there_is_asked_for_three_times() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    world.topic("orders")
    with pytest.raises(UnknownTopic) as caught:
        world.run(world.session().topic("ordres"))
    assert caught.value.known == ["orders"]
    assert len([request for request in broker.received(MetadataRequest) if request.topics]) == 3


def test_a_dead_bootstrap_server_is_passed_over() -> None:
    world = FakeWorld()
    world.broker(0).listening = False
    world.broker(1)
    world.topic("orders")
    session = world.session()
    assert len(world.run(session.refresh(["orders"]))) == 1


def test_no_bootstrap_server_answers() -> None:
    world = FakeWorld()
    world.broker(0).listening = False
    world.broker(1).listening = False
    with pytest.raises(BootstrapFailed) as caught:
        world.run(world.session().refresh())
    assert len(caught.value.attempts) == 2


def test_a_broker_that_refused_is_not_dialled_again_at_once() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    broker.listening = False
    session = world.session()
    with pytest.raises(BootstrapFailed):
        world.run(session.refresh())
    refused_at = world.now
    broker.start()
    world.run(session.refresh())
    assert world.now - refused_at >= 0.04


def test_a_coordinator_is_remembered_until_it_says_that_it_is_not() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    broker.coordinates()
    codes = [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=int(codes.pop(0))))
    session = world.session()

    async def beat() -> int:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        answer = await session.call_coordinator(
            "g", KeyType.GROUP, request, HeartbeatResponse, lambda response: response.error_code
        )
        return answer.error_code

    lookups = lambda: len([key for key, _ in broker.request_versions if key == 10])  # noqa: E731
    assert world.run(beat()) == 0
    assert lookups() == 1
    assert world.run(beat()) == 0
    assert lookups() == 2, "NOT_COORDINATOR looks again, loading does not"
    assert codes == []


def test_a_coordinator_that_has_left_the_cluster_is_looked_for_again() -> None:
    """Not only when it refuses: once the metadata tells of it no more, nobody knows where to ask it."""
    world = FakeWorld()
    first, second = world.broker(0), world.broker(1)
    for broker in (first, second):
        broker.on_key(10, lambda _: _coordinator(first if first.listening else second))
    second.on(HeartbeatRequest, lambda _: HeartbeatResponse())
    session = world.session()
    assert world.run(session.coordinator("g")) == 0
    first.stop()
    del world.brokers[first.address]
    world.run(session.refresh())
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    answer = world.run(
        session.call_coordinator("g", KeyType.GROUP, request, HeartbeatResponse, lambda response: response.error_code)
    )
    assert answer.error_code == 0


def test_the_link_to_a_coordinator_leads_to_its_successor_when_it_dies() -> None:
    world = FakeWorld()
    first, second = world.broker(0), world.broker(1)
    for broker in (first, second):
        broker.on_key(10, lambda _: _coordinator(first if first.listening else second))
    session = world.session()
    link = world.run(session.coordinator_link("id", KeyType.TRANSACTION))
    assert link.address == first.address
    first.stop()
    link = world.run(session.coordinator_link("id", KeyType.TRANSACTION))
    assert link.address == second.address


def test_a_coordinator_that_came_back_elsewhere_is_found_where_the_answer_says() -> None:
    """The address of its former life was known by the metadata, and dialled until the time was up."""
    world = FakeWorld()
    bootstrap, coordinator = world.broker(0), world.broker(1)
    bootstrap.on_key(10, lambda _: _coordinator(coordinator))
    session = world.session()
    assert world.run(session.coordinator_link("id", KeyType.TRANSACTION)).address == coordinator.address
    coordinator.stop()
    del world.brokers[coordinator.address]
    coordinator = FakeBroker(world, 1, Address("elsewhere", 9092))
    world.brokers[coordinator.address] = coordinator
    assert world.run(session.coordinator_link("id", KeyType.TRANSACTION)).address == coordinator.address


def test_an_answer_without_an_address_is_no_coordinator() -> None:
    """It counted as broker -1 of the cluster, or as another broker of no host, and metadata was asked for it."""
    world = FakeWorld()
    broker = world.broker(0)
    nowhere = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=-1, host="", port=-1)], node_id=-1)
    answers = [nowhere, _coordinator(broker)]
    broker.on_key(10, lambda _: answers.pop(0))
    assert world.run(world.session().coordinator("g")) == 0


def _coordinator(broker: FakeBroker) -> FindCoordinatorResponse:
    host, port = broker.address
    found = [Coordinator(key="", node_id=broker.id, host=host, port=port)]
    return FindCoordinatorResponse(node_id=broker.id, host=host, port=port, coordinators=found)


def test_a_leader_that_breaks_down_is_asked_again_with_fresh_metadata() -> None:
    world = FakeWorld()
    first, second = world.broker(0), world.broker(1)
    world.topic("orders", 2)
    first.on(ListGroupsRequest, lambda _: CLOSE)
    second.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    session = world.session()
    wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]

    async def ask(link: Link, partitions: list[TopicPartition]) -> dict[TopicPartition, str | KafkaError]:
        await link.call(ListGroupsRequest(), ListGroupsResponse)
        world.topics["orders"] = [1, 1]
        return dict.fromkeys(partitions, str(link.address))

    outcome = world.run(session.per_leader(wanted, ask))
    assert list(outcome) == wanted
    assert set(outcome.values()) == {"broker-1:9092"}


def test_an_error_that_will_not_pass_is_given_at_once() -> None:
    world = FakeWorld()
    world.broker(0)
    world.topic("orders")
    session = world.session()
    asked: list[object] = []

    async def ask(link: Link, partitions: list[TopicPartition]) -> dict[TopicPartition, str | KafkaError]:
        asked.append(link)
        return dict.fromkeys(partitions, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    partition = TopicPartition("orders", 0)
    outcome = world.run(session.per_leader([partition], ask))
    assert isinstance(outcome[partition], KafkaError)
    assert len(asked) == 1


def test_metadata_with_an_older_leader_epoch_does_not_replace_newer() -> None:
    world = FakeWorld()
    world.broker(0)
    world.broker(1)
    world.topic("orders")
    session = world.session()
    world.topics["orders"] = [1]
    world.leader_epochs["orders", 0] = 5
    world.run(session.refresh(["orders"]))
    world.topics["orders"] = [0]
    world.leader_epochs["orders", 0] = 4
    assert world.run(session.refresh(["orders"]))[0].partitions[0].leader == 1
    world.leader_epochs["orders", 0] = 6
    assert world.run(session.refresh(["orders"]))[0].partitions[0].leader == 0


def test_metadata_grows_old() -> None:
    world = FakeWorld()
    world.broker(0)
    world.topic("orders")
    session = world.session(metadata_max_age_ms=1000)
    assert session.is_stale("orders")
    world.run(session.refresh(["orders"]))
    assert not session.is_stale("orders")
    world.pass_time(1)
    assert session.is_stale("orders")


def test_closing_ends_everything() -> None:
    world = FakeWorld()
    world.broker(0)
    session = world.session()
    task = world.kernel.spawn(session.refresh())
    world.kernel.run_ready()
    session.close()
    world.pass_time(1)
    assert task.done
    assert task.error is not None


def test_a_bootstrap_server_that_says_nothing_is_passed_over_after_a_second() -> None:
    """A process that is stopped takes connections and does not answer: 30 seconds were waited for the versions it
    speaks.
    """
    world = FakeWorld()
    silent = world.broker(0)
    world.broker(1)
    world.topic("orders")
    silent.on_key(18, lambda _: HOLD)
    session = world.session()
    began = world.now
    assert len(world.run(session.refresh(["orders"]))) == 1
    assert 1 <= world.now - began < 2


def test_one_that_answers_late_is_not_given_up() -> None:
    world = FakeWorld()
    late, dead = world.broker(0), world.broker(1)
    dead.listening = False
    world.topic("orders")
    late.on_key(18, lambda _: HOLD)
    session = world.session()
    refreshing = world.kernel.spawn(session.refresh(["orders"]))
    world.pass_time(5)
    late.answer_held(late._api_versions())
    assert len(world.finish(refreshing)) == 1
    assert world.dialled == [late.address, dead.address]


def test_brokers_that_all_say_nothing_have_failed_when_the_time_for_a_connection_is_up() -> None:
    world = FakeWorld()
    for number in range(3):
        world.broker(number).on_key(18, lambda _: HOLD)
    session = world.session(connect_timeout_ms=10_000)
    began = world.now
    with pytest.raises(BootstrapFailed) as caught:
        world.run(session.refresh())
    assert len(caught.value.attempts) == 3
    assert 12 <= world.now - began < 13, "the third is dialled after two seconds"


def test_a_closed_session_opens_nothing() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    session = world.session()
    session.close()
    with pytest.raises(ConnectionFailed, match="the client is closed"):
        world.run(session.link_to(broker.address))
    assert world.dialled == []


def test_a_session_that_is_closed_during_the_pause_before_a_dial_opens_nothing() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    broker.listening = False
    session = world.session()
    with pytest.raises(ConnectionFailed):
        world.run(session.link_to(broker.address))
    waiting = world.kernel.spawn(session.link_to(broker.address))
    world.kernel.run_ready()
    session._closed = True  # as `close` has it, for a task that it does not know of
    with pytest.raises(ConnectionFailed, match="the client is closed"):
        world.finish(waiting)
    assert len(world.dialled) == 1

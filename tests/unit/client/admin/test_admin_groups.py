"""Groups, committed offsets and transactions, asked of their coordinators: some move, some load, some are old."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.committed import (
    Committed,
    alter_group_offsets,
    delete_group_offsets,
    list_group_offsets,
)
from headwater.client.admin.groups import decode_assignment, delete_groups, describe_group, describe_groups, list_groups
from headwater.client.admin.members import MemberToRemove, remove_members
from headwater.client.admin.transactions import (
    ActiveProducer,
    FencedProducer,
    abort_transaction,
    describe_producers,
    describe_transaction,
    fence_producers,
    list_transactions,
)
from headwater.client.errors import BootstrapFailed
from headwater.wire.messages import consumer_group_describe as consumer
from headwater.wire.messages import delete_groups as deletion
from headwater.wire.messages import describe_groups as classic
from headwater.wire.messages import describe_producers as producers_wire
from headwater.wire.messages import leave_group, offset_commit, offset_delete, offset_fetch
from headwater.wire.messages import write_txn_markers as markers
from headwater.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headwater.wire.messages.init_producer_id import InitProducerIdResponse
from headwater.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from headwater.wire.messages.list_transactions import ListTransactionsResponse
from headwater.wire.registry import known_keys, request_class
from unit.client.reactor.fakes import CLOSE, FakeWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ASSIGNMENT = b"\0\3\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
KEYS = {request_class(key).__name__.removesuffix("Request"): key for key in known_keys()}


class World(FakeWorld):
    """Brokers 1 and 2. `answers` maps the name of a request to what a broker says;
    `coordinator` names the one to ask.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coordinator: list[int] = [1]  # the last one stays
        self.asked: list[tuple[int, str]] = []
        for number in (1, 2):
            self.broker(number).on_key(10, self._find)

    def on(self, name: str, answer: Callable[[int, Any], Any]) -> None:
        for broker in self.brokers.values():

            def said(request: Any, number: int = broker.id) -> Any:
                self.asked.append((number, name))
                return answer(number, request)

            broker.on_key(KEYS[name], said)

    def offers(self, name: str, highest: int | None) -> None:
        """None: not at all."""
        for broker in self.brokers.values():
            lowest, _ = broker.versions.pop(KEYS[name])
            if highest is not None:
                broker.versions[KEYS[name]] = (lowest, highest)

    def _find(self, request: Any) -> FindCoordinatorResponse:
        node = self.coordinator.pop(0) if len(self.coordinator) > 1 else self.coordinator[0]
        code = 0 if node > 0 else int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        found = Coordinator(
            key=request.coordinator_keys[0], node_id=node, host=f"broker-{node}", port=9092, error_code=code
        )
        return FindCoordinatorResponse(coordinators=[found])


@pytest.fixture
def world() -> World:
    return World()


def deleted(code: int = 0) -> deletion.DeleteGroupsResponse:
    return deletion.DeleteGroupsResponse(results=[deletion.DeletableGroupResult(group_id="g", error_code=code)])


def test_a_coordinator_that_is_not_there_yet_is_waited_for(world: World) -> None:
    world.coordinator = [-1, -1, 2]
    world.on("DeleteGroups", lambda _b, _r: deleted())
    assert world.run(delete_groups(world.session(), ["g"])) == {"g": None}
    assert world.asked == [(2, "DeleteGroups")]


def test_a_coordinator_that_never_comes_is_an_error_after_a_while(world: World) -> None:
    world.coordinator = [-1]
    started = world.now
    with pytest.raises(KafkaError) as raised:
        world.run(describe_group(world.session(api_timeout_ms=10_000), "g"))
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 8 < world.now - started <= 10.1


def test_a_coordinator_that_moved_loads_or_breaks_is_looked_for_again(world: World) -> None:
    world.coordinator = [1, 2, 1]
    answers = [
        deleted(int(ErrorCode.NOT_COORDINATOR)),
        deleted(int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
        CLOSE,
        deleted(),
    ]
    world.on("DeleteGroups", lambda _b, _r: answers.pop(0))
    assert world.run(delete_groups(world.session(), ["g"])) == {"g": None}
    assert [broker for broker, _ in world.asked] == [1, 2, 2, 1]


def test_without_any_broker_nobody_waits_for_a_coordinator(world: World) -> None:
    for broker in world.brokers.values():
        broker.stop()
    started = world.now
    with pytest.raises(BootstrapFailed):
        world.run(describe_group(world.session(), "g"))
    assert world.now - started < 1


def test_groups_of_all_brokers_are_listed_by_id(world: World) -> None:
    def answer(broker: int, request: Any) -> Any:
        assert (request.states_filter, request.types_filter) == (["Empty"], ["classic"])
        name = {1: "z", 2: "a"}[broker]
        return ListGroupsResponse(
            groups=[ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic")]
        )

    world.on("ListGroups", answer)
    assert [each.group_id for each in world.run(list_groups(world.session(), states=["Empty"], types=["classic"]))] == [
        "a",
        "z",
    ]


def classic_answer(state: str, **more: Any) -> Callable[[int, Any], Any]:
    member = classic.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=ASSIGNMENT
    )
    group = classic.DescribedGroup(
        group_id="g", group_state=state, protocol_type="consumer", protocol_data="range", members=[member], **more
    )
    return lambda _broker, _request: classic.DescribeGroupsResponse(groups=[group])


@pytest.mark.parametrize("knows_new_groups", [True, False])
def test_a_classic_group_is_found_behind_the_new_call(world: World, knows_new_groups: bool) -> None:
    missing = consumer.DescribedGroup(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND), group_id="g")
    world.on("ConsumerGroupDescribe", lambda _b, _r: consumer.ConsumerGroupDescribeResponse(groups=[missing]))
    world.on("DescribeGroups", classic_answer("Stable"))
    if not knows_new_groups:
        world.offers("ConsumerGroupDescribe", None)
    found = world.run(describe_group(world.session(), "g"))
    assert (found.type, found.state, found.assignor, found.is_active) == ("Classic", "Stable", "range", True)
    assert found.members[0].assignment == [T0, T1]
    assert ((1, "ConsumerGroupDescribe") in world.asked) == knows_new_groups


def test_a_group_of_the_new_protocol(world: World) -> None:
    held = consumer.Assignment(topic_partitions=[consumer.TopicPartitions(topic_name="t", partitions=[1])])
    member = consumer.Member(member_id="m", member_epoch=4, client_id="c", client_host="/h", assignment=held)
    group = consumer.DescribedGroup(
        group_id="g", group_state="Empty", group_epoch=5, assignment_epoch=4, assignor_name="uniform", members=[member]
    )
    world.on("ConsumerGroupDescribe", lambda _b, _r: consumer.ConsumerGroupDescribeResponse(groups=[group]))
    found = world.run(describe_group(world.session(), "g"))
    assert (found.type, found.epoch, found.target_epoch, found.is_active) == ("Consumer", 5, 4, False)
    assert (found.members[0].assignment, found.members[0].target, found.members[0].epoch) == ([T1], [], 4)


@pytest.mark.parametrize("state", ["Dead", "Stable"])
def test_a_group_that_is_not_there(world: World, state: str) -> None:
    """Old brokers call it dead, new ones answer an error."""
    world.offers("ConsumerGroupDescribe", None)
    code = 0 if state == "Dead" else int(ErrorCode.GROUP_ID_NOT_FOUND)
    world.on("DescribeGroups", classic_answer(state, error_code=code))
    with pytest.raises(KafkaError) as raised:
        world.run(describe_group(world.session(), "g"))
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_assignments_of_consumers() -> None:
    assert decode_assignment(b"") == []
    assert decode_assignment(ASSIGNMENT) == [T0, T1]
    for damaged in (ASSIGNMENT[:12], ASSIGNMENT[:5], b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"):
        with pytest.raises(KafkaError):
            decode_assignment(damaged)


@pytest.mark.parametrize("version", [7, 9])
def test_committed_offsets_in_both_shapes(world: World, version: int) -> None:
    world.offers("OffsetFetch", version)

    def answer(_broker: int, request: Any) -> Any:
        numbers = [(0, 5), (1, -1)]
        if version < 8:
            assert request.group_id == "g"
            partitions: Any = [
                offset_fetch.OffsetFetchResponsePartition(partition_index=i, committed_offset=o, metadata="m")
                for i, o in numbers
            ]
            topics: Any = [offset_fetch.OffsetFetchResponseTopic(name="t", partitions=partitions)]
            return offset_fetch.OffsetFetchResponse(topics=topics)
        assert request.groups[0].topics is None
        partitions = [
            offset_fetch.OffsetFetchResponsePartitions(partition_index=i, committed_offset=o, metadata="m")
            for i, o in numbers
        ]
        topics = [offset_fetch.OffsetFetchResponseTopics(name="t", partitions=partitions)]
        return offset_fetch.OffsetFetchResponse(
            groups=[offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=topics)]
        )

    world.on("OffsetFetch", answer)
    assert world.run(list_group_offsets(world.session(), "g")) == {T0: Committed(5, -1, "m")}


def test_offsets_of_an_open_transaction_are_an_error_at_once(world: World) -> None:
    """It was said that `require_stable` waits for them; whoever asks knows for how long, and what else to do."""

    def answer(_broker: int, request: Any) -> Any:
        assert request.require_stable
        partition = offset_fetch.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=-1, metadata="", error_code=int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        )
        topics = [offset_fetch.OffsetFetchResponseTopics(name="t", partitions=[partition])]
        return offset_fetch.OffsetFetchResponse(
            groups=[offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=topics)]
        )

    world.on("OffsetFetch", answer)
    with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT: t-0"):
        world.run(list_group_offsets(world.session(), "g", require_stable=True))
    assert len([name for _, name in world.asked if name == "OffsetFetch"]) == 1


def test_each_partition_has_its_own_outcome(world: World) -> None:
    def committed(_broker: int, request: Any) -> Any:
        assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
        sent = [
            (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata)
            for each in request.topics[0].partitions
        ]
        assert sent == [(0, 5, 3, "m"), (1, 6, -1, "")]
        results = [
            offset_commit.OffsetCommitResponsePartition(partition_index=i, error_code=c) for i, c in ((0, 0), (1, 3))
        ]
        return offset_commit.OffsetCommitResponse(
            topics=[offset_commit.OffsetCommitResponseTopic(name="t", partitions=results)]
        )

    world.on("OffsetCommit", committed)
    outcome = world.run(alter_group_offsets(world.session(), "g", {T1: 6, T0: Committed(5, 3, "m")}))
    assert outcome[T0] is None
    assert outcome[T1] is not None
    assert outcome[T1].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_concerns_the_whole_group_is_raised(world: World) -> None:
    refusal = offset_delete.OffsetDeleteResponse(error_code=int(ErrorCode.NON_EMPTY_GROUP))
    world.on("OffsetDelete", lambda _b, _r: refusal)
    with pytest.raises(KafkaError) as raised:
        world.run(delete_group_offsets(world.session(), "g", [T0]))
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


def test_a_filter_that_a_broker_does_not_know_is_not_left_out(world: World) -> None:
    world.offers("ListTransactions", 1)
    world.on("ListTransactions", lambda _b, _r: ListTransactionsResponse())
    assert world.run(list_transactions(world.session(), running_longer_than_ms=5)) == []
    with pytest.raises(KafkaError) as raised:
        world.run(list_transactions(world.session(), pattern="a.*"))
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_transaction_that_is_not_there(world: World) -> None:
    state = TransactionState(error_code=int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), transactional_id="x")
    world.on("DescribeTransactions", lambda _b, _r: DescribeTransactionsResponse(transaction_states=[state]))
    with pytest.raises(KafkaError) as raised:
        world.run(describe_transaction(world.session(), "x"))
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_fencing_waits_for_a_transaction_that_is_being_ended(world: World) -> None:
    codes = [int(ErrorCode.CONCURRENT_TRANSACTIONS), 0]
    world.on("InitProducerId", lambda _b, _r: InitProducerIdResponse(error_code=codes.pop(0), producer_id=7))
    assert world.run(fence_producers(world.session(), ["x"])) == {"x": FencedProducer(7, 0)}
    assert codes == []


def test_groups_have_an_outcome_each(world: World) -> None:
    world.offers("ConsumerGroupDescribe", None)
    world.on(
        "DescribeGroups",
        lambda broker, request: classic_answer("Dead" if request.groups == ["no"] else "Empty")(broker, request),
    )
    outcome = world.run(describe_groups(world.session(), ["no", "g"]))
    assert isinstance(outcome["no"], KafkaError)
    assert not isinstance(outcome["g"], KafkaError)


def test_a_filter_of_groups_that_a_broker_does_not_know_is_not_left_out(world: World) -> None:
    world.offers("ListGroups", 4)
    world.on("ListGroups", lambda _b, _r: ListGroupsResponse())
    assert world.run(list_groups(world.session(), states=["Empty"])) == []
    with pytest.raises(KafkaError, match="filter groups"):
        world.run(list_groups(world.session(), types=["consumer"]))


def test_all_members_are_sent_away_static_ones_by_their_instance(world: World) -> None:
    held = [("m1", None), ("m2", "i2")]
    members = [
        classic.DescribedGroupMember(member_id=member, group_instance_id=instance, member_assignment=b"")
        for member, instance in held
    ]
    group = classic.DescribedGroup(group_id="g", group_state="Stable", protocol_type="consumer", members=members)
    world.offers("ConsumerGroupDescribe", None)
    world.on("DescribeGroups", lambda _b, _r: classic.DescribeGroupsResponse(groups=[group]))

    def left(_broker: int, request: Any) -> Any:
        assert [(each.member_id, each.group_instance_id) for each in request.members] == [("m1", None), ("", "i2")]
        answers = [
            leave_group.MemberResponse(member_id="m1", error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)),
            leave_group.MemberResponse(member_id="m2", group_instance_id="i2"),
        ]
        return leave_group.LeaveGroupResponse(members=answers)

    world.on("LeaveGroup", left)
    outcome = world.run(remove_members(world.session(), "g"))
    error = outcome[MemberToRemove(None, "m1")]
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert outcome[MemberToRemove("i2")] is None


def test_an_old_broker_lets_nobody_be_sent_away(world: World) -> None:
    world.offers("LeaveGroup", 2)
    with pytest.raises(KafkaError, match="leave by themselves"):
        world.run(remove_members(world.session(), "g", [MemberToRemove("i")]))


def test_producers_of_a_partition_and_the_end_of_a_hanging_transaction(world: World) -> None:
    world.topic("t", 2)  # the second partition is led by broker 2

    def known(_broker: int, request: Any) -> Any:
        assert request.topics[0].partition_indexes == [1]
        state = producers_wire.ProducerState(
            producer_id=7,
            producer_epoch=1,
            last_sequence=3,
            last_timestamp=5,
            coordinator_epoch=-1,
            current_txn_start_offset=9,
        )
        answer = producers_wire.PartitionResponse(partition_index=1, active_producers=[state])
        return producers_wire.DescribeProducersResponse(
            topics=[producers_wire.TopicResponse(name="t", partitions=[answer])]
        )

    def marked(_broker: int, request: Any) -> Any:
        (marker,) = request.markers
        assert (marker.producer_id, marker.transaction_result, marker.coordinator_epoch) == (7, False, 0)
        result = markers.WritableTxnMarkerPartitionResult(partition_index=1)
        topic = markers.WritableTxnMarkerTopicResult(name="t", partitions=[result])
        return markers.WriteTxnMarkersResponse(markers=[markers.WritableTxnMarkerResult(producer_id=7, topics=[topic])])

    world.on("DescribeProducers", known)
    world.on("WriteTxnMarkers", marked)
    session = world.session()
    assert world.run(describe_producers(session, [T1])) == {T1: [ActiveProducer(7, 1, -1, 3, 5, 9)]}
    world.run(abort_transaction(session, T1, 7, 1, -1))
    assert world.asked == [(2, "DescribeProducers"), (2, "WriteTxnMarkers")]
    world.run(describe_producers(session, [T1], broker_id=1))
    assert world.asked[-1] == (1, "DescribeProducers")

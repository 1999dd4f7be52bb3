"""Groups, committed offsets and transactions, asked of coordinators that are Python objects; some move, some load."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.cluster import Cluster
from headwater.client.committed import Committed, commit_offsets, committed_offsets, delete_offsets
from headwater.client.coordinators import KeyType, find_coordinator
from headwater.client.errors import ConnectionFailed
from headwater.client.groups import decode_assignment, delete_groups, describe_group, list_groups
from headwater.client.transactions import describe_transaction, fence_producer, list_transactions
from headwater.wire.messages import consumer_group_describe as consumer
from headwater.wire.messages import delete_groups as deletion
from headwater.wire.messages import describe_groups as classic
from headwater.wire.messages import offset_commit, offset_delete, offset_fetch
from headwater.wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headwater.wire.messages.init_producer_id import InitProducerIdResponse
from headwater.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from headwater.wire.messages.list_transactions import ListTransactionsResponse
from headwater.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ASSIGNMENT = b"\0\3\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\0\xff\xff\xff\xff"


class World:
    """Two brokers. `answers` maps the name of a request to what a broker says; `coordinator` names the one to ask."""

    def __init__(self) -> None:
        self.coordinator: list[int] = [1]  # the last one stays
        self.answers: dict[str, Callable[[int, Any], Any]] = {}
        self.asked: list[tuple[int, str]] = []
        self.unsupported: set[str] = set()
        self.version = 9
        self.now = 0.0

    def cluster(self) -> Cluster:
        return Cluster(
            [Address("b1", 1)],
            api_timeout_ms=10_000,
            open_connection=lambda address, **_: Connection(self, address),  # type: ignore[arg-type,return-value]
            sleep=self.sleep,
            monotonic=lambda: self.now,
            chance=lambda: 0.5,
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self, broker: int, request: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if name == "Metadata":
            brokers = [MetadataResponseBroker(node_id=n, host=f"b{n}", port=n) for n in (1, 2)]
            return MetadataResponse(brokers=brokers, controller_id=1, topics=[])
        if name == "FindCoordinator":
            node = self.coordinator.pop(0) if len(self.coordinator) > 1 else self.coordinator[0]
            code = 0 if node > 0 else int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            found = Coordinator(
                key=request.coordinator_keys[0], node_id=node, host=f"b{node}", port=node, error_code=code
            )
            return FindCoordinatorResponse(coordinators=[found])
        self.asked.append((broker, name))
        return self.answers[name](broker, request)


class Connection:
    def __init__(self, world: World, address: Address) -> None:
        self.world = world
        self.address = address
        self.is_open = True

    def call(self, request: Any, _response: Any, **_: Any) -> Any:
        return self.world.answer(self.address.port, request)

    def supports(self, request: Any) -> bool:
        return request.__name__.removesuffix("Request") not in self.world.unsupported

    def version_for(self, _request: Any, _at_most: int | None = None) -> int:
        return self.world.version

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def world() -> World:
    return World()


def test_a_coordinator_that_is_not_there_yet_is_waited_for(world: World) -> None:
    world.coordinator = [-1, -1, 2]
    found = find_coordinator(world.cluster(), "g")
    assert (found.id, found.host, found.port) == (2, "b2", 2)
    assert world.now > 0


def test_a_coordinator_that_never_comes_is_an_error_after_a_while(world: World) -> None:
    world.coordinator = [-1]
    with pytest.raises(KafkaError) as raised:
        find_coordinator(world.cluster(), "x", KeyType.TRANSACTION)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 9 < world.now <= 10


def test_a_coordinator_that_moved_loads_or_breaks_is_looked_for_again(world: World) -> None:
    world.coordinator = [1, 2, 1, 2]
    outcomes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None, ErrorCode.NONE]

    def answer(broker: int, request: Any) -> Any:
        code = outcomes.pop(0)
        if code is None:
            raise ConnectionFailed(Address(f"b{broker}", broker), "the connection broke")
        return deletion.DeleteGroupsResponse(
            results=[deletion.DeletableGroupResult(group_id="g", error_code=int(code))]
        )

    world.answers["DeleteGroups"] = answer
    assert delete_groups(world.cluster(), ["g"]) == {"g": None}
    assert [broker for broker, _ in world.asked] == [1, 2, 1, 2]


def test_groups_of_all_brokers_are_listed_by_id(world: World) -> None:
    def answer(broker: int, request: Any) -> Any:
        assert (request.states_filter, request.types_filter) == (["Empty"], ["classic"])
        name = {1: "z", 2: "a"}[broker]
        return ListGroupsResponse(
            groups=[ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic")]
        )

    world.answers["ListGroups"] = answer
    assert [each.group_id for each in list_groups(world.cluster(), ["Empty"], ["classic"])] == ["a", "z"]


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
    world.answers["ConsumerGroupDescribe"] = lambda _b, _r: consumer.ConsumerGroupDescribeResponse(groups=[missing])
    world.answers["DescribeGroups"] = classic_answer("Stable")
    if not knows_new_groups:
        world.unsupported = {"ConsumerGroupDescribe"}
    found = describe_group(world.cluster(), "g")
    assert (found.type, found.state, found.assignor, found.is_active) == ("Classic", "Stable", "range", True)
    assert found.members[0].assignment == [T0, T1]
    assert ((1, "ConsumerGroupDescribe") in world.asked) == knows_new_groups


def test_a_group_of_the_new_protocol(world: World) -> None:
    held = consumer.Assignment(topic_partitions=[consumer.TopicPartitions(topic_name="t", partitions=[1])])
    member = consumer.Member(member_id="m", member_epoch=4, client_id="c", client_host="/h", assignment=held)
    group = consumer.DescribedGroup(
        group_id="g", group_state="Empty", group_epoch=5, assignment_epoch=4, assignor_name="uniform", members=[member]
    )
    world.answers["ConsumerGroupDescribe"] = lambda _b, _r: consumer.ConsumerGroupDescribeResponse(groups=[group])
    found = describe_group(world.cluster(), "g")
    assert (found.type, found.epoch, found.target_epoch, found.is_active) == ("Consumer", 5, 4, False)
    assert (found.members[0].assignment, found.members[0].target, found.members[0].epoch) == ([T1], [], 4)


@pytest.mark.parametrize("state", ["Dead", "Stable"])
def test_a_group_that_is_not_there(world: World, state: str) -> None:
    """Old brokers call it dead, new ones answer an error."""
    world.unsupported = {"ConsumerGroupDescribe"}
    code = 0 if state == "Dead" else int(ErrorCode.GROUP_ID_NOT_FOUND)
    world.answers["DescribeGroups"] = classic_answer(state, error_code=code)
    with pytest.raises(KafkaError) as raised:
        describe_group(world.cluster(), "g")
    assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_assignments_of_consumers() -> None:
    assert decode_assignment(b"") == []
    assert decode_assignment(ASSIGNMENT) == [T0, T1]
    for damaged in (ASSIGNMENT[:12], ASSIGNMENT[:5], b"\0\0\0\0\0\1\0\1\xff\0\0\0\0"):
        with pytest.raises(KafkaError):
            decode_assignment(damaged)


@pytest.mark.parametrize("version", [7, 9])
def test_committed_offsets_in_both_shapes(world: World, version: int) -> None:
    world.version = version

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

    world.answers["OffsetFetch"] = answer
    assert committed_offsets(world.cluster(), "g") == {T0: Committed(5, -1, "m")}


def test_each_partition_has_its_own_outcome(world: World) -> None:
    def committed(_broker: int, request: Any) -> Any:
        assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
        assert [(p.partition_index, p.committed_offset) for p in request.topics[0].partitions] == [(0, 5), (1, 6)]
        results = [
            offset_commit.OffsetCommitResponsePartition(partition_index=i, error_code=c) for i, c in ((0, 0), (1, 3))
        ]
        return offset_commit.OffsetCommitResponse(
            topics=[offset_commit.OffsetCommitResponseTopic(name="t", partitions=results)]
        )

    world.answers["OffsetCommit"] = committed
    outcome = commit_offsets(world.cluster(), "g", {T1: 6, T0: 5})
    assert outcome[T0] is None
    assert outcome[T1] is not None
    assert outcome[T1].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_concerns_the_whole_group_is_raised(world: World) -> None:
    world.answers["OffsetDelete"] = lambda _b, _r: offset_delete.OffsetDeleteResponse(
        error_code=int(ErrorCode.NON_EMPTY_GROUP)
    )
    with pytest.raises(KafkaError) as raised:
        delete_offsets(world.cluster(), "g", [T0])
    assert raised.value.code == ErrorCode.NON_EMPTY_GROUP


def test_a_filter_that_a_broker_does_not_know_is_not_left_out(world: World) -> None:
    world.version = 1
    world.answers["ListTransactions"] = lambda _b, _r: ListTransactionsResponse()
    assert list_transactions(world.cluster(), running_longer_than_ms=5) == []
    with pytest.raises(KafkaError) as raised:
        list_transactions(world.cluster(), pattern="a.*")
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_transaction_that_is_not_there(world: World) -> None:
    state = TransactionState(error_code=int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), transactional_id="x")
    world.answers["DescribeTransactions"] = lambda _b, _r: DescribeTransactionsResponse(transaction_states=[state])
    with pytest.raises(KafkaError) as raised:
        describe_transaction(world.cluster(), "x")
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_fencing_waits_for_a_transaction_that_is_being_ended(world: World) -> None:
    codes = [int(ErrorCode.CONCURRENT_TRANSACTIONS), 0]
    world.answers["InitProducerId"] = lambda _b, _r: InitProducerIdResponse(error_code=codes.pop(0))
    fence_producer(world.cluster(), "x")
    assert codes == []

"""Admin calls about groups: list, describe, committed offsets and their changes, delete. Each asks the group's coordinator.

Groups of both protocols look the same from here: a `GroupDescription` has members with the partitions they hold. No state.
"""

from collections.abc import Iterable, Mapping
from struct import error as struct_error
from struct import unpack_from
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.coordinators import KeyType, ask_coordinator, find_coordinator
from headwater.client.errors import error_for, raise_for
from headwater.client.types import Broker
from headwater.wire.messages import consumer_group_describe as consumer
from headwater.wire.messages import describe_groups as classic
from headwater.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
EMPTY: Final = "Empty"
DEAD: Final = "Dead"
STABLE: Final = "Stable"
STATES: Final = (EMPTY, STABLE, "Assigning", DEAD, "PreparingRebalance", "CompletingRebalance", "Reconciling")
_CONSUMER_PROTOCOL: Final = "consumer"


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str  # "" where the broker is too old to say
    type: str


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    epoch: int | None = None  # the new protocol only, as the target
    target: list[TopicPartition] | None = None


class GroupDescription(NamedTuple):
    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker
    members: list[GroupMember]
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        return self.state not in (EMPTY, DEAD)


def list_groups(cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
    """The groups of all brokers, by id; those of the given states and types only, where any are given."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    cluster.refresh()
    found: dict[str, GroupListing] = {}
    for broker_id in sorted(cluster.view.brokers):
        response = _list_of(cluster, broker_id, request)
        for each in response.groups:
            found[each.group_id] = GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
    return sorted(found.values())


def _list_of(cluster: Cluster, broker_id: int, request: ListGroupsRequest) -> ListGroupsResponse:
    deadline = cluster.deadline()
    attempt = 0
    while True:
        response = cluster.broker(broker_id).call(request, ListGroupsResponse)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not cluster.pause(attempt, deadline):
            raise_for(response.error_code, f"broker {broker_id} cannot list its groups")
            return response
        attempt += 1


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """GROUP_ID_NOT_FOUND if there is none."""

    def ask(connection: Connection) -> consumer.DescribedGroup | classic.DescribedGroup:
        if connection.supports(consumer.ConsumerGroupDescribeRequest):
            request = consumer.ConsumerGroupDescribeRequest(group_ids=[group_id])
            found = connection.call(request, consumer.ConsumerGroupDescribeResponse).groups[0]
            if found.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                return found
        return connection.call(classic.DescribeGroupsRequest(groups=[group_id]), classic.DescribeGroupsResponse).groups[
            0
        ]

    described = ask_coordinator(cluster, group_id, KeyType.GROUP, ask, lambda answer: answer.error_code)
    raise_for(described.error_code, described.error_message or f"group {group_id!r}")
    coordinator = find_coordinator(cluster, group_id)
    if isinstance(described, consumer.DescribedGroup):
        return _consumer_group(described, coordinator)
    if described.group_state == DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return _classic_group(described, coordinator)


def _consumer_group(group: consumer.DescribedGroup, coordinator: Broker) -> GroupDescription:
    members = [
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            each.member_epoch,
            _partitions(each.target_assignment),
        )
        for each in group.members
    ]
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        _CONSUMER_PROTOCOL,
        group.assignor_name,
        coordinator,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def _partitions(assignment: consumer.Assignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions
    )


def _classic_group(group: classic.DescribedGroup, coordinator: Broker) -> GroupDescription:
    reads = group.protocol_type in ("", _CONSUMER_PROTOCOL)
    members = [
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            decode_assignment(each.member_assignment) if reads else [],
        )
        for each in group.members
    ]
    return GroupDescription(
        group.group_id, CLASSIC, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
    )


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in what a leader of a classic group of consumers gave a member:

    int16 version; int32 count of topics; each with int16 length, name, int32 count, int32 partitions; then user data.
    """
    found: list[TopicPartition] = []
    if not data:
        return found
    try:
        topics, at = unpack_from(">i", data, 2)[0], 6
        for _ in range(topics):
            (length,) = unpack_from(">h", data, at)
            name = bytes(data[at + 2 : at + 2 + length]).decode()
            at += 2 + length
            (count,) = unpack_from(">i", data, at)
            found += [TopicPartition(name, index) for index in unpack_from(f">{count}i", data, at + 4)]
            at += 4 + 4 * count
    except (struct_error, UnicodeDecodeError):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a member's assignment is not that of a consumer") from None
    return sorted(found)


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
    """What became of each: None if it is gone."""
    return {group_id: _delete_group(cluster, group_id) for group_id in group_ids}


def _delete_group(cluster: Cluster, group_id: str) -> KafkaError | None:
    request = DeleteGroupsRequest(groups_names=[group_id])
    response = ask_coordinator(
        cluster,
        group_id,
        KeyType.GROUP,
        lambda connection: connection.call(request, DeleteGroupsResponse),
        lambda answer: answer.results[0].error_code,
    )
    result = response.results[0]
    return error_for(result.error_code, result.error_message) if result.error_code else None


def held_by(description: GroupDescription) -> Mapping[TopicPartition, GroupMember]:
    """Which member has which partition."""
    return {partition: member for member in description.members for partition in member.assignment}

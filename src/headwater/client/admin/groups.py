"""Admin calls about groups: list, describe, delete. Each asks the group's coordinator.

Groups of both protocols look the same from here: a `GroupDescription` has members with the partitions they hold. No
state.
"""

from collections.abc import Iterable, Mapping
from struct import error as struct_error
from struct import unpack_from
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import each_of, every_broker, failure, of_broker, of_coordinator
from headwater.client.errors import raise_for
from headwater.client.outcomes import all_or_raise
from headwater.client.session import KeyType, Session
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

    def held_by(self) -> Mapping[TopicPartition, GroupMember]:
        """Which member has which partition."""
        return {partition: member for member in self.members for partition in member.assignment}


async def list_groups(session: Session, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
    """The groups of all brokers, by id; those of the given states and types only, where any are given."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def one(broker_id: int) -> ListGroupsResponse:
        await _check_filters(session, broker_id, request)
        response = await of_broker(session, broker_id, request, ListGroupsResponse, lambda answer: [answer.error_code])
        raise_for(response.error_code, f"broker {broker_id} cannot list its groups")
        return response

    answers = await each_of(session, await every_broker(session), one)
    found = {
        each.group_id: GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type)
        for response in all_or_raise(answers).values()
        for each in response.groups
    }
    return sorted(found.values())


async def _check_filters(session: Session, broker_id: int, request: ListGroupsRequest) -> None:
    """An old broker would leave a filter out, and list what was not asked for."""
    version = (await session.link(broker_id)).version_for(request)
    if (request.states_filter and version < 4) or (request.types_filter and version < 5):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot filter groups in this way")


async def describe_groups(session: Session, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
    """GROUP_ID_NOT_FOUND for one that is not there."""

    async def one(group_id: str) -> GroupDescription:
        return await _describe(session, group_id)

    return await each_of(session, group_ids, one)


async def describe_group(session: Session, group_id: str) -> GroupDescription:
    """GROUP_ID_NOT_FOUND if there is none."""
    return await _describe(session, group_id)


async def _describe(session: Session, group_id: str) -> GroupDescription:
    """A broker without the new protocol, and one whose group is classic, are asked in the old way."""
    described: consumer.DescribedGroup | classic.DescribedGroup | None = None
    try:
        described = await _describe_consumer(session, group_id)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
    if described is None or described.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        described = await _describe_classic(session, group_id)
    raise_for(described.error_code, described.error_message or f"group {group_id!r}")
    coordinator = session.view.brokers[await session.coordinator(group_id)]
    if isinstance(described, consumer.DescribedGroup):
        return _consumer_group(described, coordinator)
    if described.group_state == DEAD:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return _classic_group(described, coordinator)


async def _describe_consumer(session: Session, group_id: str) -> consumer.DescribedGroup:
    response = await of_coordinator(
        session,
        group_id,
        KeyType.GROUP,
        consumer.ConsumerGroupDescribeRequest(group_ids=[group_id]),
        consumer.ConsumerGroupDescribeResponse,
        lambda answer: answer.groups[0].error_code,
    )
    return response.groups[0]


async def _describe_classic(session: Session, group_id: str) -> classic.DescribedGroup:
    response = await of_coordinator(
        session,
        group_id,
        KeyType.GROUP,
        classic.DescribeGroupsRequest(groups=[group_id]),
        classic.DescribeGroupsResponse,
        lambda answer: answer.groups[0].error_code,
    )
    return response.groups[0]


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


async def delete_groups(session: Session, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
    """What became of each: None if it is gone. A group with members stays (NON_EMPTY_GROUP)."""

    async def one(group_id: str) -> KafkaError | None:
        response = await of_coordinator(
            session,
            group_id,
            KeyType.GROUP,
            DeleteGroupsRequest(groups_names=[group_id]),
            DeleteGroupsResponse,
            lambda answer: answer.results[0].error_code,
        )
        result = response.results[0]
        return failure(result.error_code, result.error_message)

    return await each_of(session, group_ids, one)

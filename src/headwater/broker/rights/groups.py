"""What groups and their offsets need: READ of the group to be a member and to commit, DESCRIBE to look, DELETE to take
away.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.base.acls import ANYTHING, Operation, ResourceType
from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.outcome import (
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Guard,
    Narrowed,
    Outcome,
    Refused,
    divide,
)
from headwater.broker.rights.records import name_of
from headwater.wire.messages import consumer_group_describe as consumer_wire
from headwater.wire.messages import describe_groups as describe_wire
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from headwater.wire.messages.heartbeat import HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupResponse
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headwater.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_WITH_MANY_GROUPS = 8
_FIRST_WITH_MANY_KEYS = 4
_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = 0, 1, 2


def _member_of(refused: Callable[[Any], Any]) -> Guard:
    def guard(_broker: "Broker", caller: Caller, request: Any, _version: int) -> Outcome:
        return None if caller.may_group(Operation.READ, request.group_id) else Refused(refused(request))

    return guard


join_group = _member_of(
    lambda request: JoinGroupResponse(
        error_code=GROUP_DENIED, leader="", member_id=request.member_id, members=[], protocol_name=""
    )
)
sync_group = _member_of(lambda _: SyncGroupResponse(error_code=GROUP_DENIED, assignment=b""))
heartbeat = _member_of(lambda _: HeartbeatResponse(error_code=GROUP_DENIED))
leave_group = _member_of(lambda _: LeaveGroupResponse(error_code=GROUP_DENIED, members=[]))


def consumer_group_heartbeat(
    _broker: "Broker", caller: Caller, request: ConsumerGroupHeartbeatRequest, _version: int
) -> Outcome:
    """A regular expression is resolved again and again, without whoever sent it: it is for those who may see every
    topic.
    """
    code = 0
    message = None
    if not caller.may_group(Operation.READ, request.group_id):
        code = GROUP_DENIED
    elif request.subscribed_topic_regex and not caller.may_topic(Operation.DESCRIBE, ANYTHING):
        code = TOPIC_DENIED
        message = "A subscription by regular expression needs DESCRIBE on all topics (*): subscribe to topics by name."
    elif any(not caller.may_topic(Operation.DESCRIBE, name) for name in request.subscribed_topic_names or ()):
        code = TOPIC_DENIED
    return (
        Refused(ConsumerGroupHeartbeatResponse(error_code=code, error_message=message, member_epoch=0))
        if code
        else None
    )


def offset_commit(broker: "Broker", caller: Caller, request: OffsetCommitRequest, _version: int) -> Outcome:
    is_member = caller.may_group(Operation.READ, request.group_id)
    code = TOPIC_DENIED if is_member else GROUP_DENIED

    def may_read(topic: Any) -> bool:
        name = topic.name or name_of(broker, topic.topic_id)
        return is_member and (name is None or caller.may_topic(Operation.READ, name))

    allowed, denied = divide(request.topics, may_read)
    if is_member and not denied:
        return None
    results = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                for part in topic.partitions
            ],
        )
        for topic in denied
    ]
    if not allowed:
        return Refused(OffsetCommitResponse(topics=results))
    request.topics = allowed

    def complete(response: OffsetCommitResponse) -> OffsetCommitResponse:
        response.topics += results
        return response

    return Narrowed(complete)


def may_commit(broker: "Broker", caller: Caller, group_id: str, topic: str | bytes) -> bool:
    """Whether `offset_commit` would let it pass, for a commit of one topic, by its name or its id; what the quick way
    asks. A topic that is not there is for the general way.
    """
    name = topic if isinstance(topic, str) else name_of(broker, topic)
    if not name:
        return False
    return caller.may_group(Operation.READ, group_id) and caller.may_topic(Operation.READ, name)


def offset_fetch(broker: "Broker", caller: Caller, request: OffsetFetchRequest, version: int) -> Outcome:
    if version < _FIRST_WITH_MANY_GROUPS:
        return _offset_fetch_of_one(caller, request)
    request.groups, denied = divide(request.groups, lambda group: caller.may_group(Operation.DESCRIBE, group.group_id))
    hidden: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in request.groups:
        hidden[group.group_id] = _hide_topics(broker, caller, group)
    seen_by_name: dict[str, bool] = {}

    def is_seen(topic: OffsetFetchResponseTopics) -> bool:
        name = topic.name or name_of(broker, topic.topic_id) or ""
        if name not in seen_by_name:
            seen_by_name[name] = not name or caller.may_topic(Operation.DESCRIBE, name)
        return seen_by_name[name]

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            group.topics = [topic for topic in group.topics if is_seen(topic)]
            group.topics += hidden.get(group.group_id, []) if not group.error_code else []
        response.groups += [
            OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=GROUP_DENIED) for group in denied
        ]
        return response

    return Narrowed(complete)


def _hide_topics(broker: "Broker", caller: Caller, group: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    """Takes the topics out of the request that may not be described; gives their answers."""
    if group.topics is None:
        return []

    def may_describe(topic: Any) -> bool:
        name = topic.name or name_of(broker, topic.topic_id)
        return name is None or caller.may_topic(Operation.DESCRIBE, name)

    group.topics, denied = divide(group.topics, may_describe)
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=-1, metadata="", error_code=TOPIC_DENIED
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in denied
    ]


def _offset_fetch_of_one(caller: Caller, request: OffsetFetchRequest) -> Outcome:
    def refused(topics: list[Any], code: int) -> list[OffsetFetchResponseTopic]:
        return [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ]

    if not caller.may_group(Operation.DESCRIBE, request.group_id):
        topics = refused(request.topics or [], GROUP_DENIED)
        return Refused(OffsetFetchResponse(topics=topics, error_code=GROUP_DENIED, groups=[]))
    hidden: list[OffsetFetchResponseTopic] = []
    if request.topics is not None:
        request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.DESCRIBE, topic.name))
        hidden = refused(denied, TOPIC_DENIED)

    def complete(response: OffsetFetchResponse) -> OffsetFetchResponse:
        response.topics = [
            topic for topic in response.topics if caller.may_topic(Operation.DESCRIBE, topic.name)
        ] + hidden
        return response

    return Narrowed(complete)


def find_coordinator(_broker: "Broker", caller: Caller, request: FindCoordinatorRequest, version: int) -> Outcome:
    is_transaction = request.key_type == _TRANSACTION_KEY
    code = TRANSACTION_DENIED if is_transaction else GROUP_DENIED
    kind = ResourceType.TRANSACTIONAL_ID if is_transaction else ResourceType.GROUP

    def may_find(key: str) -> bool:
        if request.key_type == _SHARE_KEY:
            return caller.may_cluster(Operation.CLUSTER_ACTION)
        return caller.may(Operation.DESCRIBE, kind, key)

    if version < _FIRST_WITH_MANY_KEYS:
        if may_find(request.key):
            return None
        return Refused(
            FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, host="", port=-1, coordinators=[])
        )
    request.coordinator_keys, denied = divide(request.coordinator_keys, may_find)
    if not denied:
        return None

    def complete(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        response.coordinators += [
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None) for key in denied
        ]
        return response

    return Narrowed(complete)


def describe_groups(
    _broker: "Broker", caller: Caller, request: describe_wire.DescribeGroupsRequest, _version: int
) -> Outcome:
    request.groups, denied = divide(request.groups, lambda group: caller.may_group(Operation.DESCRIBE, group))

    def complete(response: describe_wire.DescribeGroupsResponse) -> describe_wire.DescribeGroupsResponse:
        for group in response.groups:
            if request.include_authorized_operations:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
        response.groups += [
            describe_wire.DescribedGroup(
                error_code=GROUP_DENIED,
                group_id=group,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group in denied
        ]
        return response

    return Narrowed(complete)


def consumer_group_describe(
    _broker: "Broker", caller: Caller, request: consumer_wire.ConsumerGroupDescribeRequest, _version: int
) -> Outcome:
    """A group some of whose members have topics that the caller may not describe is refused: its description would tell
    of them.
    """
    request.group_ids, denied = divide(request.group_ids, lambda group: caller.may_group(Operation.DESCRIBE, group))

    def refused(group_id: str, code: int) -> consumer_wire.DescribedGroup:
        return consumer_wire.DescribedGroup(
            error_code=code,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )

    def complete(response: consumer_wire.ConsumerGroupDescribeResponse) -> consumer_wire.ConsumerGroupDescribeResponse:
        for at, group in enumerate(response.groups):
            if any(not caller.may_topic(Operation.DESCRIBE, name) for name in _topics_of(group)):
                response.groups[at] = refused(group.group_id, TOPIC_DENIED)
            elif request.include_authorized_operations:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
        response.groups += [refused(group, GROUP_DENIED) for group in denied]
        return response

    return Narrowed(complete)


def _topics_of(group: consumer_wire.DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    } | {name for member in group.members for name in member.subscribed_topic_names}


def list_groups(_broker: "Broker", caller: Caller, _request: ListGroupsRequest, _version: int) -> Outcome:
    if caller.may_cluster(Operation.DESCRIBE):
        return None

    def complete(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [each for each in response.groups if caller.may_group(Operation.DESCRIBE, each.group_id)]
        return response

    return Narrowed(complete)


def delete_groups(_broker: "Broker", caller: Caller, request: DeleteGroupsRequest, _version: int) -> Outcome:
    request.groups_names, denied = divide(request.groups_names, lambda group: caller.may_group(Operation.DELETE, group))

    def complete(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results += [DeletableGroupResult(group_id=group, error_code=GROUP_DENIED) for group in denied]
        return response

    return Narrowed(complete) if denied else None


def offset_delete(_broker: "Broker", caller: Caller, request: OffsetDeleteRequest, _version: int) -> Outcome:
    if not caller.may_group(Operation.DELETE, request.group_id):
        return Refused(OffsetDeleteResponse(error_code=GROUP_DENIED, topics=[]))
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.READ, topic.name))

    def complete(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return response
        response.topics += [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=TOPIC_DENIED)
                    for part in topic.partitions
                ],
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete) if denied else None

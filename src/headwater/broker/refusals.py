"""One error for the whole of a request that only the controller serves, put where its response has a place for errors.
Pure.
"""

from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID
from headwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)
from headwater.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from headwater.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from headwater.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from headwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from headwater.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headwater.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_FIRST_WITH_ELECTION_ERROR: Final = 1
_PARTS: Final = (
    "topics",
    "responses",
    "results",
    "filter_results",
    "entries",
)  # of responses that have an error for each part of the request


def refusal(request: Any, version: int, problem: KafkaError) -> Any:
    """The response; raises `problem`, which ends the connection, where that version has no place for it."""
    code, message = int(problem.code), problem.message
    error: dict[str, Any] = {"error_code": code, "error_message": message}
    match request:
        case CreateTopicsRequest():
            return CreateTopicsResponse(
                topics=[CreatableTopicResult(name=topic.name, configs=[], **error) for topic in request.topics]
            )
        case DeleteTopicsRequest():
            asked = [(topic.name, topic.topic_id) for topic in request.topics]
            asked += [(name, NO_TOPIC_ID) for name in request.topic_names]
            return DeleteTopicsResponse(
                responses=[DeletableTopicResult(name=name, topic_id=topic_id, **error) for name, topic_id in asked]
            )
        case CreatePartitionsRequest():
            return CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(name=topic.name, **error) for topic in request.topics]
            )
        case CreateAclsRequest():
            return CreateAclsResponse(results=[AclCreationResult(**error) for _ in request.creations])
        case DeleteAclsRequest():
            return DeleteAclsResponse(
                filter_results=[DeleteAclsFilterResult(matching_acls=[], **error) for _ in request.filters]
            )
        case AlterConfigsRequest():
            return AlterConfigsResponse(
                responses=[
                    AlterConfigsResourceResponse(
                        resource_type=each.resource_type, resource_name=each.resource_name, **error
                    )
                    for each in request.resources
                ]
            )
        case IncrementalAlterConfigsRequest():
            return IncrementalAlterConfigsResponse(
                responses=[
                    IncrementalResourceResponse(
                        resource_type=each.resource_type, resource_name=each.resource_name, **error
                    )
                    for each in request.resources
                ]
            )
        case ElectLeadersRequest():
            return _no_election(request, version, problem)
        case AlterPartitionReassignmentsRequest():
            return AlterPartitionReassignmentsResponse(responses=[], **error)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse(topics=[], **error)
        case AlterUserScramCredentialsRequest():
            users = dict.fromkeys(each.name for each in request.deletions)
            users.update(dict.fromkeys(each.name for each in request.upsertions))
            return AlterUserScramCredentialsResponse(
                throttle_time_ms=0, results=[AlterUserScramCredentialsResult(user=user, **error) for user in users]
            )
        case AlterClientQuotasRequest():
            return AlterClientQuotasResponse(
                throttle_time_ms=0, entries=[EntryResult(entity=each.entity, **error) for each in request.entries]
            )
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(results=[], **error)
        case _:
            raise problem


def _no_election(request: ElectLeadersRequest, version: int, problem: KafkaError) -> ElectLeadersResponse:
    if version < _FIRST_WITH_ELECTION_ERROR and not request.topic_partitions:
        raise problem
    return ElectLeadersResponse(
        error_code=int(problem.code),
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=int(problem.code), error_message=problem.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def is_from_no_controller(response: Any) -> bool:
    """Whether the whole or a part of it was not done because whoever was asked is not the controller."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    if isinstance(response, ElectLeadersResponse):
        parts = [part for topic in response.replica_election_results for part in topic.partition_result]
    else:
        parts = [part for name in _PARTS for part in getattr(response, name, ())]
        parts += [part for topic in parts for part in getattr(topic, "partitions", ())]
    return any(getattr(part, "error_code", 0) == ErrorCode.NOT_CONTROLLER for part in parts)

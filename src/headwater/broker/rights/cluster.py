"""What the cluster itself needs: DESCRIBE, ALTER and ALTER_CONFIGS on it, for rules, configs, moves, elections and
users.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.base.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.delegation_tokens import NO_TIME, creation_refused, has_no_login, owner_of
from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.outcome import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    Guard,
    Narrowed,
    Outcome,
    Refused,
    divide,
)
from headwater.wire.messages import alter_configs as alter_wire
from headwater.wire.messages import describe_configs as describe_wire
from headwater.wire.messages import incremental_alter_configs as incremental_wire
from headwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from headwater.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from headwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from headwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from headwater.wire.messages.describe_acls import DescribeAclsResponse
from headwater.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from headwater.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from headwater.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from headwater.wire.messages.list_config_resources import ListConfigResourcesResponse
from headwater.wire.messages.unregister_broker import UnregisterBrokerResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_TOPIC_CONFIG, _GROUP_CONFIG = 2, 32
_DENIED = "Cluster authorization failed."


def _needs(operation: int, refused: Callable[[Any, int], Any]) -> Guard:
    """One operation on the cluster, or the whole request is refused. `refused` takes the request and its version."""

    def guard(_broker: "Broker", caller: Caller, request: Any, version: int) -> Outcome:
        return None if caller.may_cluster(operation) else Refused(refused(request, version))

    return guard


def _forwarded(request: Any, version: int) -> Any:
    from headwater.broker.refusals import refusal

    return refusal(request, version, KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _DENIED))


describe_acls = _needs(
    Operation.DESCRIBE,
    lambda _request, _version: DescribeAclsResponse(error_code=CLUSTER_DENIED, error_message=_DENIED, resources=[]),
)
create_acls = _needs(
    Operation.ALTER,
    lambda request, _version: CreateAclsResponse(
        results=[AclCreationResult(error_code=CLUSTER_DENIED, error_message=_DENIED) for _ in request.creations]
    ),
)
delete_acls = _needs(
    Operation.ALTER,
    lambda request, _version: DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=CLUSTER_DENIED, error_message=_DENIED, matching_acls=[])
            for _ in request.filters
        ]
    ),
)
elect_leaders = _needs(Operation.ALTER, _forwarded)
alter_partition_reassignments = _needs(Operation.ALTER, _forwarded)
list_partition_reassignments = _needs(Operation.DESCRIBE, _forwarded)
update_features = _needs(Operation.ALTER, _forwarded)
unregister_broker = _needs(
    Operation.ALTER,
    lambda _request, _version: UnregisterBrokerResponse(error_code=CLUSTER_DENIED, error_message=_DENIED),
)
alter_user_scram_credentials = _needs(Operation.ALTER, _forwarded)
describe_user_scram_credentials = _needs(
    Operation.DESCRIBE,
    lambda request, _version: DescribeUserScramCredentialsResponse(
        error_code=CLUSTER_DENIED,
        error_message=_DENIED,
        results=[
            DescribeUserScramCredentialsResult(
                user=each.name, error_code=CLUSTER_DENIED, error_message=_DENIED, credential_infos=[]
            )
            for each in request.users or ()
        ],
    ),
)
alter_client_quotas = _needs(Operation.ALTER_CONFIGS, _forwarded)
describe_client_quotas = _needs(
    Operation.DESCRIBE_CONFIGS,
    lambda _request, _version: DescribeClientQuotasResponse(
        error_code=CLUSTER_DENIED, error_message=_DENIED, entries=None
    ),
)
describe_log_dirs = _needs(
    Operation.DESCRIBE, lambda _request, _version: DescribeLogDirsResponse(error_code=CLUSTER_DENIED, results=[])
)
list_config_resources = _needs(
    Operation.DESCRIBE_CONFIGS,
    lambda _request, _version: ListConfigResourcesResponse(error_code=CLUSTER_DENIED, config_resources=[]),
)


def _dirs_not_altered(request: AlterReplicaLogDirsRequest, _version: int) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=CLUSTER_DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


alter_replica_log_dirs = _needs(Operation.ALTER, _dirs_not_altered)


def create_delegation_token(
    broker: "Broker", caller: Caller, request: CreateDelegationTokenRequest, _version: int
) -> Outcome:
    """Everybody may have tokens of his own; those of another need CREATE_TOKENS on that user. Who has no login at all
    is told so by the handler.
    """
    owner = owner_of(caller.connection, request)
    if (
        owner == caller.connection.principal
        or has_no_login(broker, caller.connection)
        or caller.may(Operation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        return None
    code = int(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return Refused(creation_refused(caller.connection, request, code, NO_TIME))


def _may_config(caller: Caller, operation: int, resource: Any) -> int:
    """The error, or 0. Configs of brokers and their loggers are the cluster's."""
    if resource.resource_type == _TOPIC_CONFIG:
        return 0 if caller.may_topic(operation, resource.resource_name) else TOPIC_DENIED
    if resource.resource_type == _GROUP_CONFIG:
        return 0 if caller.may(operation, ResourceType.GROUP, resource.resource_name) else GROUP_DENIED
    return 0 if caller.may(operation, ResourceType.CLUSTER, CLUSTER_NAME) else CLUSTER_DENIED


def _refusal_of(code: int) -> str:
    return {TOPIC_DENIED: "Topic", GROUP_DENIED: "Group", CLUSTER_DENIED: "Cluster"}[code] + " authorization failed."


def _configs(operation: int, list_name: str, result: Callable[..., Any]) -> Guard:
    """Each resource by itself. `result` makes that of a refused one, in the list of the response that is named."""

    def refused(resource: Any, code: int) -> Any:
        return result(
            error_code=code,
            error_message=_refusal_of(code),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    def guard(_broker: "Broker", caller: Caller, request: Any, _version: int) -> Outcome:
        request.resources, denied = divide(
            request.resources, lambda resource: not _may_config(caller, operation, resource)
        )

        def complete(response: Any) -> Any:
            getattr(response, list_name).extend(
                refused(resource, _may_config(caller, operation, resource)) for resource in denied
            )
            return response

        return Narrowed(complete) if denied else None

    return guard


describe_configs = _configs(
    Operation.DESCRIBE_CONFIGS, "results", lambda **told: describe_wire.DescribeConfigsResult(**told, configs=[])
)
alter_configs = _configs(Operation.ALTER_CONFIGS, "responses", alter_wire.AlterConfigsResourceResponse)
incremental_alter_configs = _configs(
    Operation.ALTER_CONFIGS, "responses", incremental_wire.AlterConfigsResourceResponse
)

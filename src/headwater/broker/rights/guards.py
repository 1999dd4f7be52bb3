"""The guard of every API: a request passes it before its handler, where an authorizer is configured. An API without a
line here does not start.

Read with the first authorizer, not at start-up.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS, Api
from headwater.broker.rights import cluster, groups, records, topics, transactions
from headwater.broker.rights.authorizer import Authorizer, Caller
from headwater.broker.rights.broker_connections import is_sent_on
from headwater.broker.rights.outcome import Guard, Refused, open_to_all

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

GUARDS: Final[dict[str, Guard]] = {
    "produce": records.produce,
    "fetch": records.fetch,
    "list_offsets": records.list_offsets,
    "metadata": topics.metadata,
    "offset_commit": groups.offset_commit,
    "offset_fetch": groups.offset_fetch,
    "find_coordinator": groups.find_coordinator,
    "join_group": groups.join_group,
    "heartbeat": groups.heartbeat,
    "leave_group": groups.leave_group,
    "sync_group": groups.sync_group,
    "describe_groups": groups.describe_groups,
    "list_groups": groups.list_groups,
    "api_versions": open_to_all,
    "sasl_handshake": open_to_all,  # what comes before a login asks for no rights
    "sasl_authenticate": open_to_all,
    "describe_user_scram_credentials": cluster.describe_user_scram_credentials,
    "alter_user_scram_credentials": cluster.alter_user_scram_credentials,
    "describe_client_quotas": cluster.describe_client_quotas,
    "alter_client_quotas": cluster.alter_client_quotas,
    "create_topics": topics.create_topics,
    "delete_topics": topics.delete_topics,
    "delete_records": records.delete_records,
    "init_producer_id": transactions.init_producer_id,
    "offset_for_leader_epoch": records.offset_for_leader_epoch,
    "add_partitions_to_txn": transactions.add_partitions_to_txn,
    "add_offsets_to_txn": transactions.add_offsets_to_txn,
    "end_txn": transactions.end_txn,
    "write_txn_markers": transactions.write_txn_markers,
    "txn_offset_commit": transactions.txn_offset_commit,
    "describe_acls": cluster.describe_acls,
    "create_acls": cluster.create_acls,
    "delete_acls": cluster.delete_acls,
    "describe_configs": cluster.describe_configs,
    "alter_configs": cluster.alter_configs,
    "alter_replica_log_dirs": cluster.alter_replica_log_dirs,
    "describe_log_dirs": cluster.describe_log_dirs,
    "create_partitions": topics.create_partitions,
    "create_delegation_token": cluster.create_delegation_token,
    "renew_delegation_token": open_to_all,  # the token itself would say who may
    "expire_delegation_token": open_to_all,
    "describe_delegation_token": open_to_all,  # each token would need its own right: there is none
    "delete_groups": groups.delete_groups,
    "elect_leaders": cluster.elect_leaders,
    "incremental_alter_configs": cluster.incremental_alter_configs,
    "alter_partition_reassignments": cluster.alter_partition_reassignments,
    "list_partition_reassignments": cluster.list_partition_reassignments,
    "offset_delete": groups.offset_delete,
    "update_features": cluster.update_features,
    "describe_cluster": topics.describe_cluster,
    "describe_producers": transactions.describe_producers,
    "unregister_broker": cluster.unregister_broker,
    "describe_transactions": transactions.describe_transactions,
    "list_transactions": transactions.list_transactions,
    "consumer_group_heartbeat": groups.consumer_group_heartbeat,
    "consumer_group_describe": groups.consumer_group_describe,
    "list_config_resources": cluster.list_config_resources,
    "describe_topic_partitions": topics.describe_topic_partitions,
}


def check_complete() -> None:
    """Raises at the start of a broker: an API that nobody thought of would be open to everybody."""
    missing = sorted({api.name for api in APIS.values()} - GUARDS.keys())
    if missing:
        raise LookupError(f"APIs without a guard: {', '.join(missing)}")


def guarded(
    broker: "Broker",
    authorizer: Authorizer,
    context: RequestContext,
    api: Api,
    request: Any,
    serve: Callable[[], Any],
) -> Any:
    """The answer to a request, now or later, as far as its sender may have it."""
    if is_sent_on(broker, context):
        return serve()  # another broker has asked whether its client may
    caller = Caller(authorizer, context.connection)
    outcome = GUARDS[api.name](broker, caller, request, context.api_version)
    if outcome is None:
        return serve()
    if isinstance(outcome, Refused):
        return outcome.response
    answer = serve()
    if isinstance(answer, Deferred):
        return _completed_later(answer, outcome.complete)
    return None if answer is None else outcome.complete(answer)


def _completed_later(inner: Deferred, complete: Callable[[Any], Any]) -> Deferred:
    outer = Deferred(inner.cancel, holds_order=inner.holds_order)

    def answered(response: Any) -> None:
        is_answer = response is not None and not isinstance(response, BaseException)
        outer.complete(complete(response) if is_answer else response)

    inner.listen(answered)
    return outer

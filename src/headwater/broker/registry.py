"""The APIs that this broker serves: this table is what ApiVersions answers.

`serves` is what the handler understands. `advertises` is what clients are told; it is wider for Produce only, because
librdkafka 2.0 silently stops compressing when the minimum is above 0. Handlers are imported on their first request, so
that a broker is ready before it has read code that nobody may ask for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from headwater.wire.registry import request_class


@dataclass(slots=True)
class Api:
    key: int
    name: str  # the module in broker/handlers and wire/messages
    serves: tuple[int, int]
    advertises: tuple[int, int]
    handle: Callable[..., Any] | None = None
    decode: Callable[..., Any] | None = None

    def load(self) -> None:
        self.handle = import_module(f"headwater.broker.handlers.{self.name}").handle
        self.decode = request_class(self.key).decode


def _api(key: int, name: str, first: int, last: int, advertised_first: int | None = None) -> Api:
    return Api(key, name, (first, last), (first if advertised_first is None else advertised_first, last))


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _api(0, "produce", 3, 13, advertised_first=0),
        _api(1, "fetch", 4, 18),
        _api(2, "list_offsets", 1, 11),
        _api(3, "metadata", 0, 13),
        _api(8, "offset_commit", 2, 10),
        _api(9, "offset_fetch", 1, 10),
        _api(10, "find_coordinator", 0, 6),
        _api(11, "join_group", 0, 9),
        _api(12, "heartbeat", 0, 4),
        _api(13, "leave_group", 0, 5),
        _api(14, "sync_group", 0, 5),
        _api(15, "describe_groups", 0, 6),
        _api(16, "list_groups", 0, 5),
        _api(17, "sasl_handshake", 0, 1),
        _api(18, "api_versions", 0, 4),
        _api(19, "create_topics", 2, 7),
        _api(20, "delete_topics", 1, 6),
        _api(21, "delete_records", 0, 2),
        _api(22, "init_producer_id", 0, 5),
        _api(23, "offset_for_leader_epoch", 2, 4),
        _api(24, "add_partitions_to_txn", 0, 5),
        _api(25, "add_offsets_to_txn", 0, 4),
        _api(26, "end_txn", 0, 5),
        _api(27, "write_txn_markers", 1, 2),
        _api(28, "txn_offset_commit", 0, 5),
        _api(29, "describe_acls", 1, 3),
        _api(30, "create_acls", 1, 3),
        _api(31, "delete_acls", 1, 3),
        _api(32, "describe_configs", 1, 4),
        _api(33, "alter_configs", 0, 2),
        _api(34, "alter_replica_log_dirs", 1, 2),
        _api(35, "describe_log_dirs", 1, 5),
        _api(36, "sasl_authenticate", 0, 2),
        _api(37, "create_partitions", 0, 3),
        _api(38, "create_delegation_token", 1, 3),
        _api(39, "renew_delegation_token", 1, 2),
        _api(40, "expire_delegation_token", 1, 2),
        _api(41, "describe_delegation_token", 1, 3),
        _api(42, "delete_groups", 0, 2),
        _api(43, "elect_leaders", 0, 2),
        _api(44, "incremental_alter_configs", 0, 1),
        _api(45, "alter_partition_reassignments", 0, 1),
        _api(46, "list_partition_reassignments", 0, 0),
        _api(47, "offset_delete", 0, 0),
        _api(48, "describe_client_quotas", 0, 1),
        _api(49, "alter_client_quotas", 0, 1),
        _api(50, "describe_user_scram_credentials", 0, 0),
        _api(51, "alter_user_scram_credentials", 0, 0),
        _api(57, "update_features", 0, 2),
        _api(60, "describe_cluster", 0, 2),
        _api(61, "describe_producers", 0, 0),
        _api(64, "unregister_broker", 0, 0),
        _api(65, "describe_transactions", 0, 0),
        _api(66, "list_transactions", 0, 2),
        _api(68, "consumer_group_heartbeat", 0, 1),
        _api(69, "consumer_group_describe", 0, 1),
        _api(74, "list_config_resources", 0, 1),
        _api(75, "describe_topic_partitions", 0, 0),
    )
}

"""What stands where in ZooKeeper: paths, and the JSON in the nodes, as Apache Kafka in ZooKeeper mode has them.

    /cluster/id                                 the cluster's id
    /brokers/ids/<id>                           a live broker (ephemeral; the transaction that made it is the broker
                                                epoch)
    /brokers/topics/<topic>                     topic id, replicas of each partition, those being added and removed
    /brokers/topics/<topic>/partitions/<n>/state   leader, leader epoch, in-sync replicas
    /config/topics/<topic>, /config/brokers/<id or "<default>">
    /config/users/<user or "<default>">         SCRAM credentials and quotas of a user, whose name is URL-encoded
    /config/users/<user>/clients/<client>       quotas of a client id of that user
    /config/clients/<client or "<default>">     quotas of a client id, whoever its user is
    /config/ips/<address or "<default>">        how fast connections may come from an address
    /kafka-acl/<type>/<name>                    access rules on one resource, or (the name *) on all of a type
    /kafka-acl-extended/prefixed/<type>/<name>  and on those whose names begin so
    /config/changes, /kafka-acl-changes, /kafka-acl-extended-changes   announcements of those (notifications.py)
    /controller, /controller_epoch              who is the controller (ephemeral), and how many there have been
    /latest_producer_id_block                   the last block of producer ids that somebody took

and of our own:

    /headwater/changes/change-<digits>          the log of changes (changes.py)
    /headwater/topics/<topic id>                there as long as the topic is: who changes a partition's state checks
                                                it, since a topic that is made again has the same paths, and versions
                                                from 0 on

Fields of ours in Kafka's nodes stand beside its own, and fields that we do not know are skipped.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from headwater.base.acls import Operation, Pattern, PatternType, Permission, ResourceType, Rule, Rules
from headwater.base.ids import BrokerId, LeaderEpoch, TopicId
from headwater.log.checkpoint import CheckpointError, format_topic_id, parse_topic_id
from headwater.metadata.image import NEW_DATA, BrokerState, Endpoint, PartitionState

CLUSTER_ID: Final = "/cluster/id"
BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
USER_CONFIGS: Final = "/config/users"
CLIENT_CONFIGS: Final = "/config/clients"
ADDRESS_CONFIGS: Final = "/config/ips"
ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
CONFIG_CHANGES: Final = "/config/changes"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_IDS: Final = "/latest_producer_id_block"
CHANGES: Final = "/headwater/changes"
CHANGE_PREFIX: Final = "change-"
TOPIC_IDS: Final = "/headwater/topics"

_ACL_TYPES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
ACL_DIRECTORIES: Final[dict[str, tuple[int, int]]] = {
    f"{root}/{name}": (int(kind), int(pattern))
    for root, pattern in ((ACLS, PatternType.LITERAL), (PREFIXED_ACLS, PatternType.PREFIXED))
    for kind, name in _ACL_TYPES.items()
}
"""Where the rules of each type and kind of pattern are."""

BASE_NODES: Final[tuple[tuple[str, bytes], ...]] = (
    ("/cluster", b""),
    ("/brokers", b""),
    (BROKERS, b""),
    (TOPICS, b""),
    ("/config", b""),
    (TOPIC_CONFIGS, b""),
    (BROKER_CONFIGS, b""),
    (GROUP_CONFIGS, b""),
    (USER_CONFIGS, b""),
    (CLIENT_CONFIGS, b""),
    (ADDRESS_CONFIGS, b""),
    (ACLS, b""),
    ("/kafka-acl-extended", b""),
    (PREFIXED_ACLS, b""),
    *((path, b"") for path in ACL_DIRECTORIES),
    (CONFIG_CHANGES, b""),
    (ACL_CHANGES, b""),
    (EXTENDED_ACL_CHANGES, b""),
    (CONTROLLER_EPOCH, b"0"),
    (PRODUCER_IDS, b""),
    ("/headwater", b""),
    (CHANGES, b""),
    (TOPIC_IDS, b""),
)

UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, CheckpointError)
"""What reading a node raises that is not as it should be."""

_ALL_BROKERS: Final = "<default>"
_OTHERS: Final = "<default>"
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NO_TIMESTAMP: Final = "-1"
_NO_NODE: Final = re.compile("[/\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\U0010ffff]")
"""What ZooKeeper does not take in the name of a node."""
_PERCENT_SIGNS: Final = re.compile("%((?:25)*)")


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition_path(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}"


def state_path(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}/state"


def topic_config_path(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def topic_id_path(topic_id: TopicId) -> str:
    return f"{TOPIC_IDS}/{format_topic_id(topic_id)}"


def broker_config_path(broker: str) -> str:
    return f"{BROKER_CONFIGS}/{broker or _ALL_BROKERS}"


def broker_of_config(name: str) -> str:
    return "" if name == _ALL_BROKERS else name


def group_config_path(group: str) -> str:
    return f"{GROUP_CONFIGS}/{_node_name(group)}"


def _node_name(name: str) -> str:
    """Groups, users and transactional ids may be called anything; a node may not."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted.strip(".") == "" else quoted


def acl_path(pattern: Pattern) -> str:
    root = PREFIXED_ACLS if pattern.pattern_type == PatternType.PREFIXED else ACLS
    return f"{root}/{_ACL_TYPES[ResourceType(pattern.resource_type)]}/{_acl_node_name(pattern.name)}"


def _acl_node_name(name: str) -> str:
    """Kafka writes resources' names as they are, so that theirs are found here and ours there. Quoted is only what
    cannot be a node (Kafka has no place for it), and what would be taken for something that is quoted.
    """
    return _node_name(name) if _must_be_quoted(name) else name


def acl_name_of(node_name: str) -> str:
    return unquote(node_name) if _is_quoted(node_name) else node_name


def _must_be_quoted(name: str) -> bool:
    return not can_be_a_node(name) or _is_quoted(name)


def _is_quoted(node_name: str) -> bool:
    """Whether it is what cannot be a node, quoted once or several times over."""
    times_more = min((len(found[1]) // 2 for found in _PERCENT_SIGNS.finditer(node_name)), default=0)
    once = node_name.replace("%" + "25" * times_more, "%")
    name = unquote(once)
    return name != once and _node_name(name) == once and not can_be_a_node(name)


def can_be_a_node(name: str) -> bool:
    return name not in ("", ".", "..") and _NO_NODE.search(name) is None


def encode_rules(rules: Sequence[tuple[str, str, int, int]]) -> bytes:
    return to_json(
        {
            "version": 1,
            "acls": [
                {
                    "principal": principal,
                    "permissionType": _camel_case(Permission(permission).name),
                    "operation": _camel_case(Operation(operation).name),
                    "host": host,
                }
                for principal, host, operation, permission in rules
            ],
        }
    )


def decode_rules(data: bytes) -> Rules:
    return tuple(
        Rule(
            str(item["principal"]),
            str(item["host"]),
            int(_OPERATIONS[item["operation"].lower()]),
            int(_PERMISSIONS[item["permissionType"].lower()]),
        )
        for item in json.loads(data)["acls"]
    )


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


_OPERATIONS: Final = {_camel_case(each.name).lower(): each for each in Operation}
_PERMISSIONS: Final = {_camel_case(each.name).lower(): each for each in Permission}


def group_of_config(name: str) -> str:
    return unquote(name)


def user_config_path(user: str) -> str:
    return f"{USER_CONFIGS}/{_sanitized(user) if user else _OTHERS}"


def _sanitized(name: str) -> str:
    """As Kafka's Sanitizer has it: of what is no letter or digit only `.`, `-` and `_` stay; a name of dots only cannot
    be a node.
    """
    return _node_name(name).replace("~", "%7E")


def user_of_config(name: str) -> str:
    return "" if name == _OTHERS else unquote(name)


def client_directory(user: str | None) -> str:
    """Where the clients of a user are, or (None) those of all users."""
    return CLIENT_CONFIGS if user is None else f"{user_config_path(user)}/clients"


def client_config_path(user: str | None, client: str) -> str:
    return f"{client_directory(user)}/{_sanitized(client) if client else _OTHERS}"


def client_of_config(name: str) -> str:
    return "" if name == _OTHERS else unquote(name)


def address_config_path(address: str) -> str:
    return f"{ADDRESS_CONFIGS}/{address or _OTHERS}"


def address_of_config(name: str) -> str:
    return "" if name == _OTHERS else name


def change_path(sequence: int) -> str:
    return f"{CHANGES}/{CHANGE_PREFIX}{sequence:010d}"


def sequence_of(name_or_path: str) -> int:
    return int(name_or_path.rpartition(CHANGE_PREFIX)[2])


def to_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def encode_cluster_id(cluster_id: str) -> bytes:
    return to_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    try:
        return str(json.loads(data)["id"])
    except UNREADABLE:
        return ""


def encode_config(config: Mapping[str, str]) -> bytes:
    return to_json({"version": 1, "config": dict(config)})


def decode_config(data: bytes) -> dict[str, str]:
    config = json.loads(data).get("config") or {}
    return {str(name): str(value) for name, value in config.items()}


def encode_block(broker_id: int, first: int, count: int) -> bytes:
    return to_json({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(first + count - 1)})


def decode_next_producer_id(data: bytes) -> int:
    """The first id behind the last block; nothing was taken yet from an empty node."""
    return int(json.loads(data)["block_end"]) + 1 if data else 0


@dataclass(frozen=True, slots=True)
class ControllerNode:
    broker_id: BrokerId
    session_id: int = 0  # of the one who made it; 0 if it does not say
    epoch: int = -1


def encode_controller(controller: ControllerNode) -> bytes:
    return to_json(
        {
            "version": 1,
            "brokerid": controller.broker_id,
            "timestamp": _NO_TIMESTAMP,
            "epoch": controller.epoch,
            "session": controller.session_id,
        }
    )


def decode_controller(data: bytes) -> ControllerNode:
    node = json.loads(data)
    return ControllerNode(BrokerId(node["brokerid"]), node.get("session", 0), node.get("epoch", -1))


def encode_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_epoch(data: bytes) -> int:
    """Apache Kafka's tool that secures the nodes makes this one too, and empty."""
    return int(data or b"0")


@dataclass(slots=True)
class TopicNode:
    """A topic without the states of its partitions. `is_doomed`: it counts as deleted, its nodes are about to go."""

    topic_id: TopicId
    replicas: list[list[BrokerId]]
    adding: dict[int, list[BrokerId]] = field(default_factory=dict)
    removing: dict[int, list[BrokerId]] = field(default_factory=dict)
    is_doomed: bool = False


def encode_topic(topic: TopicNode) -> bytes:
    node = {
        "version": 3,
        "topic_id": format_topic_id(topic.topic_id),
        "partitions": {str(number): replicas for number, replicas in enumerate(topic.replicas)},
        "adding_replicas": {str(number): replicas for number, replicas in topic.adding.items() if replicas},
        "removing_replicas": {str(number): replicas for number, replicas in topic.removing.items() if replicas},
    }
    return to_json({**node, "doomed": True} if topic.is_doomed else node)


def decode_topic(data: bytes) -> TopicNode:
    """Raises one of UNREADABLE for what is no topic of a Kafka since 2.8, which gave topics their ids."""
    node = json.loads(data)
    partitions = _by_number(node["partitions"])
    if sorted(partitions) != list(range(len(partitions))):
        raise ValueError("its partitions are not numbered from 0 on")
    return TopicNode(
        parse_topic_id(node["topic_id"]),
        [partitions[number] for number in range(len(partitions))],
        _by_number(node.get("adding_replicas") or {}),
        _by_number(node.get("removing_replicas") or {}),
        bool(node.get("doomed", False)),
    )


def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    return to_json(
        {
            "controller_epoch": controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": state.in_sync_replicas,
            "isr_epochs": state.in_sync_epochs,
        }
    )


def decode_state(data: bytes, version: int, topic: TopicNode, partition: int) -> PartitionState:
    """Of a state that Kafka wrote, nobody knows under which epochs its in-sync replicas are that."""
    node = json.loads(data)
    in_sync = _ids(node["isr"])
    epochs = node.get("isr_epochs") or [-1] * len(in_sync)
    return PartitionState(
        leader=BrokerId(node["leader"]),
        leader_epoch=LeaderEpoch(node["leader_epoch"]),
        replicas=list(topic.replicas[partition]),
        in_sync_replicas=in_sync,
        in_sync_epochs=[int(epoch) for epoch in epochs],
        adding=list(topic.adding.get(partition, ())),
        removing=list(topic.removing.get(partition, ())),
        version=version,
    )


def encode_broker(broker: BrokerState, session_id: int) -> bytes:
    plain = next((e for e in broker.endpoints if _protocol(e) == "PLAINTEXT"), None)
    node = {
        "version": 5,
        "listener_security_protocol_map": {e.listener: _protocol(e) for e in broker.endpoints},
        "endpoints": [_encode_endpoint(endpoint) for endpoint in broker.endpoints],
        "rack": broker.rack,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": -1,
        "timestamp": _NO_TIMESTAMP,
        "features": {},
        "previous_epoch": broker.previous_epoch,
        "stopping": broker.is_stopping,
        "free_bytes": broker.free_bytes,
        "data_since": broker.data_since,
        "session": session_id,
    }
    if broker.rack is None:
        del node["rack"]
    return to_json(node)


def decode_broker(broker_id: int, data: bytes, epoch: int) -> tuple[BrokerState, int]:
    """The broker, and the session that registered it (0 if it does not say)."""
    node = json.loads(data)
    data_since = node.get("data_since", -1)
    broker = BrokerState(
        BrokerId(broker_id),
        [_decode_endpoint(text) for text in node["endpoints"]],
        node.get("rack"),
        epoch,
        node.get("previous_epoch", -1),
        bool(node.get("stopping", False)),
        node.get("free_bytes", -1),
        epoch if data_since == NEW_DATA else data_since,
    )
    return broker, node.get("session", 0)


def _protocol(endpoint: Endpoint) -> str:
    named = endpoint.listener if endpoint.listener in _SECURITY_PROTOCOLS else "PLAINTEXT"
    return endpoint.protocol or named


def _encode_endpoint(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _decode_endpoint(text: str) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.strip("[]"), int(port))


def _ids(values: Sequence[Any]) -> list[BrokerId]:
    return [BrokerId(int(value)) for value in values]


def _by_number(values: Mapping[str, Sequence[Any]]) -> dict[int, list[BrokerId]]:
    return {int(number): _ids(replicas) for number, replicas in values.items()}

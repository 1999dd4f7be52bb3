"""The properties of a distributed worker."""

from collections.abc import Mapping
from typing import Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast, OneOf
from headwater.base.errors import UserError
from headwater.connect.config.definition import REQUIRED, ConfigDef, ConfigKey, own_config
from headwater.connect.config.keys import HIGH, LOW, a_class, text, whole
from headwater.connect.config.worker import BOOTSTRAP, COMMON_KEYS, WorkerConfig

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


def _replicas(name: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.SHORT, -1, LOW, "Replicas of that topic where it has to be made; -1: the broker's default.", AtLeast(-1))  # fmt: skip


DISTRIBUTED_DEF: Final = ConfigDef(
    BOOTSTRAP,
    text("group.id", REQUIRED, HIGH, "The workers of one group share connectors and tasks."),
    a_class("key.converter", _JSON, HIGH, "The converter of keys; its own settings follow the name: key.converter.schemas.enable."),
    a_class("value.converter", _JSON, HIGH, "The converter of values."),
    text("config.storage.topic", None, HIGH, "The topic of configs: one partition, compacted. <group.id>-configs if none is named."),
    _replicas("config.storage.replication.factor"),
    text("offset.storage.topic", None, HIGH, "The topic of the offsets of sources, compacted. <group.id>-offsets if none is named."),
    whole("offset.storage.partitions", 25, LOW, "Partitions of that topic where it has to be made.", AtLeast(-1)),
    _replicas("offset.storage.replication.factor"),
    text("status.storage.topic", None, HIGH, "The topic of statuses, compacted. <group.id>-status if none is named."),
    whole("status.storage.partitions", 5, LOW, "Partitions of that topic where it has to be made.", AtLeast(-1)),
    _replicas("status.storage.replication.factor"),
    text("exactly.once.source.support", "enabled", HIGH, "enabled: records and offsets of sources are one transaction. preparing: only the leader writes with transactions, for a cluster on its way there. disabled: at least once. Kafka Connect's default is disabled.", OneOf("disabled", "preparing", "enabled", ignore_case=True)),
    whole("session.timeout.ms", 10_000, HIGH, "After so long (ms) without a word, a worker counts as dead.", AtLeast(1)),
    whole("heartbeat.interval.ms", 3_000, HIGH, "How often (ms) a worker says that it lives.", AtLeast(1)),
    whole("rebalance.timeout.ms", 60_000, HIGH, "How long (ms) workers have to join again when the group is balanced anew.", AtLeast(1)),
    whole("scheduled.rebalance.max.delay.ms", 10_000, LOW, "How long (ms) the tasks of a worker that is gone wait for it to come back. Kafka Connect's default is 300000.", AtLeast(0)),
    whole("inter.worker.key.ttl.ms", 3_600_000, LOW, "How long (ms) workers sign their calls to each other with the same key.", AtLeast(0)),
    *COMMON_KEYS,
)  # fmt: skip

_PREFIXES: Final = ("config.storage.", "offset.storage.", "status.storage.")
_STORED: Final = {
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "status",
}


def distributed_config(props: Mapping[str, str]) -> WorkerConfig:
    """With converters, and the storage topics named, after the group unless they are given."""
    group = props.get("group.id", "").strip()
    named = {"key.converter": _JSON, "value.converter": _JSON}  # converters are made from the properties themselves
    if group:
        named |= {name: f"{group}-{what}" for name, what in _STORED.items()}
    made = WorkerConfig({**named, **{name: value for name, value in props.items() if value.strip()}}, DISTRIBUTED_DEF)
    topics = [made[name] for name in _STORED]
    if len(set(topics)) < len(topics):
        raise UserError(
            "The worker's properties cannot be used", f"the storage topics are not three: {', '.join(topics)}"
        )
    made.unknown = [name for name in made.unknown if not name.startswith(_PREFIXES)]
    return made


_OWN: Final = frozenset({"topic", "partitions", "replication.factor", "file.filename"})


def topic_settings(config: WorkerConfig, kind: str) -> dict[str, str]:
    """Other settings of a storage topic, as `offset.storage.segment.bytes`; its cleanup policy is not for choosing."""
    own = own_config(f"{kind}.storage.", config.props)
    return {name: value for name, value in own.items() if name not in _OWN and name != "cleanup.policy"}


def says_enabled(config: WorkerConfig) -> bool:
    return str(config["exactly.once.source.support"]).lower() == "enabled"


def leader_uses_transactions(config: WorkerConfig) -> bool:
    return str(config["exactly.once.source.support"]).lower() != "disabled"

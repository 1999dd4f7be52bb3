"""The properties of a worker, and what they mean for its clients. Those of a standalone one, and what all have in
common.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.base.errors import UserError
from headwater.connect.config.definition import REQUIRED, ConfigDef, ConfigKey, own_config
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, a_class, flag, listing, long, text, whole
from headwater.connect.config.secrets import shown
from headwater.connect.errors import ConfigError
from headwater.web.door_security import ROWS as DOOR


def _door_keys() -> list[ConfigKey]:
    """The settings that every HTTP door has; `ssl.*` are also those of the worker's clients, and stand under
    listeners.https. for the door alone.
    """
    rows = [row for name, row in DOOR.items() if name.startswith(("authentication.", "access.control."))]
    return [ConfigKey(row.name, row.type, row.default, LOW, row.doc) for row in rows]


_POLICIES: Final = ("All", "None", "Principal", "Allowlist")
_POLICY_CLASS: Final = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"


class _Policy:
    def check(self, name: str, value: object) -> None:
        OneOf(*_POLICIES, *(_POLICY_CLASS.format(each) for each in _POLICIES)).check(name, value)

    def __str__(self) -> str:
        return f"one of {', '.join(_POLICIES)}"


BOOTSTRAP: Final = listing("bootstrap.servers", ["localhost:9092"], HIGH, "The brokers to ask first.")
COMMON_KEYS: Final = (
    a_class("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter", LOW, "The converter of headers."),
    long("offset.flush.interval.ms", 60_000, LOW, "How often (ms) tasks commit their offsets.", AtLeast(0)),
    long("offset.flush.timeout.ms", 5_000, LOW, "How long (ms) a commit waits for records that are on their way.", AtLeast(0)),
    long("task.shutdown.graceful.timeout.ms", 5_000, LOW, "How long (ms) a task may take to stop, before it is left to itself.", AtLeast(0)),
    listing("listeners", ["http://127.0.0.1:8083"], LOW, "Where the REST door listens: http:// or https://; `http://:8083` is every address."),
    text("rest.advertised.host.name", None, LOW, "The host that the worker's id names."),
    text("rest.advertised.port", None, LOW, "The port that the worker's id names."),
    text("connector.client.config.override.policy", "All", MEDIUM, "Which producer.override.*, consumer.override.* and admin.override.* connectors may have: All, None, Principal (security.protocol, sasl.*), Allowlist (those of connector.client.config.override.allowlist), or Java's class of one of these.", _Policy()),
    listing("connector.client.config.override.allowlist", [], MEDIUM, "The settings that the policy Allowlist allows."),
    flag("topic.creation.enable", True, LOW, "Whether topics are made as connectors' topic.creation.* say."),
    flag("topic.tracking.enable", True, LOW, "Whether GET /connectors/{name}/topics tells which topics were used."),
    flag("topic.tracking.allow.reset", True, LOW, "Whether that list may be emptied."),
    listing("config.providers", [], LOW, "Names of config providers; each has config.providers.<name>.class and .param.*."),
    listing("plugin.allowlist", ["*"], MEDIUM, "Patterns of the connector classes that may be used."),
    listing("plugin.path", None, LOW, "Taken and not used: plugins are Python packages that are installed."),
    text("spark.master", None, MEDIUM, "Where connectors on Spark do their work: local[*], spark://host:7077, ... Not given: $SPARK_MASTER, or this machine. Every other spark.* property is one of the worker's Spark session, too: spark.jars, spark.jars.packages, spark.executor.memory."),
    whole("task.slots", None, MEDIUM, "How many slots the worker's tasks share: long-lived tasks of a Spark query, each a process that keeps a core of spark.master. 0: none, tasks are threads of the worker. Not given: on a worker of a group with spark.master one for each core but one, else none. At least one core of spark.master stays free.", AtLeast(0)),
    text("rest.extension.classes", None, LOW, "Refused if set: extensions are Java classes. A login is authentication.method=BASIC."),
    *_door_keys(),
    whole("metrics.num.samples", 2, LOW, "Of how many samples, each metrics.sample.window.ms long, rates and averages of /metrics are.", AtLeast(1)),
    long("metrics.sample.window.ms", 30_000, LOW, "How long (ms) a sample of metrics is.", AtLeast(1)),
    text("client.id", "", LOW, "The beginning of the client ids of the worker's clients."),
)  # fmt: skip
WORKER_DEF: Final = ConfigDef(
    BOOTSTRAP,
    a_class("key.converter", REQUIRED, HIGH, "The converter of keys; its own settings follow the name: key.converter.schemas.enable."),
    a_class("value.converter", REQUIRED, HIGH, "The converter of values."),
    text("offset.storage.file.filename", REQUIRED, HIGH, "The file in which the offsets of sources are kept, in Apache Kafka's format."),
    *COMMON_KEYS,
)  # fmt: skip

_PREFIXES: Final = (
    "producer.",
    "consumer.",
    "admin.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "spark.",
    "listeners.https.",
    "authentication.kafka.",
)
_OF_THE_DOOR: Final = ("ssl.client.auth", "ssl.client.authentication")
_CLIENT_NAMES: Final = (
    "security.",
    "sasl.",
    "ssl.",
    "request.timeout.ms",
    "retry.backoff.",
    "metadata.max.age.ms",
    "reconnect.backoff.",
)


class WorkerConfig:
    """Read once; `unknown` are names that mean nothing here."""

    def __init__(self, props: Mapping[str, str], definition: ConfigDef = WORKER_DEF) -> None:
        self.props = dict(props)
        self.definition = definition
        try:
            self._values = definition.parse(self.props)
        except ConfigError as error:
            raise UserError(
                "The worker's properties cannot be used", str(error), "docs/CONNECT.md lists them"
            ) from None
        self.unknown = sorted(
            name
            for name in props
            if name not in definition and not name.startswith((*_PREFIXES, *_CLIENT_NAMES, "rest.", "plugin."))
        )

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._values["bootstrap.servers"])

    def shown(self) -> dict[str, str]:
        return shown(self.props, self.definition)

    def client(self, kind: str, connector: Mapping[str, str]) -> dict[str, str]:
        """The settings of a client: the worker's, those under `producer.`, `consumer.` or `admin.`, and the connector's
        own.
        """
        common = {
            name: value
            for name, value in self.props.items()
            if name.startswith(_CLIENT_NAMES) and name not in _OF_THE_DOOR
        }
        override = own_config(f"{kind}.override.", connector)
        policy = self._values["connector.client.config.override.policy"]
        refused = refused_overrides(policy, override, self._values["connector.client.config.override.allowlist"])
        if refused:
            raise ConfigError(f"The override policy {policy} allows no {kind}.override.{refused[0]}")
        return {"bootstrap.servers": self.bootstrap_servers, **common, **own_config(f"{kind}.", self.props), **override}


def policy_of(given: str) -> str:
    """Its short name."""
    return next(each for each in _POLICIES if given in (each, _POLICY_CLASS.format(each)))


def refused_overrides(policy: str, override: Mapping[str, str], allowed: Collection[str]) -> list[str]:
    policy = policy_of(policy)
    if policy == "All":
        return []
    if policy in ("None", "Allowlist"):
        return sorted(set(override) - set(allowed if policy == "Allowlist" else ()))
    return sorted(name for name in override if not name.startswith("sasl.") and name != "security.protocol")

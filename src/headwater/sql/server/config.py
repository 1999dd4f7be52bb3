"""The server's properties, by ksqlDB's names: one table serves the parser, the check of names, and SHOW PROPERTIES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.base.config.definition import ConfigType, Definition
from headwater.base.config.server_properties import given_properties, read_properties
from headwater.base.config.validators import AtLeast
from headwater.web import door_security
from headwater.web.listeners import HttpListener, http_listeners

DEFAULT_PORT: Final = 8088
LAG_MAX: Final = "ksql.query.pull.max.allowed.offset.lag"
SCANS: Final = "ksql.query.pull.table.scan.enabled"
STREAM_PULLS: Final = "ksql.query.pull.stream.enabled"
RANGE_SCANS: Final = "ksql.query.pull.range.scan.enabled"
LIMITED_PULLS: Final = "ksql.query.pull.limit.clause.enabled"
# What a user may set for a statement or a query; a server that is given one has it for all statements that do not.
_SETTABLE: Final = """
    auto.offset.reset ksql.functions._global_.limit ksql.functions.collect_list.limit ksql.functions.collect_set.limit
    ksql.output.topic.name.prefix ksql.persistence.default.format.key ksql.persistence.default.format.value
    ksql.persistence.wrap.single.values ksql.query.pull.max.allowed.offset.lag ksql.timestamp.throw.on.invalid
    ksql.fail.on.deserialization.error ksql.query.pull.stream.enabled ksql.query.pull.table.scan.enabled
    ksql.query.pull.limit.clause.enabled ksql.query.pull.range.scan.enabled
"""
SETTABLE: Final = frozenset(_SETTABLE.split())
_S, _I, _L, _P = ConfigType.STRING, ConfigType.INT, ConfigType.LIST, ConfigType.PASSWORD

TABLE: Final = {
    row.name: row
    for row in (
        Definition("listeners", _L, ["http://127.0.0.1:8088"], "Where the server listens: http:// or https://."),
        Definition("bootstrap.servers", _L, ["localhost:9092"], "The brokers."),
        Definition(
            "ksql.service.id",
            _S,
            "default_",
            "Servers of one id share their statements; it begins the names of groups and internal topics.",
        ),
        Definition("ksql.streams.state.dir", _S, "headwater-sql-state", "Where queries keep their state."),
        Definition("ksql.queries.file", _S, "", "Statements to run at the start; the server then takes no others."),
        Definition(
            "ksql.internal.topic.replicas", _I, 1, "Of the log of statements, when the server makes it.", AtLeast(1)
        ),
        Definition(
            "ksql.query.retry.backoff.initial.ms",
            _I,
            1_000,
            "After how long a query that died is started again.",
            AtLeast(1),
        ),
        Definition("ksql.query.retry.backoff.max.ms", _I, 60_000, "The longest that it waits for that.", AtLeast(1)),
        Definition(
            "ksql.query.retry.max",
            _I,
            -1,
            "How often in a row that is done; then the query stays in ERROR until it is paused and resumed. -1: always. Ours.",
            AtLeast(-1),
        ),
        Definition(
            "ksql.advertised.listener",
            _S,
            "",
            "Where the other servers of the same ksql.service.id reach this one, if not at its first listener.",
        ),
        Definition("ksql.heartbeat.check.interval.ms", _I, 500, "How often servers probe each other.", AtLeast(10)),
        Definition(
            "ksql.heartbeat.missed.threshold.ms",
            _I,
            3,
            "After how many probes in a row of a server that is no more another takes its queries: a number, whatever its name says, as in ksqlDB.",
            AtLeast(1),
        ),
        Definition(
            "ksql.heartbeat.silent.max.ms",
            _I,
            10_000,
            "For how long a server that still listens may do nothing before another takes its queries. Ours.",
            AtLeast(1_000),
        ),
        Definition(
            "ksql.healthcheck.interval.ms", _I, 5_000, "For how long /healthcheck tells what it has found.", AtLeast(0)
        ),
        Definition(
            "ksql.server.command.response.timeout.ms",
            _I,
            5_000,
            "For how long a request waits until the statement that it names by its commandSequenceNumber is carried out.",
            AtLeast(0),
        ),
        Definition("ksql.streams.commit.interval.ms", _I, 100, "How often queries commit.", AtLeast(1)),
        Definition(
            "ksql.streams.session.timeout.ms",
            _I,
            45_000,
            "How long the group of a query keeps the place of a server that stopped: one that comes back within it does not wait for a rebalance.",
            AtLeast(6_000),
        ),
        Definition(
            "ksql.query.pull.rows.max", _I, 1_000_000, "The most rows that a pull query may hold. Ours.", AtLeast(1)
        ),
        Definition(
            "ksql.query.pull.read.ahead.rows.max",
            _I,
            1_000_000,
            "How many rows of all tables together are read before the first pull query asks for them, so that it need not wait; 0: none. Ours.",
            AtLeast(0),
        ),
        Definition(
            "ksql.query.pull.bytes.max",
            _I,
            256 * 1024 * 1024,
            "The most bytes that a pull query beyond one table may read, and its answer have. Ours.",
            AtLeast(1),
        ),
        Definition(
            LAG_MAX,
            ConfigType.LONG,
            0,
            "How many offsets of a partition the answer to a pull query may be behind, so that it need not wait for them: ksqlDB's default is any number.",
            AtLeast(0),
        ),
        Definition("ksql.query.push.max", _I, 100, "The most push queries at a time. Ours.", AtLeast(1)),
        Definition(
            "ksql.schema.registry.url",
            _S,
            "",
            "The schema registry, for the formats AVRO, JSON_SR and PROTOBUF.",
            may_hold_login=True,
        ),
        Definition("ksql.schema.registry.basic.auth.user.info", _P, "", "user:password for the schema registry."),
        Definition(
            "ksql.functions.python.source.enabled",
            ConfigType.BOOLEAN,
            False,
            "Whether CREATE FUNCTION may bring code in its statement. It runs in the server. Ours.",
        ),
        Definition(
            "ksql.functions.python.modules",
            _L,
            [],
            "The installed modules that CREATE FUNCTION ... USING may take functions out of. Ours.",
        ),
        Definition(
            "ksql.logging.processing.topic.auto.create",
            ConfigType.BOOLEAN,
            True,
            "Whether rows that cannot be decoded or computed are told in a topic (ksqlDB's default is not).",
        ),
        Definition(
            "ksql.logging.processing.topic.name",
            _S,
            "",
            "That topic; else the service id and ksql_processing_log.",
        ),
        Definition(
            "ksql.logging.processing.rows.include",
            ConfigType.BOOLEAN,
            False,
            "Whether the processing log has the bytes of rows that cannot be decoded.",
        ),
        Definition(
            "spark.master",
            _S,
            "",
            "Where persistent queries run: a master of Spark, as local[4] or spark://host:7077; by default in the server's own process. Ours.",
        ),
        Definition("log.format", _S, "text", "text, or json: one object per line. Ours."),
        *door_security.ROWS.values(),
    )
}
_SPARK_PREFIX: Final = "spark."
_CLIENT_PREFIX: Final = "ksql.streams."
_REGISTRY_PREFIX: Final = "ksql.schema.registry."
_OF_REGISTRY: Final = (
    "ksql.schema.registry.ssl.ca.location",
    "ksql.schema.registry.ssl.truststore.location",
    "ksql.schema.registry.bearer.auth.token",
    "ksql.schema.registry.basic.auth.credentials.source",
)


@dataclass(frozen=True, slots=True)
class SqlServerConfig:
    values: Mapping[str, Any]
    listeners: tuple[HttpListener, ...]
    given: Mapping[str, str] = field(repr=False)  # as text: some are secrets

    @classmethod
    def load(cls, properties_text: str | None, overrides: list[str]) -> tuple[SqlServerConfig, list[str]]:
        """The config, and warnings about names that have no effect. Raises UserError."""
        return cls.of(given_properties(properties_text, overrides))

    @classmethod
    def of(cls, given: Mapping[str, str]) -> tuple[SqlServerConfig, list[str]]:
        values, warnings = read_properties(
            TABLE,
            given,
            "the server",
            lambda name: (
                door_security.is_known(name)
                or _of_client(name)
                or name in _OF_REGISTRY
                or name.startswith(_SPARK_PREFIX)
                or bare(name) in SETTABLE
            ),
        )
        listeners = http_listeners(values["listeners"], DEFAULT_PORT)
        if values["ksql.advertised.listener"]:
            http_listeners([values["ksql.advertised.listener"]], DEFAULT_PORT)
        config = cls(values, listeners, dict(given))
        if config.spark and not values["spark.master"]:
            warnings += [f"{name} has no effect: queries run on Spark only with spark.master" for name in config.spark]
        return config, warnings

    @property
    def spark(self) -> dict[str, str]:
        """What is passed on to Spark: spark.*, but for its master."""
        return {
            name: text for name, text in self.given.items() if name.startswith(_SPARK_PREFIX) and name != "spark.master"
        }

    @property
    def of_statements(self) -> dict[str, str]:
        """What holds for statements that do not set it themselves."""
        return {bare(name): text for name, text in self.given.items() if bare(name) in SETTABLE and name not in TABLE}

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    @property
    def brokers(self) -> str:
        return ",".join(each.rpartition("://")[2] for each in self.values["bootstrap.servers"])

    def advertised(self, port: int) -> tuple[str, int]:
        """Where other servers reach this one, which listens on this port."""
        given = self.text("ksql.advertised.listener")
        if given:
            (listener,) = http_listeners([given], DEFAULT_PORT)
            return listener.host, listener.port
        return self.listeners[0].host, port

    @property
    def client(self) -> dict[str, str]:
        """The settings of the server's own clients: where the brokers are, `security.protocol`, `sasl.*` and `ssl.*`;
        `ksql.streams.` before them is for clients alone.
        """
        return {"bootstrap.servers": self.brokers, **self.client_security}

    @property
    def client_security(self) -> dict[str, str]:
        plain = {name: text for name, text in self.given.items() if door_security.is_security(name)}
        own = {name.removeprefix(_CLIENT_PREFIX): text for name, text in self.given.items() if _of_client(name)}
        return {**plain, **own}

    @property
    def query_client(self) -> dict[str, str]:
        """The settings of the clients of persistent queries."""
        session = "session.timeout.ms"
        return {**self.client_security, session: self.text(_CLIENT_PREFIX + session)}

    @property
    def registry(self) -> dict[str, str]:
        """The settings of the schema registry's client, under their own names."""
        return {
            name.removeprefix(_REGISTRY_PREFIX): text
            for name, text in self.given.items()
            if name.startswith(_REGISTRY_PREFIX)
        }

    @property
    def service_id(self) -> str:
        return self.text("ksql.service.id")

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_topic"

    @property
    def states_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_query_states"


def bare(name: str) -> str:
    """The name without what ksqlDB's clients put before those of Kafka Streams."""
    return name.removeprefix(_CLIENT_PREFIX)


def _of_client(name: str) -> bool:
    return door_security.is_security(name.removeprefix(_CLIENT_PREFIX))

"""The server's properties, by ksqlDB's names: one table serves the parser, the check of names, and SHOW PROPERTIES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.config.definition import ConfigType, Definition
from headwater.base.config.server_properties import given_properties, read_properties
from headwater.base.config.validators import AtLeast
from headwater.web.process import http_listeners

DEFAULT_PORT: Final = 8088
_S, _I, _L, _P = ConfigType.STRING, ConfigType.INT, ConfigType.LIST, ConfigType.PASSWORD

TABLE: Final = {
    row.name: row
    for row in (
        Definition("listeners", _L, ["http://127.0.0.1:8088"], "Where the server listens; http:// only."),
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
        Definition("ksql.streams.commit.interval.ms", _I, 100, "How often queries commit.", AtLeast(1)),
        Definition(
            "ksql.query.pull.rows.max", _I, 1_000_000, "The most rows that a pull query may hold. Ours.", AtLeast(1)
        ),
        Definition(
            "ksql.query.pull.bytes.max",
            _I,
            256 * 1024 * 1024,
            "The most bytes that a pull query beyond one table may read, and its answer have. Ours.",
            AtLeast(1),
        ),
        Definition("ksql.query.push.max", _I, 100, "The most push queries at a time. Ours.", AtLeast(1)),
        Definition(
            "ksql.schema.registry.url", _S, "", "The schema registry, for the formats AVRO, JSON_SR and PROTOBUF."
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
        Definition("log.format", _S, "text", "text, or json: one object per line. Ours."),
    )
}


@dataclass(frozen=True, slots=True)
class SqlServerConfig:
    values: Mapping[str, Any]
    listeners: tuple[tuple[str, int], ...]

    @classmethod
    def load(cls, properties_text: str | None, overrides: list[str]) -> tuple[SqlServerConfig, list[str]]:
        """The config, and warnings about names that have no effect. Raises UserError."""
        return cls.of(given_properties(properties_text, overrides))

    @classmethod
    def of(cls, given: Mapping[str, str]) -> tuple[SqlServerConfig, list[str]]:
        values, warnings = read_properties(TABLE, given, "the server")
        listeners = http_listeners(values["listeners"], DEFAULT_PORT)
        return cls(values, listeners), warnings

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    @property
    def brokers(self) -> str:
        return ",".join(each.rpartition("://")[2] for each in self.values["bootstrap.servers"])

    @property
    def service_id(self) -> str:
        return self.text("ksql.service.id")

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_topic"

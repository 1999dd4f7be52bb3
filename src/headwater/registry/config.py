"""The registry's properties, by Confluent's names: one table serves the parser, the check of names, and
docs/SCHEMAS.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.base.config.definition import ConfigType, Definition, format_value
from headwater.base.config.server_properties import given_properties, read_properties
from headwater.base.config.validators import AtLeast
from headwater.base.errors import UserError
from headwater.registry.decisions.steps import Rules
from headwater.schemas import CompatibilityLevel
from headwater.web import door_security
from headwater.web.listeners import HttpListener, http_listeners

DEFAULT_PORT: Final = 8081


def _row(name: str, type_: ConfigType, default: Any, doc: str, validator: Any = None) -> Definition:
    return Definition(name, type_, default, doc, validator)


_S, _I, _B, _L = ConfigType.STRING, ConfigType.INT, ConfigType.BOOLEAN, ConfigType.LIST

TABLE: Final = {
    row.name: row
    for row in (
        _row(
            "listeners",
            _L,
            ["http://127.0.0.1:8081"],
            "Where the registry listens: http:// or https://. Confluent's default is every address: without a login, one has to say so.",
        ),
        _row(
            "host.name",
            _S,
            None,
            "The name by which other registries reach this one. Without it: that of the first listener that is not on the loopback interface, or of the machine.",
        ),
        _row(
            "inter.instance.listener.name",
            _S,
            "",
            "Taken, and without effect: the first listener is the one that other registries use.",
        ),
        _row(
            "kafkastore.bootstrap.servers",
            _L,
            ["localhost:9092"],
            "Brokers that keep the topic of schemas; PLAINTEXT:// before a name is taken.",
        ),
        _row("kafkastore.topic", _S, "_schemas", "The compacted topic, of one partition, that all schemas are in."),
        _row(
            "kafkastore.topic.replication.factor",
            _I,
            3,
            "Of the topic when the registry makes it; no more than there are brokers.",
            AtLeast(1),
        ),
        _row(
            "kafkastore.timeout.ms",
            _I,
            60_000,
            "How long a write may take, and how long one waits for a leader.",
            AtLeast(1),
        ),
        _row(
            "kafkastore.init.timeout.ms",
            _I,
            60_000,
            "How long the registry tries to reach the brokers and to read the topic at its start.",
            AtLeast(1),
        ),
        _row("kafkastore.group.id", _S, "", "Taken, and without effect: the topic is read without a group."),
        _row(
            "schema.registry.group.id",
            _S,
            "schema-registry",
            "The group in which registries of one topic elect their leader; also their transactional id.",
        ),
        _row(
            "schema.registry.group.session.timeout.ms",
            _I,
            10_000,
            "After how long without a sign of life another registry leads. Ours.",
            AtLeast(1),
        ),
        _row("leader.eligibility", _B, True, "Whether this registry may lead; one that may not forwards every write."),
        _row("master.eligibility", _B, True, "The old name of leader.eligibility."),
        _row("leader.connect.timeout.ms", _I, 60_000, "How long a connection to the leader may take.", AtLeast(1)),
        _row(
            "leader.read.timeout.ms",
            _I,
            60_000,
            "How long the leader may take to answer a write that was forwarded to it.",
            AtLeast(1),
        ),
        _row(
            "schema.compatibility.level",
            _S,
            "BACKWARD",
            "For subjects that have none of their own, until /config is set.",
        ),
        _row("avro.compatibility.level", _S, None, "The old name of schema.compatibility.level."),
        _row("mode.mutability", _B, True, "Whether /mode may be changed."),
        _row(
            "schema.validate.fields",
            _B,
            False,
            "For subjects without validateFields in /config: whether fields that the metadata reserves are refused.",
        ),
        _row(
            "schema.validate.new.schemas",
            _B,
            True,
            "For subjects without validateNewSchemas in /config: whether names and defaults of Avro are looked at.",
        ),
        _row(
            "schema.bytes.max",
            _I,
            1_000_000,
            "The largest text of one schema. Ours; the topic's max.message.bytes must allow it.",
            AtLeast(1),
        ),
        _row("request.bytes.max", _I, 4 * 1024 * 1024, "The largest body of a request. Ours.", AtLeast(1)),
        _row("connections.max", _I, 1000, "The most connections at a time; more are closed at once. Ours.", AtLeast(1)),
        _row("schema.search.default.limit", _I, 1000, "How many schemas a listing has unless it says.", AtLeast(1)),
        _row("schema.search.max.limit", _I, 1000, "The most that it may ask for.", AtLeast(1)),
        _row("subject.search.default.limit", _I, 20_000, "How many subjects a listing has unless it says.", AtLeast(1)),
        _row("subject.search.max.limit", _I, 20_000, "The most that it may ask for.", AtLeast(1)),
        _row(
            "subject.version.search.default.limit",
            _I,
            20_000,
            "How many versions a listing has unless it says.",
            AtLeast(1),
        ),
        _row("subject.version.search.max.limit", _I, 20_000, "The most that it may ask for.", AtLeast(1)),
        _row("context.search.default.limit", _I, 2000, "How many contexts a listing has unless it says.", AtLeast(1)),
        _row("context.search.max.limit", _I, 2000, "The most that it may ask for.", AtLeast(1)),
        _row("log.format", _S, "text", "text, or json: one object per line. Ours."),
        *door_security.ROWS.values(),
    )
}
_CLIENT_PREFIX: Final = "kafkastore."


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    values: Mapping[str, Any]
    listeners: tuple[HttpListener, ...]
    rules: Rules
    given: Mapping[str, str] = field(repr=False)  # as text: some are secrets

    @classmethod
    def load(cls, properties_text: str | None, overrides: list[str]) -> tuple["RegistryConfig", list[str]]:
        """The config, and warnings about names that have no effect. Raises UserError."""
        return cls.of(given_properties(properties_text, overrides))

    @classmethod
    def of(cls, given: Mapping[str, str]) -> tuple["RegistryConfig", list[str]]:
        values, warnings = read_properties(
            TABLE, given, "the registry", lambda name: door_security.is_known(name) or _of_client(name)
        )
        listeners = http_listeners(values["listeners"], DEFAULT_PORT)
        return cls(values, listeners, _rules(values), dict(given)), warnings

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(each.rpartition("://")[2] for each in self.values["kafkastore.bootstrap.servers"])

    @property
    def is_beside_brokers(self) -> bool:
        """Whether all brokers are reached over the loopback interface: a registry with such an address is on this
        machine then.
        """
        hosts = [each.rpartition(":")[0].strip("[]") for each in self.bootstrap_servers.split(",")]
        return all(HttpListener(host, 0).is_loopback for host in hosts)

    def client(self) -> dict[str, str]:
        """The settings of the registry's own clients: `kafkastore.security.protocol`, `kafkastore.sasl.*`,
        `kafkastore.ssl.*`.
        """
        own = {name.removeprefix(_CLIENT_PREFIX): text for name, text in self.given.items() if _of_client(name)}
        return {"bootstrap.servers": self.bootstrap_servers, "client.id": "headwater-schema-registry", **own}

    @property
    def is_eligible(self) -> bool:
        return bool(self.values["leader.eligibility"] and self.values["master.eligibility"])


def _of_client(name: str) -> bool:
    return name.startswith(_CLIENT_PREFIX) and door_security.is_security(name.removeprefix(_CLIENT_PREFIX))


def _rules(values: Mapping[str, Any]) -> Rules:
    level = str(values["avro.compatibility.level"] or values["schema.compatibility.level"]).upper()
    if level not in CompatibilityLevel.__members__:
        allowed = ", ".join(CompatibilityLevel.__members__).lower()
        raise UserError(f"schema.compatibility.level cannot be {level!r}", hint=f"It is one of {allowed}")
    return Rules(
        compatibility=level,
        mode_mutable=values["mode.mutability"],
        validate_fields=values["schema.validate.fields"],
        validate_new_schemas=values["schema.validate.new.schemas"],
        schema_bytes_max=values["schema.bytes.max"],
        **{
            f"{kind}_search_{bound}_limit": values[f"{kind.replace('_', '.')}.search.{bound}.limit"]
            for kind in ("schema", "subject", "subject_version", "context")
            for bound in ("default", "max")
        },
    )


def config_document() -> str:
    """The table of docs/SCHEMAS.md."""
    lines = ["| property | default | meaning |", "|---|---|---|"]
    for row in TABLE.values():
        default = format_value(row.default)
        lines.append(f"| `{row.name}` | {f'`{default}`' if default else ''} | {row.doc} |")
    return "\n".join(lines) + "\n"

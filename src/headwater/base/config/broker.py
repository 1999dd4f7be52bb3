"""The config of one broker: what the file and `--set` say, what admins changed since, and the typed values of it all.

Four layers, the first that says something wins: dynamic for this broker, dynamic for all brokers, static (file and
`--set`), the table's default. The dynamic layers are set by the owner of the cluster image, whenever it changes,
through `set_dynamic`; readers ask for values when they need them, so a change takes effect with the next question.

Owned by the broker; no thread but its own touches it.
"""

import builtins
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.config.definition import ConfigType, Definition, Value
from headwater.base.config.listener_config import (
    MECHANISMS,
    PREFIX,
    ListenerConfig,
    check_security,
    is_listener_secret,
    own_listener,
)
from headwater.base.config.listeners import Listener, parse_listeners, parse_protocol_map
from headwater.base.config.properties import parse_properties
from headwater.base.config.table import BROKER, TOPIC
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import UserError
from headwater.base.redaction import assignments
from headwater.base.security.password_encoder import CannotDecode, PasswordEncoder

logger = logging.getLogger("headwater.config")
_WHOLE: Final = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)
_OLDER_PORT: Final = 9092


class BrokerConfig:
    __slots__ = (
        "_booleans", "_integers", "_topic_defaults", "_values",
        "dynamic_broker", "dynamic_default", "password_encoder", "static",
    )  # fmt: skip

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        """From properties that need not be complete; raises UserError on a bad value. Unknown names are kept,
        unused.
        """
        self.static = dict(static or {})
        self.dynamic_default: dict[str, str] = {}
        self.dynamic_broker: dict[str, str] = {}
        self._settle_broker_id()
        self._settle_addresses()
        self._compute(strict=True)
        self.password_encoder = self._new_encoder()
        _check_together(self)

    @classmethod
    def load(cls, path: str | None, overrides: Iterable[str] = ()) -> "tuple[BrokerConfig, list[str]]":
        """The config of a file and of `key=value` settings over it, and warnings for people. At start-up only."""
        properties: dict[str, str] = {}
        if path is not None:
            try:
                with open(path, encoding="utf-8") as file:
                    properties = parse_properties(file.read())
            except OSError as problem:
                raise UserError(f"Cannot read the config file {path}", problem.strerror or str(problem)) from None
            except UnicodeDecodeError:
                raise UserError(f"Cannot read the config file {path}", "it is not UTF-8 text") from None
        settings, problem_of_one = assignments(list(overrides))
        if problem_of_one:
            raise UserError("Cannot read a setting", problem_of_one, "Write --set name=value")
        properties.update(settings)
        return cls(properties), warnings_for(properties)

    # Typed values

    def int(self, name: str) -> builtins.int:
        return self._integers[name]

    def bool(self, name: str) -> builtins.bool:
        return self._booleans[name]

    def float(self, name: str) -> builtins.float:
        value = self._values[name]
        assert isinstance(value, builtins.float), name
        return value

    def string(self, name: str) -> str | None:
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def list(self, name: str) -> builtins.list[str]:
        value = self._values[name]
        assert value is None or isinstance(value, builtins.list), name
        return value or []

    def value(self, name: str) -> Value:
        """Of any type; None where nothing is set and the table has no default."""
        return self._values[name]

    def log_dirs(self) -> builtins.list[str]:
        """Where the log lies: log.dirs, or else log.dir."""
        found = self.list("log.dirs") or self.list("log.dir")
        if not found:
            raise UserError(
                "No log directory is set", "log.dirs and log.dir are both empty", "Set log.dirs=/path/to/data"
            )
        return found

    def node_id(self) -> builtins.int:
        """This broker's id: node.id or broker.id, or else 0."""
        return max(0, self.int("node.id"))

    def adopt_node_id(self, found: builtins.int) -> None:
        """The id that the log directories were made for, unless the config names one."""
        if "node.id" not in self.static:
            self.static["node.id"] = str(found)
            self._compute(strict=True)

    def listeners(self) -> builtins.list[Listener]:
        """Where to listen. Listeners of a KRaft controller are left out: there is none here."""
        return self._without_controllers(parse_listeners("listeners", self.list("listeners"), self._protocols()))

    def advertised_listeners(self) -> builtins.list[Listener]:
        entries = self.list("advertised.listeners")
        if not entries:
            return self.listeners()
        return self._without_controllers(parse_listeners("advertised.listeners", entries, self._protocols()))

    def listener(self, name: str) -> ListenerConfig:
        """The settings of one listener: its own over those of all."""
        return ListenerConfig(self, name)

    def inter_broker_listener(self) -> Listener:
        """The one that brokers use among themselves; the first if nothing says which."""
        return own_listener(self, self.listeners())

    # Topics

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """Typed values by topic config name: the topic's own over the broker's.

        What is stored was checked when it was set; should a later table refuse it, the broker's value stands in.
        """
        values = dict(self._topic_defaults)
        for name, text in overrides.items():
            definition = TOPIC.get(name)
            if definition is not None:
                try:
                    values[name] = definition.parse(text)
                except ConfigValueError:
                    continue
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        return values

    # Changes

    def set_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> None:
        """The dynamic layers from now on, as the metadata holds them: those of all brokers, and those of this one.

        Passwords are decrypted here and nowhere else. One that cannot be is ignored: the file's own holds.
        """
        self.dynamic_default = dict(default)
        self.dynamic_broker = self._decrypted(broker)
        self._compute(strict=False)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> "BrokerConfig":
        """What this broker's config would be."""
        config = BrokerConfig(self.static)
        config.password_encoder = self.password_encoder  # it remembers what it has decrypted
        config.set_dynamic(default, broker)
        return config

    def _new_encoder(self) -> PasswordEncoder | None:
        secret = self.string("password.encoder.secret")
        if not secret:
            return None
        return PasswordEncoder(
            secret,
            self.string("password.encoder.old.secret") or None,
            key_factory=self.string("password.encoder.keyfactory.algorithm") or "",
            cipher=self.string("password.encoder.cipher.algorithm") or "",
            key_bits=self.int("password.encoder.key.length"),
            iterations=self.int("password.encoder.iterations"),
        )

    def _decrypted(self, stored: Mapping[str, str]) -> dict[str, str]:
        result = dict(stored)
        for name in [name for name in stored if is_listener_secret(name)]:
            try:
                if self.password_encoder is None:
                    raise CannotDecode
                result[name] = self.password_encoder.decode(stored[name])
            except (CannotDecode, UserError) as problem:
                why = str(problem) or "password.encoder.secret is another, or is not set"
                logger.error("event=dynamic-password-not-decoded name=%r reason=%r", name, why)
                del result[name]
        return result

    def _compute(self, *, strict: builtins.bool) -> None:
        values = {name: self._effective(definition, strict=strict) for name, definition in BROKER.items()}
        self._values = values
        self._integers = {n: v for n, v in values.items() if isinstance(v, builtins.int) and BROKER[n].type in _WHOLE}
        self._booleans = {n: v for n, v in values.items() if isinstance(v, builtins.bool)}
        self._topic_defaults = {name: _topic_default(values, definition) for name, definition in TOPIC.items()}
        self._topic_defaults["producer.id.expiration.ms"] = values["producer.id.expiration.ms"]

    def _effective(self, definition: Definition, *, strict: builtins.bool) -> Value:
        name = definition.name
        for layer in (self.dynamic_broker, self.dynamic_default):
            if name in layer:
                try:
                    return definition.parse(layer[name])
                except ConfigValueError:
                    continue  # refused when it was set; only an older store can hold it
        if name not in self.static:
            return definition.default
        try:
            return definition.parse(self.static[name])
        except ConfigValueError as problem:
            assert strict, name
            shown = "(hidden)" if definition.is_sensitive else self.static[name]
            raise UserError(
                f"Bad value for {name}: {shown}", problem.reason, f"Allowed: {definition.allowed}"
            ) from None

    def _settle_broker_id(self) -> None:
        """broker.id is the older name of node.id."""
        older, newer = self.static.get("broker.id", "-1").strip(), self.static.get("node.id", "").strip()
        if older == "-1":
            return
        self._effective(BROKER["broker.id"], strict=True)  # what is wrong with it is told under its own name
        if newer and newer != older:
            raise UserError(
                f"Bad value for broker.id: {older}",
                f"node.id says {newer}",
                "Set one of them, or both to the same number",
            )
        self.static["node.id"] = older

    def _settle_addresses(self) -> None:
        """host.name and port are what listeners was once; the same with `advertised`."""

        def said(name: str) -> str:
            return self.static.get(name, "").strip()

        host, port = said("host.name"), said("port") or str(_OLDER_PORT)
        if said("host.name") or said("port"):
            self.static.setdefault("listeners", f"PLAINTEXT://{host}:{port}")
        told_host, told_port = said("advertised.host.name") or host, said("advertised.port") or port
        if told_host and (said("advertised.host.name") or said("advertised.port")):
            self.static.setdefault("advertised.listeners", f"PLAINTEXT://{told_host}:{told_port}")

    def _protocols(self) -> dict[str, str]:
        protocols = parse_protocol_map(self.string("listener.security.protocol.map") or "")
        for name in self.list("controller.listener.names"):
            protocols.setdefault(name.upper(), "PLAINTEXT")
        return protocols

    def _without_controllers(self, listeners: builtins.list[Listener]) -> builtins.list[Listener]:
        controllers = {name.upper() for name in self.list("controller.listener.names")}
        return [listener for listener in listeners if listener.name not in controllers]


def _topic_default(values: Mapping[str, Value], definition: Definition) -> Value:
    """What the broker's properties say for a topic config: the first synonym that is set, in milliseconds."""
    for synonym in definition.synonyms:
        value = values[synonym.name]
        if value is None:
            continue
        if synonym.multiplier != 1 and isinstance(value, int):
            return value * synonym.multiplier if value >= 0 else -1
        if definition.name == "retention.ms" and isinstance(value, int):
            return max(value, -1)
        return value
    return definition.default


def _check_together(config: BrokerConfig) -> None:
    """What only several properties together can get wrong."""
    listeners, advertised = config.listeners(), config.advertised_listeners()
    if not listeners:
        raise UserError("No listener is left", "every one of listeners belongs to controller.listener.names")
    check_security(config, listeners)
    unknown = {listener.name for listener in advertised} - {listener.name for listener in listeners}
    if unknown:
        raise UserError(
            f"Bad value for advertised.listeners: {','.join(config.list('advertised.listeners'))}",
            f"no listener is called {', '.join(sorted(unknown))}",
            f"Names in listeners are {', '.join(listener.name for listener in listeners)}",
        )
    if any(listener.host in ("0.0.0.0", "::") for listener in advertised) and config.list("advertised.listeners"):
        raise UserError(
            "Bad value for advertised.listeners",
            "nobody can connect to the address of all interfaces",
            "Name a host that clients can reach",
        )
    config.inter_broker_listener()
    held_bytes, request_bytes = config.int("queued.max.request.bytes"), config.int("socket.request.max.bytes")
    if 0 < held_bytes < request_bytes:
        raise UserError(
            f"Bad value for queued.max.request.bytes: {held_bytes}",
            f"it must be no less than socket.request.max.bytes ({request_bytes})",
        )
    if config.int("log.cleaner.min.compaction.lag.ms") > config.int("log.cleaner.max.compaction.lag.ms"):
        raise UserError(
            "Bad value for log.cleaner.min.compaction.lag.ms", "it is larger than log.cleaner.max.compaction.lag.ms"
        )


def warnings_for(properties: Mapping[str, str]) -> list[str]:
    """For people: names that nobody knows, and names that have no effect here."""
    warnings: list[str] = []
    without_effect: list[str] = []
    for name in properties:
        known = BROKER.get(name) or BROKER.get(_base_name(name))
        if known is None:
            warnings.append(f"unknown property {name!r}: it has no effect{_did_you_mean(name)}")
        elif not known.used:
            without_effect.append(name)
    if without_effect:
        warnings.append(f"known to Apache Kafka, without effect here: {', '.join(sorted(without_effect))}")
    return warnings


def _base_name(name: str) -> str:
    """`listener.name.<listener>.<property>` is a property for one listener, or for a mechanism of it."""
    if not name.startswith(PREFIX):
        return name
    rest = name[len(PREFIX) :].partition(".")[2]
    mechanism, _, behind = rest.partition(".")
    return behind if mechanism.upper() in MECHANISMS else rest


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches  # 5 ms that only a typing error needs

    close = get_close_matches(name, [d.name for d in BROKER.values() if not d.hidden], 1, 0.75)
    if close:
        return f"; did you mean {close[0]!r}?"
    return "; that is a topic config: give it to a topic" if name in TOPIC else ""

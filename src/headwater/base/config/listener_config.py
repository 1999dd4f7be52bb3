"""The security settings of one listener: `listener.name.<listener>.<property>` over `<property>`, asked when they are
needed.

For one mechanism of a listener, `listener.name.<listener>.<mechanism>.<property>` comes first. Names of listeners and
mechanisms are written in small letters there, and compared without regard to case. No state: a change of the broker's
dynamic config is there with the next question.
"""

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headwater.base.config.definition import Definition, Value
from headwater.base.config.listeners import Listener
from headwater.base.config.table import BROKER
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import UserError

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig

PREFIX: Final = "listener.name."
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


_LABELS_MAX: Final = 16  # more than any property's name has


def definition_of(name: str) -> Definition | None:
    """Of a broker config, also for one listener, or for a mechanism of it. None: nobody knows it.

    Whatever stands between the prefix and a property that there is counts as a listener and a mechanism: a password is
    one under a mechanism that is not served, too.
    """
    if name in BROKER or not name.startswith(PREFIX):
        return BROKER.get(name)
    labels = name[len(PREFIX) :].lower().split(".")
    rests = (".".join(labels[at:]) for at in range(max(0, len(labels) - _LABELS_MAX), len(labels)))
    return next((BROKER[rest] for rest in rests if rest in BROKER), None)


def is_listener_secret(name: str) -> bool:
    """A password for one listener: the metadata holds it encrypted."""
    if not name.startswith(PREFIX):
        return False
    definition = definition_of(name)
    return definition is not None and definition.is_sensitive


class ListenerConfig:
    def __init__(self, config: "BrokerConfig", listener: str) -> None:
        self._config = config
        self._prefix = f"{PREFIX}{listener.lower()}."

    def value(self, name: str, mechanism: str | None = None) -> Value:
        """Of the listener's own if it has one, or else of all."""
        for text, where, is_static in self._own(name, mechanism):
            try:
                return BROKER[name].parse(text)
            except ConfigValueError as problem:
                if is_static:
                    shown = "(hidden)" if BROKER[name].is_sensitive else text
                    raise UserError(f"Bad value for {where}: {shown}", problem.reason) from None
                # refused when it is set now; an older store may hold it, and must not close the listener
        return self._config.value(name)

    def _own(self, name: str, mechanism: str | None) -> Iterator[tuple[str, str, builtins.bool]]:
        """The listener's own settings of a name, the first first: the text, where it stands, and whether that is the
        file.
        """
        config = self._config
        wanted = [f"{self._prefix}{mechanism.lower()}.{name}"] if mechanism is not None else []
        wanted.append(self._prefix + name)
        for each in wanted:
            for layer in (config.dynamic_broker, config.dynamic_default, config.static):
                if each in layer:
                    yield layer[each], each, layer is config.static
                elif (
                    each.islower() and layer is config.static
                ):  # a listener's name may be written as it is in `listeners`
                    for written, text in layer.items():
                        if written.startswith(PREFIX) and written.lower() == each:
                            yield text, written, True

    def string(self, name: str, mechanism: str | None = None) -> str | None:
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, str), name
        return value or None

    def list(self, name: str) -> builtins.list[str]:
        value = self.value(name)
        assert value is None or isinstance(value, builtins.list), name
        return value or []

    def int(self, name: str) -> builtins.int:
        value = self.value(name)
        assert isinstance(value, builtins.int), name
        return value

    def bool(self, name: str) -> builtins.bool:
        value = self.value(name)
        assert isinstance(value, builtins.bool), name
        return value

    def mechanisms(self) -> builtins.list[str]:
        return [mechanism.upper() for mechanism in self.list("sasl.enabled.mechanisms")]


def served_mechanisms(listener: Listener, settings: ListenerConfig) -> list[str]:
    """The enabled mechanisms but those that a listener is not opened with: a store that others write may hold them."""
    enabled = [each for each in settings.mechanisms() if each in MECHANISMS]
    return [each for each in enabled if each != "PLAIN" or not _shows_passwords(listener, settings)]


def own_listener(config: "BrokerConfig", listeners: "list[Listener]") -> Listener:
    """The listener that brokers use among themselves; raises UserError if the settings contradict each other."""
    name = config.string("inter.broker.listener.name")
    protocol_is_set = "security.inter.broker.protocol" in config.static
    protocol = config.string("security.inter.broker.protocol")
    if name:
        if protocol_is_set:
            raise UserError(
                "inter.broker.listener.name and security.inter.broker.protocol are both set",
                "they could name different listeners",
                "Remove security.inter.broker.protocol",
            )
        found = next((listener for listener in listeners if listener.name == name.upper()), None)
        if found is None:
            raise UserError(f"Bad value for inter.broker.listener.name: {name}", "no listener has that name")
        return found
    if protocol_is_set:
        found = next((listener for listener in listeners if listener.protocol == protocol), None)
        if found is None:
            raise UserError(f"Bad value for security.inter.broker.protocol: {protocol}", "no listener speaks it")
        return found
    return listeners[0]


def check_security(config: "BrokerConfig", listeners: "list[Listener]") -> None:
    """What the settings of the listeners say about TLS and logins, as far as no file is needed to know it. Raises
    UserError.
    """
    _check_prefixed(config, listeners)
    for listener in listeners:
        if listener.protocol.startswith("SASL_"):
            _check_mechanisms(listener, ListenerConfig(config, listener.name))


def check_mechanism_changes(before: "BrokerConfig", after: "BrokerConfig") -> None:
    """The mechanisms of each listener that lets others in by `after` than by `before`, as at the start. Raises
    UserError.

    A listener that stays as it is is left alone: what an older store holds must not stop other changes.
    """
    for listener in after.listeners():
        now = ListenerConfig(after, listener.name)
        if (
            listener.protocol.startswith("SASL_")
            and now.mechanisms() != ListenerConfig(before, listener.name).mechanisms()
        ):
            _check_mechanisms(listener, now)


def _check_prefixed(config: "BrokerConfig", listeners: "list[Listener]") -> None:
    for name in config.static:
        if name.startswith(PREFIX):
            listener, _, rest = name[len(PREFIX) :].partition(".")
            first, _, behind = rest.partition(".")
            rest = behind if first.upper() in MECHANISMS else rest
            if rest in BROKER and listener.upper() in {each.name for each in listeners}:
                ListenerConfig(config, listener).value(rest)


def _check_mechanisms(listener: Listener, settings: ListenerConfig) -> None:
    mechanisms = settings.mechanisms()
    unknown = [mechanism for mechanism in mechanisms if mechanism not in MECHANISMS]
    if unknown or not mechanisms:
        raise UserError(
            f"Listener {listener} cannot let anybody log in by {', '.join(unknown) or 'nothing'}",
            "Kerberos is not there yet" if "GSSAPI" in unknown else "sasl.enabled.mechanisms names no such mechanism",
            f"Set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}",
        )
    if "PLAIN" in mechanisms and _shows_passwords(listener, settings):
        raise UserError(
            f"Listener {listener} would take passwords in plain text",
            "PLAIN sends the password as it is, and the listener has no TLS",
            "Use SASL_SSL or SCRAM; on a network that nobody else can read, set sasl.plain.allow.plaintext=true",
        )


def _shows_passwords(listener: Listener, settings: ListenerConfig) -> bool:
    """Whether passwords of PLAIN would travel readable, and nobody has said that they may."""
    return listener.protocol == "SASL_PLAINTEXT" and not settings.bool("sasl.plain.allow.plaintext")

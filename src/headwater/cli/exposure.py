"""What the settings of a broker or of an HTTP door leave open: the part of `headwater doctor` about security.

Pure: settings, what is known of the files that they name, and the time come in; findings go out, and no secret is in
one. `fail` is what whoever reaches the machine can use (or read a key by), `warn` what should be known: a login without
TLS, everybody's rights, a certificate that ends soon. An address is taken to be reached by others unless it is of the
loopback interface.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.definition import ConfigType
from headwater.base.config.listener_config import ListenerConfig
from headwater.base.config.listeners import Listener
from headwater.base.config.table import BROKER
from headwater.base.errors import UserError
from headwater.base.redaction import has_login
from headwater.cli.checks import FAIL, OK, WARN, Finding
from headwater.web import door_security
from headwater.web.listeners import HttpListener, http_listeners

CERTIFICATE_SETTINGS: Final = ("ssl.keystore.location", "ssl.truststore.location")
INLINE_CERTIFICATES: Final = "ssl.keystore.certificate.chain"
_SOON: Final = timedelta(days=30)
_OTHERS: Final = 0o006  # who is neither the owner nor of the group reads or writes it
_ANONYMOUS: Final = "User:ANONYMOUS"
_DOOR_PORT: Final = 8081
_METRICS_PORT: Final = 9404
_DOOR_NAMES: Final = ("bootstrap.servers", "kafkastore.bootstrap.servers")
_SECRET_WORDS: Final = ("password", "secret", "jaas.config", "user.info", "keystore.key")


class FileFacts(NamedTuple):
    """What is known of a file: its permission bits, and when the first of its certificates ends. None: not known."""

    mode: int | None = None
    ends: datetime | None = None
    problem: str = ""  # why it could not be read


Files = Mapping[str, FileFacts]


class Settings(NamedTuple):
    """Of one server; `path` is the properties file that they come from, if there is one.
    Not shown: some are secrets.
    """

    name: str  # "broker 1", "registry", or the file's
    given: Mapping[str, str]
    path: str | None = None

    def __repr__(self) -> str:
        return f"Settings({self.name!r})"


def exposures(settings: Settings, files: Files, now: datetime) -> list[Finding]:
    """What one server leaves open; one finding that is `ok` if that is nothing."""
    try:
        of_kind = _of_door(settings) if is_door(settings.given) else _of_broker(settings)
        found = [*of_kind, *_of_files(settings, files, now)]
    except UserError as problem:
        return [Finding(FAIL, settings.name, problem.what, problem.why or problem.hint)]
    return found or [Finding(OK, settings.name, "nothing is open to others")]


def is_door(given: Mapping[str, str]) -> bool:
    """Whether these are an HTTP door's settings: a broker has listeners of other protocols, and no brokers to ask."""
    listeners = given.get("listeners", "").lower()
    return "http://" in listeners or "https://" in listeners or any(name in given for name in _DOOR_NAMES)


def named_files(given: Mapping[str, str]) -> dict[str, str]:
    """The key and trust stores that settings name, with those of single listeners: the setting's name, and the path."""
    return {name: text.strip() for name, text in given.items() if name.endswith(CERTIFICATE_SETTINGS) and text.strip()}


def has_secrets(given: Mapping[str, str]) -> bool:
    """Whether there is a password, a key or a login among them, known to us or not."""
    return any(_is_secret(name) or has_login(text) for name, text in given.items() if text.strip())


def of_secret_files(files: Files) -> Iterator[Finding]:
    """Files that are secret as a whole: those of `headwater up --secure`, and the logins of profiles."""
    for path, facts in files.items():
        yield from _readable_by_others(path, "secret", facts)


# Brokers


def _of_broker(settings: Settings) -> Iterator[Finding]:
    config = BrokerConfig(settings.given)
    abroad = [each for each in config.listeners() if not _is_loopback(each.host)]
    for listener in abroad:
        yield from _of_listener(settings.name, config, listener)
    yield from _of_rights(settings.name, config, is_reached=bool(abroad))
    if any(each.protocol.endswith("SSL") for each in config.listeners()):
        own = ListenerConfig(config, config.inter_broker_listener().name)
        if not own.string("ssl.endpoint.identification.algorithm"):
            found = "brokers do not check the host names of each other's certificates"
            hint = "Remove ssl.endpoint.identification.algorithm= from its settings"
            yield Finding(WARN, settings.name, found, hint)
    yield from _of_metrics(settings.name, config)


def _of_metrics(name: str, config: BrokerConfig) -> Iterator[Finding]:
    address = config.string("metrics.listener")
    methods = {each.strip().upper() for each in config.list("metrics.authentication.method")}
    if not address or methods & {"BASIC", "BEARER"}:
        return
    if not all(listener.is_loopback for listener in http_listeners([address], _METRICS_PORT)):
        hint = "Set metrics.authentication.method=BASIC and metrics.listener=https://..."
        yield Finding(FAIL, f"{name} metrics", f"anybody who reaches {address} reads the metrics", hint)


def _of_listener(name: str, config: BrokerConfig, listener: Listener) -> Iterator[Finding]:
    """A listener that others reach."""
    own = ListenerConfig(config, listener.name)
    check = f"{name} {listener.name}"
    if listener.protocol.startswith("SASL_"):
        if listener.protocol == "SASL_SSL":
            return
        if "PLAIN" in own.mechanisms():
            found = f"{listener} takes passwords in plain text: PLAIN without TLS"
            yield Finding(FAIL, check, found, "Use SASL_SSL, or SCRAM instead of PLAIN")
        else:
            found = f"{listener} has a login, and no TLS: records travel readable"
            yield Finding(WARN, check, found, "Use SASL_SSL with ssl.keystore.location")
        return
    asks = listener.protocol == "SSL" and own.string("ssl.client.auth") == "required"
    if asks:
        return
    lacks = "no login" if listener.protocol == "SSL" else "neither TLS nor a login"
    hint = "Use SASL_SSL, or SSL with ssl.client.auth=required; `headwater up --secure` makes what it takes"
    if _anonymous_may_all(config):
        yield Finding(FAIL, check, f"{listener} has {lacks}: whoever reaches it may do everything", hint)
    else:
        yield Finding(WARN, check, f"{listener} has {lacks}: whoever reaches it has the rights of {_ANONYMOUS}", hint)


def _of_rights(name: str, config: BrokerConfig, *, is_reached: bool) -> Iterator[Finding]:
    if not config.string("authorizer.class.name"):
        if is_reached:
            hint = "Set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users"
            yield Finding(WARN, f"{name} rights", "no authorizer: every user may do everything", hint)
        return
    yield from _of_zookeeper(name, config)
    if config.bool("allow.everyone.if.no.acl.found"):
        found = "allow.everyone.if.no.acl.found: what no access rule is about is open to every user"
        yield Finding(WARN, f"{name} rights", found, "Remove it, and allow what is needed with kafka-acls")


def _of_zookeeper(name: str, config: BrokerConfig) -> Iterator[Finding]:
    """A login in KAFKA_OPTS is not seen: `zookeeper.set.acl` is, which needs one."""
    zookeeper = config.string("zookeeper.connect")
    if not zookeeper or config.bool("zookeeper.set.acl"):
        return
    found = f"whoever reaches ZooKeeper at {zookeeper} can change users and rights"
    if not config.string("headwater.zookeeper.sasl.jaas.config"):
        hint = "Give brokers a login there, and set zookeeper.set.acl=true; or let nobody but brokers reach it, by a firewall"
        yield Finding(WARN, f"{name} ZooKeeper", f"{found}: it is asked without a login", hint)
    elif not all(_is_here(address) for address in zookeeper.partition("/")[0].split(",")):
        hint = "Set zookeeper.set.acl=true, and run zookeeper-security-migration"
        yield Finding(WARN, f"{name} ZooKeeper", f"{found}: the nodes are open to those without a login", hint)


def _is_here(address: str) -> bool:
    return address.strip().rpartition(":")[0].strip("[]") in ("127.0.0.1", "localhost", "::1")


def _anonymous_may_all(config: BrokerConfig) -> bool:
    if not config.string("authorizer.class.name") or config.bool("allow.everyone.if.no.acl.found"):
        return True
    return _ANONYMOUS in [each.strip() for each in (config.string("super.users") or "").split(";")]


# HTTP doors


def _of_door(settings: Settings) -> Iterator[Finding]:
    given = settings.given
    texts = [each for each in given.get("listeners", "").split(",") if each.strip()]
    methods = [each.strip().upper() for each in given.get("authentication.method", "").split(",")]
    has_login = any(each not in ("", "NONE") for each in methods)
    for listener in http_listeners(texts, _DOOR_PORT) if texts else ():  # without any: the loopback's
        if listener.is_loopback:
            continue
        address = f"{listener.scheme}://{listener.host}:{listener.port}"
        if not has_login:
            hint = "Set authentication.method=BASIC and listeners=https://..., or listen on 127.0.0.1"
            yield Finding(FAIL, settings.name, f"{address} has no login: whoever reaches it may use it", hint)
        elif not listener.is_secured:
            found = f"{address} takes passwords in plain text, unless a proxy before it has TLS"
            yield Finding(WARN, settings.name, found, "Use listeners=https://... with ssl.keystore.location")


# Files


def _of_files(settings: Settings, files: Files, now: datetime) -> Iterator[Finding]:
    if settings.path is not None and has_secrets(settings.given):
        yield from _readable_by_others(settings.path, "with secrets in it", files.get(settings.path, FileFacts()))
    for setting, path in named_files(settings.given).items():
        facts = files.get(path, FileFacts())
        if facts.problem:
            hint = f"{setting} of {settings.name} names it"
            yield Finding(WARN, f"{settings.name} TLS", f"{path} cannot be looked into: {facts.problem}", hint)
        if setting.endswith("ssl.keystore.location"):
            yield from _readable_by_others(path, "with a key in it", facts)
        yield from _of_end(settings.name, path, facts.ends, now)
    inline = [name for name in settings.given if name.endswith(INLINE_CERTIFICATES)]
    for setting in inline:
        yield from _of_end(settings.name, setting, files.get(setting, FileFacts()).ends, now)


def _readable_by_others(path: str, what: str, facts: FileFacts) -> Iterator[Finding]:
    if facts.mode is not None and facts.mode & _OTHERS:
        found = f"{path}, {what}, can be read or written by every user of this machine"
        yield Finding(FAIL, "secrets", found, f"chmod 600 {path}")


def _of_end(name: str, path: str, ends: datetime | None, now: datetime) -> Iterator[Finding]:
    if ends is None or ends > now + _SOON:
        return
    check, day = f"{name} TLS", ends.strftime("%Y-%m-%d")
    hint = "Put a new one in its place: it is read again when the file changes"
    if ends <= now:
        yield Finding(FAIL, check, f"a certificate in {path} has ended on {day}", hint)
    else:
        left = (ends - now).days
        yield Finding(WARN, check, f"a certificate in {path} ends on {day}, in {left} days", hint)


def _is_loopback(host: str) -> bool:
    return HttpListener(host, 0).is_loopback


def _is_secret(name: str) -> bool:
    definition = BROKER.get(name) or door_security.ROWS.get(name)
    if definition is not None:
        return definition.type is ConfigType.PASSWORD and not name.endswith("certificates")
    return any(word in name.lower() for word in _SECRET_WORDS)

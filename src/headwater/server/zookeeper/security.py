"""Who this process is to ZooKeeper, and whether it speaks TLS with it: for brokers and for tools.

By Kafka's habits the login stands in the section `Client` of a JAAS file, which KAFKA_OPTS names
(`-Djava.security.auth.login.config=...`). A broker may have it in its own settings instead
(`headwater.zookeeper.sasl.jaas.config`), which win. TLS is in the settings `zookeeper.ssl.*`; what they do not say, the
system properties of ZooKeeper's own client in KAFKA_OPTS may.
"""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.broker_zookeeper import DEFINITIONS
from headwater.base.config.properties import parse_properties
from headwater.base.errors import UserError
from headwater.base.security.jaas import LoginModule, one_module, parse_jaas_file

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource, TlsSettings

JAAS_FILE: Final = "java.security.auth.login.config"
OWN_LOGIN: Final = "headwater.zookeeper.sasl.jaas.config"
_SECTION: Final = "zookeeper.sasl.clientconfig"
_IS_WANTED: Final = "zookeeper.sasl.client"
_DIGEST: Final = "DigestLoginModule"
_NIO: Final = "ClientCnxnSocketNIO"
_SYSTEM_NAMES: Final = {
    "zookeeper.ssl.client.enable": "zookeeper.client.secure",
    "zookeeper.ssl.keystore.location": "zookeeper.ssl.keyStore.location",
    "zookeeper.ssl.keystore.password": "zookeeper.ssl.keyStore.password",
    "zookeeper.ssl.keystore.type": "zookeeper.ssl.keyStore.type",
    "zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
    "zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
    "zookeeper.ssl.truststore.type": "zookeeper.ssl.trustStore.type",
    "zookeeper.ssl.enabled.protocols": "zookeeper.ssl.enabledProtocols",
    "zookeeper.ssl.cipher.suites": "zookeeper.ssl.ciphersuites",
}
"""What ZooKeeper's client calls those settings whose names differ."""
_NAMES: Final = tuple(definition.name for definition in DEFINITIONS)


class SaslLogin(NamedTuple):
    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.username!r})"


class ZooKeeperSecurity(NamedTuple):
    """`has_certificate`: TLS shows one, which is a login too. `set_acl`: new nodes belong to that login."""

    login: SaslLogin | None = None
    tls: "ContextSource | None" = None
    has_certificate: bool = False
    set_acl: bool = False


OPEN: Final = ZooKeeperSecurity()


def security_of(config: BrokerConfig, environment: Mapping[str, str] = os.environ) -> ZooKeeperSecurity:
    """Of a broker. Raises UserError for what cannot work."""
    said = {name: config.static[name] for name in _NAMES if name in config.static}
    security = _security(said, environment)
    if config.bool("zookeeper.set.acl"):
        if security.login is None and not security.has_certificate:
            raise UserError(
                "zookeeper.set.acl is true, but the broker has no login at ZooKeeper",
                "nodes that only their maker may change need a maker whom ZooKeeper knows",
                f"Name a JAAS file with a section Client in KAFKA_OPTS (-D{JAAS_FILE}=...), or set {OWN_LOGIN},"
                " or zookeeper.ssl.client.enable with zookeeper.ssl.keystore.location",
            )
        return security._replace(set_acl=True)
    return security


def security_of_tool(tls_file: str | None = None, environment: Mapping[str, str] = os.environ) -> ZooKeeperSecurity:
    """Of a command: by KAFKA_OPTS, and a file of `zookeeper.ssl.*` settings. Raises UserError."""
    said: dict[str, str] = {}
    if tls_file is not None:
        found = parse_properties(_text_of(tls_file, "the TLS settings"))
        said = {name: found[name] for name in _NAMES if name in found and name != OWN_LOGIN}
    return _security(said, environment)


def system_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """What KAFKA_OPTS sets by -Dname=value."""
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as problem:
        raise UserError("Cannot read KAFKA_OPTS", str(problem)) from None
    found = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in found}


def _security(said: Mapping[str, str], environment: Mapping[str, str]) -> ZooKeeperSecurity:
    system = system_properties(environment)
    config = BrokerConfig({**_from_system(system), **said})
    own = config.string(OWN_LOGIN)
    module = one_module(own, OWN_LOGIN) if own else _module_of_file(system)
    login = (
        None if module is None else _digest_login(module, OWN_LOGIN if own else f"the JAAS file {system[JAAS_FILE]}")
    )
    if not config.bool("zookeeper.ssl.client.enable"):
        return ZooKeeperSecurity(login)
    if (config.string("zookeeper.clientCnxnSocket") or "").endswith(_NIO):
        raise UserError(
            f"zookeeper.clientCnxnSocket={config.string('zookeeper.clientCnxnSocket')} has no TLS",
            "zookeeper.ssl.client.enable is true",
            "Set it to org.apache.zookeeper.ClientCnxnSocketNetty, or leave it out",
        )
    return ZooKeeperSecurity(login, _tls(config), bool(config.string("zookeeper.ssl.keystore.location")))


def _from_system(system: Mapping[str, str]) -> dict[str, str]:
    names = {
        name: _SYSTEM_NAMES.get(name, name) for name in _NAMES if name.startswith(("zookeeper.ssl", "zookeeper.c"))
    }
    return {name: system[theirs] for name, theirs in names.items() if theirs in system}


def _module_of_file(system: Mapping[str, str]) -> LoginModule | None:
    path = system.get(JAAS_FILE)
    if not path:
        return None
    name = system.get(_SECTION, "Client")
    modules = parse_jaas_file(_text_of(path, f"the JAAS file of KAFKA_OPTS (-D{JAAS_FILE})"), path).get(name)
    if not modules:
        return None
    if system.get(_IS_WANTED, "true").lower() != "true":
        raise UserError(
            f"The JAAS file {path} has a section {name}, and {_IS_WANTED}={system[_IS_WANTED]} forbids to use it",
            "nobody can tell which of the two is meant",
            f"Take one of them away from KAFKA_OPTS: -D{JAAS_FILE} or -D{_IS_WANTED}",
        )
    if len(modules) > 1:
        raise UserError(f"The section {name} of {path} has {len(modules)} login modules", "only one can be meant")
    return modules[0]


def _digest_login(module: LoginModule, where: str) -> SaslLogin:
    if module.short_name != _DIGEST:
        raise UserError(
            f"The login at ZooKeeper by {module.name} is not there",
            f"{where} asks for it; DIGEST-MD5 is the one mechanism here",
            f'Write: org.apache.zookeeper.server.auth.{_DIGEST} required username="..." password="...";',
        )
    username, password = module.options.get("username"), module.options.get("password")
    if not username or password is None:
        raise UserError("The login at ZooKeeper is not complete", f"{where} has no username or no password")
    return SaslLogin(username, password)


def _tls(config: BrokerConfig) -> "ContextSource":
    from headwater.base.security.tls import ContextSource, client_context  # not for who needs none

    try:
        return ContextSource(lambda: _tls_settings(config), client_context)
    except UserError as problem:
        raise UserError(
            f"TLS with ZooKeeper is not possible: zookeeper.{problem.what}"
            if problem.what.startswith("ssl.")
            else f"TLS with ZooKeeper (zookeeper.ssl.*) is not possible: {problem.what}",
            problem.why,
            problem.hint,
        ) from None


def _tls_settings(config: BrokerConfig) -> "TlsSettings":
    from headwater.base.security.tls import TlsSettings

    password = config.string("zookeeper.ssl.keystore.password")
    protocol = config.string("zookeeper.ssl.protocol")
    enabled = config.list("zookeeper.ssl.enabled.protocols") or ([protocol] if protocol else [])
    return TlsSettings(
        keystore_location=config.string("zookeeper.ssl.keystore.location"),
        keystore_password=password,
        key_password=password,
        truststore_location=config.string("zookeeper.ssl.truststore.location"),
        truststore_password=config.string("zookeeper.ssl.truststore.password"),
        enabled_protocols=tuple(enabled) or ("TLSv1.2", "TLSv1.3"),
        cipher_suites=tuple(config.list("zookeeper.ssl.cipher.suites")),
        endpoint_identification=config.string("zookeeper.ssl.endpoint.identification.algorithm") or "",
    )


def _text_of(path: str, what: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as problem:
        raise UserError(f"Cannot read {what}: {path}", problem.strerror or str(problem)) from None
    except UnicodeDecodeError:
        raise UserError(f"Cannot read {what}: {path}", "it is not UTF-8 text") from None

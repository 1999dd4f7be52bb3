"""Whether this broker could work with changed settings of its listeners: looked at before they are taken, as Apache
Kafka does. Key stores and trust stores are read, logins parsed; on the listener of the brokers, a client and a server
with the new settings shake hands in memory, so that no broker shuts itself out. `metrics.listener` counts as one of
them: what it could not be opened with is refused, too.
"""

import ssl
from typing import Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.listener_config import MECHANISMS, ListenerConfig
from headwater.base.config.listeners import Listener
from headwater.base.errors import UserError
from headwater.base.security.jaas import parse_jaas
from headwater.base.security.tls import TlsSettings, check_trusted, client_context, server_context
from headwater.server.security.jwks import check_keys
from headwater.server.security.listener_security import tls_settings, tls_settings_of
from headwater.server.security.metrics_guard import metrics_address
from headwater.server.security.sasl_servers import check_users

_ROUNDS_MAX: Final = 10  # a handshake takes three


def check_config(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raises UserError. A listener that stays as it is is left alone: its files may be about to change."""
    between_brokers = after.inter_broker_listener()
    for listener in after.listeners():
        settings, settings_before = after.listener(listener.name), before.listener(listener.name)
        server = _changed_tls(before, after, listener)
        if server is not None and listener == between_brokers:
            _shake_hands(server, client_context(tls_settings(settings)))
        if listener.protocol.startswith("SASL_"):
            _check_logins(settings_before, settings)
    metrics = after.string("metrics.listener")
    if metrics:
        _changed_tls(before, after, metrics_address(metrics))


def _changed_tls(before: BrokerConfig, after: BrokerConfig, listener: Listener) -> ssl.SSLContext | None:
    """What the listener would use, if its settings of TLS change."""
    if listener.protocol not in ("SSL", "SASL_SSL"):
        return None
    wanted, known = tls_settings_of(after, listener), _tls_before(before, listener)
    if wanted == known:
        return None
    if known is None or _trust_store(wanted) != _trust_store(known):
        check_trusted(wanted)  # also where no client is asked for a certificate: one may be later
    return server_context(wanted)


def _trust_store(settings: TlsSettings) -> tuple[str | None, ...]:
    return settings.truststore_location, settings.truststore_password, settings.truststore_certificates


def _tls_before(before: BrokerConfig, listener: Listener) -> TlsSettings | None:
    try:
        return tls_settings_of(before, listener)
    except UserError:  # of a store that others wrote: this may be the change that mends it
        return None


def _check_logins(before: ListenerConfig, after: ListenerConfig) -> None:
    has_other_logins, has_other_mechanisms = (
        _logins(before) != _logins(after),
        before.mechanisms() != after.mechanisms(),
    )
    if has_other_logins:
        for text in filter(None, _logins(after)):
            parse_jaas(text)
    if has_other_logins or has_other_mechanisms:
        check_users(after)
    if "OAUTHBEARER" in after.mechanisms() and "OAUTHBEARER" not in before.mechanisms():
        check_keys(after)


def _logins(settings: ListenerConfig) -> list[str | None]:
    return [settings.string("sasl.jaas.config", mechanism) for mechanism in MECHANISMS]


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Host names are not compared: brokers have several."""
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_ROUNDS_MAX):
            sides = [side for side in sides if not _goes_on(side)]
            if not sides:
                return
    except ssl.SSLError as problem:
        raise UserError(
            "Brokers with these settings would not trust each other", f"OpenSSL says {problem.reason or problem}"
        ) from None


def _goes_on(side: ssl.SSLObject) -> bool:
    """True: it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

"""The settings of tokens that come from an HTTP endpoint, by Java's names and librdkafka's, to what fetches them.

Java's clients have the id, the secret and the scope in `sasl.jaas.config` (clientId, clientSecret, scope) or, since
Kafka 4.1, in settings of their own, which win.
"""

import ssl
from typing import Final

from headwater.base.errors import UserError
from headwater.base.redaction import has_login, http_address, without_login
from headwater.base.security.jaas import one_module
from headwater.base.security.sasl_client import Credentials, credentials_from
from headwater.base.security.tls import TlsSettings, client_context
from headwater.client.backoff import Backoff
from headwater.client.reactor.token_source import RENEWAL_S, Limits, TokenSource, fetch_over_http
from headwater.client.settings.parsing import Settings
from headwater.client.token_requests import Renewal, TokenRequest

URL: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_PART_OF_CONNECTING: Final = 0.7  # then the connection fails for this reason, rather than for its own time


def is_fetched(settings: Settings) -> bool:
    """Whether the token comes from an endpoint; a file is read otherwise. Raises UserError for what is neither."""
    handler = settings["sasl.login.callback.handler.class"]
    if handler and handler not in _HANDLERS:
        raise UserError(
            f"Bad value for sasl.login.callback.handler.class: {handler}",
            "classes of Java do not run here",
            f"Leave it out, or name {_HANDLERS[0]}",
        )
    url = settings[URL] or ""
    if url.startswith("file://") or (not url and settings["sasl.oauthbearer.method"] == "default"):
        return False
    if http_address(url) is None:
        raise UserError(
            f"Bad value for {URL}: {without_login(url) or 'nothing'}",
            "it is no address of a token endpoint",
            f"Set {URL}=https://host/path, or file:///path/of/the/token",
        )
    if has_login(url):
        raise UserError(f"Bad value for {URL}: it has a login in it", "addresses are shown in logs", "Set clientId")
    return True


def fetched_token(settings: Settings) -> Credentials:
    jaas = settings["sasl.jaas.config"]
    checked = credentials_from("OAUTHBEARER", jaas=jaas, token_url="file:///")  # the module fits
    options = one_module(jaas).options if jaas else {}
    extensions = sorted(name for name in options if name.startswith("extension_"))
    if extensions:
        raise UserError(
            f"sasl.jaas.config has {', '.join(extensions)}", "SASL extensions are not sent", "Take them out"
        )
    client_id = settings["sasl.oauthbearer.client.credentials.client.id"] or options.get("clientId")
    secret = settings["sasl.oauthbearer.client.credentials.client.secret"] or options.get("clientSecret")
    if not client_id or not secret:
        raise UserError(
            "A token endpoint needs a client id and its secret",
            "sasl.jaas.config names neither or only one of them",
            'Set sasl.jaas.config=...OAuthBearerLoginModule required clientId="..." clientSecret="...";',
        )
    request = TokenRequest(
        settings[URL],
        client_id,
        secret,
        settings["sasl.oauthbearer.scope"] or options.get("scope"),
        settings.flag("sasl.oauthbearer.header.urlencode"),
    )
    limits = Limits(
        settings.number("sasl.login.connect.timeout.ms") / 1000, settings.number("sasl.login.read.timeout.ms") / 1000
    )
    most_ms = settings.number("sasl.login.retry.backoff.max.ms")
    connecting_ms = settings.number("socket.connection.setup.timeout.ms") * _PART_OF_CONNECTING
    trusted = _trusted(settings, options)
    source = TokenSource(
        lambda: fetch_over_http(request, limits, trusted),
        Renewal(
            settings["sasl.login.refresh.window.factor"],
            settings["sasl.login.refresh.window.jitter"],
            settings.number("sasl.login.refresh.min.period.seconds"),
            settings.number("sasl.login.refresh.buffer.seconds"),
        ),
        Backoff(settings.number("sasl.login.retry.backoff.ms"), most_ms),
        min(most_ms, connecting_ms) / 1000,
        renewal_s=min(RENEWAL_S, connecting_ms / 1000),
    )
    return checked._replace(token=source)


def _trusted(settings: Settings, options: dict[str, str]) -> ssl.SSLContext | None:
    """Whom the endpoint's certificate must be signed by; None for the system's authorities."""
    location = settings["https.ca.location"] or options.get("ssl.truststore.location")
    certificates = options.get("ssl.truststore.certificates")
    if not location and not certificates:
        return None
    return client_context(
        TlsSettings(
            truststore_location=location,
            truststore_password=options.get("ssl.truststore.password"),
            truststore_certificates=certificates,
        )
    )

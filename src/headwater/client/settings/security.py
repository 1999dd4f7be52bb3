"""The settings of secured connections, by Kafka's names and by librdkafka's, and what becomes of them.

Java's `sasl.jaas.config` may be pasted; `sasl.username` and `sasl.password` say the same. librdkafka's
`ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location` are PEM files.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast, Between, OneOf
from headwater.base.errors import UserError
from headwater.client.settings.parsing import Settings, row, table_of

if TYPE_CHECKING:
    from headwater.base.security.sasl_client import Credentials
    from headwater.base.security.tls import TlsSettings

TEXT, SECRET, LIST = ConfigType.STRING, ConfigType.PASSWORD, ConfigType.LIST

# fmt: off
# one row, one line
SECURITY: Final = table_of(
    row("security.protocol", TEXT, "PLAINTEXT", "PLAINTEXT, SSL (TLS), SASL_PLAINTEXT (a login) or SASL_SSL (both).", OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    row("sasl.mechanism", TEXT, "GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; Kafka's default, Kerberos, is not there."),
    row("sasl.jaas.config", SECRET, None, "The user and the password, as Java writes them: ...LoginModule required username=\"...\" password=\"...\";"),
    row("sasl.username", TEXT, None, "The user, where sasl.jaas.config is not set."),
    row("sasl.password", SECRET, None, "The password, where sasl.jaas.config is not set."),
    row("sasl.oauthbearer.token.endpoint.url", TEXT, None, "Where the token of OAUTHBEARER comes from: file:///path, read for each login, or an https:// address that is asked for it (client credentials)."),
    row("sasl.oauthbearer.client.credentials.client.id", TEXT, None, "Who asks the endpoint for a token; or clientId in sasl.jaas.config."),
    row("sasl.oauthbearer.client.credentials.client.secret", SECRET, None, "The secret of the one who asks; or clientSecret in sasl.jaas.config."),
    row("sasl.oauthbearer.scope", TEXT, None, "The scope that is asked for; or scope in sasl.jaas.config."),
    row("sasl.oauthbearer.header.urlencode", ConfigType.BOOLEAN, False, "Whether the id and the secret are URL-encoded in the request's header, as RFC 6749 wants it and few endpoints do."),
    row("sasl.oauthbearer.method", TEXT, "default", "librdkafka's: oidc says that the token comes from an endpoint.", OneOf("default", "oidc")),
    row("https.ca.location", TEXT, None, "The certificates that are trusted at an https:// endpoint of tokens, as PEM; or ssl.truststore.* in sasl.jaas.config. Without any, those of the system."),
    row("sasl.login.connect.timeout.ms", ConfigType.INT, 10_000, "How long a connection to the endpoint of tokens may take.", AtLeast(1)),
    row("sasl.login.read.timeout.ms", ConfigType.INT, 10_000, "How long the whole answer of the endpoint may take.", AtLeast(1)),
    row("sasl.login.retry.backoff.ms", ConfigType.LONG, 100, "The first pause before an endpoint that failed is asked again.", AtLeast(0)),
    row("sasl.login.retry.backoff.max.ms", ConfigType.LONG, 10_000, "The longest pause: each is twice the one before, up to this.", AtLeast(0)),
    row("sasl.login.refresh.window.factor", ConfigType.DOUBLE, 0.8, "After which part of its life a token is fetched anew.", Between(0, 1.0)),
    row("sasl.login.refresh.window.jitter", ConfigType.DOUBLE, 0.05, "By how much of its life that may come later, by chance.", Between(0, 0.25)),
    row("sasl.login.refresh.min.period.seconds", ConfigType.INT, 60, "A token is kept for so long, if its life allows.", Between(0, 900)),
    row("sasl.login.refresh.buffer.seconds", ConfigType.INT, 300, "A token is fetched anew so long before its end, if its life allows.", Between(0, 3600)),
    row("sasl.login.callback.handler.class", TEXT, None, "Java's handler of tokens, which configs name for an endpoint, is understood; other classes of Java are refused."),
    row("ssl.truststore.location", TEXT, None, "The certificates that are trusted: PEM, PKCS#12 or JKS. Without any, those of the system."),
    row("ssl.truststore.password", SECRET, None, "The password of the trust store."),
    row("ssl.truststore.certificates", SECRET, None, "The certificates that are trusted, as PEM."),
    row("ssl.truststore.type", TEXT, None, "PEM, PKCS12 or JKS: the file itself says it too."),
    row("ssl.keystore.location", TEXT, None, "The client's own key and certificate: PEM, PKCS#12 or JKS."),
    row("ssl.keystore.password", SECRET, None, "The password of the key store."),
    row("ssl.keystore.key", SECRET, None, "The client's own key, as PEM."),
    row("ssl.keystore.certificate.chain", SECRET, None, "The client's own certificates, as PEM."),
    row("ssl.keystore.type", TEXT, None, "PEM, PKCS12 or JKS: the file itself says it too."),
    row("ssl.key.password", SECRET, None, "The password of the key."),
    row("ssl.endpoint.identification.algorithm", TEXT, "https", "https: the broker's certificate must name its host. Empty or none: any host."),
    row("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], "The versions of TLS."),
    row("ssl.cipher.suites", LIST, [], "The cipher suites of TLS 1.2, by their IANA names."),
    row("ssl.protocol", TEXT, None, "Without effect: the newest of ssl.enabled.protocols is used.", used=False),
    row("ssl.provider", TEXT, None, "Without effect.", used=False),
)
# fmt: on

OLD_SECURITY_NAMES: Final = {
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
}


def credentials_of(settings: Settings) -> "Credentials | None":
    """None where no login is wanted. Raises UserError."""
    if not settings.text("security.protocol").startswith("SASL_"):
        return None
    from headwater.base.security.sasl_client import check_mechanism, credentials_from

    mechanism = check_mechanism(settings.text("sasl.mechanism").upper(), "sasl.mechanism")
    if mechanism == "OAUTHBEARER":
        from headwater.client.settings.tokens import fetched_token, is_fetched

        if is_fetched(settings):
            return fetched_token(settings)
    return credentials_from(
        mechanism,
        jaas=settings["sasl.jaas.config"],
        user=settings["sasl.username"],
        password=settings["sasl.password"],
        token_url=settings["sasl.oauthbearer.token.endpoint.url"],
    )


def streams_of(settings: Settings) -> "Callable[..., Any] | None":
    """What makes the streams of a `Network`; None for plain ones. Raises UserError."""
    if settings.text("security.protocol") not in ("SSL", "SASL_SSL"):
        return None
    from headwater.base.security.tls import ContextSource, client_context
    from headwater.client.reactor.tls_stream import tls_streams

    wanted = tls_settings(settings)
    return tls_streams(ContextSource(lambda: wanted, client_context))


def tls_settings(settings: Settings) -> "TlsSettings":
    from headwater.base.security.tls import TlsSettings, check_store_type

    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        check_store_type(name, settings[name])
    identification = str(settings["ssl.endpoint.identification.algorithm"] or "").lower()
    return TlsSettings(
        keystore_location=settings["ssl.keystore.location"],
        keystore_password=settings["ssl.keystore.password"],
        keystore_key=settings["ssl.keystore.key"],
        keystore_certificate_chain=settings["ssl.keystore.certificate.chain"],
        key_password=settings["ssl.key.password"],
        truststore_location=settings["ssl.truststore.location"],
        truststore_password=settings["ssl.truststore.password"],
        truststore_certificates=settings["ssl.truststore.certificates"],
        enabled_protocols=tuple(settings["ssl.enabled.protocols"]),
        cipher_suites=tuple(settings["ssl.cipher.suites"]),
        endpoint_identification="" if identification == "none" else identification,
    )


def check_security(settings: Settings) -> None:
    """Raises UserError for what cannot work, before anything is connected."""
    credentials_of(settings)
    streams_of(settings)
    given = [name for name in settings.given if name.startswith("sasl.")]
    if given and not settings.text("security.protocol").startswith("SASL_"):
        raise UserError(
            f"{', '.join(sorted(given))} without a login",
            f"security.protocol is {settings.text('security.protocol')}, and there is none on such listeners",
            "Set security.protocol=SASL_SSL (or SASL_PLAINTEXT)",
        )

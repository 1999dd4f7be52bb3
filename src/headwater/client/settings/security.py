"""The settings of secured connections, by Kafka's names and by librdkafka's, and what becomes of them.

Java's `sasl.jaas.config` may be pasted; `sasl.username` and `sasl.password` say the same. librdkafka's
`ssl.ca.location`, `ssl.certificate.location` and `ssl.key.location` are PEM files.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import OneOf
from headwater.base.errors import UserError
from headwater.client.settings.reading import Settings, row, table_of

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
    row("sasl.oauthbearer.token.endpoint.url", TEXT, None, "Where the token of OAUTHBEARER is: file:///path, read for each login."),
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

    return credentials_from(
        check_mechanism(settings.text("sasl.mechanism").upper(), "sasl.mechanism"),
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

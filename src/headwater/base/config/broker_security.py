"""Broker properties: TLS and logins. Each may be set for one listener, as `listener.name.<listener>.<property>`."""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, DynamicMode, Importance
from headwater.base.config.validators import AtLeast, Between, OneOf
from headwater.base.security.password_encoder import CIPHERS, ITERATIONS_MAX, KEY_FACTORIES

BOOLEAN, STRING, INT, LONG, LIST, PASSWORD = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.PASSWORD,
)
PER_BROKER = DynamicMode.PER_BROKER
LOW, HIGH = Importance.LOW, Importance.HIGH

# fmt: off
# one row, one line
DEFINITIONS: Final = (
    Definition("sasl.enabled.mechanisms", LIST, ["GSSAPI"], "By which mechanisms clients may log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. GSSAPI (Kerberos) is not there yet, so a SASL listener needs this to be set.", None, PER_BROKER),
    Definition("sasl.jaas.config", PASSWORD, None, "A login module with its options, as Java writes it: the users of PLAIN (`user_<name>=\"<password>\"`), and the login of this broker at the others. For one mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config.", None, PER_BROKER),
    Definition("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", "By which mechanism this broker logs in at the others.", None, PER_BROKER),
    Definition("sasl.plain.allow.plaintext", BOOLEAN, False, "Headwater's own: whether PLAIN may be used on a SASL_PLAINTEXT listener, where passwords travel readable."),
    Definition("sasl.server.max.receive.size", INT, 524288, "The largest frame that is taken from a client that has not logged in; never more than 16 KiB, or 68 KiB where OAUTHBEARER is enabled.", AtLeast(1)),
    Definition("connections.max.reauth.ms", LONG, 0, "How long a login holds: then a client logs in again on its connection, or the connection is closed. 0: as long as the connection, or as its token.", AtLeast(0)),
    Definition("connection.failed.authentication.delay.ms", INT, 100, "How long the answer to a failed login is held back.", AtLeast(0), importance=LOW),
    Definition("sasl.oauthbearer.jwks.endpoint.url", STRING, None, "Where the keys are that sign tokens: file:///path, or a URL of sasl.oauthbearer.allowed.urls. Needed for OAUTHBEARER."),
    Definition("sasl.oauthbearer.allowed.urls", LIST, [], "Headwater's own: the URLs that the broker may fetch keys from.", importance=LOW),
    Definition("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, "How often the keys are read again.", AtLeast(100), importance=LOW),
    Definition("sasl.oauthbearer.expected.issuer", STRING, None, "The issuer that tokens must be of.", importance=LOW),
    Definition("sasl.oauthbearer.expected.audience", LIST, [], "Tokens must be for one of these.", importance=LOW),
    Definition("sasl.oauthbearer.clock.skew.seconds", INT, 30, "By how much the clocks of the broker and of who makes tokens may differ.", AtLeast(0), importance=LOW),
    Definition("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim of a token that names its user.", importance=LOW),
    Definition("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where this broker's own token is, for its login at the others: file:///path."),
    Definition("password.encoder.secret", PASSWORD, None, "What passwords are encrypted with that `kafka-configs` sets while brokers run (listener.name.<listener>.ssl.keystore.password and others): without it they are refused. The same at all brokers."),
    Definition("password.encoder.old.secret", PASSWORD, None, "The secret before, while it is changed: what it has encrypted is encrypted again by the new one."),
    Definition("password.encoder.keyfactory.algorithm", STRING, "PBKDF2WithHmacSHA512", "How the key is made of the secret: PBKDF2WithHmacSHA512, PBKDF2WithHmacSHA256, PBKDF2WithHmacSHA1.", OneOf(*KEY_FACTORIES), importance=LOW),
    Definition("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", "How passwords are encrypted: AES/CBC/PKCS5Padding, AES/GCM/NoPadding.", OneOf(*CIPHERS), importance=LOW),
    Definition("password.encoder.key.length", INT, 128, "The bits of the key: 128, 192 or 256.", importance=LOW),
    Definition("password.encoder.iterations", INT, 4096, "The rounds by which the key is made of the secret.", Between(1024, ITERATIONS_MAX), importance=LOW),
    Definition("ssl.keystore.location", STRING, None, "The file of the key and certificates: PEM, PKCS#12 or JKS. It is read again when it changes.", None, PER_BROKER),
    Definition("ssl.keystore.type", STRING, "JKS", "PEM, PKCS12 or JKS. PKCS12 and JKS are told apart by looking.", None, PER_BROKER),
    Definition("ssl.keystore.password", PASSWORD, None, "The password of the key store file.", None, PER_BROKER),
    Definition("ssl.key.password", PASSWORD, None, "The password of the key, in a key store file or in ssl.keystore.key.", None, PER_BROKER),
    Definition("ssl.keystore.key", PASSWORD, None, "The key itself, as PEM. It never touches the disk.", None, PER_BROKER),
    Definition("ssl.keystore.certificate.chain", PASSWORD, None, "The certificates of ssl.keystore.key, as PEM.", None, PER_BROKER),
    Definition("ssl.truststore.location", STRING, None, "The file of the certificates that are trusted: PEM, PKCS#12 or JKS. Without any, those of the system.", None, PER_BROKER),
    Definition("ssl.truststore.type", STRING, "JKS", "PEM, PKCS12 or JKS.", None, PER_BROKER),
    Definition("ssl.truststore.password", PASSWORD, None, "The password of the trust store file.", None, PER_BROKER),
    Definition("ssl.truststore.certificates", PASSWORD, None, "The certificates that are trusted, as PEM.", None, PER_BROKER),
    Definition("ssl.client.auth", STRING, "none", "Whether clients show a certificate: required, requested (those that do are known by it), none.", OneOf("required", "requested", "none"), PER_BROKER),
    Definition("ssl.principal.mapping.rules", STRING, "DEFAULT", "How the subject of a client's certificate becomes a user: RULE:pattern/replacement/[LU], with commas between rules, or DEFAULT for the whole subject.", importance=LOW),
    Definition("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], "The versions of TLS: TLSv1.2, TLSv1.3.", None, PER_BROKER),
    Definition("ssl.cipher.suites", LIST, [], "The cipher suites of TLS 1.2, by their IANA names; those of TLS 1.3 cannot be chosen.", None, PER_BROKER),
    Definition("ssl.endpoint.identification.algorithm", STRING, "https", "https: the certificate of another broker must name its host. Empty: any host.", None, PER_BROKER, LOW),
)
# fmt: on

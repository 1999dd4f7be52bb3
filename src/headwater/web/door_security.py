"""TLS, the login and the origins of one HTTP door, from its settings: the same names at every door, and those that
people know.

`listeners=https://...` with Kafka's `ssl.*`; `authentication.method=BASIC` or `BEARER` (or both) as Confluent's
services have it. The users and their rights are the cluster's: `ClusterLogin`. Passwords and tokens over plain HTTP are
refused but on the loopback, unless `authentication.allow.plaintext` says that something else (a proxy) makes it safe. A
door without a login listens on the loopback by default; one that was told to listen elsewhere does, and warns.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headwater.base.config.definition import ConfigType, Definition
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import UserError
from headwater.base.security.tls import ContextSource, TlsSettings, check_store_type, client_context, server_context
from headwater.client.settings.security import OLD_SECURITY_NAMES, SECURITY
from headwater.web import cors
from headwater.web.cluster_login import ClusterLogin, LoginRefused
from headwater.web.listeners import HttpListener
from headwater.web.messages import HttpError, Request, Response
from headwater.web.presented import Malformed, Scheme, presented
from headwater.web.server import Application

logger = logging.getLogger("headwater.security")

_S, _L, _B, _P = ConfigType.STRING, ConfigType.LIST, ConfigType.BOOLEAN, ConfigType.PASSWORD
_METHODS: Final = {"BASIC": Scheme.BASIC, "BEARER": Scheme.BEARER, "OAUTHBEARER": Scheme.BEARER}
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_CLIENT_PREFIX: Final = "authentication.kafka."
_CLIENT_AUTH: Final = {"true": "required", "false": "none"}

# fmt: off
# one row, one line
ROWS: Final = {row.name: row for row in (
    Definition("authentication.method", _L, ["NONE"], "How callers log in: NONE, BASIC (a user and a password of the cluster), BEARER (a token that the brokers take), or BASIC,BEARER."),
    Definition("authentication.realm", _S, "headwater", "The realm that a 401 names."),
    Definition("authentication.roles", _L, ["*"], "Only *: whoever logs in may do what the rights of the cluster allow."),
    Definition("authentication.skip.paths", _L, [], "Paths that need no login for GET and HEAD, and nothing below them."),
    Definition("authentication.allow.plaintext", _B, False, "Whether one may log in over http:// from other machines: something else, such as a proxy, must make that safe. Ours."),
    Definition("authentication.kafka.bootstrap.servers", _L, [], "The brokers that callers are logged in at, if not those of the service itself. Ours; so is any other authentication.kafka.<setting of a client>."),
    Definition("ssl.keystore.location", _S, None, "The key and the certificate of https:// listeners: PEM, PKCS#12 or JKS. Taken anew when the file changes."),
    Definition("ssl.keystore.password", _P, None, "The password of the key store."),
    Definition("ssl.keystore.type", _S, None, "PEM, PKCS12 or JKS: the file itself says it too."),
    Definition("ssl.keystore.key", _P, None, "The key, as PEM."),
    Definition("ssl.keystore.certificate.chain", _P, None, "The certificates, as PEM."),
    Definition("ssl.key.password", _P, None, "The password of the key."),
    Definition("ssl.truststore.location", _S, None, "Whose certificates clients may show: PEM, PKCS#12 or JKS."),
    Definition("ssl.truststore.password", _P, None, "The password of the trust store."),
    Definition("ssl.truststore.type", _S, None, "PEM, PKCS12 or JKS: the file itself says it too."),
    Definition("ssl.truststore.certificates", _P, None, "Whose certificates clients may show, as PEM."),
    Definition("ssl.client.authentication", _S, None, "NONE, REQUESTED or REQUIRED: whether clients must show a certificate. It lets them in; who they are, the login says."),
    Definition("ssl.client.auth", _S, None, "The older name of it: none, requested, required; true is required."),
    Definition("ssl.enabled.protocols", _L, ["TLSv1.2", "TLSv1.3"], "The versions of TLS."),
    Definition("ssl.cipher.suites", _L, [], "The cipher suites of TLS 1.2, by their IANA names."),
    *cors.ROWS,
)}
# fmt: on

_REFUSED: Final = {
    "rest.extension.classes": "REST extensions are Java classes, and none run here",
    "resource.extension.class": "resource extensions are Java classes, and none run here",
    "schema.registry.resource.extension.class": "resource extensions are Java classes, and none run here",
    "ksql.security.extension.class": "security extensions are Java classes, and none run here",
}
_INSTEAD: Final = "Set authentication.method=BASIC (or BEARER): users and rights are those of the cluster; docs/SECURITY.md tells which"


def refuse_extensions(given: Mapping[str, str]) -> None:
    """Extensions that check logins elsewhere: to start without one would be an open door. Raises UserError."""
    for name, why in _REFUSED.items():
        if given.get(name, "").strip():
            raise UserError(f"{name}={given[name].strip()[:200]} cannot be used", why, _INSTEAD)


class DoorSecurity:
    """Made inside a running loop; `close` it. `client` are the settings of the service's own clients, `listeners` its
    own.
    """

    def __init__(
        self,
        what: str,
        given: Mapping[str, str],
        listeners: Sequence[HttpListener],
        client: Mapping[str, Any],
        *,
        is_own_call: Callable[[Request], bool] | None = None,
    ) -> None:
        refuse_extensions(given)
        values = _read(given)
        self._realm = str(values["authentication.realm"]).replace('"', "")
        self._skipped = frozenset(tuple(each.strip("/").split("/")) for each in values["authentication.skip.paths"])
        self._schemes = _schemes(values["authentication.method"])
        self._is_own_call = is_own_call
        self._share = cors.sharing(values)
        if values["authentication.roles"] != ["*"]:
            raise UserError(
                f"authentication.roles={','.join(values['authentication.roles'])} cannot be used",
                "there are no roles: rights of the cluster decide",
                "Leave it out; `kafka-acls` gives rights to users",
            )
        self.tls = _tls_of(values, listeners)
        self._login = self._login_of(what, values, given, listeners, client)

    @property
    def has_login(self) -> bool:
        return self._login is not None

    def _login_of(
        self,
        what: str,
        values: Mapping[str, Any],
        given: Mapping[str, str],
        listeners: Sequence[HttpListener],
        client: Mapping[str, Any],
    ) -> ClusterLogin | None:
        abroad = [each for each in listeners if not each.is_loopback]
        if not self._schemes:
            for each in abroad:
                logger.warning("event=open-door what=%r listener=%s note='anybody may use it'", what, each.url())
            return None
        plain = [each for each in abroad if not each.is_secured]
        if plain and not values["authentication.allow.plaintext"]:
            raise UserError(
                f"{what} would take passwords in plain text on {plain[0].url()}",
                "authentication.method is set, and the listener has no TLS",
                "Write listeners=https://..., or set authentication.allow.plaintext=true behind a proxy that has TLS",
            )
        settings, mechanisms = login_settings(given, client)
        return ClusterLogin(settings, mechanisms)

    def guard(self, application: Application) -> Application:
        """The application behind the login, where there is one, and shared with the origins that are allowed."""
        return self._share(_Gate(application, self, self._login) if self._login is not None else application)

    async def close(self) -> None:
        if self._login is not None:
            await self._login.close()

    def needs_no_login(self, request: Request) -> bool:
        if self._is_own_call is not None and self._is_own_call(request):
            return True
        return request.method in ("GET", "HEAD") and tuple(request.segments or ("",)) in self._skipped

    @property
    def schemes(self) -> list[Scheme]:
        return self._schemes

    def unauthorized(self, message: str = "Unauthorized") -> HttpError:
        """One challenge: clients that know both schemes are rare, and a list in one header confuses some."""
        return HttpError(401, message, 401, {"WWW-Authenticate": f'{self._schemes[0]} realm="{self._realm}"'})


class _Gate:
    def __init__(self, application: Application, security: DoorSecurity, login: ClusterLogin) -> None:
        self._application = application
        self._security = security
        self._login = login

    async def handle(self, request: Request) -> Response:
        if self._security.needs_no_login(request):
            return await self._application.handle(request)
        try:
            shown = presented(request.headers)
        except Malformed as problem:
            raise self._security.unauthorized(f"Unauthorized: {problem}") from None
        if shown is None or shown.scheme not in self._security.schemes:
            raise self._security.unauthorized()
        try:
            caller = await self._login.caller(shown, request.peer)
            return await self._application.handle(replace(request, caller=caller))
        except LoginRefused as problem:
            self._login.forget(shown)
            logger.warning(
                "event=login-failed peer=%s door=http scheme=%s user=%r reason=%.300r",
                request.peer,
                shown.scheme,
                shown.user[:200],
                str(problem),
            )
            raise self._security.unauthorized() from None

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        return self._application.on_error(error, request)


def login_settings(given: Mapping[str, str], client: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings of the connections that callers log in over, and by what they may. Pure. Raises UserError."""
    settings = {name: value for name, value in client.items() if name == "bootstrap.servers" or is_security(name)}
    own = {name.removeprefix(_CLIENT_PREFIX): text for name, text in given.items() if name.startswith(_CLIENT_PREFIX)}
    settings |= {name: text for name, text in own.items() if text.strip()}
    settings = {OLD_SECURITY_NAMES.get(name, name): value for name, value in settings.items()}
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    if not protocol.startswith("SASL_"):
        raise UserError(
            "Nobody could log in: the brokers are asked over a listener without logins",
            f"security.protocol of the service's own clients is {protocol}, and users log in over SASL",
            "Set security.protocol=SASL_SSL there, or authentication.kafka.bootstrap.servers and"
            " authentication.kafka.security.protocol to another listener of theirs",
        )
    settings["security.protocol"] = protocol
    chosen = [each.strip().upper() for each in own.get("sasl.mechanism", "").split(",") if each.strip()]
    mechanisms = chosen or [each for each in _MECHANISMS if each != "PLAIN" or protocol == "SASL_SSL"]
    unknown = [each for each in mechanisms if each not in _MECHANISMS]
    if unknown:
        raise UserError(
            f"Bad value for {_CLIENT_PREFIX}sasl.mechanism: {unknown[0]}",
            "no user could log in by it here",
            f"Use some of {', '.join(_MECHANISMS)}",
        )
    return settings, mechanisms


def is_security(name: str) -> bool:
    """Whether it is a client's setting of TLS or logins."""
    return name in SECURITY or name in OLD_SECURITY_NAMES


def is_known(name: str) -> bool:
    """Whether a door understands the setting, or refuses it by name."""
    return name in ROWS or name in _REFUSED or name.startswith(_CLIENT_PREFIX)


def _read(given: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, row in ROWS.items():
        values[name] = row.default
        if name in given:
            try:
                values[name] = row.parse(given[name])
            except ConfigValueError as problem:
                shown = "its value" if row.is_sensitive else repr(given[name])
                raise UserError(f"{name} cannot be {shown}", problem.reason, f"It is {row.allowed}") from None
    return values


def _schemes(methods: Iterable[str]) -> list[Scheme]:
    named = [each.strip().upper() for each in methods if each.strip() and each.strip().upper() != "NONE"]
    for each in named:
        if each not in _METHODS:
            raise UserError(
                f"Bad value for authentication.method: {each}",
                "nobody knows it",
                "Use NONE, BASIC, BEARER or BASIC,BEARER",
            )
    return list(dict.fromkeys(_METHODS[each] for each in named))


def _tls_of(values: Mapping[str, Any], listeners: Sequence[HttpListener]) -> ContextSource | None:
    if not any(each.is_secured for each in listeners):
        return None
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        check_store_type(name, values[name])
    asked = str(values["ssl.client.authentication"] or values["ssl.client.auth"] or "none").lower()
    client_auth = _CLIENT_AUTH.get(asked, asked)
    if client_auth not in ("none", "requested", "required"):
        raise UserError(f"Bad value for ssl.client.authentication: {asked}", hint="Use NONE, REQUESTED or REQUIRED")
    settings = TlsSettings(
        keystore_location=values["ssl.keystore.location"],
        keystore_password=values["ssl.keystore.password"],
        keystore_key=values["ssl.keystore.key"],
        keystore_certificate_chain=values["ssl.keystore.certificate.chain"],
        key_password=values["ssl.key.password"],
        truststore_location=values["ssl.truststore.location"],
        truststore_password=values["ssl.truststore.password"],
        truststore_certificates=values["ssl.truststore.certificates"],
        enabled_protocols=tuple(values["ssl.enabled.protocols"]),
        cipher_suites=tuple(values["ssl.cipher.suites"]),
        client_auth=client_auth,
    )
    return ContextSource(lambda: settings, server_context)


def forwarding_tls(given: Mapping[str, str]) -> ContextSource:
    """For calls to other instances of the service over https://: `ssl.truststore.*` says whom to trust. Raises
    UserError.
    """
    values = _read(given)
    settings = TlsSettings(
        truststore_location=values["ssl.truststore.location"],
        truststore_password=values["ssl.truststore.password"],
        truststore_certificates=values["ssl.truststore.certificates"],
        keystore_location=values["ssl.keystore.location"],
        keystore_password=values["ssl.keystore.password"],
        keystore_key=values["ssl.keystore.key"],
        keystore_certificate_chain=values["ssl.keystore.certificate.chain"],
        key_password=values["ssl.key.password"],
        enabled_protocols=tuple(values["ssl.enabled.protocols"]),
        cipher_suites=tuple(values["ssl.cipher.suites"]),
    )
    return ContextSource(lambda: settings, client_context)

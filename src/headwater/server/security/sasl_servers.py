"""The broker's side of each mechanism: a message in, the next one out, and in the end a user.

`Mechanisms` belongs to one listener. It reads its users when somebody logs in, so that a changed password counts from
the next login on: those of PLAIN stand in `sasl.jaas.config`, those of SCRAM in the cluster's metadata, those of
OAUTHBEARER with whoever signs their tokens.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headwater.base.config.listener_config import ListenerConfig
from headwater.base.errors import UserError
from headwater.base.security import oauthbearer, scram
from headwater.base.security.jaas import parse_jaas
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.sasl_client import new_nonce

UserConfigs = Mapping[str, Mapping[str, str]]
_PLAIN_MODULE: Final = "PlainLoginModule"


class SaslServer(Protocol):
    user: str | None  # who has logged in; None until then
    expires_ms: int | None  # when what was shown ends, if it does

    def receive(self, message: bytes) -> bytes:
        """Raises LoginFailed, and is of no more use then."""


class Mechanisms:
    """`user_configs` gives the configs of all users as they are now, `secret` is this process's own, `enabled` says by
    what one may log in.
    """

    def __init__(
        self,
        settings: ListenerConfig,
        user_configs: Callable[[], UserConfigs],
        keys: Callable[[], list[oauthbearer.Key]],
        now_ms: Callable[[], int],
        secret: bytes,
        enabled: Callable[[], list[str]],
    ) -> None:
        self.enabled = enabled
        self._settings = settings
        self._user_configs = user_configs
        self._keys = keys
        self._now_ms = now_ms
        self._secret = secret
        self._own: dict[scram.ScramMechanism, tuple[str, dict[str, scram.ScramCredential]]] = {}

    def begin(self, mechanism: str) -> SaslServer:
        if mechanism == "PLAIN":
            return PlainServer(plain_users(self._settings))
        if mechanism == "OAUTHBEARER":
            return BearerServer(self._keys(), expected_of(self._settings), self._now_ms())
        kind = scram.MECHANISMS[mechanism]
        return scram.ScramServer(kind, lambda user: self._scram_credential(kind, user), new_nonce(), self._secret)

    def _scram_credential(self, mechanism: scram.ScramMechanism, user: str) -> scram.ScramCredential | None:
        text = self._user_configs().get(user, {}).get(mechanism.value)
        if text is None:
            return self._own_credential(mechanism, user)
        try:
            return scram.ScramCredential.from_text(text)
        except ValueError:
            return None

    def _own_credential(self, mechanism: scram.ScramMechanism, user: str) -> scram.ScramCredential | None:
        """A broker's own login, if the store has none for it: brokers must be able to find each other before anybody
        can add a user.
        """
        text = self._settings.string("sasl.jaas.config", mechanism.value)
        if text is None:
            return None
        known = self._own.get(mechanism)
        if known is None or known[0] != text:  # not for each login: it is slow on purpose, and anybody may ask
            known = self._own[mechanism] = (text, self._credentials_in(text, mechanism))
        return known[1].get(user)

    def _credentials_in(self, text: str, mechanism: scram.ScramMechanism) -> dict[str, scram.ScramCredential]:
        found: dict[str, scram.ScramCredential] = {}
        for module in parse_jaas(text):
            user = module.options.get("username")
            if module.short_name == "ScramLoginModule" and user is not None and user not in found:
                salt = hmac.digest(self._secret, b"own salt " + user.encode(), "sha256")[:24]
                password = module.options.get("password", "")
                salted = scram.salted_password(mechanism, password, salt, scram.ITERATIONS_DEFAULT)
                found[user] = scram.credential_of(mechanism, salted, salt, scram.ITERATIONS_DEFAULT)
        return found


def plain_users(settings: ListenerConfig) -> dict[str, str]:
    """The users that `sasl.jaas.config` lists for PLAIN."""
    text = settings.string("sasl.jaas.config", "PLAIN")
    if text is None:
        return {}
    users: dict[str, str] = {}
    for module in parse_jaas(text):
        if module.short_name == _PLAIN_MODULE:
            users.update(module.users())
    return users


def expected_of(settings: ListenerConfig) -> oauthbearer.Expected:
    return oauthbearer.Expected(
        settings.string("sasl.oauthbearer.expected.issuer"),
        settings.list("sasl.oauthbearer.expected.audience"),
        settings.int("sasl.oauthbearer.clock.skew.seconds") * 1000,
        settings.string("sasl.oauthbearer.sub.claim.name") or "sub",
    )


def check_users(settings: ListenerConfig) -> None:
    """At the start: what nobody could log in with is told now, not to each client. Raises UserError."""
    if "PLAIN" in settings.mechanisms() and not plain_users(settings):
        raise UserError(
            "Nobody could log in by PLAIN",
            "sasl.jaas.config of the listener lists no user",
            'Set listener.name.<listener>.plain.sasl.jaas.config=...PlainLoginModule required user_alice="...";',
        )
    if "OAUTHBEARER" in settings.mechanisms() and not settings.string("sasl.oauthbearer.jwks.endpoint.url"):
        raise UserError(
            "Nobody could log in by OAUTHBEARER",
            "nothing says which keys sign the tokens: tokens without a signature are not taken",
            "Set sasl.oauthbearer.jwks.endpoint.url=file:///path/of/jwks.json",
        )


class PlainServer:
    """RFC 4616: one message, `authorization id NUL user NUL password`."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._is_over = False

    def receive(self, message: bytes) -> bytes:
        if self._is_over:
            raise LoginFailed("a message behind the last one")
        self._is_over = True
        parts = message.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed("not a message of PLAIN")
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise LoginFailed("a message of PLAIN that is not UTF-8") from None
        if not user or not password:
            raise LoginFailed("no user, or no password")
        known = self._users.get(user)
        is_right = hmac.compare_digest((known if known is not None else "\0").encode(), password.encode())
        if not is_right or known is None:
            raise LoginFailed("the user or the password is wrong")
        if authorization_id not in ("", user):
            raise LoginFailed("it wants to act as somebody else", told="the authorization id differs from the user")
        self.user = user
        return b""


class BearerServer:
    """RFC 7628: one message with a token. A refusal is told at once, in SaslAuthenticate's own words."""

    def __init__(self, keys: list[oauthbearer.Key], expected: oauthbearer.Expected, now_ms: int) -> None:
        self._keys = keys
        self._expected = expected
        self._now_ms = now_ms
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._is_over = False

    def receive(self, message: bytes) -> bytes:
        if self._is_over:
            raise LoginFailed("a message behind the last one")
        self._is_over = True
        token, authorization_id = oauthbearer.read_first_message(message)
        verified = oauthbearer.verify(token, self._keys, self._expected, self._now_ms)
        if authorization_id not in ("", verified.subject):
            raise LoginFailed("it wants to act as somebody else", told="the authorization id differs from the user")
        self.user, self.expires_ms = verified.subject, verified.expires_ms
        return b""

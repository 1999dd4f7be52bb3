"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802 and 7677), both sides, without I/O: a message in, the next one out.

The password never travels. The server keeps a `ScramCredential`: with it one can check a proof and prove oneself, and
not log in. Kafka keeps the same four values, as text, in the config of the user:
`salt=...,stored_key=...,server_key=...,iterations=4096`.

Invariants. Each side is a line of states and takes each message once: a message too many, too early or again is a
failure, and after a failure nothing else comes. Both nonces are in every later message, and the whole nonce is
compared. An unknown user costs the server the same work as a known one, with a salt that is always the same for that
name, and fails at the same place with the same words. Nonces come in as arguments. Each object belongs to one
connection.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from headwater.base.security.login_errors import LoginFailed

ITERATIONS_MIN: Final = 4096
ITERATIONS_DEFAULT: Final = 4096  # of kafka-configs: most users have it, and so has who is made up
ITERATIONS_MAX: Final = 16_384  # that a user may be given, as in Apache Kafka
_CLIENT_ITERATIONS_MAX: Final = 1_000_000  # that a client computes because a server says so
_UNKNOWN_SALT_BYTES: Final = 24
_MESSAGE_BYTES_MAX: Final = 16 * 1024
_WRONG: Final = "the user or the password is wrong"

_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>[^,\0]*))?,)(?P<bare>n=(?P<user>[^,\0]+),r=(?P<nonce>{_NONCE})(?P<more>(?:,.*)?))",
    re.DOTALL,
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})(?:,[^p].*)?),p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{{1,9}})(?:,.*)?", re.DOTALL
)
_SERVER_FINAL: Final = re.compile(r"(?:e=(?P<error>[^,]*)|v=(?P<signature>[A-Za-z0-9+/=]+))(?:,.*)?", re.DOTALL)


class ScramMechanism(Enum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def algorithm(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def number(self) -> int:
        """In AlterUserScramCredentials and DescribeUserScramCredentials."""
        return 1 if self is ScramMechanism.SHA_256 else 2


MECHANISMS: Final = {mechanism.value: mechanism for mechanism in ScramMechanism}
BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in ScramMechanism}


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"  # whoever has the rest can try passwords at home

    def to_text(self) -> str:
        salt, stored_key, server_key = (base64.b64encode(part).decode() for part in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    @classmethod
    def from_text(cls, text: str) -> "ScramCredential":
        """Raises ValueError."""
        pairs = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
        if set(pairs) != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("a SCRAM credential has a salt, a stored key, a server key and iterations")
        salt, stored_key, server_key = (_decode(pairs[name]) for name in ("salt", "stored_key", "server_key"))
        return cls(salt, stored_key, server_key, int(pairs["iterations"]))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What the server keeps of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(mechanism.algorithm, client_key).digest()
    return ScramCredential(salt, stored_key, _hmac(mechanism, salted, b"Server Key"), iterations)


class _State(Enum):
    FIRST = 0
    FINAL = 1
    DONE = 2
    FAILED = 3


class ScramServer:
    """`receive` twice; then `user` is who has logged in. `secret` makes up the credentials of users that there are
    not.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_for: Callable[[str], ScramCredential | None],
        nonce: str,
        secret: bytes,
    ) -> None:
        self._mechanism = mechanism
        self._credential_for = credential_for
        self._nonce = nonce
        self._secret = secret
        self._state = _State.FIRST
        self._credential = ScramCredential(b"", b"", b"", 0)
        self._is_known = False
        self._claimed = ""
        self._gs2 = ""
        self._so_far = ""  # client-first-bare and server-first, with a comma between them
        self.user: str | None = None
        self.expires_ms: int | None = None

    def receive(self, message: bytes) -> bytes:
        """The answer; raises LoginFailed, and is of no more use then."""
        state, self._state = self._state, _State.FAILED
        text = _text(message)
        if state is _State.FIRST:
            answer = self._first(text)
            self._state = _State.FINAL
        elif state is _State.FINAL:
            answer = self._final(text)
            self._state = _State.DONE
        else:
            raise LoginFailed("a SCRAM message behind the last one")
        return answer.encode()

    def _first(self, text: str) -> str:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise LoginFailed("not the first message of SCRAM")
        if any(part.startswith("m=") for part in found["bare"].split(",")):
            raise LoginFailed("a mandatory extension of SCRAM that is not known")
        if "tokenauth=true" in found["more"].split(","):
            raise LoginFailed("delegation tokens are not there", told="delegation tokens are not served")
        self._claimed = user = _unescape(found["user"])
        if found["authzid"] and _unescape(found["authzid"]) != user:
            raise LoginFailed("it wants to act as somebody else", told="the authorization id differs from the user")
        self._find(user)
        self._gs2 = found["gs2"]
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._so_far = f"{found['bare']},{first}"
        return first

    def _find(self, user: str) -> None:
        credential = self._credential_for(user)
        unknown = self._unknown(user)  # always made: the work is the same
        self._is_known = credential is not None
        self._credential = unknown if credential is None else credential
        if self._credential.iterations < ITERATIONS_MIN:
            raise LoginFailed(f"the credential has less than {ITERATIONS_MIN} iterations: it must be made anew")

    def _unknown(self, user: str) -> ScramCredential:
        name = user.encode()
        salt, stored_key, server_key = (
            _hmac(self._mechanism, self._secret, purpose + name) for purpose in (b"salt ", b"stored ", b"server ")
        )
        return ScramCredential(salt[:_UNKNOWN_SALT_BYTES], stored_key, server_key, ITERATIONS_DEFAULT)

    def _final(self, text: str) -> str:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise LoginFailed("not the last message of SCRAM")
        is_bound = hmac.compare_digest(_decode_or_fail(found["binding"]), self._gs2.encode())
        has_nonce = hmac.compare_digest(found["nonce"].encode(), self._nonce.encode())
        if not (is_bound and has_nonce):
            raise LoginFailed("its nonce or its channel binding is of another login")
        proof = _decode_or_fail(found["proof"])
        signed = f"{self._so_far},{found['bare']}".encode()
        signature = _hmac(self._mechanism, self._credential.stored_key, signed)
        if len(proof) != len(signature):
            raise LoginFailed(_WRONG)
        client_key = _xor(proof, signature)
        is_proved = hmac.compare_digest(
            hashlib.new(self._mechanism.algorithm, client_key).digest(), self._credential.stored_key
        )
        answer = _hmac(self._mechanism, self._credential.server_key, signed)
        if not (is_proved and self._is_known):
            raise LoginFailed(_WRONG)
        self.user = self._claimed
        return f"v={base64.b64encode(answer).decode()}"


class ScramClient:
    """`first`, then `receive` twice: the first gives the last message, the second nothing, and the server is who knows
    the password.
    """

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escape(user)},r={nonce}"
        self._state = _State.FIRST
        self._expected = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def receive(self, message: bytes) -> bytes | None:
        """The answer; None when the server has proved itself. Raises LoginFailed."""
        state, self._state = self._state, _State.FAILED
        text = _text(message)
        if state is _State.FIRST:
            answer = self._final(text)
            self._state = _State.FINAL
            return answer
        if state is not _State.FINAL:
            raise LoginFailed("a SCRAM message behind the last one")
        found = _SERVER_FINAL.fullmatch(text)
        if found is None or found["error"] is not None:
            raise LoginFailed(f"the server says {found['error']!r}" if found else "not the last message of SCRAM")
        if not hmac.compare_digest(_decode_or_fail(found["signature"]), self._expected):
            raise LoginFailed("the server does not know the password either: it is not the one that was meant")
        self._state = _State.DONE
        return None

    def _final(self, text: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise LoginFailed("not the first answer of SCRAM")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise LoginFailed("the server's nonce does not go on from ours: the answer belongs to another login")
        if not ITERATIONS_MIN <= iterations <= _CLIENT_ITERATIONS_MAX:
            raise LoginFailed(
                f"the server wants {iterations} iterations; {ITERATIONS_MIN} to {_CLIENT_ITERATIONS_MAX} are taken"
            )
        salted = salted_password(self._mechanism, self._password, _decode_or_fail(found["salt"]), iterations)
        bare = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._bare},{text},{bare}".encode()
        client_key = _hmac(self._mechanism, salted, b"Client Key")
        stored_key = hashlib.new(self._mechanism.algorithm, client_key).digest()
        proof = _xor(client_key, _hmac(self._mechanism, stored_key, signed))
        self._expected = _hmac(self._mechanism, _hmac(self._mechanism, salted, b"Server Key"), signed)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.algorithm)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _text(message: bytes) -> str:
    if len(message) > _MESSAGE_BYTES_MAX:
        raise LoginFailed("a SCRAM message that is too long")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginFailed("a SCRAM message that is not UTF-8") from None


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decode_or_fail(text: str) -> bytes:
    try:
        return _decode(text)
    except ValueError:
        raise LoginFailed("a SCRAM message with bad base64") from None


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    plain = name.replace("=2C", ",").replace("=3D", "=")
    if _escape(plain) != name:
        raise LoginFailed("a user name with a bare `=`")
    return plain

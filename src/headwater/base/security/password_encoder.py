"""Passwords as the metadata holds them: encrypted by `password.encoder.secret`, in the form of Apache Kafka's brokers
with ZooKeeper, and of its `kafka-configs --zookeeper`.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:<base64>,
    iterations:4096,encryptedPassword:<base64>,passwordLength:<UTF-16 units>,initializationVector:<base64>

The order of the parts does not matter. AES/GCM/NoPadding has `authenticationTagLength:128` too. The key is PBKDF2 of
the secret. No state but what was decoded: each costs thousands of rounds, and the same text is asked for with every
change of a config.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.modes import CBC

CIPHERS: Final = ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding")
KEY_FACTORIES: Final = {
    "PBKDF2WithHmacSHA512": "sha512",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA1": "sha1",
}
KEY_BITS: Final = (128, 192, 256)
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
ITERATIONS_MAX: Final = 1_000_000
_DECODED_MAX: Final = 1000


class CannotDecode(Exception):
    """The text is none of these, or its secret is another. It says nothing of either."""


class PasswordEncoder:
    def __init__(
        self,
        secret: str,
        old_secret: str | None = None,
        *,
        key_factory: str = "PBKDF2WithHmacSHA512",
        cipher: str = CIPHERS[0],
        key_bits: int = 128,
        iterations: int = 4096,
    ) -> None:
        """Raises UserError for what cannot be used here;
        encoding and decoding do without the package `cryptography`.
        """
        for name, value, known in (
            ("keyfactory.algorithm", key_factory, tuple(KEY_FACTORIES)),
            ("cipher.algorithm", cipher, CIPHERS),
            ("key.length", str(key_bits), tuple(str(bits) for bits in KEY_BITS)),
        ):
            if value not in known:
                raise UserError(
                    f"Bad value for password.encoder.{name}: {value}", "it is not known here", f"Use {', '.join(known)}"
                )
        self._secret = secret
        self._old_secret = old_secret
        self._key_factory = key_factory
        self._cipher = cipher
        self._key_bits = key_bits
        self._iterations = iterations
        self._decoded: dict[str, str] = {}

    def __repr__(self) -> str:
        return "PasswordEncoder()"

    def encode(self, password: str, random_bytes: Callable[[int], bytes]) -> str:
        _require_cryptography()
        salt = random_bytes(_SALT_BYTES)
        key = _key(self._secret, self._key_factory, salt, self._iterations, self._key_bits)
        data = password.encode()
        parts: dict[str, object] = {}
        if self._cipher == "AES/GCM/NoPadding":
            start = random_bytes(_NONCE_BYTES)
            sealed = _gcm(key).encrypt(start, data, None)
            parts["authenticationTagLength"] = _TAG_BYTES * 8
        else:
            start = random_bytes(_BLOCK_BYTES)
            pad = _BLOCK_BYTES - len(data) % _BLOCK_BYTES
            encryptor = _cbc(key, start).encryptor()
            sealed = encryptor.update(data + bytes([pad]) * pad) + encryptor.finalize()
        parts |= {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": self._cipher,
            "keyLength": self._key_bits,
            "salt": _text(salt),
            "iterations": self._iterations,
            "encryptedPassword": _text(sealed),
            "passwordLength": _java_length(password),
            "initializationVector": _text(start),
        }
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def decode(self, text: str) -> str:
        """By the secret or by the old one. Raises CannotDecode."""
        known = self._decoded.get(text)
        if known is not None:
            return known
        _require_cryptography()
        try:
            password = _decoded(text, self._secret)
        except CannotDecode:
            if self._old_secret is None:
                raise
            password = _decoded(text, self._old_secret)
        if len(self._decoded) >= _DECODED_MAX:
            self._decoded.clear()
        self._decoded[text] = password
        return password

    def is_by_the_old_secret(self, text: str) -> bool:
        """Only by that: it has to be encoded again before the old secret goes."""
        if self._old_secret is None:
            return False
        try:
            _decoded(text, self._secret)
        except CannotDecode:
            try:
                _decoded(text, self._old_secret)
            except CannotDecode:
                return False
            return True
        return False


def _require_cryptography() -> None:
    from headwater.base.security.oauthbearer import require_cryptography  # every broker loads this file, few use it

    require_cryptography("for dynamic passwords")


def _decoded(text: str, secret: str) -> str:
    parts = {name.strip(): value.strip() for name, _, value in (part.rpartition(":") for part in text.split(","))}
    try:
        salt, iterations = base64.b64decode(parts["salt"], validate=True), int(parts["iterations"])
        key_bits, length = int(parts["keyLength"]), int(parts["passwordLength"])
        if key_bits not in KEY_BITS or not 0 < iterations <= ITERATIONS_MAX:
            raise CannotDecode
        key = _key(secret, parts["keyFactoryAlgorithm"], salt, iterations, key_bits)
        password = _opened(parts, key).decode()
    except (KeyError, ValueError, binascii.Error):  # also what is no UTF-8
        raise CannotDecode from None
    if _java_length(password) != length:
        raise CannotDecode
    return password


def _opened(parts: Mapping[str, str], key: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    start = base64.b64decode(parts["initializationVector"], validate=True)
    sealed = base64.b64decode(parts["encryptedPassword"], validate=True)
    if parts["cipherAlgorithm"] == "AES/GCM/NoPadding":
        if int(parts["authenticationTagLength"]) != _TAG_BYTES * 8:  # Java's own; shorter ones can be guessed
            raise CannotDecode
        try:
            return _gcm(key).decrypt(start, sealed, None)
        except InvalidTag:
            raise CannotDecode from None
    if parts["cipherAlgorithm"] != "AES/CBC/PKCS5Padding":
        raise CannotDecode
    decryptor = _cbc(key, start).decryptor()
    padded = decryptor.update(sealed) + decryptor.finalize()
    pad = padded[-1] if padded else 0
    if not 0 < pad <= _BLOCK_BYTES or padded[-pad:] != bytes([pad]) * pad:
        raise CannotDecode
    return padded[:-pad]


def _key(secret: str, key_factory: str, salt: bytes, iterations: int, key_bits: int) -> bytes:
    return hashlib.pbkdf2_hmac(KEY_FACTORIES[key_factory], secret.encode(), salt, iterations, key_bits // 8)


def _cbc(key: bytes, start: bytes) -> "Cipher[CBC]":
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    return Cipher(AES(key), CBC(start))


def _gcm(key: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2

"""Passwords as Apache Kafka's brokers write them into ZooKeeper. Those below were made by Java's own ciphers."""

import random

import pytest

from headwater.base.errors import UserError
from headwater.base.security.password_encoder import CIPHERS, KEY_BITS, KEY_FACTORIES, CannotDecode, PasswordEncoder

SECRET, PASSWORD = "encoder-secret", "pässword-\U0001f600;"
BY_CBC = (
    "keyLength:128,salt:V8YovAJjM8hqXsZIRxKYyfLssauMeaZaU5P0s5kgvCH/I1KTciort8Jrd/oZSbRZ2OTc+2PTONIzUKYnq"
    "/8/+Lql+Qr/47VE90Gajl8UE11TfwU19kic8T/A2Ht8ciuRXZbJ52oEJZqt7MjlYkVb8fI6hOk4JB8Hr796VvEsAn8OshRm0qAmJ"
    "KwoS+Onvmp+cpUO6WoWW8rfP41voY6tEASyU8pUgT8eMONXZqwUE8uIjE2OAAfixEG5AgNTJ2oaiRh8O2/EsWLY6y1lCe1C8eEX5"
    "vbeXBg5uQNu8wQrMg31HYpxhj5fhsT37XeWtFtiydxXxmrSvNAmKjOFyqraCQ==,keyFactoryAlgorithm:PBKDF2WithHmacSH"
    "A512,iterations:4096,cipherAlgorithm:AES/CBC/PKCS5Padding,encryptedPassword:aC66iby4HNybCNtlXXmjLA=="
    ",passwordLength:12,initializationVector:TjlZqQBPpSVFBTbS5DQggQ=="
)
BY_GCM = (
    "keyLength:128,salt:TchHXWiP+sU1ezWds3w+uFmWEoevnX9Ku/wz2Xgw1tFb3qcU1KYo2tDok49SdMUBXeu7ZUwIxW31Vk4Th"
    "g00Zy4aMKKzBUi17maLq127Af51J6q/eNhatTiHOAEjWcr4QHP7YY+DHyB0XUQmApRqeRjdRZoZoFJ7cBxQz3OXu878Sbi11D3lA"
    "xX8ooIqK3dT26F8lXMkiqmfNhzc6V9g5E0tqiG7VjZxfwyKqumtdjglEVRzSVqKTLSujFNUWCinBHBQ/EloakQVP44JxtivcUeJT"
    "U9mmmV2W+horvTiunAmFgjI0K7fzYojeWPYUEX7SsMjFUEvOWRVwk8VbeAljw==,keyFactoryAlgorithm:PBKDF2WithHmacSH"
    "A512,iterations:4096,cipherAlgorithm:AES/GCM/NoPadding,encryptedPassword:nIaD0ZG39oYcQgMt9uFVQT0nyYI"
    "TqNncAUDdrBQB0w==,passwordLength:12,initializationVector:C58WDPNGgTdgo1zo,authenticationTagLength:12"
    "8"
)

random_bytes = random.Random(18).randbytes


def changed(text: str, name: str, value: str) -> str:
    return ",".join(f"{name}:{value}" if part.startswith(f"{name}:") else part for part in text.split(","))


@pytest.mark.parametrize("text", [BY_CBC, BY_GCM])
def test_what_java_has_encoded(text: str) -> None:
    assert PasswordEncoder(SECRET).decode(text) == PASSWORD
    assert PasswordEncoder(SECRET).decode(", ".join(reversed(text.split(",")))) == PASSWORD


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("key_factory", KEY_FACTORIES)
def test_there_and_back_and_never_the_same_twice(cipher: str, key_factory: str) -> None:
    for key_bits, password in zip(KEY_BITS, ("", "0123456789abcdef", PASSWORD * 100), strict=True):
        encoder = PasswordEncoder(SECRET, cipher=cipher, key_factory=key_factory, key_bits=key_bits, iterations=1024)
        first, second = (encoder.encode(password, random_bytes) for _ in range(2))
        assert first != second
        assert not password or password not in first
        assert [PasswordEncoder(SECRET).decode(each) for each in (first, second)] == [password] * 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "readable",
        "a:b,c:d",
        changed(BY_CBC, "salt", "AAAA"),
        changed(BY_CBC, "passwordLength", "1"),
        changed(BY_CBC, "encryptedPassword", "AAAA"),
        changed(BY_CBC, "initializationVector", "AAAA"),
        changed(BY_CBC, "keyFactoryAlgorithm", "PBEWithMD5AndDES"),
        changed(BY_CBC, "cipherAlgorithm", "DES/CBC/PKCS5Padding"),
        changed(BY_CBC, "iterations", "2000000000"),
        changed(BY_CBC, "keyLength", "8"),
        changed(BY_GCM, "authenticationTagLength", "32"),
        changed(BY_GCM, "salt", "AAAA"),
    ],
)
def test_what_is_none_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(CannotDecode) as refused:
        PasswordEncoder(SECRET).decode(text)
    assert str(refused.value) == ""


def test_the_old_secret_reads_and_the_new_one_writes() -> None:
    rotated = PasswordEncoder("new", SECRET)
    assert rotated.decode(BY_CBC) == PASSWORD
    assert rotated.is_by_the_old_secret(BY_CBC)
    again = rotated.encode(PASSWORD, random_bytes)
    assert not rotated.is_by_the_old_secret(again)
    assert PasswordEncoder("new").decode(again) == PASSWORD
    with pytest.raises(CannotDecode):
        PasswordEncoder("new").decode(BY_CBC)
    assert not PasswordEncoder("new", "neither").is_by_the_old_secret(BY_CBC)


@pytest.mark.parametrize("wrong", [{"cipher": "DES"}, {"key_factory": "MD5"}, {"key_bits": 64}])
def test_what_cannot_be_used_is_told_at_the_start(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"password\.encoder"):
        PasswordEncoder(SECRET, **wrong)  # type: ignore[arg-type]
    assert SECRET not in repr(PasswordEncoder(SECRET))

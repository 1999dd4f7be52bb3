"""What `kafka-configs --entity-type users` makes of a credential, and that it never repeats a password."""

import pytest

from headwater.cli.kafka.options import Stop
from headwater.cli.kafka.scram_users import parse_credential


@pytest.mark.parametrize(
    ("text", "credential"),
    [
        ("iterations=8192,password=secret", (8192, "secret")),
        ("password=secret", (4096, "secret")),
        ("password=a,b=c", (4096, "a,b=c")),
    ],
)
def test_a_credential(text: str, credential: tuple[int, str]) -> None:
    assert parse_credential("SCRAM-SHA-512", text) == credential


@pytest.mark.parametrize("text", ["secret", "password=", "iterations=many,password=secret", "iterations=8192"])
def test_what_is_none_is_said_without_the_password(text: str) -> None:
    with pytest.raises(Stop) as told:
        parse_credential("SCRAM-SHA-512", text)
    assert "secret" not in str(told.value)

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


@pytest.mark.parametrize("count", ["4095", "16385", "2147483647"])
def test_iterations_that_no_broker_takes_are_not_computed(count: str) -> None:
    """They were, for as long as it took, and then the broker refused them."""
    with pytest.raises(Stop, match=f"Iterations {count} are not from 4096 to 16384"):
        parse_credential("SCRAM-SHA-512", f"iterations={count},password=secret")


def test_iterations_beyond_32_bits_are_no_number() -> None:
    with pytest.raises(Stop, match="Invalid iterations for SCRAM-SHA-512"):
        parse_credential("SCRAM-SHA-512", "iterations=99999999999,password=secret")

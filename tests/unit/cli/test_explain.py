"""Errors for people."""

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.cli.explain import explain
from headwater.client.addresses import Address
from headwater.client.errors import BootstrapFailed, ConnectionFailed, UnknownTopic

REFUSED = "connection refused: nothing listens there"


def test_a_refused_connection_names_the_address_and_the_command_that_helps() -> None:
    text = explain(BootstrapFailed([ConnectionFailed(Address("localhost", 9092), REFUSED, refused=True)]))
    assert text.startswith(
        "error: Cannot reach a broker at localhost:9092: connection refused: nothing listens there\n"
    )
    assert "headwater up" in text


def test_several_addresses_are_all_told() -> None:
    attempts: list[KafkaError] = [
        ConnectionFailed(Address("a", 1), REFUSED, refused=True),
        ConnectionFailed(Address("::1", 2), "no connection within 5 ms"),
    ]
    text = explain(BootstrapFailed(attempts))
    assert "tried 2 addresses:\n  a:1: connection refused" in text
    assert "\n  [::1]:2: no connection within 5 ms" in text
    assert "headwater up" not in text  # something is there: starting another broker is no help


def test_a_mistyped_topic_is_guessed() -> None:
    assert "Did you mean orders?" in explain(UnknownTopic("ordres", ["orders", "payments"]))
    assert "headwater topic create zzz" in explain(UnknownTopic("zzz", ["orders"]))


def test_a_brokers_refusal_carries_its_words_and_its_code() -> None:
    text = explain(KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists."))
    assert text.startswith("error: Topic 'a' already exists: the broker says TOPIC_ALREADY_EXISTS\n")
    assert explain(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)) == "error: UNKNOWN_SERVER_ERROR"


def test_a_user_error_is_what_why_and_hint() -> None:
    assert explain(UserError("What", "why", "Hint")) == "error: What: why\nHint"
    assert explain(UserError("What")) == "error: What"

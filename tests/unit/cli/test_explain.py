"""Errors for people."""

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.cli.explain import explain
from headwater.client.addresses import Address
from headwater.client.errors import BootstrapFailed, ConnectionFailed, NotTrusted, UnknownTopic

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


def test_a_listener_that_wants_more_than_it_was_shown_is_guessed() -> None:
    text = explain(BootstrapFailed([ConnectionFailed(Address("a", 1), "the connection broke", mute=True)]))
    assert text.startswith("error: Cannot reach a broker at a:1: the connection broke\n")
    assert "--profile" in text
    assert "--command-config" in text


def test_what_a_certificate_lacks_is_not_said_by_the_broker() -> None:
    unknown = explain(NotTrusted(Address("a", 1), "not trusted (is its authority in ssl.truststore.location?)"))
    assert "the broker says" not in unknown
    assert "--ca-file" in unknown
    assert explain(NotTrusted(Address("a", 1), "not valid for 'a'")) == "error: a:1: not valid for 'a'"


def test_a_refused_login_and_a_denial_tell_what_helps() -> None:
    login = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "a:1: Authentication failed")
    assert "Check the user, password and mechanism" in explain(login)
    for name in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"):
        assert "kafka-acls --add" in explain(KafkaError(ErrorCode[f"{name}_AUTHORIZATION_FAILED"], "no"))


def test_a_user_error_is_what_why_and_hint() -> None:
    assert explain(UserError("What", "why", "Hint")) == "error: What: why\nHint"
    assert explain(UserError("What")) == "error: What"

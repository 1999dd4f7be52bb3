"""Topic names: the sentences are Apache Kafka's."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import colliding_topic, is_internal_topic, is_legal_topic_name, validate_topic_name


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "...", "x" * 249, "__consumer_offsets"])
def test_legal(name: str) -> None:
    validate_topic_name(name)
    assert is_legal_topic_name(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "é",
            "Topic name is invalid: 'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        ("x" * 250, f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_illegal(name: str, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_name(name)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, sentence)


@pytest.mark.parametrize("name", ["a/b", "a\n", "a\x00", "../etc", "a٣"])
def test_nothing_that_means_something_to_a_file_system_or_a_log(name: str) -> None:
    assert not is_legal_topic_name(name)


def test_dots_and_underscores_collide() -> None:
    assert colliding_topic("a_b", ["x", "a.b"]) == "a.b"
    assert colliding_topic("a.b_c", ["a_b.c"]) == "a_b.c"
    assert colliding_topic("a.b", ["a.b"]) is None
    assert colliding_topic("ab", ["a.b", "a_b"]) is None


def test_internal_topics() -> None:
    assert is_internal_topic("__consumer_offsets")
    assert not is_internal_topic("consumer_offsets")

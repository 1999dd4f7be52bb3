"""The options of the sink: what they come to, and what is said about wrong ones."""

import pytest

from headwater.base.errors import UserError
from headwater.spark.writer.options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions, parse_sink_options


def parsed(columns: str = "value", streaming: bool = True, **options: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": "h:1", "topic": "out", **options}
    return parse_sink_options(
        {name: text for name, text in given.items() if text != "-"}, columns.split(), streaming=streaming
    )


def test_defaults() -> None:
    assert parsed() == SinkOptions("h:1", "out", EXACTLY_ONCE, "headwater", {})
    assert parsed(streaming=False).delivery == AT_LEAST_ONCE


def test_names_come_in_any_case() -> None:
    options = parsed(**{"DELIVERY": "At-Least-Once", "TransactionalIDPrefix": "mine", "Kafka.Linger.MS": "7"})
    assert options == SinkOptions("h:1", "out", AT_LEAST_ONCE, "mine", {"linger.ms": "7"})


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("key", {}, "There is no column 'value'"),
        ("value n", {}, "'n' has no place in a record"),
        ("value", {"topic": "-"}, "No topic is given"),
        ("value", {"kafka.acks": "1"}, "all in-sync replicas"),
        ("value", {"topics": "x"}, "'topics' is not known"),
        ("value", {"kafka.linger.m": "5"}, "did you mean 'linger.ms'"),
        ("value", {"kafka.compression.type": "rar"}, "compression.type"),
        ("value", {"kafka.security.protocol": "SASL_SSL"}, "Kerberos"),
        ("value", {"kafka.sasl.jaas.config": "x"}, "without a login"),
    ],
)
def test_what_is_wrong_is_said_on_the_driver(columns: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parsed(columns, **options)

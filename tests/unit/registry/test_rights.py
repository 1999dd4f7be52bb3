"""Which topic a subject is, and what each call needs."""

import pytest

from headwater.base.acls import Operation
from headwater.registry import rights
from headwater.web.callers import cluster, topic
from headwater.web.messages import Request


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("orders", "orders"),
        ("com.example.Order", "com.example.Order"),
        ("orders-com.example.Order", "orders-com.example.Order"),
        (":.staging:orders-value", "orders"),
        ("-value", "-value"),
        (":.staging:", ""),
        ("a-value-key", "a-value"),
    ],
)
def test_the_topic_of_a_subject(subject: str, name: str) -> None:
    assert rights.topic_of(subject) == name


def asked(guard: rights.Guard, subject: str, query: str = "") -> tuple[object, ...]:
    return guard(Request("GET", "/", (), query, parameters={"subject": subject}))


def test_what_calls_need() -> None:
    assert asked(rights.READ, "t-value") == (topic(Operation.DESCRIBE, "t"),)
    assert asked(rights.DELETE, "t-value") == (topic(Operation.DELETE, "t"),)
    assert asked(rights.registration, "t-key") == (topic(Operation.WRITE, "t"),)
    forced = (topic(Operation.WRITE, "t"), topic(Operation.ALTER_CONFIGS, "t"))
    assert asked(rights.registration, "t-key", "force=true") == forced
    assert asked(rights.CHANGE_SETTINGS, "t-value") == (topic(Operation.ALTER_CONFIGS, "t"),)
    assert asked(rights.CHANGE_SETTINGS, ":.staging:") == (cluster(Operation.ALTER),)
    assert asked(rights.READ_SETTINGS, ":.staging:") == (cluster(Operation.DESCRIBE),)
    assert asked(rights.CHANGE_ALL_SETTINGS, "") == (cluster(Operation.ALTER),)

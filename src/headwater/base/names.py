"""Topic names: which ones are legal, and which two would collide.

A topic name becomes a directory name and a part of metric names. In metric names `.` turns into `_`, so two topics
that differ only there are refused, as in Apache Kafka.
"""

from collections.abc import Iterable
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX: Final = 249
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"))


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, in Kafka's words; None if nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def is_legal_topic_name(name: str) -> bool:
    return topic_name_problem(name) is None


def validate_topic_name(name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def colliding_topic(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` that would have the same metric names, if there is one; `name` itself does not count."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    for other in others:
        if other != name and other.replace(".", "_") == unified:
            return other
    return None


def is_internal_topic(name: str) -> bool:
    return name in INTERNAL_TOPICS

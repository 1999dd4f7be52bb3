"""What became of each of many things: a mapping from the thing to its answer, or to the `KafkaError` it met.

Calls about many things give such a mapping, because one that fails does not stop the others. `all_or_raise` is for
callers who want all of them or none.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from headwater.base.errors import KafkaError
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut, UnknownTopic

K = TypeVar("K")
V = TypeVar("V")

_SAYS_IT_ALL: Final = (BootstrapFailed, ConnectionFailed, RequestTimedOut, UnknownTopic)


def all_or_raise(outcome: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The answers, if all of them are; else the first error, with what it is about in front."""
    answers: dict[K, V] = {}
    for item, answer in outcome.items():
        if isinstance(answer, _SAYS_IT_ALL):
            raise answer
        if isinstance(answer, KafkaError):
            raise KafkaError(answer.code, f"{item}: {answer.message}" if answer.message else f"{item}") from answer
        answers[item] = answer
    return answers


def only(outcome: Mapping[K, V | KafkaError]) -> V:
    """The answer of a call about one thing; its error is raised as it is."""
    (answer,) = outcome.values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer

"""Changes wait for those before them, whatever becomes of those."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.broker.changes import ChangeQueue
from headwater.metadata.image import Change, TopicDeleted

CHANGE = TopicDeleted(TopicId(bytes(16)))


class Store:
    def __init__(self) -> None:
        self.commits: list[Callable[[KafkaError | None], None]] = []

    def commit(self, _changes: Sequence[Change], done: Callable[[KafkaError | None], None]) -> None:
        self.commits.append(done)


def test_a_plan_is_made_when_what_was_before_it_is_applied() -> None:
    store: Any = Store()
    queue, told = ChangeQueue(store), []
    queue.submit(lambda: [CHANGE], lambda _problem: told.append("first"))
    queue.submit(lambda: [CHANGE], lambda _problem: told.append("second"))
    assert (len(store.commits), told) == (1, [])
    store.commits[0](None)
    assert (len(store.commits), told) == (2, ["first"])


def test_a_plan_that_fails_does_not_hold_up_those_behind_it() -> None:
    store: Any = Store()
    queue = ChangeQueue(store)
    problems: list[KafkaError | None] = []

    def fail() -> list[Change]:
        raise ZeroDivisionError

    queue.submit(lambda: [CHANGE], problems.append)
    queue.submit(fail, problems.append)
    queue.submit(lambda: [CHANGE], problems.append)
    store.commits[0](None)
    assert len(store.commits) == 2
    assert problems[0] is None
    assert problems[1] is not None
    assert problems[1].code is ErrorCode.UNKNOWN_SERVER_ERROR

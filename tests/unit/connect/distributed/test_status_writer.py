"""Statuses that the brokers do not take at once."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.distributed import status_writer
from headwater.connect.distributed.status_records import (
    ConnectorStatus,
    Status,
    StatusRecord,
    TaskStatus,
    TopicUse,
    encode,
)
from headwater.connect.distributed.status_writer import StatusWriter
from headwater.connect.runtime.task import State, TaskId

AWAY = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
FAILED = TaskStatus(TaskId("c", 0), Status(State.FAILED, "a:1", 3, trace="why"))
RUNNING = TaskStatus(TaskId("c", 0), Status(State.RUNNING, "a:1", 3))


class Brokers:
    """Each send is answered when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes | None, Callable[..., None]]] = []
        self.refuses = False

    def send(self, _topic: str, value: bytes | None, *, key: bytes, on_delivery: Callable[..., None]) -> None:
        if self.refuses:
            raise AWAY
        self.sent.append((key.decode(), value, on_delivery))

    @property
    def values(self) -> list[bytes | None]:
        return [value for _, value, _ in self.sent]

    def answer(self, place: int, error: BaseException | None) -> None:
        self.sent[place][2](error, None)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "_AGAIN_S", 0.01)


def _writer(is_past: Callable[[StatusRecord], bool] = lambda _: False) -> tuple[StatusWriter, Brokers]:
    brokers: Any = Brokers()
    return StatusWriter("s", brokers, is_past), brokers


def _is_sent(brokers: Brokers, count: int) -> bool:
    until = time.monotonic() + 30
    while len(brokers.sent) < count and time.monotonic() < until:
        time.sleep(0.005)
    return len(brokers.sent) == count


def _waits(writer: StatusWriter) -> bool:
    """Whether something is to be sent again; what was, is by then."""
    timer = writer._timer
    if timer is not None:
        timer.join(30)
    return timer is not None


def test_a_status_that_was_not_written_is_sent_until_it_is() -> None:
    """A task that failed while the brokers were away stayed RUNNING for ever: nothing came after it."""
    writer, brokers = _writer()
    writer.put(FAILED)
    brokers.answer(0, AWAY)
    assert _is_sent(brokers, 2)
    brokers.answer(1, AWAY)
    assert _is_sent(brokers, 3)
    brokers.answer(2, None)
    assert not _waits(writer)
    assert brokers.values == [encode(FAILED).value] * 3


def test_so_is_one_that_could_not_even_be_sent() -> None:
    writer, brokers = _writer()
    brokers.refuses = True
    writer.put(FAILED)
    brokers.refuses = False
    assert _is_sent(brokers, 1)


def test_only_the_last_of_a_key_is_sent_again() -> None:
    writer, brokers = _writer()
    writer.put(RUNNING)
    writer.put(FAILED)
    brokers.answer(0, AWAY)
    assert not _waits(writer)
    brokers.answer(1, AWAY)
    assert _is_sent(brokers, 3)
    assert brokers.values[-1] == encode(FAILED).value


def test_one_that_was_followed_while_it_waited_is_not_sent_again() -> None:
    writer, brokers = _writer()
    writer.put(RUNNING)
    brokers.answer(0, AWAY)
    writer.put(FAILED)
    assert _waits(writer)
    brokers.answer(1, None)
    assert brokers.values == [encode(RUNNING).value, encode(FAILED).value]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (FAILED, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)),
        (ConnectorStatus("c", None), AWAY),
        (TopicUse("t", "c"), AWAY),
    ],
    ids=["refused", "a connector is forgotten", "a topic is forgotten"],
)
def test_what_would_be_refused_again_or_may_be_another_s_by_then_is_not_sent_again(
    record: StatusRecord, error: KafkaError
) -> None:
    writer, brokers = _writer()
    writer.put(record)
    brokers.answer(0, error)
    assert not _waits(writer)


def test_what_another_worker_has_begun_since_is_not_overwritten() -> None:
    writer, brokers = _writer(lambda _: True)
    writer.put(RUNNING)
    brokers.answer(0, AWAY)
    assert _waits(writer)
    assert len(brokers.sent) == 1
    assert not writer._under_way


def test_a_closed_worker_sends_nothing_again() -> None:
    writer, brokers = _writer()
    writer.put(FAILED)
    writer.close()
    brokers.answer(0, AWAY)
    assert not _waits(writer)
    assert not writer._under_way

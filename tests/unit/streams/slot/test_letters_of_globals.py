"""Dead letters of global tables in a commit whose outcome is unknown: nobody makes them again, and each is written
once.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import OffsetOutOfRange
from headwater.streams.engine.failures import ErrorPolicy
from headwater.streams.model.record import OutputRecord
from headwater.streams.slot.commit_writer import CommitWriter
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.slot import Slot


class Brokers:
    """A producer of transactions and a reader of what is committed, over one topic of one partition."""

    takes_many = False

    def __init__(self) -> None:
        self.log: list[bytes | None] = []
        self.aborted: set[int] = set()

    def partitions_for(self, _topic: str, timeout: float) -> None:
        pass

    def begin_transaction(self) -> None:
        self._begin = len(self.log)

    def send(self, topic: str, value: bytes | None, **_: Any) -> Any:
        self.log.append(value)
        metadata = SimpleNamespace(topic=topic, partition=0, offset=len(self.log) - 1)
        return SimpleNamespace(result=lambda: metadata)

    def flush(self, timeout: float | None = None) -> None:
        pass

    def abort(self) -> None:
        self.aborted |= set(range(self._begin, len(self.log)))

    def records(self, place: TopicPartition, start: int, end: int, **_: Any) -> Iterator[bytes | None]:
        if start >= len(self.log):
            raise OffsetOutOfRange(place, start)
        for at in range(start, min(end, len(self.log))):
            if at not in self.aborted:
                yield self.log[at]

    @property
    def committed(self) -> list[bytes | None]:
        return [each for at, each in enumerate(self.log) if at not in self.aborted]


def _slot(brokers: Any, pending: list[OutputRecord], outcomes: list[str]) -> Slot:
    """`outcomes` of its commits, one after the other."""
    writer = CommitWriter(RunSettings("localhost:1", Path("state")), ErrorPolicy(), "app", pending, threading.Event())
    writer._producer = brokers

    def drive_commit() -> bool:
        outcome = outcomes.pop(0)
        writer.send_records([], transactional=True)
        if outcome == "aborted":
            brokers.abort()
        if outcome == "truncated":
            del brokers.log[:]
        if outcome == "fails":
            brokers.abort()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return outcome == "committed"

    slot = object.__new__(Slot)
    attributes = {
        "_writer": writer,
        "_reader": brokers,
        "_drive_commit": drive_commit,
        "_drive": lambda _steps: None,
        "_identity": None,
        "_open_all": lambda _follow: None,
        "_lead": SimpleNamespace(member=lambda: None, application_id="app"),
        "_clients": SimpleNamespace(check=lambda: None),
        "_consumer": SimpleNamespace(assignment=list),
        "_purge": SimpleNamespace(committed=lambda _offsets: None),
        "report": SimpleNamespace(note_error=lambda *_: None),
        "tasks": [],
    }
    for name, value in attributes.items():
        setattr(slot, name, value)
    return slot


def _letter(value: bytes) -> OutputRecord:
    return OutputRecord("letters", None, b"k", value, 0, ())


@pytest.mark.parametrize("first", ["committed", "unknown", "aborted", "fails", "truncated"])
def test_each_letter_is_written_once_whatever_became_of_the_first_commit(first: str) -> None:
    """After a timeout of a commit that had succeeded they were written a second time."""
    brokers, pending = Brokers(), [_letter(b"1"), _letter(b"2")]
    slot = _slot(brokers, pending, [first, "committed"])
    slot._commit_outputs()
    assert len(pending) == (0 if first in ("committed", "unknown") else 2)
    pending.append(_letter(b"3"))
    slot._commit_outputs()
    assert brokers.committed == [b"1", b"2", b"3"]
    assert pending == []


def test_a_recovery_without_a_commit_before_it_leaves_new_letters_waiting() -> None:
    pending = [_letter(b"1")]
    slot = _slot(Brokers(), pending, ["committed"])
    slot._commit_outputs()
    pending.append(_letter(b"2"))
    slot._recover()
    assert [each.value for each in pending] == [b"2"]

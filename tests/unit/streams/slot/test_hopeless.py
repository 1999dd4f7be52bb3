"""Commits that fail: those that will fail again end the run, the others are tried again at a growing pace."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.streams.slot.hopeless import pause_s, raise_if_hopeless
from headwater.streams.slot.slot import Slot
from headwater.streams.slot.slot_report import SlotReport


class Stopping(threading.Event):
    """Notes how long it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return False


def _slot(outcomes: list[Exception | bool], events: list[str]) -> tuple[Slot, Stopping]:
    def drive_commit() -> bool:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    slot, stopping = object.__new__(Slot), Stopping()
    attributes: dict[str, Any] = {
        "_drive_commit": drive_commit,
        "_recover": lambda: events.append("recovered"),
        "_lead": SimpleNamespace(application_id="app"),
        "_stopping": stopping,
        "_purge": SimpleNamespace(committed=lambda _: None),
        "_writer": SimpleNamespace(offsets={}, forget=lambda: events.append("committed"), forget_globals=lambda: None),
        "report": SlotReport(),
    }
    for name, value in attributes.items():
        setattr(slot, name, value)
    return slot, stopping


def test_a_right_that_is_missing_ends_the_run() -> None:
    """The slot processed the same records again and again, as quickly as it could, and only its log said why."""
    events: list[str] = []
    slot, _ = _slot([KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic out")], events)
    with pytest.raises(
        UserError, match=r"app makes cannot be committed.*TOPIC_AUTHORIZATION_FAILED: topic out.*the right"
    ):
        slot._commit_outputs()
    assert events == []


def test_commits_that_fail_in_a_row_are_tried_at_a_growing_pace() -> None:
    events: list[str] = []
    failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    slot, stopping = _slot([failure, False, failure, True, failure], events)
    for _ in range(5):
        slot._commit_outputs()
    assert events == ["recovered", "recovered", "recovered", "committed", "recovered"]
    assert stopping.waited == [0.25, 0.5]
    assert [pause_s(n) for n in (0, 1, 2, 6, 7, 10_000)] == [0.0, 0.0, 0.25, 4.0, 5.0, 5.0]


def test_a_transaction_that_failed_is_ended_before_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed open for up to five seconds, and whoever reads committed records of these topics waited behind it."""
    events: list[str] = []
    slot, stopping = _slot([False, False], events)
    monkeypatch.setattr(stopping, "wait", lambda _: events.append("paused"))
    slot._commit_outputs()
    slot._commit_outputs()
    assert events == ["recovered", "recovered", "paused"]


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("nobody answers"),
        KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH),
        KafkaError(ErrorCode.FENCED_INSTANCE_ID),
        KafkaError(ErrorCode.UNKNOWN_MEMBER_ID),
        KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_passes_or_is_for_the_lead_to_say_is_tried_again(error: KafkaError | TimeoutError) -> None:
    raise_if_hopeless("app", error)

"""What the lead makes of an answer about its membership: a successor ends the run, a session that was slept through
does not.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.streams.lead.membership import INSTANCE, Lead
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot.open_task import Stopped

MEMBER = protocol.Member("app", 3, "me", INSTANCE)


class FakeConsumer:
    def __init__(self) -> None:
        self.assigned: list[Any] = ["in-0"]
        self.joins_again = False
        self.known = type("Known", (), {"generation_id": 3, "member_id": "me"})

    def poll(self, _timeout: float, max_records: int) -> None:
        if self.joins_again:
            self.assigned = []

    def subscribe(self, topics: list[str]) -> None:
        self.assigned = []

    def pause(self, *_: Any) -> None:
        """Nothing is fetched."""

    def assignment(self) -> list[Any]:
        return self.assigned

    def group_metadata(self) -> Any:
        return self.known


def _lead(code: ErrorCode) -> tuple[Lead, FakeConsumer]:
    class FakeAdmin:
        def run(self, _ask: Any) -> Any:
            return type("Answer", (), {"error_code": code})

    lead, consumer = object.__new__(Lead), FakeConsumer()
    lead.application_id = "app"
    lead.admin = FakeAdmin()  # type: ignore[assignment]
    lead._consumer = consumer  # type: ignore[assignment]
    return lead, consumer


def test_a_member_that_is_one_may_go_on() -> None:
    for code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        _lead(code)[0].do(protocol.StillMember(MEMBER))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_whose_session_is_over_asks_again_when_it_has_joined_again(code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        _lead(code)[0].do(protocol.StillMember(MEMBER))
    assert raised.value.code.retriable


def test_a_successor_replaces_it() -> None:
    with pytest.raises(protocol.Replaced):
        _lead(ErrorCode.FENCED_INSTANCE_ID)[0].do(protocol.StillMember(MEMBER))


def test_it_is_not_its_own_successor_while_it_joins_again() -> None:
    lead, consumer = _lead(ErrorCode.FENCED_INSTANCE_ID)
    consumer.joins_again = True
    with pytest.raises(KafkaError) as raised:
        lead.do(protocol.StillMember(MEMBER))
    assert raised.value.code.retriable


def test_a_run_that_is_to_end_does_not_wait_for_a_group_that_gives_no_assignment() -> None:
    """It waited for three minutes, and whoever stopped it with it."""
    lead, _ = _lead(ErrorCode.NONE)
    lead._topics = ["in"]
    lead.given_up = lambda: True
    with pytest.raises(Stopped):
        lead.do(protocol.Join())

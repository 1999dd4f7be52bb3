"""The lead as a slot of another process sees it: the slot asks for a producer id, and takes none by itself."""

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from headwater.base.errors import KafkaError
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot import remote_lead
from headwater.streams.slot.remote_lead import LeadLost, RemoteLead

MEMBER = protocol.Member("app", 1, "member", "lead")
MINE = protocol.SlotProducer("app-slot-0", 7, 0)


class Brokers:
    """An admin client that notes whatever is asked by it, and gives whoever asks the next epoch."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, ask: Any) -> tuple[int, int]:
        self.asked.append("run")
        return 7, 99

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a slot asks brokers for {name}")


def given(
    answer: Callable[[RemoteLead], None], stopping: threading.Event | None = None
) -> tuple[RemoteLead, Brokers, list[messages.Message]]:
    """A slot's lead that answers so."""
    told: list[messages.Message] = []

    def send(message: messages.Message) -> None:
        told.append(message)
        answer(lead)

    brokers: Any = Brokers()
    lead = RemoteLead(
        messages.Introduce("app", "", 5, 1, "member", "lead", 7, 0), brokers, send, stopping or threading.Event()
    )
    return lead, brokers, told


def recovered(lead: RemoteLead) -> protocol.SlotProducer:
    """As a slot recovers from a commit that failed: it has no task here."""
    steps = protocol.recover_steps((), MINE, MEMBER)
    try:
        step = next(steps)
        while True:
            step = steps.send(lead.do(step))
    except StopIteration as end:
        taken: protocol.SlotProducer = end.value
        return taken


def test_a_slot_goes_on_with_the_epoch_that_its_lead_took() -> None:
    lead, brokers, told = given(lambda lead: lead.answer(messages.Producer("app", 7, 3, 2, "member again")))
    assert recovered(lead) == protocol.SlotProducer("app-slot-0", 7, 3)
    assert told == [messages.AskProducer("app")]
    assert brokers.asked == []
    assert lead.member() == protocol.Member("app", 2, "member again", "lead")


def test_a_slot_that_was_given_up_cannot_make_itself_valid_again() -> None:
    lead, brokers, told = given(lambda lead: lead.lose())
    with pytest.raises(LeadLost):
        recovered(lead)
    assert told == [messages.AskProducer("app")]
    assert brokers.asked == []


def test_a_slot_whose_lead_cannot_take_the_id_now_asks_again_later() -> None:
    refused = messages.Producer("app", -1, -1, 1, "member", "brokers are away")
    lead, brokers, _ = given(lambda lead: lead.answer(refused))
    with pytest.raises(KafkaError, match="brokers are away"):
        recovered(lead)
    assert brokers.asked == []


def test_an_answer_that_an_earlier_run_has_asked_for_is_not_taken() -> None:
    """Each question got the answer to the one before: an epoch that the lead had fenced by the next, for ever."""
    epochs = iter(range(3, 9))
    lead, _, _ = given(lambda lead: lead.answer(messages.Producer("app", 7, next(epochs), 2, "member")))
    lead.answer(messages.Producer("app", 7, 2, 2, "member"))
    assert [recovered(lead).epoch for _ in range(2)] == [3, 4]
    lead.lose()
    with pytest.raises(LeadLost):
        recovered(lead)


def test_a_slot_that_is_to_stop_does_not_wait_long_for_a_lead_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for 300 s, with the state of its tasks open, and the lease of all others waited with it."""
    monkeypatch.setattr(remote_lead, "_LOOK_S", 0.001)
    monkeypatch.setattr(remote_lead, "_LAST_ANSWER_S", 0.0)
    stopping = threading.Event()
    lead, _, told = given(lambda _: stopping.set(), stopping)
    with pytest.raises(LeadLost):
        recovered(lead)
    assert told == [messages.AskProducer("app")]


def test_the_last_commit_of_a_slot_still_gets_its_answer() -> None:
    stopping = threading.Event()
    stopping.set()
    lead, _, _ = given(lambda lead: lead.answer(messages.Producer("app", 7, 3, 2, "member")), stopping)
    assert recovered(lead).epoch == 3

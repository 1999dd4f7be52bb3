"""The lead of an application, seen from a slot in another process: what it has told, and what it is asked.

The slot never takes a producer id: it asks the lead, which refuses it if it has given the slot up meanwhile. So a slot
that was stopped and replaced cannot make itself valid again. Owned by the slot's thread for the application; `answer`
and `member_changed` are called by the thread that reads the connection.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol

_ANSWER_S: Final = 300.0  # taking an id waits for what is decided; brokers may be away meanwhile
_LAST_ANSWER_S: Final = 30.0  # when it is to stop: as long as the lead waits for its slots, and it may have ended since
_LOOK_S: Final = 0.25


class LeadLost(Exception):
    """There is no lead any more, or it has given this slot up: what is pending is somebody else's."""


class RemoteLead:
    def __init__(
        self,
        introduced: messages.Introduce,
        admin: Admin,
        send: Callable[[messages.OfApplication], None],
        stopping: threading.Event,
    ) -> None:
        """`stopping`: the application is to end in this slot. Its last commit may still have something to ask."""
        self.application_id = introduced.application
        self.admin = admin
        self._send = send
        self._stopping = stopping
        self._member = protocol.Member(
            introduced.application, introduced.generation, introduced.member_id, introduced.instance_id
        )
        self._answers: queue.SimpleQueue[messages.Producer | messages.OffsetsCommitted | None] = queue.SimpleQueue()
        self._lost = False

    # Called by the connection's thread

    def answer(self, message: messages.Producer | messages.OffsetsCommitted) -> None:
        self._answers.put(message)

    def member_changed(self, generation: int, member_id: str) -> None:
        known = self._member
        self._member = protocol.Member(known.group_id, generation, member_id, known.instance_id)

    def lose(self) -> None:
        self._lost = True
        self._answers.put(None)

    # A slot's `LeadPort`

    def do(self, step: protocol.Step) -> Any:
        match step:
            case protocol.StillMember():
                return None  # the lead asks by itself when it takes the id
            case protocol.TakeProducerId(name):
                return self._take(name)
        raise AssertionError(f"no step that a slot leaves to its lead: {step}")

    def member(self) -> protocol.Member:
        return self._member

    def tick(self) -> None:
        if self._lost:
            raise LeadLost

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        rows = [[p.topic, p.partition, each.offset, each.metadata] for p, each in offsets.items()]
        answer = self._ask(messages.CommitOffsets(self.application_id, rows))
        assert isinstance(answer, messages.OffsetsCommitted), answer
        if answer.code:
            raise KafkaError(ErrorCode(answer.code), answer.message)

    def _take(self, name: str) -> protocol.SlotProducer:
        answer = self._ask(messages.AskProducer(self.application_id))
        assert isinstance(answer, messages.Producer), answer
        if answer.refused:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, answer.refused)
        self.member_changed(answer.generation, answer.member_id)
        return protocol.SlotProducer(name, answer.producer_id, answer.producer_epoch)

    def _ask(self, question: messages.OfApplication) -> messages.Producer | messages.OffsetsCommitted:
        """One question at a time. An answer that is there before it is an earlier run's in this slot: taken for this
        one, it would leave each later question with the answer to the one before, an epoch that is fenced.
        """
        while not self._answers.empty():
            self._answers.get_nowait()
        self.tick()
        self._send(question)
        answer = self._awaited()
        if answer is None or self._lost:
            raise LeadLost
        return answer

    def _awaited(self) -> messages.Producer | messages.OffsetsCommitted | None:
        give_up_at, is_last = time.monotonic() + _ANSWER_S, False
        while True:
            try:
                return self._answers.get(timeout=_LOOK_S)
            except queue.Empty:
                now = time.monotonic()
            if self._stopping.is_set() and not is_last:
                give_up_at, is_last = min(give_up_at, now + _LAST_ANSWER_S), True
            if now >= give_up_at:
                return None

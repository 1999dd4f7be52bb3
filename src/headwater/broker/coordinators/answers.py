"""The answers of one shard on their way out: each is held until all that the shard had written when it was given is
committed.

Also who has asked and heard nothing yet, and how to say no to each of them: when what the shard believes is no longer
true, everything that is held is forgotten, and all of them hear an error.

Owned by the shard's `Hosted`, on the broker's loop.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.shard_protocol import ErrorResponse
from headwater.coordinator.effects import Ticket
from headwater.replication.partition import Partition

Reply = tuple[Ticket, Any]
Held = tuple[int, Sequence[Reply], Callable[[], None] | None]  # the last offset that must be committed


class Answers:
    """`on_deleted`: the partition is gone, and nothing that is held will be committed."""

    def __init__(self, broker: CoordinatorHost, partition: Partition, on_deleted: Callable[[], None]) -> None:
        self._broker = broker
        self._partition = partition
        self._on_deleted = on_deleted
        self.last_written = -1
        self.held: deque[Held] = deque()
        self._unanswered: dict[Ticket, ErrorResponse] = {}
        self._is_woken = False

    def ticket(self, settle: Callable[[Any], None], error: ErrorResponse) -> Ticket:
        """For a request: `settle` gets its answer, which is `error` of a code when there is no other."""
        ticket = Ticket(settle)
        self._unanswered[ticket] = error
        return ticket

    def hold(self, replies: Sequence[Reply], then: Callable[[], None] | None = None) -> None:
        """Until everything that was written so far is committed; `then` is called after they are told."""
        self.held.append((self.last_written, replies, then))

    def release(self) -> None:
        """Tells what may be told by now."""
        held, partition = self.held, self._partition
        while held and (held[0][0] < 0 or partition.is_committed(held[0][0])):
            _, replies, then = held.popleft()
            for ticket, response in replies:
                if self._unanswered.pop(ticket, None) is not None:
                    ticket.settle(response)
            if then is not None:
                then()
        if held:
            partition.waiters[self] = None
        else:
            partition.waiters.pop(self, None)

    def refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        """At once. Nothing happens if it has had its answer."""
        error = self._unanswered.pop(ticket, None)
        if error is not None:
            ticket.settle(error(code))

    def forget(self, code: ErrorCode) -> None:
        """What is held is not true any more."""
        self._partition.waiters.pop(self, None)
        self.held.clear()
        unanswered, self._unanswered = self._unanswered, {}
        for ticket, error in unanswered.items():
            ticket.settle(error(code))

    # As one who waits for the partition

    def on_progress(self, appended_bytes: int) -> None:  # noqa: ARG002
        if not self._is_woken:
            self._is_woken = True
            self._broker.wake(self)

    def answer(self) -> None:
        self._is_woken = False
        if self._partition.deleted:
            self._on_deleted()
        else:
            self.release()

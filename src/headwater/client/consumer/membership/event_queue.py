"""Where events of the membership wait for the application's poll, one at a time. Owned by one membership."""

from collections.abc import Callable

from headwater.client.consumer.membership.port import RebalanceEvent
from headwater.client.reactor.kernel import Future


class EventQueue:
    """`done` is told each acknowledged event, before whoever offered it goes on. `wake` ends a poll's wait."""

    def __init__(self, done: Callable[[RebalanceEvent], None], wake: Callable[[], None]) -> None:
        self._done = done
        self._wake = wake
        self._event: RebalanceEvent | None = None
        self._handed_out = False
        self._settled: RebalanceEvent | None = None
        self._outcome: Future[bool] = Future()

    async def free(self) -> None:
        """Waits until the application has nothing in its hands: an event may be left over from a task that was
        cancelled.

        Only then it is known what is owned, and what the next event has to be.
        """
        while self._event is not None:
            await self._outcome

    async def offer(self, event: RebalanceEvent | None) -> bool:
        """Waits until the application has handled the event; False if it was withdrawn before it was handed out."""
        assert self._event is None, "one event at a time"
        if event is None:
            return True
        self._event = event
        self._handed_out = False
        outcome = self._outcome = Future[bool]()
        self._wake()
        try:
            return await outcome
        finally:
            if not outcome.done:
                self.withdraw()

    def next(self) -> RebalanceEvent | None:
        self._handed_out = self._event is not None
        return self._event

    def acknowledge(self, event: RebalanceEvent) -> None:
        if event is self._settled:
            return
        assert event is self._event, "only the event that next_event gave can be acknowledged"
        self._event = None
        self._done(event)
        self._outcome.resolve(True)

    def settle(self) -> None:
        """The end: an event that nobody has seen is taken back; one in the application's hands counts as done."""
        self.withdraw()
        if self._event is not None:
            event = self._event
            self.acknowledge(event)
            self._settled = event

    def withdraw(self) -> None:
        """Takes an event back that nobody has seen yet."""
        if self._event is not None and not self._handed_out:
            self._event = None
            self._outcome.resolve(False)

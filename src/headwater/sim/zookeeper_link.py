"""One connection between a simulated client of ZooKeeper and the service: each way in order, each message after a while
of its own.

When it ends, some of the first requests under way still arrive and the others do not: the client cannot tell which.
What was under way to the client is lost.
"""

import random
from collections import deque
from collections.abc import Callable

from headwater.base.ports import Scheduler


class Link:
    def __init__(
        self,
        service: Scheduler,
        client: Scheduler,
        randomness: random.Random,
        delay_ms_max: Callable[[], int],
        ended: Callable[[], None],
    ) -> None:
        self.is_open = True
        self._service = service
        self._client = client
        self._random = randomness
        self._delay_ms_max = delay_ms_max
        self._requests: deque[Callable[[], None]] = deque()
        self._answers: deque[Callable[[], None]] = deque()
        self._ended = ended

    def to_service(self, message: Callable[[], None]) -> None:
        if self.is_open:
            self._requests.append(message)
            self._service.call_later(self._delay_ms(), self._request_arrives)

    def to_client(self, message: Callable[[], None]) -> None:
        if self.is_open:
            self._answers.append(message)
            self._client.call_later(self._delay_ms(), self._answer_arrives)

    def arrive_now(self) -> None:
        """All requests under way arrive, and the link ends in peace."""
        while self._requests:
            self._request_arrives()
        self.forget()

    def cut(self) -> None:
        """No message passes any more. Neither side is told."""
        if self.is_open:
            self.is_open = False
            self._answers.clear()
            for _ in range(self._random.randint(0, len(self._requests))):
                self._requests.pop()

    def end(self, within_ms: int) -> None:
        """The same, and the client notices after a moment."""
        self.cut()
        self._client.call_later(self._random.randint(0, within_ms), self._ended)

    def forget(self) -> None:
        """Nothing arrives from here any more: the session has another link, or none."""
        self.is_open = False
        self._requests.clear()
        self._answers.clear()

    def _delay_ms(self) -> int:
        return self._random.randint(0, self._delay_ms_max())

    def _request_arrives(self) -> None:  # whichever timer is due first brings the message that was sent first
        if self._requests:
            self._requests.popleft()()

    def _answer_arrives(self) -> None:
        if self._answers:
            self._answers.popleft()()

"""How long an attempt lasts: from a connection to ZooKeeper until it is lost, or until something in it went wrong.

Every callback that an attempt hands out is bound to its lifetime, so that whatever comes too late is dropped in one
place, and everybody who still waits for an answer gets one when it ends.
"""

import logging
from collections.abc import Callable
from typing import ParamSpec

from headwater.base.coordination import CoordinationError
from headwater.base.errors import ErrorCode, KafkaError

P = ParamSpec("P")
Done = Callable[[KafkaError | None], None]

logger = logging.getLogger("headwater.metadata")


def connection_lost() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The connection to ZooKeeper was lost: it may have happened or not.")


def call(function: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
    """Calls somebody else's code. Whatever breaks in it, what is behind it gets its turn."""
    try:
        function(*arguments, **named)
    except Exception:
        logger.exception("event=change-not-followed")


class Lifetime:
    def __init__(self, failed: Callable[[CoordinationError], None], outer: "Lifetime | None" = None) -> None:
        self.fail = self.bind(failed)
        """The attempt cannot go on: it is for its owner to end it, and to begin another."""
        self._outer = outer
        self._has_ended = False
        self._owed: dict[int, Done] = {}
        self._count = 0

    @property
    def is_over(self) -> bool:
        return self._has_ended or (self._outer is not None and self._outer.is_over)

    def part(self) -> "Lifetime":
        """One that may end earlier. It owes nothing itself."""
        return Lifetime(self.fail, self)

    def bind(self, function: Callable[P, None]) -> Callable[P, None]:
        """The same function; once this is over, it does nothing."""

        def bound(*arguments: P.args, **named: P.kwargs) -> None:
            if not self.is_over:
                function(*arguments, **named)

        return bound

    def owe(self, done: Done) -> Done:
        """`done`, called exactly once: by whoever has the answer, or with REQUEST_TIMED_OUT at the end."""
        self._count += 1
        number = self._count
        self._owed[number] = done

        def answer(error: KafkaError | None) -> None:
            if self._owed.pop(number, None) is not None:
                call(done, error)

        return answer

    def end(self) -> None:
        self._has_ended = True
        owed, self._owed = self._owed, {}
        for done in owed.values():
            call(done, connection_lost())

    def forget(self) -> None:
        """Ends it without an answer to anybody: the process goes."""
        self._owed.clear()
        self._has_ended = True

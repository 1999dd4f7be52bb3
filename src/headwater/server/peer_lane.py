"""One lane to another broker: requests in order over one connection, their answers, time-outs, and when to connect
again.

Knows no socket: a `Wire` carries the frames, the kernel's (`server/peers.py`) or a simulated one. Failures are told
soon, never inside `ask`; by then the lane is as if nothing had been asked, so that whoever hears of one may ask again
at once.

A connection is made when something is asked. One that does not come about, or ends before it has answered anything,
makes the next attempt wait: 50 ms, then twice as long each time, up to a second. Meanwhile requests wait too, within
their own time-outs. After one that has answered, the next is tried at once.

Owned by the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Final, Protocol

from headwater.base.peers import Unreachable
from headwater.base.ports import Buffer, Clock, Scheduler, Timer
from headwater.wire.errors import DecodeError
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.registry import response_class

ASKED_MAX: Final = 10_000
_BACK_OFF_FIRST_MS: Final = 50
_BACK_OFF_MAX_MS: Final = 1000
_DOUBLINGS_MAX: Final = 10
_CORRELATION_IDS: Final = 1 << 31

logger = logging.getLogger("headwater.server")

_response_class: Final = cache(response_class)  # to find it takes as long as to decode an answer
Done = Callable[[Any | None, Unreachable | None], None]


class Wire(Protocol):
    """A connection, or one on its way: it tells its lane `opened`, `received` and `lost`, none of them inside a call of
    the lane's.
    """

    def send(self, frame: bytes) -> None:
        """A whole frame without its length; only after `opened`."""
        ...

    def close(self) -> None:
        """Tells its lane nothing more."""
        ...


class _Asked:
    __slots__ = ("correlation_id", "deadline_ms", "done", "frame", "is_sent", "key", "version")

    def __init__(self, correlation_id: int, key: int, version: int, frame: bytes, done: Done, deadline_ms: int) -> None:
        self.correlation_id = correlation_id
        self.key = key
        self.version = version
        self.frame = frame
        self.done: Done | None = done  # None: told already, and its answer is nobody's
        self.deadline_ms = deadline_ms
        self.is_sent = False


class PeerLane:
    """`dial` begins a connection and gives it, or gives None if nobody knows where the broker is. `on_lost`: one that
    was open ended.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        dial: Callable[["PeerLane"], Wire | None],
        client_id: str,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._dial = dial
        self._client_id = client_id
        self._on_lost = on_lost
        self._asked: deque[_Asked] = deque()
        self._wire: Wire | None = None
        self._is_open = False
        self._has_answered = False  # the connection that there is
        self._next_correlation_id = 0
        self._failures = 0  # connections in a row that answered nothing
        self._not_before_ms = 0
        self._retry: Timer | None = None
        self._watch: Timer | None = None
        self._watch_ms = 0
        self._is_closed = False

    def ask(self, request: Any, version: int, done: Done, timeout_ms: int, origin: str = "") -> None:
        """`origin`: what the client id ends with."""
        if self._is_closed or len(self._asked) >= ASKED_MAX:
            self._tell_soon([done], "closed" if self._is_closed else "too many requests wait for it")
            return
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) % _CORRELATION_IDS
        header = encode_request_header(request.KEY, version, correlation_id, self._client_id + origin)
        frame = b"".join((header, *request.encode(version)))
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        asked = _Asked(correlation_id, request.KEY, version, frame, done, deadline_ms)
        self._asked.append(asked)
        self._watch_until(deadline_ms)
        if self._is_open:
            self._send(asked)
        elif self._wire is None and self._retry is None:
            self._connect()

    def _send(self, asked: _Asked) -> None:
        assert self._wire is not None
        asked.is_sent = True
        frame, asked.frame = asked.frame, b""
        self._wire.send(frame)

    # Connecting

    def _connect(self) -> None:
        delay_ms = self._not_before_ms - self._clock.monotonic_ms()
        if delay_ms > 0:
            self._retry = self._scheduler.call_later(delay_ms, self._connect_now)
        else:
            self._connect_now()

    def _connect_now(self) -> None:
        self._retry = None
        if not self._asked:
            return  # all who waited have been told that it took too long
        self._wire = self._dial(self)
        if self._wire is None:
            self._failed("not known")

    def opened(self, wire: Wire) -> None:
        if wire is self._wire:
            self._is_open = True
            for asked in self._asked:
                self._send(asked)

    def lost(self, wire: Wire, why: str, *, is_refused: bool = False) -> None:
        """`is_refused`: it never came about, since nobody listens there."""
        if wire is self._wire:
            was_open = self._is_open
            self._wire = None
            self._failed(why, is_refused=is_refused)
            if was_open:
                self._on_lost()

    def drop(self, why: str) -> None:
        """Closes the connection, if there is one, and tells everybody who waits."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._failed(why)

    def close(self) -> None:
        """For good; nobody is told."""
        self._asked.clear()
        self.drop("closed")
        self._is_closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _failed(self, why: str, *, is_refused: bool = False) -> None:
        self._is_open = False
        if self._has_answered:
            self._has_answered = False
        else:
            back_off_ms = min(_BACK_OFF_MAX_MS, _BACK_OFF_FIRST_MS << min(self._failures, _DOUBLINGS_MAX))
            self._not_before_ms = self._clock.monotonic_ms() + back_off_ms
            self._failures += 1
        waiting, self._asked = self._asked, deque()
        self._tell_soon([asked.done for asked in waiting], why, is_refused=is_refused)

    # Answers

    def received(self, wire: Wire, frame: Buffer) -> None:
        """A whole answer, without its length; its bytes may change when this returns."""
        if wire is not self._wire:
            return
        if not self._asked or not self._asked[0].is_sent:
            self.drop("it answered what nobody asked")
            return
        asked = self._asked[0]
        try:
            correlation_id, at = decode_response_header(frame, asked.key, asked.version)
            if correlation_id != asked.correlation_id:
                raise DecodeError(f"answer {correlation_id} in place of {asked.correlation_id}")
            response = _response_class(asked.key).decode(frame, at, asked.version)
        except DecodeError as problem:
            logger.warning("event=bad-answer api=%d reason=%r", asked.key, str(problem))
            self.drop(f"a bad answer: {problem}")
            return
        self._asked.popleft()
        self._failures = 0
        self._has_answered = True
        if asked.done is not None:
            asked.done(response, None)

    # Time-outs

    def _watch_until(self, deadline_ms: int) -> None:
        if self._watch is not None:
            if self._watch_ms <= deadline_ms:
                return
            self._watch.cancel()
        self._watch_ms = deadline_ms
        self._watch = self._scheduler.call_later(
            max(0, deadline_ms - self._clock.monotonic_ms()), self._look_for_late_ones
        )

    def _look_for_late_ones(self) -> None:
        """Answers come in order: when the first is late the connection is given up; a later one alone is just not
        waited for.
        """
        self._watch = None
        now_ms = self._clock.monotonic_ms()
        if self._asked and self._asked[0].is_sent and self._asked[0].deadline_ms <= now_ms:
            self.drop("no answer in time")
            return
        late = [asked for asked in self._asked if asked.deadline_ms <= now_ms and asked.done is not None]
        self._tell_soon([asked.done for asked in late], "no answer in time")
        for asked in late:
            asked.done = None
        if late and not self._is_open:
            self._asked = deque(asked for asked in self._asked if asked.done is not None)
        waiting = [asked.deadline_ms for asked in self._asked if asked.done is not None]
        if waiting:
            self._watch_until(min(waiting))

    def _tell_soon(self, waiting: Iterable[Done | None], why: str, *, is_refused: bool = False) -> None:
        problem = Unreachable(why, is_refused=is_refused)
        for done in waiting:
            if done is not None:
                self._scheduler.call_later(0, partial(done, None, problem))  # which also ends a wait for events

"""A connection without sockets: frames arrive late, answers leave late and in order, and it may end at any moment.

The broker's end does what `server/connection.py` does, on the same dispatch: the hot paths of Produce, OffsetCommit and
transactions, answers in the order of requests, deferred ones cancelled when it closes, slices held until they are sent.
The bytes of a request are overwritten when its handler returns, as a buffer that is used again would be.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError
from headwater.base.ports import FileSlice
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.handlers import offset_commit_frames, produce, transaction_frames
from headwater.server.connection import Slot
from headwater.server.dispatch import Begun, begin
from headwater.server.outbox import release_chunks

if TYPE_CHECKING:
    from headwater.sim.node import SimNode

_AT_ONCE: Final = {
    0: produce.handle_frame,
    offset_commit_frames.KEY: offset_commit_frames.PURE.handle_frame,
    **transaction_frames.HANDLERS,
}
_HEAD_BYTES: Final = 8


class SimConnection:
    """Owned by its node. `deliver` and `gone` are the client's end."""

    def __init__(
        self,
        node: "SimNode",
        client: str,
        deliver: Callable[[bytes], None],
        gone: Callable[[str], None],
    ) -> None:
        self.closed = False
        self._node = node
        self._context = ConnectionContext("10.0.0.1", 40_000, "PLAINTEXT")
        self._client = client
        self._deliver = deliver
        self._gone = gone
        self._pending: deque[Slot] = deque()
        self._held: deque[bytes] = deque()  # frames behind a request that wants nothing begun after it
        self._out: deque[list[Any]] = deque()
        self._arrives_ms = 0
        self._leaves_ms = 0
        self._chance = node.stream_for(client)

    # On the way

    def send(self, frame: bytes) -> None:
        """From the client; arrives after a while, and never before what was sent earlier."""
        self._arrives_ms = self._after_delay(self._arrives_ms, lambda: self._arrived(frame))

    def _after_delay(self, not_before_ms: int, function: Callable[[], None]) -> int:
        world = self._node.world
        now_ms = world.clock.monotonic_ms()
        due_ms = max(not_before_ms, now_ms + self._chance.choice((0, 0, 1, 1, 2, 5, 20)))
        world.heap.call_later(due_ms - now_ms, function)
        return due_ms

    def _is_cut(self) -> bool:
        world = self._node.world
        per_mille = world.faults.cuts_per_mille
        return per_mille > 0 and not world.is_finishing and self._chance.randrange(1000) < per_mille

    def _arrived(self, frame: bytes) -> None:
        if self.closed:
            return
        if self._is_cut():
            self.close("cut before the request")
        elif self._held or self._is_held():
            self._held.append(frame)
        else:
            self._receive(frame)

    def _sent(self) -> None:
        if self.closed:
            return
        chunks = self._out.popleft()
        if self._is_cut():
            release_chunks(chunks)
            self.close("cut before the answer")
            return
        try:
            pieces = [chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in chunks]
        except OSError as error:
            release_chunks(chunks)
            self.close(f"what was to be sent cannot be read: {error}")
            return
        is_whole = all(len(piece) == len(chunk) for piece, chunk in zip(pieces, chunks, strict=True))
        release_chunks(chunks)
        if is_whole:
            self._deliver(b"".join(pieces))
        else:
            self.close("what was to be sent has been truncated")

    # The broker's end

    def _is_held(self) -> bool:
        deferred = self._pending[-1].deferred if self._pending else None
        return deferred is not None and deferred.holds_order and not deferred.done

    def _receive(self, frame: bytes) -> None:
        broker = self._node.broker
        assert broker is not None, "a dead node has no connections"
        buffer = bytearray(frame)
        view = memoryview(buffer)
        try:
            key = int.from_bytes(frame[:2])
            handle_frame = _AT_ONCE.get(key)
            version, correlation_id = int.from_bytes(frame[2:4]), int.from_bytes(frame[4:8])
            if correlation_id % 2 and key in transaction_frames.HANDLERS:
                handle_frame = None  # so that both ways are tried
            if handle_frame is not None and not self._pending:
                reply = handle_frame(broker, view, _HEAD_BYTES, len(view), version, correlation_id)
                if reply is not None:
                    if reply:
                        self._queue([reply])
                    return
            self._answer(begin(broker, self._context, view))
        except KafkaError as problem:
            self.close(f"bad request: {problem}")
        finally:
            view.release()
            buffer[:] = bytes(len(buffer))

    def _answer(self, begun: Begun) -> None:
        result = begun.result
        if result is None:
            return
        slot = Slot()
        self._pending.append(slot)
        if type(result) is Deferred:
            slot.deferred = result
            result.listen(lambda response: self._answered(slot, begun, response))
        else:
            self._answered(slot, begun, result)

    def _answered(self, slot: Slot, begun: Begun, response: Any) -> None:
        if isinstance(response, BaseException):
            self.close(str(response))
            return
        slot.chunks = begun.frame(response)
        if self.closed:
            release_chunks(slot.chunks)
            return
        while self._pending and self._pending[0].chunks is not None:
            self._queue(self._pending.popleft().chunks or [])
        while self._held and not self._is_held():
            self._receive(self._held.popleft())

    def _queue(self, chunks: list[Any]) -> None:
        self._out.append(chunks)
        self._leaves_ms = self._after_delay(self._leaves_ms, self._sent)

    def slice_count(self) -> int:
        """References to files that answers on their way out hold."""
        if not self._out and not self._pending:
            return 0
        waiting = [slot.chunks for slot in self._pending if slot.chunks is not None]
        return sum(isinstance(chunk, FileSlice) for chunks in (*waiting, *self._out) for chunk in chunks)

    def close(self, why: str, *, process_died: bool = False) -> None:
        """`process_died`: nobody is left to cancel or release anything."""
        if self.closed:
            return
        self.closed = True
        self._node.world.note(f"{self._client} disconnected: {why}")
        if not process_died:
            for slot in self._pending:
                if slot.deferred is not None:
                    slot.deferred.cancel()
                if slot.chunks is not None:
                    release_chunks(slot.chunks)
            for chunks in self._out:
                release_chunks(chunks)
        self._pending.clear()
        self._out.clear()
        self._node.forget(self)
        self._gone(why)

"""Following the log of changes: the directory is watched, and what is new in it is read and handed on in its order.

The sequence numbers of entries are consecutive. If one is missing that was not read yet, the older ones have been
trimmed, and all must be loaded anew.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headwater.base.coordination import Coordination, CoordinationError, Node, NodeMissing
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import Announced, decode_entry
from headwater.metadata.cluster.lifetime import Lifetime

_READS_AT_ONCE: Final = 64


class ChangeFollower:
    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        next_sequence: int,
        apply: Callable[[Sequence[Announced]], None],
        listed: Callable[[Sequence[str]], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._next = next_sequence  # to be applied
        self._asked = next_sequence  # to be read
        self._end = next_sequence  # behind all that is known to be there
        self._arrived: dict[int, bytes] = {}
        self._apply = apply
        self._listed = listed
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def start(self) -> None:
        self._coordination.children(
            layout.CHANGES, self._life.bind(self._children_read), watch=self._life.bind(self.start)
        )

    def wait_for(self, sequence: int, done: Callable[[], None]) -> None:
        """`done` once the entry has been applied: at once, if it has been."""
        self._waiting.append((sequence, done))
        self._release()

    def catch_up(self, done: Callable[[], None]) -> None:
        """`done` once everything has been applied that is there when this is asked."""

        def listed(names: list[str] | None, error: CoordinationError | None) -> None:
            self._children_read(names, error)
            if not self._life.is_over:
                self.wait_for(self._end - 1, done)

        self._coordination.children(layout.CHANGES, self._life.bind(listed))

    def _children_read(self, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None or names is None:
            self._life.fail(error or NodeMissing(layout.CHANGES))
            return
        end = layout.sequence_of(names[-1]) + 1 if names else 0
        unread = end - self._asked
        is_complete = unread <= 0 or (unread <= len(names) and layout.sequence_of(names[-unread]) == self._asked)
        if end < self._end or not is_complete:
            self._life.fail(NodeMissing(layout.CHANGES))
            return
        self._end = end
        self._read_on()
        self._listed(names)

    def _read_on(self) -> None:
        while self._asked < min(self._end, self._next + _READS_AT_ONCE):
            path = layout.change_path(self._asked)
            self._coordination.get(path, self._life.bind(partial(self._entry_read, self._asked)))
            self._asked += 1

    def _entry_read(self, sequence: int, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None or node is None:
            self._life.fail(error or NodeMissing(layout.change_path(sequence)))
            return
        self._arrived[sequence] = node.data
        while self._next in self._arrived and not self._life.is_over:
            data = self._arrived.pop(self._next)
            self._next += 1
            self._apply(decode_entry(data))
            self._release()
        self._read_on()

    def _release(self) -> None:
        """Whoever waited for what has been applied now. They may wait for more, or end it all."""
        ready = [done for sequence, done in self._waiting if sequence < self._next]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] >= self._next]
        for done in ready:
            if not self._life.is_over:
                done()

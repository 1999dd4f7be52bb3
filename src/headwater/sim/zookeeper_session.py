"""A session at the simulated ZooKeeper: the server that it is connected to (a replica of the tree, which lags) and its
watches.

A replica only goes forward, and is never behind what its session wrote: so the session may see an old state, but never
an older one than before.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headwater.base.coordination import Write
from headwater.base.ports import Timer
from headwater.sim.zookeeper_link import Link
from headwater.sim.zookeeper_tree import Changed, Tree


@dataclass(frozen=True, slots=True)
class Transaction:
    number: int
    session_id: int
    writes: Sequence[Write]


@dataclass(slots=True)
class Watches:
    """By what they wait for. Each is told once."""

    _waiting: dict[Changed, dict[int, None]] = field(default_factory=dict)
    _numbers: dict[int, Changed] = field(default_factory=dict)

    def add(self, number: int, waits_for: Changed) -> None:
        self._waiting.setdefault(waits_for, {})[number] = None
        self._numbers[number] = waits_for

    def take(self, changed: Iterable[Changed]) -> list[int]:
        taken: list[int] = []
        for change in changed:
            taken += self._waiting.pop(change, {})
        for number in taken:
            del self._numbers[number]
        return taken

    def __contains__(self, number: int) -> bool:
        return number in self._numbers


class Session:
    def __init__(self, session_id: int, timeout_ms: int, tree: Tree, position: int) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.tree = tree
        self.position = position  # how many transactions of the service it has applied
        self.watches = Watches()
        self.link: Link | None = None
        self.expiry: Timer | None = None
        self.tell_watch: Callable[[int], None] = lambda _number: None

    def apply(self, transaction: Transaction) -> None:
        _, changed = self.tree.apply(transaction.number, transaction.session_id, transaction.writes)
        self.position += 1
        for number in self.watches.take(changed):
            self.tell_watch(number)

"""A state to read from: the last commit of a task that is written. What is written to it is nowhere."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from headwater.streams.stores.ordered import CommittedMap, PendingMap
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import ChangelogPartition, Owner


class NoRows:
    """An `ordered.CommittedMap` without rows: one that nobody has made yet."""

    def get(self, key: bytes) -> bytes | None:  # noqa: ARG002
        return None

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:  # noqa: ARG002
        return iter(())

    def count(self) -> int:
        return 0

    def end(self) -> bytes | None:
        return b""


class StateSnapshot:
    """A `state.TaskState`. `find` gives the map of a name, None where the task has not asked for it yet."""

    def __init__(self, find: Callable[[str], CommittedMap | None]) -> None:
        self._find = find
        self._maps: dict[str, PendingMap] = {}
        self.positions: Mapping[ChangelogPartition, int] = {}

    def part(self, spec: StoreSpec) -> "StateSnapshot":  # noqa: ARG002
        return self

    def map(self, name: str) -> PendingMap:
        if name not in self._maps:
            self._maps[name] = PendingMap(self._find(name) or NoRows())
        return self._maps[name]

    @property
    def notes(self) -> PendingMap:
        return self.map("/notes")

    @property
    def times(self) -> PendingMap:
        return self.map("/times")

    def on_discard(self, reload: Callable[[], None]) -> None:
        """Nothing is discarded here."""

    def claim(self, owner: Owner) -> None:
        raise AssertionError(f"a snapshot cannot be claimed by {owner}")

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:  # noqa: ARG002
        raise AssertionError(f"a snapshot is not written: {positions}")

    def discard(self) -> None:
        """Nothing is pending."""

    def forget_store(self, spec: StoreSpec, changelogs: Iterable[ChangelogPartition]) -> None:
        raise AssertionError(f"a snapshot is not written: {spec.name} {changelogs}")

    wipe = close = write_out = discard

"""Two of a kind, one compiled and one not, each on a directory of its own: what both do must be the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar


class OnDisk(Protocol):
    manager: Any
    disk: Any


S = TypeVar("S", bound=OnDisk)


def pairs(directory: Path, make_side: Callable[..., S]) -> Iterator[Callable[..., tuple[S, S]]]:
    """For a fixture: `make_side(directory, compiled=..., **config)`
    for each side of as many pairs as the test wants.
    """
    made: list[S] = []

    def one(compiled: bool, config: dict[str, Any]) -> S:
        place = directory / f"{'compiled' if compiled else 'general'}-{len(made)}"
        place.mkdir()
        made.append(make_side(place, compiled=compiled, **config))
        return made[-1]

    def make(**config: Any) -> tuple[S, S]:
        return one(True, config), one(False, config)

    yield make
    for side in made:
        side.manager.abandon()
        side.disk.close()

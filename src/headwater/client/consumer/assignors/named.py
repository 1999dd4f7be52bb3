"""The setting `partition.assignment.strategy`: names, Java's class names, classes or objects, to assignors."""

from collections.abc import Iterable
from typing import Any, Final, cast

from headwater.base.errors import UserError
from headwater.client.consumer.assignors.range import RangeAssignor
from headwater.client.consumer.assignors.round_robin import RoundRobinAssignor
from headwater.client.consumer.assignors.spec import Assignor
from headwater.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

BUILT_IN: Final[tuple[Assignor, ...]] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)
_BY_NAME: Final = {each.name: each for each in BUILT_IN} | {
    f"{prefix}{type(each).__name__}": each for each in BUILT_IN for prefix in ("org.apache.kafka.clients.consumer.", "")
}
_MEMBERS: Final = ("name", "cooperative", "user_data", "assign")


def assignors_for(given: object) -> tuple[Assignor, ...]:
    """In the order given, which is that of preference. A name in a text with commas counts as several."""
    entries: Iterable[object]
    if isinstance(given, str):
        entries = [part.strip() for part in given.split(",") if part.strip()]
    elif isinstance(given, Iterable):
        entries = given
    else:
        entries = [given]
    found = tuple(_one(entry) for entry in entries)
    names = [each.name for each in found]
    if not found:
        raise UserError("partition.assignment.strategy is empty", "a group needs an assignor", _hint())
    if len(set(names)) < len(names):
        raise UserError(f"partition.assignment.strategy names an assignor twice: {', '.join(names)}", "", _hint())
    return found


def is_cooperative(assignors: Iterable[Assignor]) -> bool:
    """Members may keep what they own while they join only if whichever assignor is chosen knows of that."""
    return all(each.cooperative for each in assignors)


def _one(entry: object) -> Assignor:
    if isinstance(entry, str):
        if entry not in _BY_NAME:
            raise UserError(f"There is no assignor {entry!r}", "", _hint())
        return _BY_NAME[entry]
    made: Any = entry() if isinstance(entry, type) else entry
    missing = [name for name in _MEMBERS if not hasattr(made, name)]
    if missing:
        raise UserError(
            f"{entry!r} is not an assignor", f"it has no {', '.join(missing)}", "docs/CLIENT.md says what one needs"
        )
    return cast(Assignor, made)


def _hint() -> str:
    return f"Built in are {', '.join(each.name for each in BUILT_IN)}"

"""One change between two JSON Schemas, and lists of them. Values only."""

from typing import NamedTuple

from headwater.schemas.model import Budget


class Change(NamedTuple):
    kind: str
    path: str  # from the schemas compared: /properties/a


def below(path: str, found: list[Change], budget: Budget) -> list[Change]:
    """The changes of two schemas that stand at `path` in two others. Each is a new text, so that long ones cost
    more.
    """
    budget.spend(sum(1 + (len(path) + len(change.path)) // 100 for change in found))
    return [Change(change.kind, path + change.path) for change in found]

"""Whether an object's class is Headwater's own or a user's, whose results are looked at before they are believed."""

from typing import Final

_OURS: Final = "headwater."


def is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith(_OURS)

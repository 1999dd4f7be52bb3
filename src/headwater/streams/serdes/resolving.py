"""How a serde is named: an object, a word ("json"), or a type (`str`, a dataclass, a pydantic or msgspec model)."""

from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.serdes import stock
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.typed import typed

_PARTS: Final = ("name", "serialize", "deserialize")
SerdeLike = Serde | str | type


def resolve(given: Any) -> Serde:
    """The serde that is meant by an object, a name or a type."""
    if isinstance(given, str):
        found = stock.BY_NAME.get(given)
        if found is None:
            raise UserError(
                f"There is no serde {given!r}",
                f"the names are {', '.join(sorted(stock.BY_NAME))}",
                "or give a type or a Serde",
            )
        return found
    if isinstance(given, type):
        plain = stock.BY_TYPE.get(given)
        if plain is not None:
            return plain
        return typed(given)
    if all(hasattr(given, each) for each in _PARTS):  # as isinstance(given, Serde), a hundred times as fast
        found_as_object: Serde = given
        return found_as_object
    raise UserError(f"{given!r} is no serde", "it needs name, serialize(value) and deserialize(data)")


def resolve_optional(given: Any) -> Serde | None:
    return None if given is None else resolve(given)

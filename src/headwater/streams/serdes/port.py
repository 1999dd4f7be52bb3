"""What a serde is, and how one is named: an object, a word ("json"), or a type (`str`, a dataclass, a pydantic or
msgspec model).

None is always None on both sides: a missing key, a tombstone. It never reaches a serde.
"""

from typing import Any, Final, Protocol, runtime_checkable

from headwater.base.errors import UserError


@runtime_checkable
class Serde(Protocol):
    """Without state, so that one may be used anywhere."""

    @property
    def name(self) -> str: ...

    def serialize(self, value: Any) -> bytes: ...

    def deserialize(self, data: bytes) -> Any: ...


class SerdeError(Exception):
    """Bytes that are not what a serde reads, or an object that it cannot write."""


_PARTS: Final = ("name", "serialize", "deserialize")
SerdeLike = Serde | str | type


def resolve(given: Any) -> Serde:
    """The serde that is meant by an object, a name or a type."""
    from headwater.streams.serdes import stock

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
        from headwater.streams.serdes.typed import typed

        return typed(given)
    if all(hasattr(given, each) for each in _PARTS):  # as isinstance(given, Serde), a hundred times as fast
        found_as_object: Serde = given
        return found_as_object
    raise UserError(f"{given!r} is no serde", "it needs name, serialize(value) and deserialize(data)")


def resolve_optional(given: Any) -> Serde | None:
    return None if given is None else resolve(given)

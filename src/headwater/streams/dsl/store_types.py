"""Where the rows of stores lie, by name: of one store (`store_type=`), or of all (`default.dsl.store`)."""

from collections.abc import Mapping
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.stores.spec import StoreType

DEFAULT_STORE: Final = "default.dsl.store"


def store_type(given: str | None) -> StoreType | None:
    """None: as of the application. Raises UserError for a name that there is not."""
    if given is None:
        return None
    try:
        return StoreType(given)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in StoreType)
        raise UserError(f"There is no type of stores {given!r}", "", f"These are there: {known}") from None


def default_store_type(config: Mapping[str, Any]) -> StoreType:
    """Of an application, by its settings."""
    given = config.get(DEFAULT_STORE)
    return (store_type(str(given)) if given is not None else None) or StoreType.LMDB

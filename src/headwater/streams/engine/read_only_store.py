"""A global store as all processors see it but those of global stores: to be read.

Every task has the same one, in memory; what one of them put would be there for some and gone at the next start.
"""

from typing import Any, Final

from headwater.base.errors import UserError

_WRITES: Final = frozenset(("put", "put_all", "put_if_absent", "delete", "remove"))


class ReadOnlyStore:
    def __init__(self, name: str, store: Any) -> None:
        self._name = name
        self._store = store

    def __getattr__(self, method: str) -> Any:
        if method in _WRITES:
            raise UserError(
                f"{self._name} is a global store and cannot be changed here",
                f"{method} was called by a processor that reads it",
                "Write to its topic",
            )
        found = getattr(self._store, method)
        if callable(found):
            setattr(self, method, found)  # the next time it is found at once
        return found

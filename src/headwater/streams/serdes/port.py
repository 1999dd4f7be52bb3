"""What a serde is.

None is always None on both sides: a missing key, a tombstone. It never reaches a serde.
"""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Serde(Protocol):
    """Without state, so that one may be used anywhere."""

    @property
    def name(self) -> str: ...

    def serialize(self, value: Any) -> bytes: ...

    def deserialize(self, data: bytes) -> Any: ...


class SerdeError(Exception):
    """Bytes that are not what a serde reads, or an object that it cannot write."""

"""What a serde is.

None is always None on both sides: a missing key, a tombstone. It never reaches a serde.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from headwater.streams.model.origin import is_ours


@runtime_checkable
class Serde(Protocol):
    """Without state, so that one may be used anywhere."""

    @property
    def name(self) -> str: ...

    def serialize(self, value: Any) -> bytes: ...

    def deserialize(self, data: bytes) -> Any: ...


class SerdeError(Exception):
    """Bytes that are not what a serde reads, or an object that it cannot write."""


def writer(serde: Serde) -> Callable[[Any], Any]:
    """Its `serialize`; what one of a user gives is looked at. Anything but bytes (text, by `json.dumps`) would come
    as far as a commit, and end the run there without a word of where it came from.
    """
    write = serde.serialize
    if is_ours(serde):
        return write

    def checked(value: Any) -> Any:
        written = write(value)
        if written.__class__ is not bytes and not isinstance(written, bytes | bytearray | memoryview | None):
            raise SerdeError(f"the serde {serde.name} gave {type(written).__name__}, and bytes are needed")
        return written

    return checked

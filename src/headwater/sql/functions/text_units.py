"""Places in texts as Java counts them: by units of UTF-16. A character beyond U+FFFF (most emoji) is two of them."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

_HALVES: Final = re.compile("[\ud800-\udfff]")
_Call = TypeVar("_Call", bound=Callable[..., Any])


def length_in_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def counts_units(call: _Call) -> _Call:
    """A function of texts that is written for characters, for units. Half a character in its result is a `?`."""

    @functools.wraps(call)
    def counted(*given: Any, **more: Any) -> Any:
        for each in given:
            if isinstance(each, str) and length_in_units(each) != len(each):
                break
        else:
            return call(*given, **more)
        found = call(*[_units(each) if isinstance(each, str) else each for each in given], **more)
        return _text(found) if isinstance(found, str) else found

    return counted  # type: ignore[return-value]


def _units(text: str) -> str:
    """Each unit as a character of its own."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data)))


def _text(units: str) -> str:
    return _HALVES.sub("?", units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))

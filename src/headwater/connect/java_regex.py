"""Regular expressions of configs: Java's syntax, run by RE2, whose time is linear in the text whatever the pattern is.

What RE2 has not (look-around, back references) is refused by name rather than run by an engine that could be made to
run for ever.
"""

import re
from typing import Any, Final

import re2

from headwater.connect.errors import ConfigError, DataError

_REFERENCE: Final = re.compile(r"\\(.)|\$(?:\{(\w+)\}|(\d))|(\$|\\)", re.DOTALL)


def compile_java(pattern: str) -> Any:
    try:
        options = re2.Options()
        options.log_errors = False
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ConfigError(f"{why} near {pattern!r} (look-around and back references are not supported)") from None


def expand(match: Any, replacement: str) -> str:
    """A replacement in Java's notation: `$1`, `${name}`, and a backslash before what is meant as it stands."""

    def one(found: re.Match[str]) -> str:
        escaped, name, digit, stray = found.groups()
        if stray is not None:
            raise DataError(f"Illegal group reference in {replacement!r}")
        if escaped is not None:
            return escaped
        try:
            return match.group(name if name is not None else int(digit)) or ""
        except (IndexError, KeyError, re2.error):
            raise DataError(f"No group {name or digit}") from None

    return _REFERENCE.sub(one, replacement)

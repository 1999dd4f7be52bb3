"""JSON from a peer, within limits: Python's own parser would go as deep as the text does. No state."""

import json
import math
import re
from typing import Any, Final, NoReturn

from headwater.schemas.model import DEPTH_MAX, TEXT_LENGTH_MAX, SchemaError

# Nothing is tried twice, and text without an end is taken to the end: this expression is linear, whatever it is given.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)

_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89a-fA-F]")


def limit_text(text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX:
        raise SchemaError(f"the schema has {len(text):,} characters, {TEXT_LENGTH_MAX:,} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"the schema has half of a character (a lone surrogate) at {error.start}") from None


def limit_depth(text: str) -> None:
    """Count brackets, not those in strings."""
    if text.count("{") + text.count("[") <= DEPTH_MAX:
        return
    depth = 0
    for token in _BRACKETS.finditer(text):
        character = token[0][0]
        if character in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise SchemaError(
                    f"the schema is nested more than {DEPTH_MAX} levels deep, at character {token.start()}"
                )
        elif character in "]}":
            depth -= 1


def _refuse_constant(name: str) -> NoReturn:
    raise SchemaError(f"the schema is not valid JSON: {name} is not a number of JSON")


def _finite(digits: str) -> float:
    """What is beyond every float would become Infinity, which nobody could read again."""
    value = float(digits)
    if not math.isfinite(value):
        raise SchemaError(f"the schema has a number that is too large: {digits[:50]}")
    return value


def parse_json(text: str) -> Any:
    """Parse JSON, or say where it fails."""
    limit_text(text)
    limit_depth(text)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if _HALF_CHARACTER.search(text):
            compact_json(
                value
            ).encode()  # two halves that belong together are one character; one alone cannot be written
        return value
    except SchemaError:
        raise
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema is not valid JSON: {error}") from error


def compact_json(value: Any) -> str:
    """Raises SchemaError for a float that JSON has no text for."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise SchemaError(f"NaN and the infinities are no numbers of JSON: {error}") from error

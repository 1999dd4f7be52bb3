"""Regular expressions by RE2: their time grows with the text, whatever the pattern. Groups and classes are Java's;
look-around and back references do not exist here, and a pattern that has them is told.
"""

from __future__ import annotations

import functools
from typing import Any

import re2

from headwater.sql.values import EvaluationError


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 16 * 1024 * 1024
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        told = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
        raise EvaluationError(f"Invalid regular expression pattern: {text}: {told}") from None

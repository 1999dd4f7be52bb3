"""What one expression may cost for one row: so that a lambda in a lambda, or text that grows, ends with an error and
not with the server.

A step is a call of a lambda, or a hundred characters that a function makes. Whoever evaluates begins a new budget for
each row; each thread has its own.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headwater.sql.values import EvaluationError

STEPS_MAX: Final = 5_000_000


class LeftError(Exception):
    """Nobody waits any more for what is worked out."""


class _Left(threading.local):
    steps = STEPS_MAX
    end: threading.Event | None = None


_left = _Left()


@contextmanager
def until(end: threading.Event) -> Iterator[None]:
    """What this thread works out within raises LeftError where it begins a row after `end`."""
    _left.end = end
    try:
        yield
    finally:
        _left.end = None


def begin() -> None:
    _left.steps = STEPS_MAX
    if _left.end is not None and _left.end.is_set():
        raise LeftError


def left() -> int:
    """What the row has left that is being worked out, for `go_on`: another row may come in between."""
    return _left.steps


def go_on(steps: int) -> None:
    _left.steps = steps


def spend(steps: int = 1) -> None:
    _left.steps -= steps
    if _left.steps < 0:
        _left.steps = 0
        raise EvaluationError(f"an expression may take at most {STEPS_MAX} steps for one row")


def spend_text(length: int) -> None:
    spend(length // 100)

"""What a function that takes whole columns is, to the expressions that call it."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a call for one row: what the row alone would have raised."""

    error: Exception


WholeCall = Callable[[Sequence[Arguments]], Sequence[Any]]
"""A function by column: for each row its value, or `Failed`. It raises nothing."""

Waiting = Generator[tuple[int, Arguments], Any, Any]
"""A row at a call that is made for many rows: it hands out the place of the call in the text, and its arguments."""

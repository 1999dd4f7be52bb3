"""Rows that are worked out in a thread for somebody who waits for them. What he leaves ends with the row that it is at:
what a row may take has a bound (`budget`), how many there are has none that helps.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

from headwater.sql import budget

P = ParamSpec("P")
T = TypeVar("T")


async def while_asked(threads: Executor | None, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """`threads`: None: those that the loop has for everybody."""
    is_left = threading.Event()

    def run() -> T:
        with budget.until(is_left):
            return work(*given, **named)

    try:
        return await asyncio.get_running_loop().run_in_executor(threads, run)
    finally:
        is_left.set()

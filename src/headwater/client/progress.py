"""A progress bar for reads that take long: on stderr, or in a notebook; silent where nobody looks on.

It appears after a second, with what is installed already: tqdm (which knows notebooks) or a line of our own.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

_AFTER: Final = 1.0
_EVERY: Final = 0.1
_WIDTH: Final = 30


class Progress:
    """`wanted`: True always, False never, None if it takes long and stderr is a terminal, or a notebook is there."""

    def __init__(
        self,
        total: int,
        label: str,
        wanted: bool | None = None,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = max(total, 1)
        self._label = label
        self._stream = stream or sys.stderr
        self._clock = clock
        self._on = (_in_notebook() or self._stream.isatty()) if wanted is None else wanted
        self._began_at = clock()
        self._drawn_at = self._began_at - _EVERY + (_AFTER if wanted is None else 0)
        self._bar: Any = None
        self._drew = False

    def at(self, done: int) -> None:
        if not self._on or self._clock() - self._drawn_at < _EVERY:
            return
        self._drawn_at = self._clock()
        if not self._drew and _in_notebook():
            self._bar = _tqdm(self._total, self._label)
        self._drew = True
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        else:
            self._draw(min(done, self._total))

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._drew:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._on = False

    def _draw(self, done: int) -> None:
        share = done / self._total
        rate = done / max(self._clock() - self._began_at, 1e-9)
        bar = "#" * round(share * _WIDTH)
        self._stream.write(
            f"\r{self._label} [{bar:<{_WIDTH}}] {share:4.0%} {done:,} of {self._total:,} ({rate:,.0f}/s)\x1b[K"
        )
        self._stream.flush()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    found = shell.get_ipython()
    return found is not None and type(found).__name__ == "ZMQInteractiveShell"


def _tqdm(total: int, label: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc=label, unit=" offsets")

"""Columns of cells in C (`streams/native/cells`): packed, listed, read and looked up. Without the compiled module, and
with HEADWATER_PURE, whoever uses it does the same in Python.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headwater.base.compiled import is_pure_wanted

Cells = list[bytes | None]
Column = tuple[bytes, bytes]  # where each cell begins (int64, one more than cells), and the bytes of all


class NativeCells(Protocol):
    """The compiled module. What is no list of the right things raises TypeError."""

    def pack_cells(self, cells: list[bytes], /) -> Column: ...

    def pack_texts(self, texts: list[str], /) -> Column: ...

    def read_texts(self, cells: Cells, /) -> list[str | None]: ...

    def check_texts(self, cells: Cells, /) -> None: ...

    def has_none(self, cells: list[Any], /) -> bool:
        """By identity."""

    def list_cells(self, validity: Any, offsets: Any, data: Any, first: int, count: int, /) -> Cells: ...

    def find_values(
        self,
        keys: Cells,
        layers: tuple[dict[bytes, bytes | None], ...],
        end: bytes | None,
        get: Callable[[bytes], bytes | None],
        texts: bool,
        /,
    ) -> list[Any]: ...


def native_cells() -> NativeCells | None:
    if is_pure_wanted():
        return None
    try:
        from headwater.streams import _cells
    except ImportError:
        return None
    found: NativeCells = _cells
    return found

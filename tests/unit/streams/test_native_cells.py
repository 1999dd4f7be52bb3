"""Columns of cells in C: what they give is what Python gives, and what they cannot take they refuse. Also run under the
sanitizers.
"""

import random
from array import array
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest

from headwater.base.compiled import is_pure_wanted
from headwater.streams.serdes.native_cells import Cells, Column, NativeCells, native_cells
from headwater.streams.slot.fetched import _cells


@pytest.fixture(name="native")
def _native() -> NativeCells:
    if is_pure_wanted():
        pytest.skip("HEADWATER_PURE asks for no compiled modules")
    found = native_cells()
    assert found is not None, "headwater.streams._cells is not built: make venv"
    return found


def _pack(cells: list[bytes]) -> Column:
    return array("q", accumulate(map(len, cells), initial=0)).tobytes(), b"".join(cells)


def _texts(dice: random.Random, count: int) -> list[str]:
    letters = "ab\x00\x7f\x80é€😀"
    return ["".join(dice.choices(letters[: dice.choice((2, 4, 8))], k=dice.choice((0, 1, 7, 8, 9, 40)))) for _ in range(count)]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_texts_and_cells_are_packed_and_read_as_in_python(native: NativeCells, count: int) -> None:
    texts = _texts(random.Random(count), count)
    cells: Any = [text.encode() for text in texts]
    assert native.pack_texts(texts) == native.pack_cells(cells) == _pack(cells)
    assert native.read_texts(cells) == texts
    native.check_texts(cells)
    assert native.read_texts([None, *cells]) == [None, *texts]
    native.check_texts([None, *cells])
    assert native.has_none([*cells, None])
    assert not native.has_none(cells)


@pytest.mark.parametrize("bad", [b"\xff", b"ascii, and then \xc3", b"12345678\xed\xa0\x80", b"\xc0\x80"])
def test_what_is_no_text_is_refused_where_it_is_read_and_where_it_is_checked(native: NativeCells, bad: bytes) -> None:
    for take in (native.read_texts, native.check_texts):
        with pytest.raises(UnicodeDecodeError):
            take([b"good", bad])


def test_other_objects_are_refused(native: NativeCells) -> None:
    class Text(str):
        """Whose own methods nobody would call."""

    for wrong in ([1], ["a", None], ["a", b"b"], ("a",), [Text("a")]):
        with pytest.raises(TypeError):
            native.pack_texts(wrong)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        native.pack_texts(["\ud800"])
    takes: list[Any] = [native.pack_cells, native.read_texts, native.check_texts]
    for wrong in ([1], ["a"], (b"a",), [bytearray(b"b")]):
        for take in takes:
            with pytest.raises(TypeError):
                take(wrong)
    with pytest.raises(TypeError):
        native.has_none((None,))  # type: ignore[arg-type]


def test_arrow_columns_become_lists_slices_and_nulls_included(native: NativeCells) -> None:
    dice = random.Random(3)
    cells: Cells = [None if dice.random() < 0.3 else dice.randbytes(dice.choice((0, 1, 30))) for _ in range(200)]
    whole = [cell for cell in cells if cell is not None]
    for given, column in ((cells, pa.array(cells, pa.binary())), (whole, pa.array(whole, pa.binary()))):
        for first in (0, 1, 7, 8, 9, 63, 100):
            part = column.slice(first, 41)
            assert native.list_cells(*part.buffers(), part.offset, len(part)) == given[first : first + 41]
            assert _cells(part) == given[first : first + 41]
    assert _cells(pa.array(cells, pa.large_binary())) == cells
    assert _cells(pa.array([], pa.binary())) == []
    assert _cells(pa.nulls(3, pa.binary())) == [None] * 3


def test_columns_that_are_shorter_than_they_say_are_refused(native: NativeCells) -> None:
    offsets, backward = array("i", [0, 2, 4]).tobytes(), array("i", [0, 3, 2]).tobytes()
    assert native.list_cells(None, offsets, b"abcd", 0, 2) == [b"ab", b"cd"]
    for wrong in (
        (None, offsets, b"abcd", 0, 3),
        (None, offsets, b"abcd", 1, 2),
        (None, offsets, b"abcd", -1, 2),
        (None, offsets, b"abcd", 0, -1),
        (None, offsets, b"abcd", 1 << 62, 1),
        (None, offsets, b"abc", 0, 2),
        (None, offsets, None, 0, 2),
        (None, backward, b"abcd", 0, 2),
        (None, array("i", [-1, 1]).tobytes(), b"abcd", 0, 1),
        (b"", offsets, b"abcd", 0, 2),
    ):
        with pytest.raises(ValueError, match="column"):
            native.list_cells(*wrong)


def test_values_are_found_in_the_first_layer_that_has_them_then_in_the_store(native: NativeCells) -> None:
    asked: list[bytes] = []

    def get(key: bytes) -> bytes | None:
        asked.append(key)
        return bytes(8) + b"stored" if key == b"d" else None

    layers: Any = ({b"a": bytes(8) + b"new", b"b": None}, {b"a": bytes(8) + b"old", b"b": bytes(8) + b"old", b"c": bytes(8)})  # fmt: skip
    keys: Cells = [b"a", b"b", None, b"c", b"d", b"e", b"z", b"a"]
    found = [b"new", None, None, b"", b"stored", None, None, b"new"]
    assert native.find_values(keys, layers, b"f", get, False) == found
    assert asked == [b"d", b"e"], "no row is at the end of the store or above it"
    texts = ["new", None, None, "", "stored", None, None, "new"]
    assert native.find_values(keys, layers, None, get, True) == texts


def test_rows_that_are_none_and_lookups_that_fail_are_told(native: NativeCells) -> None:
    def broken(key: bytes) -> bytes | None:
        raise OSError(key)

    def shrinking(key: bytes) -> bytes | None:
        keys.clear()
        return None

    with pytest.raises(OSError, match="a"):
        native.find_values([b"a"], (), None, broken, False)
    with pytest.raises(ValueError, match="timestamp"):
        native.find_values([b"a"], ({b"a": b"short"},), None, broken, False)
    with pytest.raises(UnicodeDecodeError):
        native.find_values([b"a"], ({b"a": bytes(8) + b"\xff"},), None, broken, True)
    with pytest.raises(TypeError):
        native.find_values([b"a"], ([],), None, broken, False)  # type: ignore[arg-type]
    keys: Cells = [b"a", b"b"]
    with pytest.raises(RuntimeError):
        native.find_values(keys, (), None, shrinking, False)

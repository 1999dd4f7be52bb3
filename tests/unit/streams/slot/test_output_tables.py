"""Columns of a commit as tables for the producer, and the same as records."""

import random
from array import array
from itertools import accumulate

import pytest

from headwater.base.compiled import is_pure_wanted
from headwater.streams.engine.columns import OutputColumns, PackedColumns, PackedRows
from headwater.streams.model.record import OutputRecord
from headwater.streams.serdes.native_cells import Column, native_cells
from headwater.streams.slot.output_tables import as_table
from headwater.streams.slot.pending_outputs import PendingOutputs


def _pack(cells: list[bytes]) -> Column:
    """What `pack_cells` gives, in Python."""
    return array("q", accumulate(map(len, cells), initial=0)).tobytes(), b"".join(cells)


def _packed(rows: list[OutputRecord], placed: bool) -> PackedRows:
    offsets, data = _pack([row.key or b"" for row in rows])
    values, times = b"".join(row.value or b"" for row in rows), array("q", [row.timestamp for row in rows]).tobytes()
    places = array("i", [row.partition or 0 for row in rows]).tobytes() if placed else None
    return PackedRows(len(rows), offsets, data, values, times, places)


def _rows(dice: random.Random, count: int, partition: int | None) -> list[OutputRecord]:
    return [
        OutputRecord("t", dice.randrange(4) if partition is None else partition, dice.randbytes(dice.randrange(9)), dice.randbytes(8), dice.randrange(1 << 40))
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("partition", [None, 3], ids=["each its own", "one for all"])
def test_packed_columns_are_the_same_records_and_the_same_table(partition: int | None) -> None:
    dice = random.Random(5)
    parts = [_rows(dice, count, partition) for count in (3, 1, 40)]
    packed = PackedColumns("t", partition)
    for part in parts:
        packed.add(_packed(part, placed=partition is None))
    rows = [row for part in parts for row in part]
    assert packed.records() == rows
    assert len(packed) == len(rows)
    assert packed.data_bytes == sum(len(row.key or b"") + 8 for row in rows)
    plain = OutputColumns("t", partition)
    plain.keys, plain.values = [row.key for row in rows], [row.value for row in rows]
    plain.timestamps = [row.timestamp for row in rows]
    plain.partitions = [row.partition or 0 for row in rows] if partition is None else None
    assert as_table(packed).to_pylist() == as_table(plain).to_pylist()
    assert plain.records() == rows


def test_packed_columns_without_rows_are_not_sent() -> None:
    empty = PackedColumns("t", 0)
    empty.add(PackedRows(0, bytes(8), b"", b"", b""))
    waiting = PendingOutputs()
    waiting.add([], [empty])
    assert not waiting


def test_cells_are_packed_as_in_python() -> None:
    if is_pure_wanted():
        pytest.skip("HEADWATER_PURE asks for no compiled modules")
    native = native_cells()
    assert native is not None, "headwater.streams._cells is not built: make venv"
    dice = random.Random(6)
    for count in (0, 1, 2, 300):
        cells = [dice.randbytes(dice.choice((0, 1, 7, 300))) for _ in range(count)]
        assert native.pack_cells(cells) == _pack(cells)
    for wrong in ([b"a", None], [b"a", "b"], (b"a",), [b"a", bytearray(b"b")]):
        with pytest.raises(TypeError):
            native.pack_cells(wrong)  # type: ignore[arg-type]

"""What runs of a lane give to one topic: as columns that compiled code has packed where it can, else as lists.

`prepare` does what may fail, while a run can still be undone; `give` cannot fail. Small runs stay lists, because each
pack is a table of its own for the producer. Owned by one lane; the columns are the task's.
"""

from array import array
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any, Final

from headwater.streams.engine.columns import PackedRows
from headwater.streams.serdes.native_cells import Cells, Column, NativeCells, native_cells
from headwater.streams.serdes.port import Serde, writer
from headwater.streams.serdes.stock import TEXT

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task

_FEW: Final = 64

Prepared = tuple[Cells, PackedRows | None]


class TopicResults:
    """With `placed` each record names its partition. `serde`, where values are objects: all of them become bytes at the
    end of a run.
    """

    def __init__(self, task: "Task", topic: str, partition: int | None, placed: bool = False) -> None:
        self._task, self._topic, self._partition, self._placed = task, topic, partition, placed
        self._native = native_cells()
        self.serde: Serde | None = None

    def prepare(self, keys: Cells, values: list[Any], times: list[int], places: list[int] | None = None) -> Prepared:
        """Values as bytes, or all of it packed; then the values mean nothing any more."""
        native = self._native
        check_lengths(keys, values, times, times if places is None else places)
        if native is None or not self._is_packed(len(keys)) or native.has_none(keys):
            return self._encoded(values), None
        column = self._packed(native, values) if self.serde is TEXT else None
        if column is None:
            values = self._encoded(values)
            if native.has_none(values):
                return values, None
        try:
            value_offsets, data = native.pack_cells(values) if column is None else column
            key_offsets, key_data = native.pack_cells(keys)  # type: ignore[arg-type]
        except TypeError:  # a serde gives a bytearray, or a kind of bytes of its own
            return self._encoded(values) if column is not None else values, None
        placed = None if places is None else array("i", places).tobytes()
        stamps = array("q", times).tobytes()
        return values, PackedRows(len(keys), key_offsets, key_data, data, stamps, placed, value_offsets)

    def _is_packed(self, count: int) -> bool:
        return count >= _FEW or self._task.outputs.has_packed(self._topic, self._partition)

    def _packed(self, native: NativeCells, values: list[Any]) -> Column | None:
        """None: not all are texts. There are deletions among them, or encoding tells what is wrong."""
        try:
            return native.pack_texts(values)
        except TypeError:
            return None

    def _encoded(self, values: list[Any]) -> list[Any]:
        if self.serde is None:
            return values
        encoded = encode_all(self.serde)(values)
        check_lengths(values, encoded)
        return encoded

    def give(self, keys: Cells, prepared: Prepared, times: list[int], places: list[int] | None = None) -> None:
        values, packed = prepared
        if packed is not None:
            self._task.outputs.packed_of(self._topic, self._partition).add(packed)
            return
        columns = self._task.outputs.columns_of(self._topic, self._partition, self._placed)
        columns.keys += keys
        columns.values += values
        columns.timestamps += times
        if places is not None and columns.partitions is not None:
            columns.partitions += places


def check_lengths(*columns: Sized) -> None:
    """Whatever made them has left nothing out: neither a function of the user nor a serde of his own."""
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"columns of one run have {', '.join(str(len(column)) for column in columns)} cells")


def encode_all(serde: Serde) -> Callable[[list[Any]], list[bytes | None]]:
    """A whole column; a serde may have a quicker way than one by one."""
    quick: Callable[[list[Any]], list[bytes | None]] | None = getattr(serde, "serialize_all", None)
    write = writer(serde)

    def one_by_one(values: list[Any]) -> list[bytes | None]:
        return [None if value is None else write(value) for value in values]

    return quick or one_by_one

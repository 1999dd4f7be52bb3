"""A digest of the rows that a task wrote, however they were cut into batches: equal rows in equal order, equal digest.

Each column is a running checksum of its lengths and one of its bytes; null has a length of its own. Owns its checksums.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.checksum import crc32c
from headwater.spark.exactly_once import Digest

if TYPE_CHECKING:
    import pyarrow


class RunningDigest:
    def __init__(self) -> None:
        self.rows = 0
        self._checksums: dict[str, int] = {}

    def add(self, batch: "pyarrow.RecordBatch") -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._column(name, column)

    def result(self) -> Digest:
        text = ",".join(f"{name}={value}" for name, value in sorted(self._checksums.items()))
        return Digest(self.rows, crc32c(text.encode()))

    def _column(self, name: str, column: Any) -> None:
        import pyarrow
        import pyarrow.compute as compute

        kinds = pyarrow.types
        text = (kinds.is_binary, kinds.is_string, kinds.is_large_binary, kinds.is_large_string)
        if kinds.is_list(column.type) or kinds.is_large_list(column.type):
            self._take(f"{name}#", compute.fill_null(compute.list_value_length(column), -1).cast(pyarrow.int64()))
            self._column(f"{name}[]", column.flatten())
        elif kinds.is_struct(column.type):
            for index, field in enumerate(column.type):
                self._column(f"{name}.{field.name}", column.field(index))
        elif any(is_kind(column.type) for is_kind in text):
            self._take(f"{name}#", compute.fill_null(compute.binary_length(column), -1).cast(pyarrow.int64()))
            present = column.drop_null().cast(pyarrow.binary())
            _, offsets, data = present.buffers()
            if len(present) and data is not None:
                ends = memoryview(offsets).cast("i")
                self._bytes(name, memoryview(data)[ends[present.offset] : ends[present.offset + len(present)]])
        else:
            self._take(f"{name}?", compute.is_valid(column).cast(pyarrow.int64()))
            self._take(name, column.drop_null().cast(pyarrow.int64()))

    def _take(self, name: str, numbers: Any) -> None:
        if len(numbers):
            data = memoryview(numbers.buffers()[1])
            self._bytes(name, data[numbers.offset * 8 : (numbers.offset + len(numbers)) * 8])

    def _bytes(self, name: str, data: memoryview) -> None:
        self._checksums[name] = crc32c(data, self._checksums.get(name, 0))

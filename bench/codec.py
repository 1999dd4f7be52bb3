"""The codec of records alone, without a broker: records of 100 bytes from batches to objects and columns, and back.

    python -m bench.codec [--quick]

`KINDS` and `measure` are rows for `python -m bench`. The limit of each is the twin in plain Python, so that the ratio
says what compiling gains.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from bench.client import value_of
from bench.report import MORE, Figure, Kind
from headwater.records import codec, pure
from headwater.records.batch import BatchHeader, read_header
from headwater.records.builder import finish_section
from headwater.records.columns import NO_STOP, BinaryColumn, layout_of
from headwater.records.record import Record

VALUE_BYTES = 100
BATCH_RECORDS = 9_000  # just under 1 MiB
COMPILED_BATCHES, PURE_BATCHES = 40, 1
BATCH_BYTES = 1 << 20

_LIMIT = "the same in plain Python"
KINDS = [
    Kind("codec-read", "records to Python objects, 100 B", "M records/s", MORE, _LIMIT, target=2),
    Kind("codec-columns", "records to columns, 100 B", "M records/s", MORE, _LIMIT, target=10),
    Kind("codec-encode", "columns to records by key, 100 B", "M records/s", MORE, _LIMIT, target=8),
    Kind("codec-append", "records appended one by one, 100 B", "M records/s", MORE, _LIMIT, target=2.5),
]


def measure(scale: float = 1.0) -> dict[str, Figure]:
    """Millions of records a second by row, of one round."""
    header, payload = _batch()
    batches = max(1, int(COMPILED_BATCHES * scale))
    found = {}
    for kind, work in zip(KINDS, (_read, _columns, _encode, _append), strict=True):
        compiled = _rate(lambda work=work: work(codec, header, payload, batches), batches)  # type: ignore[misc]
        twin = _rate(lambda work=work: work(pure, header, payload, PURE_BATCHES), PURE_BATCHES)  # type: ignore[misc]
        found[kind.row] = Figure(compiled, twin, "" if codec.COMPILED else "not compiled")
    return found


def _rate(work: Callable[[], object], batches: int) -> float:
    began = time.perf_counter()
    work()
    return batches * BATCH_RECORDS / (time.perf_counter() - began) / 1e6


def _batch() -> tuple[BatchHeader, bytes]:
    appender = codec.BatchAppender(BATCH_BYTES)
    value = value_of(VALUE_BYTES)
    for index in range(BATCH_RECORDS):
        appender.append(1_700_000_000_000 + index // 10, None, value)
    batch = bytes(finish_section(appender.section()))
    assert len(batch) < BATCH_BYTES
    return read_header(batch), batch[61:]


def _read(module: Any, header: BatchHeader, payload: bytes, batches: int) -> None:
    layout = layout_of(Record, timestamp="timestamp")
    template = Record(0, 0, None, None)
    for _ in range(batches):
        module.build_records(payload, header, 0, NO_STOP, layout, template)


def _columns(module: Any, header: BatchHeader, payload: bytes, batches: int) -> None:
    builder = module.ColumnBuilder()
    for at in range(batches):
        builder.append_batch(payload, header, b"orders", 0, 0, NO_STOP)
        if at % 8 == 7:  # as many as a fetch brings
            builder.finish()
    builder.finish()


def _encode(module: Any, header: BatchHeader, payload: bytes, batches: int) -> None:
    builder = codec.ColumnBuilder()
    builder.append_batch(payload, header, b"", 0, 0, NO_STOP)
    columns = builder.finish()
    values = BinaryColumn(None, columns.value_offsets, columns.value_data, 4, 0)
    rows = columns.row_count
    for _ in range(batches):
        partitions = module.partition_keys(rows, values, 4)
        module.encode_columns(rows, None, values, None, 1_700_000_000_000, partitions, 4, BATCH_BYTES)


def _append(module: Any, _header: BatchHeader, _payload: bytes, batches: int) -> None:
    value = value_of(VALUE_BYTES)
    for _ in range(batches):
        appender = module.BatchAppender(BATCH_BYTES)
        append = appender.append
        for _ in range(BATCH_RECORDS):
            append(1_700_000_000_000, None, value)
        appender.section()


def main() -> None:
    scale = 0.2 if "--quick" in sys.argv else 1.0
    rounds = [measure(scale) for _ in range(3)]
    for kind in KINDS:
        best = max((each[kind.row] for each in rounds), key=lambda figure: figure.value)
        print(f"{kind.title:40} {best.value:7.2f} {kind.unit}, in plain Python {best.limit:.2f} {best.also}")


if __name__ == "__main__":
    main()

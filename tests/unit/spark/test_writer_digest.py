"""The digest of a task's rows: of what they are, not of how Spark hands them over."""

from typing import Any

import pyarrow
import pytest

from headwater.spark.exactly_once import Digest
from headwater.spark.writer.digest import RunningDigest

ROWS: dict[str, list[Any]] = {
    "key": ["k", None, ""],
    "value": [b"v", b"", None],
    "partition": [1, None, 0],
    "headers": [None, [], [{"key": "h", "value": None}, {"key": "h", "value": b"1"}]],
}


def columns(large: bool = False, **changes: list[Any]) -> pyarrow.RecordBatch:
    text, data = (pyarrow.large_string(), pyarrow.large_binary()) if large else (pyarrow.string(), pyarrow.binary())
    header = pyarrow.struct([("key", text), ("value", data)])
    types = {"key": text, "value": data, "partition": pyarrow.int32()}
    types["headers"] = pyarrow.large_list(header) if large else pyarrow.list_(header)
    given = ROWS | changes
    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array(given[name], types[name]) for name in types], names=list(types)
    )


def digest(*batches: pyarrow.RecordBatch) -> Digest:
    running = RunningDigest()
    for batch in batches:
        running.add(batch)
    return running.result()


def test_neither_the_cut_into_batches_nor_large_types_change_it() -> None:
    whole = columns()
    assert digest(whole) == digest(whole.slice(0, 1), whole.slice(1, 0), whole.slice(1)) == digest(columns(large=True))


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["k", "", ""]},
        {"key": ["k", None, "x"]},
        {"value": [b"v", None, b""]},
        {"value": [b"", b"v", None]},
        {"partition": [1, 0, None]},
        {"headers": [[], [], ROWS["headers"][2]]},
        {"headers": [None, ROWS["headers"][2], []]},
        {"headers": [None, [], [{"key": "h", "value": b""}, {"key": "h", "value": b"1"}]]},
    ],
)
def test_every_change_of_a_row_changes_it(change: dict[str, list[Any]]) -> None:
    assert digest(columns(**change)) != digest(columns())

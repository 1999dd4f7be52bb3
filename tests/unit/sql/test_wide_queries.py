"""Queries of many expressions: what it costs to compile one grows with their number, and no faster."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from headwater.sql.plan.session import Session


def _work(run: Callable[[], object]) -> int:
    """How many instructions of Python it takes: the same on every machine, however busy."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def _compiling(shape: str, width: int) -> int:
    session = Session()
    columns = ", ".join(f"c{at} INT" for at in range(width))
    session.run(f"CREATE STREAM s (k INT KEY, {columns}) WITH (kafka_topic='s', value_format='JSON');")
    each, every = shape.split(" | ")
    text = every.format(", ".join(each.format(f"c{at}") for at in range(width)))
    (statement,) = session.parse(f"CREATE {text};")
    return _work(lambda: session.execute(statement))


@pytest.mark.parametrize(
    "shape",
    [
        "{} | TABLE t WITH (key_format='JSON') AS SELECT {0}, COUNT(*) AS n FROM s GROUP BY {0}",
        "{} + 1 | TABLE t WITH (key_format='JSON') AS SELECT {0}, COUNT(*) AS n FROM s GROUP BY {0} HAVING COUNT(*) > 1",
        "SUM({}) | TABLE t AS SELECT k, {0} FROM s GROUP BY k",
        "{} + 1 | STREAM t WITH (key_format='JSON') AS SELECT {0}, k FROM s PARTITION BY {0}",
        "EXPLODE(ARRAY[{}]) | STREAM t AS SELECT k, {0} FROM s",
    ],
    ids=["columns", "expressions", "aggregates", "partitions", "table functions"],
)
def test_twice_as_many_expressions_are_twice_the_work(shape: str) -> None:
    """Each looked at all columns of the row and of the key, and the whole list of SELECT was read again for each."""
    _compiling(shape, 2)  # what is imported when it is first needed
    few, many = _compiling(shape, 8), _compiling(shape, 24)
    assert many < 3.1 * few

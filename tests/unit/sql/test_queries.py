"""Whole statements, run without a broker: cases/*.txt say what goes in and what must come out."""

import time
from typing import Any

import pytest

from headwater.sql.language.errors import SqlError
from headwater.sql.testing import run
from unit.sql.cases_support import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_statements_give_what_ksqldb_documents(case: Case) -> None:
    if case.refusal is not None:
        with pytest.raises(SqlError) as caught:
            run(case.sql, case.inputs, topics=case.topics)
        assert case.refusal in str(caught.value)
        return
    found: dict[str, list[dict[str, Any]]] = {}
    for record in run(case.sql, case.inputs, topics=case.topics):
        window = record.pop("window", None)
        if window:
            record["window"] = {"start": window["start"], "end": window["end"]}
        found.setdefault(record["topic"], []).append(record)
    wanted: dict[str, list[dict[str, Any]]] = {}
    for record in case.outputs:
        wanted.setdefault(record["topic"], []).append(record)
    assert found == wanted


def test_a_thousand_cases_take_less_than_ten_seconds() -> None:
    """Of a processor: as many of them as there are here, and so much less time."""
    runnable = [case for case in CASES if case.refusal is None]
    run(runnable[0].sql, runnable[0].inputs, topics=runnable[0].topics)  # whatever is imported late
    began = time.thread_time()
    for case in runnable:
        run(case.sql, case.inputs, topics=case.topics)
    took = time.thread_time() - began
    assert took < 10 * len(runnable) / 1000, f"{len(runnable)} cases took {took:.1f} s"


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)

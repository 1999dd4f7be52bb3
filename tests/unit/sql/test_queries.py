"""Whole statements, run without a broker: cases/*.txt say what goes in and what must come out."""

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


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)

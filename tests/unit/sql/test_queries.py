"""Whole statements, run without a broker: cases/*.txt say what goes in and what must come out."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headwater.sql.language.errors import SqlError
from headwater.sql.testing import run


class Case(NamedTuple):
    name: str
    sql: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    refusal: str | None
    topics: list[dict[str, Any]]  # with their schemas


def _record(line: str) -> dict[str, Any]:
    topic, _, rest = line.partition(" ")
    decoder = json.JSONDecoder()
    key, end = decoder.raw_decode(rest)
    rest = rest[end:].lstrip()
    value, end = decoder.raw_decode(rest)
    words = rest[end:].split()
    record = {"topic": topic, "key": key, "value": value, "timestamp": int(words[0][1:])}
    if len(words) > 1:
        record["window"] = dict(zip(("start", "end"), json.loads(words[1]), strict=True))
    return record


def _cases(path: Path) -> list[Case]:
    cases = []
    for block in path.read_text().split("\n== ")[1:]:
        name, *lines = block.splitlines()
        sql = "\n".join(line for line in lines if line[:3] not in (">> ", "<< ", "!! ", "@@ "))
        refusals = [line[3:] for line in lines if line.startswith("!! ")]
        cases.append(
            Case(
                name,
                sql,
                [_record(line[3:]) for line in lines if line.startswith(">> ")],
                [_record(line[3:]) for line in lines if line.startswith("<< ")],
                refusals[0] if refusals else None,
                [json.loads(line[3:]) for line in lines if line.startswith("@@ ")],
            )
        )
    return cases


_FOLDER = Path(__file__).parent / "cases"
CASES = [
    case
    for name in ("queries.txt", "joins.txt", "formats.txt", "functions.txt", "statements.txt")
    for case in _cases(_FOLDER / name)
]


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

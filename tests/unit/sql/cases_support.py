"""Cases of whole statements: cases/*.txt say what goes in and what must come out. Run in process by `test_queries`, and
on Spark.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple


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

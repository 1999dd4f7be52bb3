"""`headwater sql test` with the three files of ksqlDB's test runner."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.root import cli

_SQL = """
CREATE STREAM s (id INT KEY, v DOUBLE) WITH (kafka_topic='in', value_format='JSON');
CREATE STREAM t AS SELECT id, v / 3 AS w FROM s;
"""


def _run(folder: Path, outputs: list[dict[str, object]], sql: str = _SQL) -> tuple[int, str]:
    (folder / "s.sql").write_text(sql)
    (folder / "i.json").write_text(
        json.dumps({"inputs": [{"topic": "in", "key": 1, "value": {"v": 1}, "timestamp": 3}]})
    )
    (folder / "o.json").write_text(json.dumps({"outputs": outputs}))
    arguments = ["sql", "test", "-s", str(folder / "s.sql"), "-i", str(folder / "i.json"), "-o", str(folder / "o.json")]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def test_what_is_expected_passes(tmp_path: Path) -> None:
    code, output = _run(tmp_path, [{"topic": "T", "key": 1, "value": {"W": 0.33333333}, "timestamp": 3}])
    assert (code, output) == (0, "Test passed!\n")


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        ([{"topic": "T", "key": 2, "value": {"W": 0.33333333}}], "T, record 1: expected"),
        ([{"topic": "T", "value": {"W": 1}}], "T, record 1: expected"),
        ([{"topic": "T", "value": {"W": 0.33333333}}, {"topic": "T", "value": None}], "T, record 2: expected"),
        ([{"topic": "NOWHERE", "value": {"W": 1}}], "found nothing more"),
    ],
)
def test_what_differs_is_shown(tmp_path: Path, outputs: list[dict[str, object]], told: str) -> None:
    code, output = _run(tmp_path, outputs)
    assert code == 1
    assert told in output

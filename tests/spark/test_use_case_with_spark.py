"""examples/use_cases/stream_processing.py, as a person runs it; a second run, in a session that is there already, adds
its own orders only.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.testing import Broker

SCRIPT = Path(__file__).parents[2] / "examples/use_cases/stream_processing.py"
EXPECTED = [("anna", "boots", 98.0), ("anna", "raincoat", 89.0), ("bob", "umbrella", 19.0)]


def test_stream_processing(
    broker: Broker,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HEADWATER_BOOTSTRAP", broker.bootstrap_servers)
    command = [str(SCRIPT), str(tmp_path / "checkpoint")]
    done = subprocess.run([sys.executable, *command], env=os.environ, stdout=subprocess.PIPE, timeout=400)
    assert done.returncode == 0
    assert orders(done.stdout) == EXPECTED

    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # others need it
    monkeypatch.syspath_prepend(SCRIPT.parent)
    capsys.readouterr()
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        sys.modules.pop("common", None)  # the script's own, which knows this broker
    assert orders(capsys.readouterr().out) == sorted(EXPECTED * 2)


def orders(output: bytes | str) -> list[tuple[str, str, float]]:
    return sorted((each["customer"], each["item"], each["total"]) for each in map(json.loads, output.splitlines()))

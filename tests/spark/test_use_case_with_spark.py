"""examples/use_cases/stream_processing.py, as a person runs it; twice, and the second run adds its own orders only."""

import json
import os
import subprocess
import sys
from pathlib import Path

from headwater.testing import Broker

SCRIPT = Path(__file__).parents[2] / "examples/use_cases/stream_processing.py"


def test_stream_processing(broker: Broker, tmp_path: Path) -> None:
    for run in (1, 2):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(tmp_path / "checkpoint")],
            env={**os.environ, "HEADWATER_BOOTSTRAP": broker.bootstrap_servers},
            stdout=subprocess.PIPE,
            timeout=400,
        )
        assert done.returncode == 0
        orders = sorted(
            (each["customer"], each["item"], each["total"]) for each in map(json.loads, done.stdout.splitlines())
        )
        expected = [("anna", "boots", 98.0), ("anna", "raincoat", 89.0), ("bob", "umbrella", 19.0)]
        assert orders == sorted(expected * run)

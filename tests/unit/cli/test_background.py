"""Workers that are started and left running, with stand-ins for them."""

import time
from pathlib import Path

import pytest

from headwater.cli.kafka.connect_worker import WorkerScript, run_script

PATIENCE_S = 240


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerScript:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    return WorkerScript("stand_in", "USAGE", "worker.out", lambda _: 0)


def test_a_plugin_may_print_when_its_worker_was_left_running(worker: WorkerScript, tmp_path: Path) -> None:
    """Its stdout was a pipe that nobody read any more: the task failed with BrokenPipeError."""
    (tmp_path / "stand_in.py").write_text(
        "import sys, time\n"
        "from pathlib import Path\n"
        "print('ready connect', flush=True)\n"
        "while not Path(sys.argv[1], 'go').exists(): time.sleep(0.01)\n"
        "print('a plugin says', flush=True)\n"
        "Path(sys.argv[1], 'said').touch()\n"
    )
    assert run_script(worker, ["-daemon", str(tmp_path)]) == 0
    (tmp_path / "go").touch()
    log, deadline = tmp_path / "logs" / "worker.out", time.monotonic() + PATIENCE_S
    while not (tmp_path / "said").exists() and "Error" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert log.read_text() == "ready connect\na plugin says\n"


def test_a_worker_that_does_not_start_is_told_with_its_log(
    worker: WorkerScript, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stand_in.py").write_text("raise SystemExit('already here, and no file')\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker.out").write_text("ready connect\n")  # of an earlier one
    assert run_script(worker, ["-daemon", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "already here, and no file" in said
    assert "The Connect worker did not start" in said

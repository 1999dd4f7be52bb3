"""`headwater up`, `status` and `down` on a data directory of the test's own, and the files that they leave."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.processes import identify

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "headwater.cli.main"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_BOOTSTRAP")}
    return kept | {"XDG_DATA_HOME": str(tmp_path / "share"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def headwater(environment: dict[str, str]) -> Iterator[Run]:
    def run(*arguments: str, input: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:  # noqa: A002
        result = subprocess.run(
            [*COMMAND, *arguments],
            env=environment,
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == code, result.stderr
        return result

    yield run
    run("down", "--force", "--timeout", "60")


def _status(headwater: Run) -> Any:
    return json.loads(headwater("status", "-o", "json").stdout)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_up_serves_status_tells_and_down_stops(headwater: Run, tmp_path: Path) -> None:
    said = headwater("up", "-d", "--port", "0").stdout
    data_dir = tmp_path / "share" / "headwater"
    assert "Headwater is up: broker 0 at localhost:" in said
    assert str(data_dir) in said
    assert "headwater topic create hello\n" in said

    headwater("topic", "create", "hello")  # finds the broker by itself
    headwater("produce", "hello", input="world\n")
    assert headwater("consume", "hello", "-e").stdout == "world\n"

    status = _status(headwater)
    broker = status["brokers"][0]
    assert status["data_dir"] == str(data_dir)
    assert (broker["id"], broker["ready"], broker["topics"], broker["records_in"]) == (0, True, 1, 1)
    assert broker["port"] > 0
    assert broker["log_dirs"] == [str(data_dir / "broker-0")]
    assert broker["uptime_s"] >= 0
    assert f"{broker['pid']}" in headwater("status").stdout

    assert "is running already" in headwater("up", "-d").stdout
    assert "running already" in headwater("up", code=1).stderr

    assert f"Stopped broker 0 at localhost:{broker['port']} (pid {broker['pid']})" in headwater("down").stdout
    assert _gone(broker["pid"])
    assert _gone(status["supervisor"]["pid"])
    assert _status(headwater)["brokers"] == []
    assert (data_dir / "broker-0" / ".kafka_cleanshutdown").exists()

    dumped = headwater("broker", "dump-log", "-r", "-o", "json", str(data_dir / "broker-0" / "hello-0")).stdout
    batches = [row for row in map(json.loads, dumped.splitlines()) if "base_offset" in row]
    assert [record["value"] for batch in batches for record in batch["records"]] == ["world"]


def test_a_killed_broker_is_started_again_on_the_same_port(headwater: Run) -> None:
    headwater("up", "-d", "--port", "0")
    headwater("topic", "create", "kept")
    headwater("produce", "kept", input="before\n")
    before = _status(headwater)["brokers"][0]
    os.kill(before["pid"], signal.SIGKILL)
    _until(lambda: (found := _status(headwater)["brokers"][0])["ready"] and found["pid"] != before["pid"])
    after = _status(headwater)["brokers"][0]
    assert (after["port"], after["restarts"]) == (before["port"], 1)
    headwater("produce", "kept", input="after\n")
    assert headwater("consume", "kept", "-e").stdout == "before\nafter\n"


def test_produce_and_tail_live_through_a_killed_broker(headwater: Run, environment: dict[str, str]) -> None:
    headwater("up", "-d", "--port", "0")
    headwater("topic", "create", "kept")
    killed: list[int] = []
    pipes: dict[str, Any] = {"env": environment, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([*COMMAND, "tail", "kept"], **pipes) as tail,
        subprocess.Popen([*COMMAND, "produce", "kept", "-q", "-o", "json"], **pipes) as produce,
    ):
        try:
            for at in range(6):
                if at in (2, 4):
                    _until(lambda: _status(headwater)["brokers"][0]["pid"] not in killed)  # written when it is ready
                    killed.append(_status(headwater)["brokers"][0]["pid"])
                    os.kill(killed[-1], signal.SIGKILL)
                produce.stdin.write(f"{at}\n")
                produce.stdin.flush()
                assert json.loads(produce.stdout.readline())["offset"] == at  # each once, in order
                assert tail.stdout.readline() == f"{at}\n"
        finally:
            tail.kill()
            produce.kill()


def test_a_killed_supervisor_takes_its_broker_with_it(headwater: Run) -> None:
    headwater("up", "-d", "--port", "0")
    status = _status(headwater)
    os.kill(status["supervisor"]["pid"], signal.SIGKILL)
    _until(lambda: _gone(status["brokers"][0]["pid"]))
    assert _status(headwater)["brokers"] == []  # the file is still there, and stale
    headwater("up", "-d", "--port", "0")
    assert _status(headwater)["brokers"][0]["ready"]


def test_up_waits_for_a_broker_that_a_killed_supervisor_left_behind(
    headwater: Run, environment: dict[str, str]
) -> None:
    """It said that all was running already, and a moment later nothing ran."""
    headwater("up", "-d", "--port", "0")
    file = Path(environment["XDG_DATA_HOME"]) / "headwater" / "up.json"
    state = json.loads(file.read_text())
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    _until(lambda: _gone(state["supervisor_pid"]) and _gone(state["brokers"][0]["pid"]))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as slow:  # a broker that takes its time to end
        found = identify(slow.pid)
        assert found is not None
        state["brokers"][0] |= {"pid": found.pid, "start_ticks": found.start_ticks}
        file.write_text(json.dumps(state))
        with subprocess.Popen(
            [*COMMAND, "up", "-d", "--port", "0"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as up:
            assert up.stderr is not None
            said = up.stderr.readline()
            assert slow.stdin is not None
            slow.stdin.close()
            output, _ = up.communicate(timeout=120)
    assert f"waiting for process {slow.pid}" in said
    assert up.returncode == 0
    assert "Headwater is up" in output
    assert _status(headwater)["brokers"][0]["ready"]


def test_up_in_the_foreground_stops_on_ctrl_c(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*COMMAND, "up", "--port", "0"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "Headwater is up" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0
        assert "Traceback" not in errors


def test_a_broker_that_cannot_start_is_explained_and_not_tried_again(headwater: Run) -> None:
    result = headwater("up", "-d", "--port", "0", "--set", "num.partitions=none", code=1)
    assert "num.partitions" in result.stderr
    assert "The broker did not start" in result.stderr
    assert _status(headwater)["brokers"] == []


def test_a_port_in_use_is_explained(headwater: Run, broker_address: str) -> None:
    result = headwater("up", "-d", "--port", broker_address.rpartition(":")[2], code=1)
    assert "Cannot listen on" in result.stderr


def test_a_config_file_and_settings_are_handed_on(headwater: Run, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"node.id=7\nlog.dirs={tmp_path}/elsewhere\nlisteners=PLAINTEXT://localhost:0\nnum.partitions=4\n"
    )
    headwater("up", "-d", "--config", str(config), "--set", "num.partitions=5")
    broker = _status(headwater)["brokers"][0]
    assert (broker["id"], broker["log_dirs"]) == (7, [f"{tmp_path}/elsewhere"])
    headwater("topic", "create", "five")
    assert len(json.loads(headwater("topic", "describe", "five", "-o", "json").stdout)[0]["partitions"]) == 5


def test_doctor_finds_this_machine_fit(headwater: Run) -> None:
    findings = {row["check"]: row["level"] for row in json.loads(headwater("doctor", "-o", "json").stdout)}
    assert {"python", "lz4", "zstd", "snappy", "gzip", "java", "disk space", "open files"} <= findings.keys()
    assert "fail" not in findings.values()

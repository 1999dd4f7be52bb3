"""The embedded broker: quick to start, and gone with all that it made, whoever dies first. On real processes."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.client.admin import Admin
from headwater.testing.broker import Broker

PATIENCE_MS = 240_000


class Watch:
    """Waits for the end of processes that are not our children, without polling."""

    def __init__(self, *pids: int) -> None:
        self._descriptors = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                self._descriptors.append(os.pidfd_open(pid))

    def all_end(self) -> bool:
        ended = []
        for descriptor in self._descriptors:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            ended.append(bool(poller.poll(PATIENCE_MS)))
            os.close(descriptor)
        return all(ended)


def descendants(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # threads and processes may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in descendants(child)]


def cpu_ms(pid: int) -> int:
    """What the process has computed so far, in the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def test_it_is_ready_after_little_work_of_its_own_and_leaves_nothing_behind() -> None:
    """Some 200 ms here, more on a slow machine. `make bench` has the row by the clock on the wall."""
    with Broker() as broker:
        taken_ms = cpu_ms(broker.pid)
        directory, watch = broker.data_dir, Watch(broker.pid)
        socket.create_connection(("127.0.0.1", broker.port)).close()
    assert taken_ms < 1500
    assert watch.all_end()
    assert not os.path.exists(directory)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_its_port_is_nobody_elses_while_it_is_away(ending: str) -> None:
    """A port that was free for a moment went to another process now and then, and the restart failed."""
    with Broker() as broker:
        port = broker.port
        getattr(broker, ending)()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
        broker.start()
        assert broker.port == port
        socket.create_connection(("127.0.0.1", port), timeout=60).close()


def test_a_killed_test_run_leaves_no_process_and_no_directory() -> None:
    script = (
        "from headwater.testing import Broker\n"
        "broker = Broker().start()\n"
        "print(broker.pid, broker.data_dir, flush=True)\n"
        "input()\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdin is not None
    assert run.stdout is not None
    pid, directory = run.stdout.readline().split()
    watch = Watch(int(pid))
    assert os.path.isdir(directory)
    run.kill()
    run.wait()
    assert watch.all_end()
    assert not os.path.exists(directory)
    run.stdin.close()
    run.stdout.close()


def test_a_killed_test_run_leaves_log_directories_of_the_callers_own(tmp_path: Path) -> None:
    """Named as the broker's settings name them, they were taken for the embedded broker's own and deleted."""
    own = tmp_path / "precious"
    script = (
        "from headwater.testing import Broker\n"
        f"broker = Broker(log_dirs={str(own)!r}).start()\n"
        "print(broker.pid, broker.data_dir, flush=True)\n"
        "input()\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdin is not None
    assert run.stdout is not None
    pid, directory = run.stdout.readline().split()
    watch = Watch(int(pid))
    run.kill()
    run.wait()
    assert watch.all_end()
    assert directory == str(own)
    assert (own / "meta.properties").exists()
    run.stdin.close()
    run.stdout.close()


def test_log_dir_is_the_place_as_log_dirs_is(tmp_path: Path) -> None:
    """It was passed over for a temporary directory."""
    with Broker({"log.dir": tmp_path}) as broker:
        assert broker.data_dir == str(tmp_path)
    assert (tmp_path / "meta.properties").exists()


def test_one_that_has_ended_by_itself_is_started_again() -> None:
    """`start` took it for one that runs."""
    with Broker() as broker:
        watch = Watch(broker.pid)
        port = broker.port
        os.kill(broker.pid, signal.SIGKILL)
        assert watch.all_end()
        broker.start()
        assert broker.poll() is None
        assert broker.port == port
        socket.create_connection(("127.0.0.1", port), timeout=60).close()


def test_one_that_does_not_stop_in_time_leaves_no_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker().start()
    directory = broker.data_dir
    monkeypatch.setattr("headwater.testing.broker._PATIENCE_S", 0)
    with pytest.raises(subprocess.TimeoutExpired):
        broker.close()
    assert not os.path.exists(directory)


def test_a_stopped_broker_goes_on_where_it_was_on_the_same_port() -> None:
    with Broker() as broker:
        directory, port = broker.data_dir, broker.port
        broker.stop()
        assert os.path.exists(f"{directory}/.kafka_cleanshutdown")
        broker.start()
        assert (broker.data_dir, broker.port) == (directory, port)
        broker.kill()
        assert os.path.isdir(directory)


def test_a_directory_of_the_callers_own_stays(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)):
        pass
    assert (tmp_path / "meta.properties").exists()


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = Broker(listeners=f"PLAINTEXT://127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(UserError, match="Address already in use"):
            broker.start()
    assert broker.data_dir == ""


def test_the_exit_code_of_a_broker_whose_port_is_taken_is_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listeners = f"listeners=PLAINTEXT://127.0.0.1:{other.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "headwater.server", f"log.dirs={tmp_path}", listeners],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: Cannot listen on PLAINTEXT://127.0.0.1:")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_modules_of_the_directory_that_a_test_runs_in_are_not_the_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's own `shutil.py` was taken for Python's, and the broker did not start."""
    (tmp_path / "shutil.py").write_text("raise SystemExit('not the one that was meant')\n")
    monkeypatch.chdir(tmp_path)
    with Broker() as broker:
        socket.create_connection(("127.0.0.1", broker.port)).close()


def produce_megabytes(broker: Broker, count: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, max_request_size=2 << 20)
    for _ in range(count):
        producer.send("orders", b"x" * 1_000_000)
    producer.flush(240)
    producer.close()


def test_a_recovery_in_worker_processes_leaves_none_of_them_behind() -> None:
    """More than 16 MB past the recovery point are scanned elsewhere. The pool outlived a broker that was killed."""
    with Broker() as broker:
        produce_megabytes(broker, 20)
        broker.kill()
        broker.start()
        below = descendants(broker.pid)
        watch = Watch(*below)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert admin.describe_cluster().brokers
        broker.kill()
        assert watch.all_end()


def test_sigterm_during_a_recovery_ends_the_start(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        produce_megabytes(broker, 40)
        broker.kill()
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.server", f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        workers: list[int] = []  # on a busy machine they may be missed: then it says that it is ready
        while not workers and not select.select([process.stdout], [], [], 0.001)[0]:
            workers = descendants(process.pid)
            assert process.poll() is None
        watch = Watch(*workers)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "ready" not in out or "event=stopping" in err
        assert watch.all_end()

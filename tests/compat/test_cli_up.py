"""`headwater up`, `status` and `down` on a data directory of the test's own, and the files that they leave."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.base.config.properties import parse_properties
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
    said = headwater("up", "-d", "--no-registry", "--port", "0").stdout
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

    again = headwater("up", "-d", "--sql", "--brokers", "3", "--port", "1")
    assert "is running already" in again.stdout
    lacking = "--brokers 3 and --port 1 and --sql"
    told = f"warning: it was started without {lacking}; `headwater down`, then start it again with {lacking}"
    assert told in again.stderr
    assert "running already" in headwater("up", code=1).stderr

    assert f"Stopped broker 0 at localhost:{broker['port']} (pid {broker['pid']})" in headwater("down").stdout
    assert _gone(broker["pid"])
    assert _gone(status["supervisor"]["pid"])
    assert _status(headwater)["brokers"] == []
    assert (data_dir / "broker-0" / ".kafka_cleanshutdown").exists()

    dumped = headwater("broker", "dump-log", "-r", "-o", "json", str(data_dir / "broker-0" / "hello-0")).stdout
    batches = [row for row in map(json.loads, dumped.splitlines()) if "base_offset" in row]
    assert [record["value"] for batch in batches for record in batch["records"]] == ["world"]


def test_a_secured_broker_serves_who_has_its_files_and_nobody_else(headwater: Run, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text()
    shown = page.partition("## A secured broker in one step")[2].partition("## Listeners")[0].splitlines()
    up, create, add, doctor, _ = [
        shlex.split(line, comments=True)[2:] for line in shown if line.startswith("$ headwater")
    ]
    started = headwater(*up, "--port", "0")
    secure = tmp_path / "share" / "headwater" / "secure"
    password = (secure / "admin.password").read_text().strip()
    for name in ("ca.pem", "client.properties", "librdkafka.properties", "admin.password"):
        assert str(secure / name) in started.stdout
    status = _status(headwater)
    broker = status["brokers"][0]
    address = f"localhost:{broker['port']}"
    assert status["client_config"] == str(secure / "client.properties")

    headwater(*create)  # finds the broker and its login by itself
    settings = {
        **parse_properties((secure / "librdkafka.properties").read_text()),
        "bootstrap.servers": address,
    }
    delivered: list[object] = []
    producer = ConfluentProducer(settings)
    producer.produce("hello", b"world", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(60)
    assert delivered == [None]
    assert headwater("consume", "hello", "-e").stdout == "world\n"

    headwater(*add, "--password-stdin", input="of alice\n")
    mine = tmp_path / "alice.properties"
    client = (secure / "client.properties").read_text()
    mine.write_text(client.replace('username="admin"', 'username="alice"').replace(password, "of alice"))
    as_alice = ("--bootstrap-server", address, "--command-config", str(mine))
    assert headwater("topic", "list", "-o", "json", *as_alice).stdout.strip() == "[]"  # without rights there is none
    assert "AUTHORIZATION_FAILED" in headwater("topic", "create", "hers", *as_alice, code=1).stderr
    mine.write_text(client.replace(password, "wrong"))
    assert "SASL_AUTHENTICATION_FAILED" in headwater("topic", "list", *as_alice, code=1).stderr

    told_open = {row["check"]: row["level"] for row in json.loads(headwater(*doctor, "-o", "json").stdout)}
    assert (told_open["broker 0"], told_open["secrets"]) == ("ok", "ok")

    before = {path.name: path.read_bytes() for path in secure.iterdir()}
    os.kill(broker["pid"], signal.SIGKILL)  # its port stays
    _until(lambda: (found := _status(headwater)["brokers"][0])["ready"] and found["pid"] != broker["pid"])
    assert headwater("consume", "hello", "-e").stdout == "world\n"
    told = [started.stdout, started.stderr, Path(broker["log_file"]).read_text()]
    told += [Path(f"/proc/{_status(headwater)['brokers'][0]['pid']}/cmdline").read_text()]
    assert not any(password in text for text in told)
    headwater("down")
    again = headwater("up", "-d", "--secure", "--port", "0")
    assert {path.name: path.read_bytes() for path in secure.iterdir()} == before
    assert password not in again.stdout + again.stderr
    assert headwater("consume", "hello", "-e").stdout == "world\n"


def test_a_killed_broker_is_started_again_on_the_same_port(headwater: Run) -> None:
    headwater("up", "-d", "--no-registry", "--port", "0")
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
    headwater("up", "-d", "--no-registry", "--port", "0")
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
    headwater("up", "-d", "--no-registry", "--port", "0")
    status = _status(headwater)
    os.kill(status["supervisor"]["pid"], signal.SIGKILL)
    _until(lambda: _gone(status["brokers"][0]["pid"]))
    assert _status(headwater)["brokers"] == []  # the file is still there, and stale
    headwater("up", "-d", "--no-registry", "--port", "0")
    assert _status(headwater)["brokers"][0]["ready"]


def test_up_waits_for_a_broker_that_a_killed_supervisor_left_behind(
    headwater: Run, environment: dict[str, str]
) -> None:
    """It said that all was running already, and a moment later nothing ran."""
    headwater("up", "-d", "--no-registry", "--port", "0")
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
            [*COMMAND, "up", "-d", "--no-registry", "--port", "0"],
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
        [*COMMAND, "up", "--no-registry", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "Headwater is up" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0
        assert "Traceback" not in errors


def test_a_broker_that_cannot_start_is_explained_and_not_tried_again(headwater: Run) -> None:
    result = headwater("up", "-d", "--no-registry", "--port", "0", "--set", "num.partitions=none", code=1)
    assert "num.partitions" in result.stderr
    assert "The broker did not start" in result.stderr
    assert _status(headwater)["brokers"] == []


def test_a_port_in_use_is_explained(headwater: Run, broker_address: str) -> None:
    result = headwater("up", "-d", "--no-registry", "--port", broker_address.rpartition(":")[2], code=1)
    assert "Cannot listen on" in result.stderr


def test_a_config_file_and_settings_are_handed_on(headwater: Run, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"node.id=7\nlog.dirs={tmp_path}/elsewhere\nlisteners=PLAINTEXT://localhost:0\nnum.partitions=4\n"
    )
    headwater("up", "-d", "--no-registry", "--config", str(config), "--set", "num.partitions=5")
    broker = _status(headwater)["brokers"][0]
    assert (broker["id"], broker["log_dirs"]) == (7, [f"{tmp_path}/elsewhere"])
    headwater("topic", "create", "five")
    assert len(json.loads(headwater("topic", "describe", "five", "-o", "json").stdout)[0]["partitions"]) == 5


def test_doctor_finds_this_machine_fit(headwater: Run) -> None:
    findings = {row["check"]: row["level"] for row in json.loads(headwater("doctor", "-o", "json").stdout)}
    assert {"python", "lz4", "zstd", "snappy", "gzip", "java", "disk space", "open files"} <= findings.keys()
    assert "fail" not in findings.values()


def test_doctor_tells_of_a_running_broker_that_everybody_reaches(headwater: Run) -> None:
    headwater(
        "up",
        "-d",
        "--no-registry",
        "--set",
        "listeners=PLAINTEXT://127.0.0.1:0,ABROAD://0.0.0.0:0",
        "--set",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ABROAD:PLAINTEXT",
        "--set",
        "advertised.listeners=PLAINTEXT://127.0.0.1:0,ABROAD://localhost:0",
    )
    findings = {row["check"]: row["level"] for row in json.loads(headwater("doctor", "-o", "json", code=1).stdout)}
    assert findings["broker 0 ABROAD"] == "fail"
    assert "broker 0 PLAINTEXT" not in findings
    assert "broker 0 TLS" not in findings
    store = "listener.name.abroad.ssl.keystore.location"
    headwater("config", "set", "broker", "0", f"{store}=/nowhere/key.pem")
    told = json.loads(headwater("doctor", "-o", "json", code=1).stdout)
    assert [store in row["hint"] for row in told if row["check"] == "broker 0 TLS"] == [True]


def test_up_with_connect_copies_a_file(headwater: Run, tmp_path: Path) -> None:
    said = headwater("up", "-d", "--no-registry", "--connect", "--port", "0").stdout
    connect = _status(headwater)["connect"]
    assert connect["ready"]
    assert f"{connect['url']} (pid {connect['pid']})" in said
    (tmp_path / "in.txt").write_text("a line\n")
    source = {"name": "in", "connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
    (tmp_path / "in.json").write_text(json.dumps({**source, "value.converter": "StringConverter"}))
    headwater("connect", "create", str(tmp_path / "in.json"), "--url", connect["url"])
    _until(lambda: "lines" in headwater("topic", "list").stdout)
    assert "a line" in headwater("consume", "lines", "-n", "1").stdout
    headwater("down")
    with pytest.raises(ProcessLookupError):
        os.kill(connect["pid"], 0)


def _check_that_consumers_decode_by_themselves(headwater: Run, environment: dict[str, str], url: str) -> None:
    (broker,) = _status(headwater)["brokers"]
    bootstrap = f"{broker['host']}:{broker['port']}"
    with SchemaRegistryClient({"url": url}) as client:
        write = AvroSerializer(client, '{"type":"record","name":"Visit","fields":[{"name":"page","type":"string"}]}')
        data = write({"page": "/é"}, SerializationContext("visits", MessageField.VALUE))
    producer = ConfluentProducer({"bootstrap.servers": bootstrap})
    producer.produce("visits", data)
    producer.produce("visits", b"plain")
    assert producer.flush(60) == 0
    assert headwater("consume", "visits", "-e").stdout == '{"page": "/é"}\nplain\n'
    assert headwater("consume", "visits", "-e", "--registry", "none").stdout == f"{data.decode()}\nplain\n"
    script = ["-c", "from headwater.cli.kafka.console_consumer import main; main()", "--bootstrap-server", bootstrap]
    ended = subprocess.run(
        [sys.executable, *script, "--topic", "visits", "--from-beginning", "--max-messages", "2"],
        env=environment,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout.decode() == '{"page": "/é"}\nplain\n'


def test_up_has_a_schema_registry_that_goes_with_it(headwater: Run, environment: dict[str, str]) -> None:
    said = headwater("up", "-d", "--port", "0").stdout  # then the registry's port is any free one, too
    registry = _status(headwater)["registry"]
    assert registry["ready"]
    assert f"{registry['url']} (pid {registry['pid']})" in said
    url = ("--url", registry["url"])
    assert headwater("schema", "list", *url).stdout == ""
    headwater("schema", "register", "users", "-", *url, input='"string"')
    _check_that_consumers_decode_by_themselves(headwater, environment, registry["url"])
    os.kill(registry["pid"], signal.SIGKILL)
    _until(lambda: (_status(headwater)["registry"] or {}).get("pid") not in (-1, registry["pid"], None))
    _until(lambda: bool(_status(headwater)["registry"]["ready"]))
    again = _status(headwater)["registry"]
    assert again["url"] == registry["url"]
    assert headwater("schema", "list", *url, "-o", "json").stdout.count("users") == 1
    stopped = headwater("down").stdout.splitlines()
    assert stopped[0] == f"Stopped the schema registry at {again['url']} (pid {again['pid']})"
    assert _gone(again["pid"])


def test_a_registry_whose_port_is_in_use_is_left_out_with_a_sentence(headwater: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        headwater("up", "-d", "--port", "0", "--registry-port", str(port))
        status = _status(headwater)
        assert status["registry"] is None
        assert status["brokers"][0]["ready"]
        log = Path(status["brokers"][0]["log_file"]).read_text()
        assert "the schema registry did not start (exit code 1): going on without it" in log
        assert f"The schema registry cannot listen on 127.0.0.1:{port}" in log
        command = Path(f"/proc/{status['brokers'][0]['pid']}/cmdline").read_bytes()
        assert b"schema.registry.url" not in command, "the broker would ask whoever listens there about schemas"
        headwater("down")


def test_up_has_a_sql_server_that_knows_the_registry(headwater: Run) -> None:
    said = headwater("up", "-d", "--sql", "--port", "0").stdout
    server = _status(headwater)["sql"]
    assert server["ready"]
    assert f"{server['url']} (pid {server['pid']})" in said
    statements = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', value_format='AVRO', partitions=1); INSERT INTO s VALUES (1, 2);"
    headwater("sql", "--server", server["url"], "-e", statements)
    rows = headwater("sql", "--server", server["url"], "-o", "json", "-e", "SELECT * FROM s").stdout
    assert [json.loads(line) for line in rows.splitlines()] == [{"ID": 1, "V": 2}]
    headwater("down")
    assert _gone(server["pid"])

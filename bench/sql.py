"""SQL: what users of a server wait for. Beside it, as its limit, a bare HTTP server. Rows per second: `sql_streams`."""

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.brokers import die_with_parent, memory_mb
from bench.registry import BARE
from bench.report import LESS, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario, check

KEYS = 1_000_000
ASKED = 500
QUERIES = 50


class Started(NamedTuple):
    port: int
    pid: int
    ready_ms: float


@contextmanager
def started(command: list[str]) -> Iterator[Started]:
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise Broken(f"{command[:4]} did not start")
        port = int(line.strip().rpartition(":")[2])
        yield Started(port, process.pid, (time.perf_counter() - began) * 1000)
    finally:
        process.terminate()
        process.communicate(timeout=120)


def _server(bench: Bench, service: str) -> list[str]:
    settings = {
        "listeners": "http://127.0.0.1:0",
        "bootstrap.servers": f"127.0.0.1:{bench.port()}",
        "ksql.service.id": service,
        "ksql.streams.state.dir": str(bench.folder / service),
    }
    command = [sys.executable, "-m", "headwater.cli.main", "sql", "server"]
    return [*command, *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]


def _ask(port: int, path: str, body: dict[str, object]) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise Broken(f"{path}: {answer.status} {data[:200]!r}")
        return data
    finally:
        connection.close()


def _times(count: int, ask: Callable[[int], object]) -> list[float]:
    took = []
    for number in range(count):
        began = time.perf_counter()
        ask(number)
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)


def pulling(bench: Bench) -> Figures:
    """Rows of a large table by their keys, a connection each."""
    from headwater.client import Producer

    keys, asked = bench.count(KEYS), bench.count(ASKED)
    with started([sys.executable, "-c", BARE]) as plain:
        bare = _times(asked, lambda _: _ask(plain.port, "/", {}))
    with bench.topic(1) as topic:
        with Producer({"bootstrap.servers": f"127.0.0.1:{bench.port()}", "linger.ms": 20}) as producer:
            for key in range(keys):
                producer.send(topic, b'{"V": %d}' % key, key=key.to_bytes(4, "big"))
        with started(_server(bench, f"{topic}-pull")) as server:
            port = server.port
            table = f"CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (kafka_topic='{topic}', value_format='JSON');"
            _ask(port, "/ksql", {"ksql": table})
            began = time.perf_counter()
            _ask(port, "/query-stream", {"sql": "SELECT v FROM t WHERE id = 0;"})
            loaded_s = time.perf_counter() - began

            def one(number: int) -> None:
                key = number * 7919 % keys
                data = _ask(port, "/query-stream", {"sql": f"SELECT v FROM t WHERE id = {key};"})
                check("the row of a key", json.loads(data.splitlines()[1])[0], key)

            took = _times(asked, one)
            began = time.perf_counter()
            push = {"sql": "SELECT * FROM t EMIT CHANGES LIMIT 1;", "properties": {"auto.offset.reset": "earliest"}}
            _ask(port, "/query-stream", push)
            first_ms = (time.perf_counter() - began) * 1000
    also = f"the first, which reads {keys:,} rows: {loaded_s:.1f} s"
    return {
        "sql-pull-p50": Figure(statistics.median(took), statistics.median(bare), also),
        "sql-pull-p99": Figure(took[int(len(took) * 0.99)], bare[int(len(bare) * 0.99)]),
        "sql-first-row": Figure(first_ms, statistics.median(bare)),
    }


def restarting(bench: Bench) -> Figures:
    """A server with many queries: until all of them have processed a record, and how much memory they take."""
    from headwater.client import Producer

    with started([sys.executable, "-c", BARE]) as plain:
        pass
    with bench.topic(1) as topic:
        with started(_server(bench, f"{topic}-many")) as (port, _, _):
            stream = f"CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='{topic}', value_format='JSON');"
            _ask(port, "/ksql", {"ksql": stream})
            for number in range(QUERIES):
                made = f"CREATE STREAM s{number} WITH (kafka_topic='{topic}-{number}') AS SELECT id, v + {number} AS v FROM s;"
                _ask(port, "/ksql", {"ksql": made})
        began = time.perf_counter()
        with started(_server(bench, f"{topic}-many")) as (port, pid, ready_ms):
            with Producer({"bootstrap.servers": f"127.0.0.1:{bench.port()}"}) as producer:
                producer.send(topic, b'{"V": 1}', key=bytes(4))
            while not all(bench.produced(f"{topic}-{number}", 1) for number in range(QUERIES)):
                time.sleep(0.02)
            running_ms = (time.perf_counter() - began) * 1000
            memory = memory_mb(pid)
            _ask(port, "/ksql", {"ksql": "TERMINATE ALL;"})
    return {
        "sql-restart-50": Figure(running_ms, plain.ready_ms, f"it answers after {ready_ms:.0f} ms"),
        "sql-memory-50": Figure(memory),
    }


def sql_scenarios() -> list[Scenario]:
    bare = "an HTTP server of the standard library"
    return [
        Scenario(
            (
                Kind("sql-pull-p50", "SQL: pull query by key, 1 M keys, p50", "ms", LESS, bare),
                Kind("sql-pull-p99", "SQL: pull query by key, 1 M keys, p99", "ms", LESS, bare),
                Kind("sql-first-row", "SQL: push query to its first row", "ms", LESS, bare),
            ),
            pulling,
            1,
            about_broker=False,
        ),
        Scenario(
            (
                Kind("sql-restart-50", "SQL: restart until 50 queries have processed a record", "ms", LESS, bare),
                Kind("sql-memory-50", "SQL: memory of a server with 50 queries", "MB", LESS, "none"),
            ),
            restarting,
            1,
            about_broker=False,
        ),
    ]

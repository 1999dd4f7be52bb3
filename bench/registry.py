"""The schema registry: how many schemas it registers and looks up, how long clients wait for it, how fast it starts.

Beside each, as its limit, a bare HTTP server of the standard library that answers the same number of bytes in a process
of its own.
"""

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.brokers import die_with_parent
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario, check

CONNECTIONS = 4
REGISTRATIONS = 400
LOOKUPS = 4000
LOADED = 10_000
BARE = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    disable_nagle_algorithm = True
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "200")
        self.end_headers()
        self.wfile.write(b"x" * 200)
    do_POST = do_GET
    def log_message(self, *arguments): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"ready x=http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""


@contextmanager
def process(command: list[str]) -> Iterator[tuple[int, float]]:
    """Its port, and the milliseconds until it was ready."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise Broken(f"{command[:4]} did not start")
        yield int(line.strip().rpartition(":")[2]), (time.perf_counter() - began) * 1000
    finally:
        process.terminate()
        process.communicate(timeout=60)


def registry_command(bench: Bench, topic: str) -> list[str]:
    settings = {
        "listeners": "http://127.0.0.1:0",
        "kafkastore.bootstrap.servers": f"127.0.0.1:{bench.port()}",
        "kafkastore.topic": topic,
        "schema.registry.group.id": topic,
        "kafkastore.topic.replication.factor": "1",
    }
    command = [sys.executable, "-m", "headwater.cli.main", "registry", "start"]
    return [*command, *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]


Ask = Callable[[http.client.HTTPConnection, int], None]


def _load(port: int, requests: int, ask: Ask) -> tuple[float, float]:
    """Requests per second over several connections, and the p99 of one in ms."""
    took: list[float] = []

    def work(which: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number in range(which, requests, CONNECTIONS):
            began = time.perf_counter()
            ask(connection, number)
            took.append((time.perf_counter() - began) * 1000)
        connection.close()

    threads = [threading.Thread(target=work, args=(which,)) for which in range(CONNECTIONS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = requests / (time.perf_counter() - began)
    check("requests that were answered", len(took), requests)
    return rate, statistics.quantiles(took, n=100)[98]


def answered(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> bytes:
    connection.request(method, path, body)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise Broken(f"{method} {path}: {answer.status} {data[:200]!r}")
    return data


def _register(connection: http.client.HTTPConnection, number: int) -> None:
    fields = [{"name": f"f{each}", "type": "string"} for each in range(5)]
    schema = {"type": "record", "name": f"R{number}", "fields": fields}
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    answered(connection, "POST", f"/subjects/s{number}/versions", body)


def serving(bench: Bench) -> Figures:
    registrations, lookups = bench.count(REGISTRATIONS), bench.count(LOOKUPS)
    with process([sys.executable, "-c", BARE]) as (port, _):
        bare, bare_p99 = _load(port, lookups, lambda connection, _: answered(connection, "GET", "/") and None)
    with bench.topic(1) as topic, process(registry_command(bench, f"_{topic}")) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        _register(connection, registrations)  # who leads is known from here on
        connection.close()
        written, written_p99 = _load(port, registrations, _register)
        read, read_p99 = _load(
            port,
            lookups,
            lambda connection, number: (
                answered(connection, "GET", f"/schemas/ids/{number % registrations + 1}") and None
            ),
        )
        return {
            "registry-registrations": Figure(written, bare),
            "registry-registrations-p99": Figure(written_p99, bare_p99),
            "registry-lookups": Figure(read, bare),
            "registry-lookups-p99": Figure(read_p99, bare_p99),
        }


def starting(bench: Bench) -> Figures:
    """Empty, and with many schemas, which are written as a registry of Confluent's would have."""
    from headwater.client import Admin, NewTopic, Producer

    with process([sys.executable, "-c", BARE]) as (_, bare_ms):
        pass
    with bench.topic(1) as topic:
        with process(registry_command(bench, f"_{topic}-empty")) as (_, empty_ms):
            pass
        loaded = f"_{topic}-loaded"
        with Admin({"bootstrap.servers": f"127.0.0.1:{bench.port()}"}) as admin:
            admin.create_topics([NewTopic(loaded, 1, 1, {"cleanup.policy": "compact"})])
        with Producer({"bootstrap.servers": f"127.0.0.1:{bench.port()}"}) as producer:
            for number in range(1, bench.count(LOADED) + 1):
                key = {"keytype": "SCHEMA", "subject": f"s{number}", "version": 1, "magic": 1}
                text = json.dumps({"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": "int"}]})
                value = {"subject": f"s{number}", "version": 1, "id": number, "schema": text, "deleted": False}
                producer.send(loaded, json.dumps(value).encode(), key=json.dumps(key, separators=(",", ":")).encode())
        with process(registry_command(bench, loaded)) as (port, loaded_ms):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            found = json.loads(answered(connection, "GET", "/subjects?limit=20000"))
            connection.close()
            check("subjects", len(found), bench.count(LOADED))
    return {"registry-start": Figure(empty_ms, bare_ms), "registry-start-10000": Figure(loaded_ms, bare_ms)}


def registry_scenarios() -> list[Scenario]:
    bare = "an HTTP server of the standard library"
    return [
        Scenario(
            (
                Kind("registry-registrations", "registry: new schemas, 4 connections", "schemas/s", MORE, bare),
                Kind("registry-registrations-p99", "registry: a new schema, p99", "ms", LESS, bare),
                Kind("registry-lookups", "registry: schemas by id, 4 connections", "requests/s", MORE, bare),
                Kind("registry-lookups-p99", "registry: a schema by id, p99", "ms", LESS, bare),
            ),
            serving,
            2,
            about_broker=False,
        ),
        Scenario(
            (
                Kind("registry-start", "registry: start to ready", "ms", LESS, bare, 500),
                Kind("registry-start-10000", "registry: start to ready, 10,000 schemas", "ms", LESS, bare, 2000),
            ),
            starting,
            2,
            about_broker=False,
        ),
    ]

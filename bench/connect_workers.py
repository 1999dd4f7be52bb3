"""Standalone Connect workers to be measured, ours and Apache's, on the same broker and with the same connectors' files;
and the PostgreSQL that some rows need. What the peers need comes from Maven by the poms of tests/.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.brokers import HEAP, JARS, ROOT, _jars, die_with_parent, free_ports
from bench.requests import Broken

DEBEZIUM = ROOT / "tests/compat/debezium"  # of change data capture
DEBEZIUM_JDBC = ROOT / "bench/debezium_jdbc"
READY_S = 120
CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


class ConnectProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", address: str, said: Path) -> None:
        self.process, self._address, self.said = process, address, said

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._address}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                found = answer.read()
        except urllib.error.HTTPError as error:
            raise Broken(f"{method} {path}: {error.read().decode(errors='replace')[:500]}") from error
        return json.loads(found) if found else None

    def create(self, name: str, config: Mapping[str, str]) -> None:
        self.ask("POST", "/connectors", {"name": name, "config": dict(config)})

    def until(self, name: str, condition: Callable[[], bool], patience_s: float = 120) -> None:
        deadline = time.perf_counter() + patience_s
        while not condition():
            if self.process.poll() is not None:
                raise Broken(f"the worker ended: {self.said.read_text(errors='replace')[-800:]}")
            if time.perf_counter() > deadline:
                raise Broken(f"{name} did not come through: {json.dumps(self.ask('GET', f'/connectors/{name}/status'))[:800]}")  # fmt: skip
            time.sleep(0.005)


@contextlib.contextmanager
def connect_worker(
    who: str, brokers: str, folder: Path, more: Mapping[str, str], *, plugin: Path | None = None
) -> Iterator[ConnectProcess]:
    """`who`: headwater, or Kafka Connect; `more`: converters and other settings of the worker; `plugin`: the folder of
    a pom.xml that the latter needs beside its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    settings = {
        "bootstrap.servers": brokers,
        "listeners": address,
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "plugin.discovery": "service_load",
        **more,
    }
    if who == "headwater":
        del settings["plugin.discovery"]
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    said = folder / "said"
    with said.open("ab") as output:
        process = subprocess.Popen(
            _command(who, properties, plugin), cwd=folder, stdout=output, stderr=output, preexec_fn=die_with_parent
        )  # fmt: skip
    try:
        worker = ConnectProcess(process, address, said)
        _wait(worker)
        yield worker
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(worker: ConnectProcess) -> None:
    deadline = time.perf_counter() + READY_S
    while True:
        with contextlib.suppress(OSError, Broken):  # Apache's door answers 404 while its worker starts
            worker.ask("GET", "/connectors")
            return
        if worker.process.poll() is not None or time.perf_counter() > deadline:
            raise Broken(f"the worker does not serve: {worker.said.read_text(errors='replace')[-800:]}")
        time.sleep(0.02)


def _command(who: str, properties: Path, plugin: Path | None) -> list[str]:
    if who == "headwater":
        return [str(Path(sys.executable).with_name("headwater")), "connect", "run", str(properties)]
    path = f"{_jars()}/*" + (f":{':'.join(jars_of(plugin))}" if plugin is not None else "")
    return ["java", "-Xms256m", HEAP[1].replace("1g", "2g"), "-cp", path, "org.apache.kafka.connect.cli.ConnectStandalone", str(properties)]  # fmt: skip


def jars_of(plugin: Path) -> list[str]:
    """The jars of a plugin's pom.xml, but for those that Kafka brings itself."""
    library = plugin / "target/lib"
    if not (library / ".complete").exists():
        copy = "mvn -B -q dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=target/lib"
        subprocess.run(copy.split(), cwd=plugin, check=True, timeout=600, stdout=subprocess.DEVNULL)
        (library / ".complete").write_bytes((plugin / "pom.xml").read_bytes())
    there = {_artifact(each) for each in JARS.glob("*.jar")} | {"slf4j-api"}
    return [str(each) for each in sorted(library.glob("*.jar")) if _artifact(each) not in there]


def _artifact(jar: Path) -> str:
    return re.split(r"-\d", jar.name)[0]


@contextlib.contextmanager
def postgres() -> Iterator[tuple[Any, int]]:
    """A server of its own, and its port: Java's drivers know no sockets of Unix."""
    from tests.spark.support.postgres import Postgres, binaries

    where = binaries()
    if where is None:
        raise Broken("PostgreSQL is not here: tests/tools.sh gets it")
    (port,) = free_ports(1)
    server = Postgres(where, "wal_level=logical", "listen_addresses='127.0.0.1'", f"port={port}")
    server.url += f"&port={port}"
    try:
        server.start()
        yield server, port
    finally:
        server.close()

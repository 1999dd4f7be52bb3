"""A real Apache Cassandra for tests, from the jars of tests/compat/cassandra/pom.xml. One node, up in twenty seconds,
600 MB.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.mariadb import free_port

JARS = Path(__file__).parent.parent / "cassandra/target/lib"
_PATIENCE_S = 280
_OPENS = (
    "java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect", "java.base/java.net",
    "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader", "java.base/jdk.internal.math", "java.base/jdk.internal.misc",
    "java.base/jdk.internal.module", "java.base/jdk.internal.ref", "java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch", "java.logging/java.util.logging", "java.management/com.sun.jmx.remote.security",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport", "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql", "jdk.management/com.sun.management.internal",
)  # fmt: skip


class CassandraNode:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-cassandra-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        settings = f"""
cluster_name: headwater
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
num_tokens: 1
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: {free_port()}
native_transport_port: {self.port}
start_native_transport: true
commitlog_sync: periodic
commitlog_sync_period: 10000ms
data_file_directories: ["{self.directory}/data"]
commitlog_directory: {self.directory}/commitlog
saved_caches_directory: {self.directory}/caches
hints_directory: {self.directory}/hints
cdc_raw_directory: {self.directory}/cdc
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
authenticator: PasswordAuthenticator
authorizer: AllowAllAuthorizer
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
"""
        (self.directory / "cassandra.yaml").write_text(settings)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> None:
        opens = [
            argument
            for each in _OPENS
            for argument in ("--add-opens", f"{each}=ALL-UNNAMED", "--add-exports", f"{each}=ALL-UNNAMED")
        ]
        java = [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "-Djdk.attach.allowAttachSelf=true",
        ]
        places = [
            f"-Dcassandra.config=file://{self.directory}/cassandra.yaml",
            f"-Dcassandra.storagedir={self.directory}",
        ]
        quick = [
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-Dcassandra.superuser_setup_delay_ms=0",
            "-Dcassandra-foreground=yes",
        ]
        command = [*java, *opens, *places, *quick, "-cp", f"{JARS}/*", "org.apache.cassandra.service.CassandraDaemon"]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        self.wait()

    def wait(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(Exception):  # not there yet, or without its superuser
                self("SELECT release_version FROM system.local")
                return
            assert self._process is not None
            assert self._process.poll() is None, f"Cassandra did not start:\n{self.log[-4000:]}"
            assert time.monotonic() < until, f"Cassandra is not up:\n{self.log[-4000:]}"
            time.sleep(0.5)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    def __call__(self, cql: str) -> list[Any]:
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import RoundRobinPolicy

        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=120)
        cluster = Cluster(
            ["127.0.0.1"],
            port=self.port,
            auth_provider=PlainTextAuthProvider("cassandra", "cassandra"),
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=30,
        )
        try:
            return [tuple(row) for row in cluster.connect().execute(cql)]
        finally:
            cluster.shutdown()


@contextlib.contextmanager
def running_cassandra() -> Iterator[CassandraNode]:
    if shutil.which("java") is None or not (JARS / ".complete").exists():
        pytest.skip(
            "the jars of tests/compat/cassandra/pom.xml are not there: HEADWATER_SOAK=1 tests/tools.sh (needs Maven)"
        )
    node = CassandraNode()
    try:
        node.start()
        yield node
    finally:
        node.close()

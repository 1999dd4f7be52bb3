"""Confluent's own Java client before our registry: what it registers, looks up, compares and deletes, and the bytes of
both sides.
"""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import java_command
from compat.support.registry import Registry
from headwater.client.schema_registry import AvroDeserializer, AvroSerializer

HOME = Path(__file__).parents[1] / "java" / "registry"
ANSWER_TIMEOUT_S = 150

USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'
NEWER = (
    '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int","default":0}]}'
)
BROKEN = '{"type":"record","name":"User","fields":[{"name":"mail","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","fields":[{"name":"by","type":"User"}]}'


class ConfluentClient:
    """One JVM; a call per line."""

    def __init__(self, url: str) -> None:
        if shutil.which("java") is None:
            pytest.skip("java is not installed (a JDK is needed)")
        if not (HOME / "target" / "lib" / ".complete").exists():
            pytest.skip("the jars of tests/java/registry/pom.xml are not there: run tests/tools.sh (needs Maven)")
        options = ["-Dfile.encoding=UTF-8", "-cp", f"{HOME}/target/lib/*", str(HOME / "ConfluentClient.java"), url]
        self._process = subprocess.Popen(
            [*java_command("256m"), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def __call__(self, *call: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write("\t".join(map(str, call)) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            watchdog.cancel()
            watchdog.join()
        assert answer, f"the JVM ended, or did not answer in time: {call}"
        return answer.rstrip("\n")

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def registry(group_broker: BrokerProcess) -> Iterator[Registry]:
    with Registry(group_broker.bootstrap) as registry:
        yield registry


@pytest.fixture(scope="module")
def client(registry: Registry) -> Iterator[ConfluentClient]:
    client = ConfluentClient(registry.url)
    yield client
    client.close()


def test_it_registers_looks_up_and_compares(client: ConfluentClient, topic: str) -> None:
    first = client("register", topic, USER)
    assert client("register", topic, USER) == client("id", topic, USER) == first
    assert client("version", topic, USER) == "1"
    assert json.loads(client("byId", first)) == json.loads(client("bySubjectAndId", topic, first)) == json.loads(USER)
    assert topic in client("subjectsOf", first)
    assert f"{{subject={topic},version=1}}" in client("versionsOf", first)
    assert client("isCompatible", topic, NEWER) == "true"
    assert client("isCompatible", topic, BROKEN) == "false"
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in client("whyNot", topic, BROKEN)
    assert client("register", topic, BROKEN) == "error 409 40901"
    second = client("registerNormalized", topic, NEWER)
    assert client("versions", topic) == "[1, 2]"
    assert client("latest", topic).split(" ", 3)[:3] == [second, "2", "AVRO"]
    assert client("subjects", topic) == f"[{topic}]"
    other = f"{topic}/a b"
    assert client("register", other, USER) == first
    assert client("subjects", other) == f"[{other}]"


def test_references_and_tags_come_back(client: ConfluentClient, topic: str) -> None:
    client("register", f"{topic}-user", USER)
    made = client("registerReferring", topic, ORDER, "User", f"{topic}-user", 1)
    assert json.loads(client("byId", made)) == json.loads(ORDER)
    assert client("id", topic, ORDER.replace('"User"', USER)) == made  # as a generated class has it
    assert client("deleteSubject", f"{topic}-user", "false") == "error 422 42206"
    client("registerTagged", f"{topic}-tagged", USER, "User.name", "PII")
    assert client("tags", f"{topic}-tagged") == "{User.name=[PII]}"


def test_settings_and_deletion(client: ConfluentClient, topic: str) -> None:
    client("register", topic, USER)
    assert client("compatibility", topic) == "error 404 40408"
    assert client("setCompatibility", topic, "NONE") == client("compatibility", topic) == "NONE"
    client("register", topic, BROKEN)
    assert client("setMode", topic, "READONLY") == client("mode", topic) == "READONLY"
    assert client("register", topic, NEWER) == "error 422 42205"
    assert client("setMode", topic, "READWRITE") == "READWRITE"
    assert client("deleteVersion", topic, "2", "true") == "error 404 40407"
    assert client("deleteVersion", topic, "2", "false") == "2"
    assert client("deleteSubject", topic, "false") == "[1]"
    assert client("deleteSubject", topic, "true") == "[1, 2]"
    assert client("versions", topic) == "error 404 40401"
    assert client("latest", topic) == "error 404 40401"


def test_records_go_both_ways(client: ConfluentClient, registry: Registry, topic: str) -> None:
    subject = f"{topic}-value"
    theirs = bytes.fromhex(client("encode", subject, NEWER, '{"name": "Ada é", "age": 36}'))
    ours = AvroSerializer(registry.url, NEWER).serialize(topic, {"name": "Ada é", "age": 36})
    assert ours == theirs
    assert AvroDeserializer(registry.url).deserialize(topic, theirs) == {"name": "Ada é", "age": 36}
    assert json.loads(client("decode", ours.hex())) == {"name": "Ada é", "age": 36}

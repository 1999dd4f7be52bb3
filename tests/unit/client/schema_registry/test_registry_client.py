"""The client of a registry without a registry: what it asks, what it keeps, what it tells. With a real one:
tests/compat/test_schema_serializers.py.
"""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client.schema_registry import AvroDeserializer, AvroSerializer, SchemaRegistryClient, SchemaRegistryError
from headwater.client.schema_registry.settings import SerdeSettings
from headwater.schemas import Reference, SchemaError, SchemaType, StoredSchema


class Answers:
    """A registry that gives what it is told to, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        for part, answer in self.answers.items():
            if part in path:
                return answer if isinstance(answer, tuple) else (200, answer)
        return 404, {"error_code": 40401, "message": "Subject not found"}

    def close(self) -> None:
        pass


def client(answers: Answers, now: list[float] | None = None) -> SchemaRegistryClient:
    return SchemaRegistryClient("http://x", transport=answers, clock=lambda: (now or [0.0])[0])


def latest(version: int) -> dict[str, Any]:
    return {"id": version, "schema": '"int"', "subject": "s", "version": version}


def test_what_never_changes_is_asked_for_once() -> None:
    answers = Answers(schemas={"schema": '"int"'}, subjects={"id": 1})
    registry = client(answers)
    for _ in range(3):
        registry.schema_by_id(1)
        registry.register("s", StoredSchema('"int"'))
    assert answers.asked == ["GET /schemas/ids/1", "POST /subjects/s/versions?normalize=False"]


def test_the_latest_version_is_asked_for_again_after_a_while() -> None:
    now = [0.0]
    answers = Answers(latest=latest(1))
    registry = client(answers, now)
    assert registry.latest("s").version == 1
    answers.answers["latest"] = latest(2)
    now[0] = 59
    assert registry.latest("s").version == 1
    now[0] = 61
    assert registry.latest("s").version == 2


def test_names_are_quoted() -> None:
    answers = Answers()
    with pytest.raises(SchemaRegistryError):
        client(answers).versions("a/b c?d")
    assert answers.asked == ["GET /subjects/a%2Fb%20c%3Fd/versions"]


def test_a_refusal_is_told_with_its_codes() -> None:
    with pytest.raises(SchemaRegistryError, match="Subject not found") as told:
        client(Answers()).version("s")
    assert (told.value.status, told.value.error_code) == (404, 40401)


def test_references_that_lead_in_a_circle_are_refused() -> None:
    circle = latest(1) | {"references": [{"name": "x", "subject": "s", "version": 1}]}
    with pytest.raises(SchemaError, match="circle"):
        client(Answers(versions=circle)).parsed(StoredSchema('"int"', SchemaType.AVRO, (Reference("x", "s", 1),)))


def test_without_auto_registration_a_schema_must_be_there() -> None:
    answers = Answers()
    serializer = AvroSerializer(client(answers), '"int"', auto_register_schemas=False)
    with pytest.raises(SchemaRegistryError):
        serializer.serialize("t", 5)
    assert answers.asked == ["POST /subjects/t-value?normalize=False&deleted=False"]


class Versions:
    """A registry with a schema `Out` in two versions of one text, which refer to two versions of `In`."""

    INNER = (
        '{"type":"record","name":"In","fields":[{"name":"a","type":"int"}]}',
        '{"type":"record","name":"In","fields":[{"name":"b","type":"string"},{"name":"a","type":"int"}]}',
    )
    OUTER = '{"type":"record","name":"Out","fields":[{"name":"i","type":"In"}]}'

    def __init__(self) -> None:
        self.latest = 1

    def outer(self, number: int) -> dict[str, Any]:
        references = [{"name": "In", "subject": "in", "version": number}]
        return {"id": number, "schema": self.OUTER, "subject": "t-value", "version": number, "references": references}

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if path.startswith("/subjects/in/versions/"):
            number = int(path.removeprefix("/subjects/in/versions/")[0])
            return 200, {"id": 10 + number, "schema": self.INNER[number - 1], "subject": "in", "version": number}
        if path.startswith("/schemas/ids/"):
            return 200, self.outer(int(path.removeprefix("/schemas/ids/")[0]))
        return 200, self.outer(self.latest)

    def close(self) -> None:
        pass


def test_the_same_text_with_other_references_is_another_schema() -> None:
    versions = Versions()
    registry = SchemaRegistryClient({"url": "http://x", "latest.cache.ttl.sec": -1}, transport=versions)
    latest_is_used = {"use.latest.version": True, "auto.register.schemas": False}
    serializer = AvroSerializer(registry, conf=latest_is_used)
    reader = AvroDeserializer(registry, conf={"use.latest.version": True})
    first = serializer.serialize("t", {"i": {"a": 1}})
    assert first == b"\0\0\0\0\1\x02"
    assert reader.deserialize("t", first) == {"i": {"a": 1}}
    versions.latest = 2
    second = serializer.serialize("t", {"i": {"a": 1, "b": "x"}})
    assert second == b"\0\0\0\0\2\x02x\x02"
    assert reader.deserialize("t", second) == {"i": {"b": "x", "a": 1}}
    versions.latest = 1
    assert reader.deserialize("t", second) == {"i": {"a": 1}}


def test_null_stays_null_and_nobody_is_asked() -> None:
    answers = Answers()
    assert AvroSerializer(client(answers), '"int"').serialize("t", None) is None
    assert answers.asked == []


@pytest.mark.parametrize(
    ("strategy", "is_key", "expected"),
    [
        ("topic", False, "t-value"),
        ("topic", True, "t-key"),
        ("record", False, "a.R"),
        ("TopicRecordNameStrategy", False, "t-a.R"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", True, "a.R"),
        (lambda topic, is_key, record: f"{topic}/{is_key}/{record}", True, "t/True/a.R"),
    ],
)
def test_subject_name_strategies(strategy: Any, is_key: bool, expected: str) -> None:
    settings = SerdeSettings.of({"subject.name.strategy": strategy}, {"is_key": is_key})
    assert settings.subject("t", "a.R") == expected


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"auto.register": True}, "no setting"), ({"subject.name.strategy": "mine"}, "no subject.name.strategy"), ({"schema.id.location": "x"}, "prefix or header")],
)  # fmt: skip
def test_settings_that_are_not_known_are_told(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        SerdeSettings.of(settings, {})


def test_a_strategy_by_record_needs_a_name() -> None:
    with pytest.raises(UserError, match="needs the name of a record"):
        AvroSerializer(client(Answers()), '"int"', subject_name_strategy="record").serialize("t", 5)


def test_a_client_needs_an_address() -> None:
    for settings in ({}, {"url": "ftp://x"}, {"url": "http://x", "nonsense": 1}):
        with pytest.raises(UserError):
            SchemaRegistryClient(settings)


def test_a_record_is_read_though_its_schema_has_a_default_that_does_not_fit() -> None:
    text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "none"}]}'
    reader = AvroDeserializer(client(Answers(schemas={"schema": text})))
    assert reader.deserialize("topic", b"\x00\x00\x00\x00\x01\x02") == {"a": 1}

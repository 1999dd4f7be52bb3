"""The schema registry before clients that others wrote:
confluent-kafka's registry client and serializers, as they are.
"""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializer,
    AsyncAvroSerializer,
    AvroDeserializer,
    AvroSerializer,
)
from confluent_kafka.schema_registry.json_schema import AsyncJSONDeserializer, AsyncJSONSerializer
from confluent_kafka.schema_registry.protobuf import AsyncProtobufDeserializer, AsyncProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.registry import Registry
from headwater.cli.root import run
from headwater.schemas import SchemaType, parse
from headwater.schemas.protobuf import ProtobufSchema

USER = json.dumps(
    {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}
)
OLDER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "age", "type": "int"},
            {"name": "mail", "type": "string", "default": ""},
        ],
    }
)
BROKEN = json.dumps({"type": "record", "name": "User", "fields": [{"name": "mail", "type": "string"}]})


@pytest.fixture(scope="module")
def registry(group_broker: BrokerProcess) -> Iterator[Registry]:
    with Registry(group_broker.bootstrap) as registry:
        yield registry


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def code(call, *arguments, **more) -> int:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*arguments, **more)
    return caught.value.error_code


def test_register_look_up_and_evolve(client: SchemaRegistryClient, topic: str) -> None:
    first = client.register_schema(topic, Schema(USER, "AVRO"))
    alone = client.register_schema(f"{topic}-alone", Schema('{"type":"fixed","name":"Alone","size":7}', "AVRO"))
    assert client.get_subjects_by_schema_id(alone) == [f"{topic}-alone"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(alone)] == [(f"{topic}-alone", 1)]
    assert client.register_schema(topic, Schema(USER, "AVRO")) == first
    assert json.loads(client.get_schema(first).schema_str) == json.loads(USER)
    found = client.lookup_schema(topic, Schema(USER, "AVRO"))
    assert (found.schema_id, found.version, found.subject) == (first, 1, topic)
    assert client.get_schema_by_guid(found.guid).schema_str == found.schema.schema_str
    assert client.test_compatibility(topic, Schema(OLDER, "AVRO"))
    assert not client.test_compatibility(topic, Schema(BROKEN, "AVRO"))
    assert code(client.register_schema, topic, Schema(BROKEN, "AVRO")) == 40901
    second = client.register_schema_full_response(topic, Schema(OLDER, "AVRO"))
    assert second.schema_id != first
    assert client.get_latest_version(topic).version == 2
    assert client.get_versions(topic) == [1, 2]
    assert topic in client.get_subjects()
    assert client.get_schema_types() == ["JSON", "PROTOBUF", "AVRO"]


def test_subjects_with_slashes_and_other_letters(client: SchemaRegistryClient, topic: str) -> None:
    for name in (f"{topic}/a b", f"{topic}:ü?x=1&y", f":.other:{topic}"):
        registered = client.register_schema(name, Schema(USER, "AVRO"))
        assert client.get_version(name, 1).schema_id == registered
        assert client.get_schema(registered, subject_name=name).schema_str
    assert ".other" in client.get_contexts()


def test_deletion(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(topic, Schema(USER, "AVRO"))
    client.register_schema(topic, Schema(OLDER, "AVRO"))
    assert code(client.delete_version, topic, 2, permanent=True) == 40407
    assert client.delete_version(topic, 2) == 2
    assert client.delete_subject(topic) == [1]
    assert code(client.get_latest_version, topic) == 40401
    assert topic not in client.get_subjects()
    assert client.delete_subject(topic, permanent=True) in ([1, 2], [])


def test_references_metadata_and_rules_come_back(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(f"{topic}-inner", Schema(USER, "AVRO"))
    outer = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]})
    schema = Schema(
        outer,
        "AVRO",
        [SchemaReference("User", f"{topic}-inner", 1)],
        Metadata(None, MetadataProperties({"owner": "us"}), ["owner"]),
        RuleSet(
            None,
            [
                Rule(
                    "check",
                    "a rule",
                    RuleKind.CONDITION,
                    RuleMode.WRITE,
                    "CEL",
                    None,
                    RuleParams({"a": "b"}),
                    "true",
                    None,
                    None,
                    False,
                )
            ],
        ),
    )
    registered = client.register_schema(topic, schema)
    client.clear_caches()
    version = client.get_latest_version(topic)
    assert version.schema_id == registered
    assert version.schema.references == schema.references
    assert version.schema.metadata == schema.metadata
    assert version.schema.rule_set.domain_rules[0].params == RuleParams({"a": "b"})
    assert client.get_referenced_by(f"{topic}-inner", 1) == [registered]
    assert client.get_latest_with_metadata(topic, {"owner": "us"}).version == 1
    assert code(client.delete_subject, f"{topic}-inner") == 42206


def test_config_and_mode(client: SchemaRegistryClient, topic: str) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(topic, "FULL_TRANSITIVE")
    assert client.get_compatibility(topic) == "FULL_TRANSITIVE"
    client.set_config(topic, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major"))
    assert client.get_config(topic).compatibility_group == "major"
    client.delete_config(topic)
    assert code(client.get_config, topic) == 40408
    assert client.get_global_mode() == "READWRITE"
    client.update_mode(topic, "READONLY")
    assert client.get_mode(topic) == "READONLY"
    assert code(client.register_schema, topic, Schema(USER, "AVRO")) == 42205


def test_avro_serializers_write_and_read_through_a_topic(
    client: SchemaRegistryClient, group_broker: BrokerProcess, topic: str
) -> None:
    people = [{"name": f"n{number}", "age": number} for number in range(10)]
    serializer, where = AvroSerializer(client, USER), SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": group_broker.bootstrap})
    for person in people:
        producer.produce(topic, serializer(person, where))
    assert producer.flush(60) == 0
    deserializer = AvroDeserializer(client)
    consumer = Consumer(
        {"bootstrap.servers": group_broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read = []
    while len(read) < len(people):
        read += [deserializer(message.value(), where) for message in consumer.consume(10, 60)]
    consumer.close()
    assert read == people
    assert client.get_latest_version(f"{topic}-value").version == 1


def test_a_topic_has_no_associations_and_serializers_fall_back_to_its_name(
    client: SchemaRegistryClient, topic: str
) -> None:
    assert code(client.get_associations_by_resource_name, topic, "-", "topic", ["value"], 0, -1) == 40410
    AvroSerializer(client, USER)({"name": "n", "age": 1}, SerializationContext(topic, MessageField.VALUE))
    assert client.get_subjects(subject_prefix=topic) == [f"{topic}-value"]


def test_the_asynchronous_client_and_serializers(registry: Registry, topic: str) -> None:
    async def play() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            serializer = await AsyncAvroSerializer(client, USER)
            where = SerializationContext(topic, MessageField.VALUE)
            people = [{"name": f"n{number}", "age": number} for number in range(20)]
            data = await asyncio.gather(*(serializer(person, where) for person in people))
            deserializer = await AsyncAvroDeserializer(client)
            assert [await deserializer(each, where) for each in data] == people
            ids = await asyncio.gather(
                *(client.register_schema(f"{topic}-{number}", Schema(USER, "AVRO")) for number in range(10))
            )
            assert len(set(ids)) == 1
            assert await client.get_versions(f"{topic}-value") == [1]

    asyncio.run(play())


def test_the_asynchronous_serializers_of_json_schema_and_protobuf(registry: Registry, topic: str) -> None:
    text = json.dumps({"title": "N", "type": "object", "properties": {"n": {"type": "integer"}}})
    name = "p_" + re.sub(r"\W", "_", topic)
    schema = parse(SchemaType.PROTOBUF, f'syntax = "proto3"; package {name}; message N {{ int32 n = 1; }}')
    assert isinstance(schema, ProtobufSchema)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(schema.descriptor(f"{name}.proto")))
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.N"))
    found = [message(n=number) for number in range(20)]
    conf = {"use.deprecated.format": False}

    async def play() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            where = SerializationContext(f"{topic}-json", MessageField.VALUE)
            to_json = await AsyncJSONSerializer(text, client)
            documents = await asyncio.gather(*(to_json({"n": number}, where) for number in range(20)))
            from_json = await AsyncJSONDeserializer(None, schema_registry_client=client)
            assert [await from_json(each, where) for each in documents] == [{"n": number} for number in range(20)]
            with pytest.raises(SerializationError):
                await to_json({"n": "one"}, where)

            where = SerializationContext(f"{topic}-protobuf", MessageField.VALUE)
            to_protobuf = await AsyncProtobufSerializer(message, client, conf)
            messages = await asyncio.gather(*(to_protobuf(each, where) for each in found))
        # a client of its own: theirs keeps the text that it registered, whatever format is asked for later
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            from_protobuf = await AsyncProtobufDeserializer(message, conf, client)
            assert [await from_protobuf(each, where) for each in messages] == found
            for kind in ("json", "protobuf"):
                assert await client.get_versions(f"{topic}-{kind}-value") == [1]

    asyncio.run(play())


def test_tags_are_added_found_and_changed(registry: Registry, topic: str) -> None:
    def tags(*names: str) -> list[dict[str, object]]:
        return [{"schemaEntity": {"entityPath": "User.name", "entityType": "sr_field"}, "tags": list(names)}]

    versions = f"/subjects/{topic}/versions"
    assert registry.call("POST", versions, {"schema": USER})[1]["version"] == 1
    status, second = registry.call("POST", versions, {"schema": USER, "schemaTagsToAdd": tags("PII")})
    assert (status, second["version"]) == (200, 2)
    assert registry.call("GET", f"{versions}/2?findTags=PII")[1]["schemaTags"] == tags("PII")
    assert registry.call("GET", f"/schemas/ids/{second['id']}?findTags=*")[1]["schemaTags"] == tags("PII")
    assert "schemaTags" not in registry.call("GET", f"{versions}/2?findTags=other")[1]
    assert "schemaTags" not in registry.call("GET", f"{versions}/2")[1]
    change = {"newVersion": 3, "tagsToAdd": tags("own"), "tagsToRemove": tags("PII")}
    status, third = registry.call("POST", f"{versions}/latest/tags", change)
    assert (status, third["version"]) == (200, 3)
    assert registry.call("GET", f"{versions}/latest?findTags=*")[1]["schemaTags"] == tags("own")
    assert registry.call("POST", f"{versions}/9/tags", change)[1]["error_code"] == 40402
    assert registry.call("POST", f"/subjects/{topic}-none/versions/1/tags", change)[1]["error_code"] == 40401


def test_a_client_of_a_context_is_given_the_schemas_of_its_context(registry: Registry, topic: str) -> None:
    """Its address has the context. Ids are given anew in each:
    the same one is another schema in the default context.
    """
    context = topic.replace("_", "-")
    with SchemaRegistryClient({"url": registry.url}) as everywhere:
        everywhere.register_schema(topic, Schema('"string"', "AVRO"))
    with SchemaRegistryClient({"url": f"{registry.url}/contexts/.{context}"}) as client:
        own = client.register_schema(topic, Schema('"int"', "AVRO"))
        client.register_schema(f"{topic}-2", Schema('"int"', "AVRO"))
        client.clear_caches()
        assert client.get_schema(own).schema_str == '"int"'
        assert client.get_schema(own, subject_name=topic).schema_str == '"int"'
        assert client.get_schema(own, subject_name=f"{topic}-unknown").schema_str == '"int"'
        assert client.get_subjects(subject_prefix=f"{topic}-") == [f":.{context}:{topic}-2"]
        assert client.get_subjects_by_schema_id(own, subject_name=topic) == [
            f":.{context}:{topic}",
            f":.{context}:{topic}-2",
        ]
    with SchemaRegistryClient({"url": f"{registry.url}/contexts/{context}"}) as without_dot:
        assert without_dot.get_versions(topic) == [1]
        without_dot.set_compatibility(level="NONE")
        assert without_dot.get_compatibility() == "NONE"
    with SchemaRegistryClient({"url": registry.url}) as everywhere:
        assert everywhere.get_compatibility() == "BACKWARD"
        assert everywhere.lookup_schema(f"{topic}-2", Schema('"int"', "AVRO")).subject == f":.{context}:{topic}-2"


def test_a_generated_class_finds_its_schema_though_it_was_registered_with_references(
    client: SchemaRegistryClient, topic: str
) -> None:
    client.register_schema(f"{topic}-user", Schema(USER, "AVRO"))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
    references = [SchemaReference("User", f"{topic}-user", 1)]
    registered = client.register_schema(f"{topic}-value", Schema(json.dumps(order), "AVRO", references))
    whole = json.dumps({**order, "fields": [{"name": "by", "type": json.loads(USER)}]})
    serializer = AvroSerializer(client, whole, conf={"auto.register.schemas": False})
    data = serializer({"by": {"name": "n", "age": 1}}, SerializationContext(topic, MessageField.VALUE))
    assert int.from_bytes(data[1:5], "big") == registered
    assert client.register_schema(f"{topic}-value", Schema(whole, "AVRO")) == registered
    assert client.get_versions(f"{topic}-value") == [1]


def test_a_client_that_read_a_schema_by_its_id_knows_the_id_when_it_looks_the_schema_up(
    registry: Registry, topic: str
) -> None:
    """Its cache takes the answer to an id for that to a version."""
    with SchemaRegistryClient({"url": registry.url}) as first:
        registered = first.register_schema(topic, Schema(USER, "AVRO"), normalize_schemas=True)
    with SchemaRegistryClient({"url": registry.url}) as client:
        schema = client.get_schema(registered, subject_name=topic)
        assert client.lookup_schema(topic, schema).schema_id == registered
        assert client.get_version(topic, 1).schema_id == registered
        client.clear_caches()
        assert client.lookup_schema(topic, Schema(USER, "AVRO")).schema_id == registered  # not normalized


def test_an_alias_and_a_soft_deleted_subject(client: SchemaRegistryClient, registry: Registry, topic: str) -> None:
    registered = client.register_schema(f"{topic}-real", Schema(USER, "AVRO"))
    assert registry.call("PUT", f"/config/{topic}-alias", {"alias": f"{topic}-real"})[0] == 200
    assert client.get_latest_version(f"{topic}-alias").subject == f"{topic}-real"
    assert client.lookup_schema(f"{topic}-alias", Schema(USER, "AVRO")).schema_id == registered
    client.delete_subject(f"{topic}-real")
    client.clear_caches()
    assert code(client.lookup_schema, f"{topic}-real", Schema(USER, "AVRO")) == 40401
    assert client.lookup_schema(f"{topic}-real", Schema(USER, "AVRO"), deleted=True).version == 1


def test_what_a_registry_wrote_another_reads(group_broker: BrokerProcess, topic: str) -> None:
    settings = {"kafkastore_topic": f"_{topic}", "schema_registry_group_id": f"group-{topic}"}
    with Registry(group_broker.bootstrap, **settings) as first:
        written = {
            f"s{number}": first.register(f"s{number}", f'{{"type":"fixed","name":"F","size":{number}}}')
            for number in range(5)
        }
        assert first.call("PUT", "/config", {"compatibility": "NONE"})[0] == 200
        assert first.call("DELETE", "/subjects/s4")[0] == 200
        assert first.call("DELETE", "/subjects/s4?permanent=true")[0] == 200
        assert first.stop() == 0
    with Registry(group_broker.bootstrap, **settings) as second:
        assert second.call("GET", "/subjects") == (200, ["s0", "s1", "s2", "s3"])
        for subject in ("s0", "s1", "s2", "s3"):
            answer = second.call("GET", f"/subjects/{subject}/versions/latest")[1]
            assert (answer["id"], answer["schema"]) == (written[subject]["id"], written[subject]["schema"])
        assert second.call("GET", "/config")[1] == {"compatibilityLevel": "NONE"}
        assert second.register("new", '"int"')["id"] == 6  # the id of the one that was deleted is not given again


def test_answers_have_confluents_content_types_and_bodies(registry: Registry) -> None:
    connection = registry.connect()
    try:
        for accept, expected in (
            ("*/*", "application/vnd.schemaregistry.v1+json"),
            ("application/json", "application/json"),
            ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ):
            connection.request("GET", "/subjects/nope/versions", headers={"Accept": accept})
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Content-Type"]) == (404, expected)
            assert json.loads(answer.read()) == {"error_code": 40401, "message": "Subject 'nope' not found."}
        connection.request("GET", "/subjects", headers={"Accept": "text/html"})
        answer = connection.getresponse()
        assert answer.status == 406
        answer.read()
    finally:
        connection.close()
    status, answer = registry.call("GET", "/associations/resources/-/topic?resourceType=topic")
    assert (status, answer["error_code"]) == (404, 40410)
    for path in ("/associations:batchGet", "/associations:batchMutate"):
        status, answer = registry.call("POST", path, {"requests": []})
        assert (status, answer["error_code"]) == (404, 40410)
    assert (
        registry.call("GET", "/v1/metadata/id")[1]["scope"]["clusters"]["schema-registry-cluster"] == "schema-registry"
    )
    assert registry.call("GET", "/schemas/ids/999999")[1]["error_code"] == 40403


def test_compatibility_with_a_version_that_is_not_there(registry: Registry, topic: str) -> None:
    path = f"/compatibility/subjects/{topic}/versions"
    for _ in range(2):  # of a subject that is not there either, then of one that is
        status, answer = registry.call("POST", f"{path}/7", {"schema": '"int"'})
        assert (status, answer["error_code"]) == (404, 40402)
        registry.register(topic, '"int"')
    assert registry.call("POST", f"{path}/1", {"schema": '"int"'}) == (200, {"is_compatible": True})


def test_bad_schemas_are_refused_and_the_registry_is_still_there(registry: Registry, topic: str) -> None:
    deep = '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000
    recursive = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    for document, status in (
        ({"schema": deep}, 422),
        ({"schema": '"' + "x" * 1_500_000 + '"'}, 422),
        ({"schema": "file:///etc/passwd"}, 422),
        ({"schema": '{"$ref": "file:///etc/passwd"}', "schemaType": "JSON"}, 422),
        ({"schema": json.dumps(recursive)}, 200),
        ({"schema": '{"type":"record","name":"R","fields":[{"name":"a","type":"file:///etc/passwd"}]}'}, 422),
        ({"schema": '"int"', "references": [{"name": "x", "subject": "../../x", "version": 1}]}, 422),
        ({"schema": '"int"', "schemaType": "<script>"}, 422),
        ({"schema": '{"$ref": "http://localhost:1/x"}', "schemaType": "JSON"}, 422),
        ({"schema": '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}', "schemaType": "JSON"}, 422),
        ({"schema": 'syntax = "proto3"; import "/etc/passwd"; message M {}', "schemaType": "PROTOBUF"}, 422),
        ({"schema": '{"type":"record","name":"R","fields":[', "references": [{}] * 1001}, 422),
    ):
        answer = registry.call("POST", f"/subjects/{topic}/versions", document)
        assert answer[0] == status, answer
        assert len(json.dumps(answer[1])) < 10_000
    for number, status in ((0, 404), (2**31 - 1, 404), (2**31, 404), (-1, 404), (10**4000, 404)):
        assert registry.call("GET", f"/schemas/ids/{number}")[0] == status, number
    status, answer = registry.call("POST", f"/subjects/{topic}/versions", {"schema": "x" * 10_000_000})
    assert (status, answer["error_code"]) == (413, 413)
    assert registry.call("GET", f"/subjects/{topic}/versions") == (200, [1])


def test_many_large_requests_that_never_end_cost_bounded_memory(registry: Registry, topic: str) -> None:
    before_mb = registry.memory_mb
    host, _, port = registry.url.removeprefix("http://").rpartition(":")
    head = b"POST /subjects/x/versions HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            client = stack.enter_context(socket.create_connection((host, int(port)), 60))
            with contextlib.suppress(OSError):  # refused: the limit of all is reached
                client.sendall(head + b" " * 300_000)
        assert registry.call("GET", "/subjects")[0] in (200, 503)
        assert registry.memory_mb - before_mb < 120
    until(lambda: registry.call("POST", f"/subjects/{topic}/versions", {"schema": '"int"'})[0] == 200, "it is busy", 60)


def test_the_schema_commands(
    registry: Registry, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def headwater(*arguments: str, expected: int = 0) -> str:
        assert run(["schema", *arguments, "--url", registry.url]) == expected
        return capsys.readouterr().out

    files = {name: tmp_path / f"{name}.avsc" for name in ("user", "older", "broken")}
    for name, text in (("user", USER), ("older", OLDER), ("broken", BROKEN)):
        files[name].write_text(text)
    assert headwater("check", topic, str(files["user"])) == f"compatible with {topic}\n"
    assert headwater("register", topic, str(files["user"])).startswith(f"{topic} version 1 has the id ")
    assert headwater("check", topic, str(files["older"])) == f"compatible with {topic}\n"
    wrong = headwater("check", topic, str(files["broken"]), expected=1)
    assert wrong.startswith(f"not compatible with {topic} (version 1, BACKWARD):\n  The field 'mail'")
    assert headwater("register", topic, str(files["user"])).endswith("(registered before)\n")
    headwater("register", topic, str(files["older"]))
    assert headwater("diff", topic, "1") == "+ fields.mail.type: string\n+ fields.mail.default: \n"
    assert headwater("diff", topic, "latest", str(files["older"])) == "no difference\n"
    assert json.loads(headwater("get", topic, "1")) == json.loads(USER)
    listed = json.loads(headwater("list", "--prefix", topic, "-o", "json"))
    assert [(each["subject"], each["versions"]) for each in listed] == [(topic, [1, 2])]
    assert json.loads(headwater("get", "--id", str(listed[0]["id"]))) == json.loads(OLDER)
    assert headwater("compat", topic) == "BACKWARD\n"
    assert headwater("compat", topic, "--set", "full") == "FULL\n"
    assert headwater("compat", topic, "--unset") == "BACKWARD\n"
    assert headwater("mode", topic, "--set", "readonly") == "READONLY\n"
    assert headwater("mode", topic, "--unset") == "READWRITE\n"
    assert "versions 2" in headwater("delete", topic, "--version", "latest")
    assert "versions 1" in headwater("delete", topic)
    headwater("delete", topic, "--permanent")
    headwater("get", topic, expected=1)


def test_schemas_of_a_context_are_listed_by_its_address(
    registry: Registry, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register(f"{topic}-a", '"int"')
    registry.register(f":.{topic}:{topic}-b", '"int"')

    def listed(url: str, *arguments: str) -> list[str]:
        assert run(["schema", "list", "-o", "json", "--url", url, *arguments]) == 0
        return [each["subject"] for each in json.loads(capsys.readouterr().out)]

    both = [f":.{topic}:{topic}-b", f"{topic}-a"]
    assert listed(registry.url, "--prefix", topic) == both
    own = f"{registry.url}/contexts/.{topic}"
    assert listed(own) == listed(own, "--prefix", topic) == both[:1]
    assert listed(own, "--prefix", "other") == []


def test_the_schema_commands_say_what_is_wrong_and_what_to_do(
    registry: Registry, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: str, expected: int = 1) -> str:
        assert run(["schema", *arguments, "--url", registry.url]) == expected
        captured = capsys.readouterr()
        return captured.out if expected == 0 else captured.err

    texts = {
        "user.avsc": USER,
        "broken.avsc": BROKEN,
        "empty.avsc": "",
        "half.avsc": "{",
        "object.json": '{"type": "object"}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    user, broken, empty, half, document = (str(tmp_path / name) for name in texts)
    told("register", topic, user, expected=0)
    assert "not compatible" in (wrong := told("register", topic, broken))
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in wrong
    assert f"schema diff {topic} latest {broken}" in wrong
    assert "it is empty" in told("register", topic, empty)  # nothing else, to the registry: the version before again
    assert json.loads(told("list", "--prefix", topic, "-o", "json", expected=0))[0]["versions"] == [1]
    assert "is not JSON" in told("diff", topic, "1", half)
    assert "version 1 has the id" in told("register", f"{topic}-json", document, expected=0)
    assert "exclude each other" in told("compat", topic, "--set", "FULL", "--unset", expected=2)
    assert told("compat", topic, "--unset", expected=0) == "BACKWARD\n"  # nothing was set
    told("mode", topic, "--set", "READONLY", expected=0)
    assert "--set READWRITE" in told("delete", topic)
    assert told("mode", topic, "--unset", expected=0) == told("mode", topic, "--unset", expected=0) == "READWRITE\n"
    assert "--force" in told("mode", topic, "--set", "IMPORT")
    assert "without --permanent first" in told("delete", topic, "--permanent")
    told("delete", topic, expected=0)
    assert "--permanent deletes it" in told("delete", topic)
    assert "schema list" in told("get", topic)


def test_patterns_that_could_run_for_ever_do_not(registry: Registry, topic: str) -> None:
    """Of the names of properties: what they match decides whether the next version is compatible."""

    def version(**properties: Any) -> dict[str, Any]:
        patterns = {"^(a+)+$": {"type": "string"}, "^(([a-z])+.)+[A-Z]([a-z])+$": {"type": "string"}}
        document = {"type": "object", "patternProperties": patterns, "additionalProperties": False}
        return {"schemaType": "JSON", "schema": json.dumps(document | {"properties": properties})}

    assert registry.call("POST", f"/subjects/{topic}/versions", version())[0] == 200
    nasty = "a" * 5000 + "!"
    status, answer = registry.call("POST", f"/subjects/{topic}/versions", version(**{nasty: {"type": "integer"}}))
    assert status == 200, answer
    status, answer = registry.call("POST", f"/subjects/{topic}/versions", version(aaaa={"type": "integer"}))
    assert (status, answer["error_code"]) == (409, 40901)

"""Our serializers and confluent-kafka's through one registry: the same bytes, and each reads what the other wrote."""

import asyncio
import contextlib
import datetime
import json
import re
import threading
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import schema_registry as theirs
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import headwater
from compat.support.broker import BrokerProcess
from compat.support.registry import Registry
from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.cli.root import run
from headwater.client import AsyncConsumer, AsyncProducer, Consumer, Producer
from headwater.client.schema_registry import (
    AvroColumns,
    AvroColumnSerializer,
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufColumns,
    ProtobufColumnSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryColumns,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from headwater.client.schema_registry.transport import HttpTransport
from headwater.schemas import SchemaType, StoredSchema, parse
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema

USER: dict[str, Any] = {
    "type": "record",
    "name": "shop.User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "since", "type": {"type": "int", "logicalType": "date"}, "default": 0},
    ],
}
VALUE = {"name": "Ada", "age": 36, "tags": ["a", "b"], "since": 10}


@pytest.fixture(scope="module")
def registry(group_broker: BrokerProcess) -> Iterator[Registry]:
    with Registry(group_broker.bootstrap) as registry:
        yield registry


@pytest.fixture
def ours(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(registry.url) as client:
        yield client


@pytest.fixture
def confluent(registry: Registry) -> Iterator[theirs.SchemaRegistryClient]:
    with theirs.SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def value_of(topic: str, headers: list[Any] | None = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def test_avro_both_ways(ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str) -> None:
    text = json.dumps(USER)
    mine = AvroSerializer(ours, text).serialize(topic, VALUE)
    other = their_avro.AvroSerializer(confluent, text)(VALUE, value_of(topic))
    assert mine == other
    assert ours.subjects(topic) == [f"{topic}-value"]
    assert AvroDeserializer(ours).deserialize(topic, other) == their_avro.AvroDeserializer(confluent)(
        mine, value_of(topic)
    )


@pytest.mark.parametrize(("schema", "value"), [('"string"', "é"), ('"bytes"', b"\x00\x01"), ('["null","long"]', 5)])
def test_avro_without_a_record(ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str, schema: str, value: Any) -> None:  # fmt: skip
    mine = AvroSerializer(ours, schema, is_key=True).serialize(topic, value)
    key = SerializationContext(topic, MessageField.KEY)
    assert mine == their_avro.AvroSerializer(confluent, schema)(value, key)
    assert AvroDeserializer(ours, is_key=True).deserialize(topic, mine) == value
    assert their_avro.AvroDeserializer(confluent)(mine, key) == value


def test_avro_with_the_id_in_a_header(
    ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str
) -> None:
    text = json.dumps(USER)
    headers: list[Any] = []
    mine = AvroSerializer(ours, text, schema_id_location="header").serialize(topic, VALUE, headers)
    their_headers: list[Any] = []
    conf = {"schema.id.serializer": theirs.header_schema_id_serializer}
    other = their_avro.AvroSerializer(confluent, text, conf=conf)(VALUE, value_of(topic, their_headers))
    assert (mine, headers) == (other, their_headers)
    assert AvroDeserializer(ours).deserialize(topic, other, tuple(their_headers)) == their_avro.AvroDeserializer(
        confluent
    )(mine, value_of(topic, headers))


def test_a_reader_with_another_schema(ours: SchemaRegistryClient, topic: str) -> None:
    data = AvroSerializer(ours, json.dumps(USER)).serialize(topic, VALUE)
    evolved = USER | {"fields": [*USER["fields"][:2], {"name": "mail", "type": "string", "default": "-"}]}
    assert AvroDeserializer(ours, json.dumps(evolved)).deserialize(topic, data) == {
        "name": "Ada",
        "age": 36,
        "mail": "-",
    }
    AvroSerializer(ours, json.dumps(evolved)).serialize(topic, {"name": "x"})
    assert AvroDeserializer(ours, use_latest_version=True).deserialize(topic, data)["mail"] == "-"
    needed = USER | {"fields": [{"name": "must", "type": "string"}]}
    with pytest.raises(DataError, match="must"):
        AvroDeserializer(ours, json.dumps(needed)).deserialize(topic, data)
    with pytest.raises(SchemaRegistryError, match="incompatible") as told:
        AvroSerializer(ours, json.dumps(needed)).serialize(topic, {"must": "x"})
    assert told.value.status == 409
    assert ours.incompatibilities(f"{topic}-value", StoredSchema(json.dumps(needed)))


@dataclass
class Visit:
    page: str
    seconds: float
    by: str | None = None


def test_typed_records_through_our_own_clients(registry: Registry, group_broker: BrokerProcess, topic: str) -> None:
    visits = [Visit(f"/{index}", index / 2, None if index % 2 else "ada") for index in range(50)]
    with Producer(
        bootstrap_servers=group_broker.bootstrap, value_serializer=AvroSerializer(registry.url, Visit)
    ) as producer:
        for visit in visits:
            producer.send(topic, visit)
    deserializer = AvroDeserializer(registry.url, to=Visit)
    with Consumer(
        bootstrap_servers=group_broker.bootstrap, value_deserializer=deserializer, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        found: list[Visit] = []
        while len(found) < len(visits):
            found += [record.value for record in consumer.poll(1)]
    assert found == visits


class Held:
    """Answers once the loop has let it: a loop that waited for the answer never would."""

    def __init__(self, url: str) -> None:
        self._transport = HttpTransport([url], {}, 30)
        self.asked, self.released = threading.Event(), threading.Event()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self.asked.set()
        assert self.released.wait(60), "the loop waited for the registry"
        return self._transport.request(method, path, body)

    def close(self) -> None:
        self._transport.close()


async def while_the_loop_runs(held: Held, work: Awaitable[Any]) -> Any:
    task = asyncio.ensure_future(work)
    while not held.asked.is_set():
        await asyncio.sleep(0.01)
    assert not task.done()
    held.released.set()
    return await asyncio.wait_for(task, 60)


def test_asyncio_clients_do_not_hold_up_the_loop_for_the_registry(
    registry: Registry, group_broker: BrokerProcess, topic: str
) -> None:
    text = json.dumps(USER)
    at = {"bootstrap_servers": group_broker.bootstrap}
    with contextlib.ExitStack() as stack:
        helds = [Held(registry.url) for _ in range(4)]
        clients = [stack.enter_context(SchemaRegistryClient(registry.url, transport=held)) for held in helds]

        async def play() -> None:
            async with AsyncProducer(**at, value_serializer=AvroSerializer(clients[0], text)) as producer:
                await while_the_loop_runs(helds[0], producer.send(topic, VALUE))
                table = pa.table({"value": [{**VALUE, "since": datetime.date(1970, 1, 11)}]})
                encode = {"value": AvroColumnSerializer(clients[1], text, subject=f"{topic}-value")}
                await while_the_loop_runs(helds[1], producer.send_arrow(table, topic, encode=encode))
            where = {**at, "auto_offset_reset": "earliest", "enable_auto_commit": False}
            found: list[Any] = []
            async with AsyncConsumer(**where, value_deserializer=AvroDeserializer(clients[2])) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                found += await while_the_loop_runs(helds[2], consumer.poll(60))
                while len(found) < 2:
                    found += await consumer.poll(60)
            assert [each.value["name"] for each in found] == ["Ada", "Ada"]
            async with AsyncConsumer(**where) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                columns = AvroColumns(clients[3], subject=f"{topic}-value")
                batch = await while_the_loop_runs(helds[3], consumer.poll_arrow(60, schema=columns))
                assert batch.column("value").to_pylist()[0]["name"] == "Ada"

        asyncio.run(play())


def test_asyncio_clients_are_told_what_the_registry_refuses(
    registry: Registry, group_broker: BrokerProcess, topic: str
) -> None:
    async def play() -> None:
        serializer = AvroSerializer(registry.url, json.dumps(USER), auto_register_schemas=False)
        async with AsyncProducer(bootstrap_servers=group_broker.bootstrap, value_serializer=serializer) as producer:
            with pytest.raises(UserError, match="not found"):
                await producer.send(topic, VALUE)

    asyncio.run(play())


def test_json_both_ways(ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str) -> None:
    schema = json.dumps(
        {"title": "User", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    )
    value = {"name": "é"}
    serializer = JsonSchemaSerializer(ours, schema, validate=True)
    mine = serializer.serialize(topic, value)
    other = their_json.JSONSerializer(schema, confluent)(value, value_of(topic))
    assert mine == other
    assert JsonSchemaDeserializer(ours, validate=True).deserialize(topic, other) == value
    assert their_json.JSONDeserializer(schema, schema_registry_client=confluent)(mine, value_of(topic)) == value
    with pytest.raises(DataError, match="name"):
        serializer.serialize(topic, {"name": 5})
    with pytest.raises(DataError, match="type JSON, not AVRO"):
        AvroDeserializer(ours).deserialize(topic, mine)


def test_json_of_a_class(ours: SchemaRegistryClient, topic: str) -> None:
    data = JsonSchemaSerializer(ours, Visit, validate=True).serialize(topic, Visit("/", 1.5))
    assert JsonSchemaDeserializer(ours, to=Visit).deserialize(topic, data) == Visit("/", 1.5)


INNER = 'syntax = "proto3"; package {0}; message Address {{ string street = 1; }}'
OUTER = (
    'syntax = "proto3"; package {0}; import "{0}/inner.proto"; import "google/protobuf/timestamp.proto"; message Unused {{ }} message Person {{ string name = 1; '
    "Address home = 2; map<string, int32> counts = 3; optional int64 age = 4; google.protobuf.Timestamp at = 5; oneof how {{ string mail = 6; Nested nested = 7; }} "
    "message Nested {{ message Deep {{ repeated int32 numbers = 1; }} Deep deep = 1; }} }}"
)


def protobuf_classes(package: str) -> dict[str, Any]:
    """What protoc would generate: compiled by our own parser, used by google.protobuf."""
    pool = descriptor_pool.Default()
    inner = parse(SchemaType.PROTOBUF, INNER.format(package))
    outer = parse(SchemaType.PROTOBUF, OUTER.format(package), {f"{package}/inner.proto": inner})
    for path, schema in ((f"{package}/inner.proto", inner), (f"{package}/outer.proto", outer)):
        assert isinstance(schema, ProtobufSchema)
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(schema.descriptor(path)))
    names = ("Person", "Person.Nested", "Person.Nested.Deep", "Address")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in names}


def test_protobuf_both_ways(
    registry: Registry, ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str
) -> None:
    classes = protobuf_classes("p_" + re.sub(r"\W", "_", topic))
    person = classes["Person"](name="Ada", counts={"a": 1}, age=36, at=timestamp_pb2.Timestamp(seconds=5))
    person.home.street = "x"
    person.nested.deep.numbers.append(7)
    for name, message in (("Person", person), ("Person.Nested.Deep", person.nested.deep), ("Address", person.home)):
        place = f"{topic}-{name}"
        mine = ProtobufSerializer(ours, classes[name]).serialize(place, message)
        conf = {"use.deprecated.format": False}
        other = their_protobuf.ProtobufSerializer(classes[name], confluent, conf)(message, value_of(place))
        assert mine == other
        assert ProtobufDeserializer(ours, classes[name]).deserialize(place, other) == message
        # a client of its own: theirs keeps the text that it registered, whatever format is asked for later
        with theirs.SchemaRegistryClient({"url": registry.url}) as client:
            reader = their_protobuf.ProtobufDeserializer(classes[name], conf, client)
            assert reader(mine, value_of(place)) == message
        made = ProtobufDeserializer(ours).deserialize(place, other)
        assert made.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
        assert made.DESCRIPTOR.full_name == message.DESCRIPTOR.full_name


def test_another_address_is_tried_when_one_does_not_answer(registry: Registry, topic: str) -> None:
    with SchemaRegistryClient(f"http://127.0.0.1:1,{registry.url}") as client:
        assert client.register(topic, StoredSchema('"int"')).version == 1
        assert client.versions(topic) == [1]
    with (
        SchemaRegistryClient("http://127.0.0.1:1") as nobody,
        pytest.raises(SchemaRegistryError, match="No schema registry answers"),
    ):
        nobody.subjects()


def test_the_rest_of_the_client(ours: SchemaRegistryClient, topic: str) -> None:
    registered = ours.register(topic, StoredSchema('"int"'))
    assert registered.guid is not None
    assert ours.schema_by_guid(registered.guid).text == ours.schema_by_id(registered.id).text == '"int"'
    assert ours.lookup(topic, StoredSchema('"int"')).version == ours.latest(topic).version == 1
    assert ours.compatibility(topic) == ours.compatibility() == "BACKWARD"
    ours.set_compatibility("NONE", topic)
    assert ours.compatibility(topic) == "NONE"
    ours.register(topic, StoredSchema('"string"'))
    assert ours.delete_version(topic, 2) == 2
    assert ours.mode(topic) == "READWRITE"
    ours.set_mode("READONLY", topic)
    with pytest.raises(SchemaRegistryError) as told:
        ours.register(topic, StoredSchema('"double"'))
    assert told.value.error_code == 42205
    ours.set_mode("READWRITE", topic)
    assert ours.delete_subject(topic) == [1]


def evolved(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "string"}, *fields]})


FIRST = evolved({"name": "seconds", "type": "int"})
THIRD = evolved({"name": "seconds", "type": "double"})
SECOND = evolved({"name": "seconds", "type": "long"}, {"name": "by", "type": ["null", "string"], "default": None})


def test_versions_side_by_side_come_out_as_columns_of_the_latest(registry: Registry, group_broker: BrokerProcess, ours: SchemaRegistryClient, topic: str) -> None:  # fmt: skip
    first, second = AvroSerializer(ours, FIRST), AvroSerializer(ours, SECOND)
    expected: list[Any] = []
    with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
        for index in range(30):
            value = {"page": f"/{index}", "seconds": index}
            producer.send(topic, (second if index % 3 else first).serialize(topic, value))
            expected.append(value | {"by": None})
        producer.send(topic, None, key=b"k")
    expected.append(None)
    columns = AvroColumns(ours, subject=f"{topic}-value")
    with Consumer(bootstrap_servers=group_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[Any] = []
        while len(found) < len(expected):
            found += consumer.poll_arrow(1, schema=columns).column("value").to_pylist()
    assert found == expected
    with headwater.read(
        topic, bootstrap_servers=group_broker.bootstrap, decode={"value": AvroColumns(ours, THIRD)}
    ) as frame:
        assert [row and row["seconds"] for row in frame.to_arrow().column("value").to_pylist()] == [*range(30), None]


def test_a_column_that_is_no_avro_is_told(ours: SchemaRegistryClient, topic: str) -> None:
    import pyarrow as pa

    good = AvroSerializer(ours, FIRST).serialize(topic, {"page": "/", "seconds": 1})
    assert good is not None
    for rows, why in (
        ([good, b"{}"], "row 1 does not begin"),
        ([good, good[:-1]], "row 1: .*early"),
        ([b"\0\x7f\xff\xff\xff"], "not found"),
    ):
        with pytest.raises((KafkaError, SchemaRegistryError), match=why):
            AvroColumns(ours)(pa.array(rows, pa.binary()))
    other = json.dumps({"type": "record", "name": "Visit", "fields": [{"name": "page", "type": "int"}]})
    with pytest.raises(KafkaError, match="cannot be read"):
        AvroColumns(ours, other)(pa.array([good], pa.binary()))
    assert AvroColumns(ours, FIRST)(pa.array([None], pa.binary())).to_pylist() == [None]


def test_columns_become_records_that_confluent_reads(group_broker: BrokerProcess, ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str) -> None:  # fmt: skip
    import pyarrow as pa

    values = [{"page": f"/{index}", "seconds": index, "by": None if index % 2 else "ada"} for index in range(40)]
    table = pa.table({"visit": pa.array(values)})
    encode = AvroColumnSerializer(ours, SECOND, subject=f"{topic}-value")
    with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
        producer.send_arrow(table, topic, value="visit", encode={"value": encode})
    reader = their_avro.AvroDeserializer(confluent)
    with Consumer(bootstrap_servers=group_broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        found: list[Any] = []
        while len(found) < len(values):
            found += [reader(record.value, value_of(topic)) for record in consumer.poll(1)]
    assert found == values
    again = AvroColumnSerializer(ours, subject=f"{topic}-value")(pa.array(values))
    assert again.to_pylist() == encode(pa.array(values)).to_pylist()
    with pytest.raises(UserError, match="does not fit"):
        encode(pa.array([1, 2]))


PARCELS = """syntax = "proto3";
package post;
import "google/protobuf/timestamp.proto";
message Box { int32 width = 1; }
message Parcel {
  string to = 1;
  optional double weight = 2;
  repeated Box boxes = 3;
  google.protobuf.Timestamp sent = 4;
  message Label { string text = 1; }
}
"""


def parcel_class(name: str) -> Any:
    parsed = parse(SchemaType.PROTOBUF, PARCELS)
    assert isinstance(parsed, ProtobufSchema)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor("parcels.proto")))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_columns_are_what_confluents_serializer_wrote_and_its_deserializer_reads(
    ours: SchemaRegistryClient, confluent: theirs.SchemaRegistryClient, topic: str
) -> None:
    import pyarrow as pa

    parcel = parcel_class("post.Parcel")
    write = their_protobuf.ProtobufSerializer(parcel, confluent, {"use.deprecated.format": False})
    messages = [parcel(to=f"town {at}", weight=at if at % 2 else None) for at in range(20)]
    messages[3].boxes.add().width = 7
    messages[4].sent.FromMicroseconds(1_700_000_000_000_001)
    rows = [write(each, value_of(topic)) for each in messages]
    columns = ProtobufColumns(ours, subject=f"{topic}-value")
    found = columns(pa.array([*rows, None], pa.binary()))
    assert found[3].as_py() == {"to": "town 3", "weight": 3.0, "boxes": [{"width": 7}], "sent": None}
    assert found[4]["sent"].as_py().microsecond == 1
    assert found[20].as_py() is None
    encode = ProtobufColumnSerializer(ours, subject=f"{topic}-value", message="post.Parcel")
    again = encode(found.slice(0, 20))
    assert again.to_pylist() == rows
    read = their_protobuf.ProtobufDeserializer(parcel, {"use.deprecated.format": False})
    assert [read(each, value_of(topic)) for each in again.to_pylist()] == messages
    with pytest.raises(UserError, match=r"no message post\.Letter"):
        ProtobufColumnSerializer(ours, subject=f"{topic}-value", message="post.Letter")(found)


def test_protobuf_columns_of_other_messages_and_versions_are_told(ours: SchemaRegistryClient, topic: str) -> None:
    import pyarrow as pa

    label, box = parcel_class("post.Parcel.Label"), parcel_class("post.Box")
    first = ProtobufSerializer(ours, label).serialize(topic, label(text="fragile"))
    other = ProtobufSerializer(ours, box).serialize(topic, box(width=1))
    assert first is not None
    assert other is not None
    assert ProtobufColumns(ours)(pa.array([first, None, first], pa.binary())).to_pylist() == [
        {"text": "fragile"}, None, {"text": "fragile"},
    ]  # fmt: skip
    long_path = first[:5] + b"\x04\x02\x00" + first[8:]
    assert long_path == first
    box_again = other[:5] + b"\x02\x00" + other[6:]  # [0], not in its short form
    assert ProtobufColumns(ours)(pa.array([other, box_again], pa.binary())).to_pylist() == [{"width": 1}] * 2
    for rows, why in (
        ([first, b"{}"], "row 1 does not begin"),
        ([first, first[:-3]], "row 1: "),
        ([first, other], "a record is a post.Box, not a post.Parcel.Label"),
        ([first[:5] + b"\x12" + first[6:]], "no message at|cannot have the index"),
    ):
        with pytest.raises(KafkaError, match=why):
            ProtobufColumns(ours)(pa.array(rows, pa.binary()))
    changed = PARCELS.replace("string text = 1", "int32 text = 1")
    with pytest.raises(KafkaError, match="cannot be read"):
        ProtobufColumns(ours, changed)(pa.array([first], pa.binary()))
    newer = PARCELS.replace("string text = 1;", "string text = 1; int32 size = 2;")
    assert ProtobufColumns(ours, newer)(pa.array([first], pa.binary())).to_pylist() == [{"text": "fragile", "size": 0}]


def test_a_topic_is_typed_by_itself(
    group_broker: BrokerProcess,
    registry: Registry,
    ours: SchemaRegistryClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pyarrow as pa

    box = parcel_class("post.Box")
    avro = AvroSerializer(ours, FIRST).serialize(topic, {"page": "/", "seconds": 1})
    with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
        producer.send(topic, avro, key=b"plain")
    with headwater.read(topic, bootstrap_servers=group_broker.bootstrap, schema_registry=ours) as frame:
        (row,) = frame.to_arrow().select(["key", "value"]).to_pylist()
    assert row == {"key": b"plain", "value": {"page": "/", "seconds": 1}}
    monkeypatch.setenv("HEADWATER_SCHEMA_REGISTRY_URL", registry.url)
    with headwater.read(topic, bootstrap_servers=group_broker.bootstrap) as frame:
        assert frame.to_arrow().column("value").to_pylist() == [{"page": "/", "seconds": 1}]
    with headwater.read(topic, bootstrap_servers=group_broker.bootstrap, schema_registry="none") as frame:
        assert frame.to_arrow().column("value").to_pylist() == [avro]
    json_value = JsonSchemaSerializer(ours, '{"type": "object"}').serialize(f"{topic}-json", {"a": 1})
    proto = ProtobufSerializer(ours, box).serialize(f"{topic}-proto", box(width=3))
    for data, wanted in ((avro, {"page": "/", "seconds": 1}), (json_value, {"a": 1}), (proto, {"width": 3})):
        assert RegistryColumns(ours)(pa.array([data, None], pa.binary())).to_pylist() == [wanted, None]
    with pytest.raises(KafkaError, match="not JSON"):
        RegistryColumns(ours)(pa.array([json_value, avro], pa.binary()))


def test_json_has_the_types_of_its_schema_and_not_of_the_first_values(ours: SchemaRegistryClient, topic: str) -> None:
    text = json.dumps({"type": "object", "properties": {"n": {"type": "number"}, "s": {"type": ["null", "string"]}}})
    serializer = JsonSchemaSerializer(ours, text)
    data = [serializer.serialize(topic, each) for each in ({"n": 1, "more": True}, {"n": 2}, {"s": "2024-01-01"})]
    wanted = pa.struct([("n", pa.float64()), ("s", pa.string()), ("more", pa.bool_())])
    for columns in (RegistryColumns(ours), RegistryColumns(ours, subject=f"{topic}-value")):
        assert columns(pa.array(data[:2], pa.binary())).type == wanted
        assert columns(pa.array([data[2]], pa.binary())).to_pylist() == [{"n": None, "s": "2024-01-01"}]


def test_consume_shows_typed_records_as_json(
    group_broker: BrokerProcess, ours: SchemaRegistryClient, registry: Registry, topic: str, capfdbinary: Any
) -> None:
    box = parcel_class("post.Box")
    values = [
        AvroSerializer(ours, FIRST).serialize(topic, {"page": "/", "seconds": 1}),
        ProtobufSerializer(ours, box).serialize(f"{topic}-proto", box(width=3)),
        JsonSchemaSerializer(ours, '{"type": "object"}').serialize(f"{topic}-json", {"a": 1}),
        b"plain",
        b"\0\x7f\xff\xff\xffunknown",
    ]
    with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    arguments = [
        "consume",
        topic,
        "-e",
        "-o",
        "start",
        "--bootstrap-server",
        group_broker.bootstrap,
        "--registry",
        registry.url,
    ]
    assert run(arguments) == 0
    shown = capfdbinary.readouterr().out
    assert shown == b'{"page": "/", "seconds": 1}\n{"width": 3}\n{"a": 1}\nplain\n\0\x7f\xff\xff\xffunknown\n'

"""Typed keys and values: `value.format` with a schema registry, read and written,
held against Confluent's serializers.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from compat.support.registry import Registry
from headwater.demo import demo_run
from headwater.testing import Broker

Make = Callable[..., None]

FIRST = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": "int"}],
}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[Registry]:
    with Registry(broker.bootstrap_servers) as running:
        yield running


class Typed:
    def __init__(self, spark: SparkSession, broker: Broker, registry: Registry, topic: str) -> None:
        self.spark = spark
        self.topic = topic
        self.servers = broker.bootstrap_servers
        self.options = {"kafka.bootstrap.servers": self.servers, "schema.registry.url": registry.url}

    def frame(self, topic: str | None = None, **options: str) -> DataFrame:
        reader = self.spark.read.format("headwater").options(**self.options, **{"value.format": "avro"})
        return reader.option("subscribe", topic or self.topic).options(**options).load()

    def encoded(self, schema: Any, values: list[dict[str, Any]]) -> list[bytes]:
        """By Confluent's serializer, which registers the schema."""
        with SchemaRegistryClient({"url": self.options["schema.registry.url"]}) as client:
            serialize = AvroSerializer(client, json.dumps(schema))
            context = SerializationContext(self.topic, MessageField.VALUE)
            return [bytes(serialize(value, context) or b"") for value in values]


@pytest.fixture
def typed(spark: SparkSession, broker: Broker, registry: Registry, topic: str, create_topic: Make) -> Typed:
    create_topic(topic)
    return Typed(spark, broker, registry, topic)


def records(servers: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), timeout=300)
    consumer.close()
    return found


def test_avro_from_topic_to_topic(typed: Typed, create_topic: Make, produce: Make, tmp_path: Path) -> None:
    """Two versions and a record that is none, through a stream: typed on the way, and read by Confluent's deserializer
    behind it.
    """
    out, dead = f"{typed.topic}.out", f"{typed.topic}.dead"
    create_topic(out)
    create_topic(dead)
    produce(typed.topic, typed.encoded(FIRST, [{"page": "/", "n": 1}]))
    produce(typed.topic, [b"no avro"], key=b"k", headers=[("h", b"1")])
    produce(typed.topic, typed.encoded(SECOND, [{"page": "/b", "n": 2**40, "at": 1_700_000_000_123}]))
    query = demo_run.start(
        typed.spark.readStream.format("headwater")
        .options(**typed.options, **{"value.format": "avro", "badRecords": f"dead-letter:{dead}"})
        .option("subscribe", typed.topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("struct(value.page, value.n * 2 AS n, value.at) AS value")
        .writeStream.format("headwater")
        .options(**typed.options, **{"value.format": "avro"})
        .option("topic", out)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )
    assert query.awaitTermination(300)
    with SchemaRegistryClient({"url": typed.options["schema.registry.url"]}) as client:
        decode = AvroDeserializer(client)
        context = SerializationContext(out, MessageField.VALUE)
        first, second = (decode(each.value(), context) for each in records(typed.servers, out, 2))
    assert first == {"page": "/", "n": 2, "at": None}
    assert (second["page"], second["n"], second["at"].microsecond) == ("/b", 2**41, 123_000)
    (letter,) = records(typed.servers, dead, 1)
    told = dict(letter.headers())
    assert (letter.key(), letter.value(), told.pop("h")) == (b"k", b"no avro", b"1")
    assert told == {
        "__headwater.errors.reason": b"value: it does not begin with the id of a schema",
        "__headwater.errors.topic": typed.topic.encode(),
        "__headwater.errors.partition": b"0",
        "__headwater.errors.offset": b"1",
    }


def test_a_schema_that_evolved_incompatibly_while_the_query_was_there(
    typed: Typed, registry: Registry, produce: Make
) -> None:
    produce(typed.topic, typed.encoded(FIRST, [{"page": "/", "n": 1}]))
    frame = typed.frame().select("value.*")  # its schema is taken here, what there is to read with the action
    registry.call("PUT", f"/config/{typed.topic}-value", {"compatibility": "NONE"})
    other = {**FIRST, "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": "string"}]}
    produce(typed.topic, typed.encoded(other, [{"page": "/", "n": "one"}]))
    with pytest.raises(PySparkException, match=r"the query took version 1 of .* was written with version 2"):
        frame.collect()
    assert [
        row.n for row in typed.frame(startingOffsets=f'{{"{typed.topic}": {{"0": 1}}}}').select("value.n").collect()
    ] == ["one"]
    with pytest.raises(PySparkException, match="There is no schema for the column key"):
        typed.frame(**{"key.format": "avro"})


def test_json_with_and_without_a_registry(typed: Typed, create_topic: Make, produce: Make) -> None:
    """A batch is written with the schema that its columns give; read with it, and as plain JSON by a schema that is
    given.
    """
    rows = typed.spark.sql("SELECT struct(1L AS n, timestamp_seconds(5) AS at, array('a') AS tags) AS value")
    for topic, settings in ((typed.topic, {}), (f"{typed.topic}.plain", {"schema.registry.url": "-"})):
        options = {name: text for name, text in {**typed.options, **settings}.items() if text != "-"}
        if settings:
            create_topic(topic)
        rows.write.format("headwater").options(**options, **{"value.format": "json"}).option("topic", topic).mode(
            "append"
        ).save()
        produce(topic, [b"no json"])
    read = typed.frame(**{"value.format": "json", "badRecords": "drop"})
    assert (
        read.select("value").schema.simpleString() == "struct<value:struct<n:bigint,at:timestamp,tags:array<string>>>"
    )
    (row,) = read.selectExpr("value.n", "unix_seconds(value.at) at", "value.tags").collect()
    assert tuple(row) == (1, 5, ["a"])
    given = typed.spark.read.format("headwater").option("kafka.bootstrap.servers", typed.servers)
    wanted = StructType([StructField("n", IntegerType())]).json()
    given = given.options(subscribe=f"{typed.topic}.plain", **{"value.format": "json", "value.schema": wanted})
    assert [row.n for row in given.option("badRecords", "drop").load().select("value.n").collect()] == [1]
    with pytest.raises(PySparkException, match=r"The value of the record of .* at offset 1 cannot be decoded"):
        given.option("badRecords", "fail").load().collect()


PARCEL = 'syntax = "proto3"; package post; message Parcel { string to = 1; optional double weight = 2; repeated int32 sizes = 3; }'


def test_protobuf_goes_through_a_topic(typed: Typed) -> None:
    options = {"value.format": "protobuf", "value.subject": f"{typed.topic}-value"}
    frame = typed.spark.sql(
        "SELECT named_struct('to', concat('town ', id), 'weight', IF(id = 1, NULL, id * 0.5D), 'sizes', array(CAST(id AS INT))) AS value FROM range(3)"
    )
    frame.write.format("headwater").options(**typed.options, **options).option("value.schema", PARCEL).option(
        "topic", typed.topic
    ).mode("append").save()
    with SchemaRegistryClient({"url": typed.options["schema.registry.url"]}) as client:
        assert client.get_latest_version(f"{typed.topic}-value").schema.schema_type == "PROTOBUF"
    reader = typed.spark.read.format("headwater").options(**typed.options, **options).option("subscribe", typed.topic)
    rows = sorted(row.value for row in reader.load().collect())
    assert [(row.to, row.weight, row.sizes) for row in rows] == [
        ("town 0", 0.0, [0]), ("town 1", None, [1]), ("town 2", 1.0, [2]),
    ]  # fmt: skip

"""Connect's converters with a real schema registry: others' deserializers read what a source wrote, and a sink reads it
too.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import schema_registry as theirs
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.serialization import MessageField, SerializationContext

from compat.support.broker import BrokerProcess
from compat.support.local_cluster import until
from compat.support.registry import Registry
from compat.test_connect_standalone import Door, read_topic, worker

TEMPLATE = {
    "id": {"type": "sequence"},
    "kind": {"type": "choice", "of": ["a"]},
    "at": {"type": "timestamp"},
    "rate": {"type": "double"},
}


def converted(registry: Registry, name: str) -> dict[str, str]:
    return {
        "key.converter": "StringConverter",
        "value.converter": name,
        "value.converter.schema.registry.url": registry.url,
    }


def generate(door: Door, topic: str, converters: dict[str, str], count: int = 3) -> None:
    own = {"topic": topic, "template": json.dumps(TEMPLATE), "iterations": str(count), "max.interval.ms": "0"}
    config = {"connector.class": "Datagen", **own, **converters}
    assert door.ask("POST", "/connectors", {"name": f"{topic}-source", "config": config})[0] == 201


def copy_to_file(door: Door, topic: str, file: Path, converters: dict[str, str]) -> None:
    config = {"connector.class": "FileStreamSink", "topics": topic, "file": str(file), **converters}
    assert door.ask("POST", "/connectors", {"name": f"{topic}-sink", "config": config})[0] == 201
    until(lambda: file.exists() and file.read_text().count("\n") == 3, "the sink has all records")
    assert file.read_text().startswith("Struct{id=0,kind=a,at=")


def copy_to_parquet(door: Door, bootstrap: str, topic: str, folder: Path, converters: dict[str, str]) -> None:
    """So many that they go by columns."""
    generate(door, topic, converters, 40)
    read_topic(bootstrap, topic, 40)
    config = {"connector.class": "TopicFiles", "topics": topic, "path": str(folder), "flush.size": "20", **converters}
    assert door.ask("POST", "/connectors", {"name": f"{topic}-files", "config": config})[0] == 201
    until(lambda: len(list(folder.rglob("*.parquet"))) == 2, "both files are there")
    rows = [row for file in sorted(folder.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert [row["id"] for row in rows] == list(range(40))
    assert all(row["at"].tzinfo is not None and 0 <= row["rate"] <= 1 for row in rows)


def check(values: list[Any]) -> None:
    assert [value["id"] for value in values] == [0, 1, 2]
    assert {value["kind"] for value in values} == {"a"}
    assert all(0 <= value["rate"] <= 1 for value in values)


def test_confluents_deserializers_read_what_datagen_wrote(
    tmp_path: Path, group_broker: BrokerProcess, topic: str
) -> None:
    in_json = f"{topic}-json"
    bootstrap = group_broker.bootstrap
    with (
        Registry(bootstrap) as registry,
        theirs.SchemaRegistryClient({"url": registry.url}) as client,
        worker(tmp_path, bootstrap) as door,
    ):
        avro = converted(registry, "io.confluent.connect.avro.AvroConverter")
        generate(door, topic, avro)
        read = their_avro.AvroDeserializer(client)
        context = SerializationContext(topic, MessageField.VALUE)
        values = [read(each.value, context) for each in read_topic(bootstrap, topic, 3)]
        check(values)
        assert all(value["at"].tzinfo is not None for value in values)
        registered = json.loads(client.get_latest_version(f"{topic}-value").schema.schema_str)
        assert registered["fields"][2]["type"]["logicalType"] == "timestamp-millis"
        copy_to_file(door, topic, tmp_path / "avro.txt", avro)
        copy_to_parquet(door, bootstrap, f"{topic}-columns", tmp_path / "files", avro)

        with_json = converted(registry, "JsonSchemaConverter")
        generate(door, in_json, with_json)
        read_json = their_json.JSONDeserializer(None, schema_registry_client=client, conf={"validate": True})
        context = SerializationContext(in_json, MessageField.VALUE)
        check([read_json(each.value, context) for each in read_topic(bootstrap, in_json, 3)])
        copy_to_file(door, in_json, tmp_path / "json.txt", with_json)

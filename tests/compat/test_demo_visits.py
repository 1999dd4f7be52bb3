"""The typed topic of the demo: visits as Avro, which Confluent's deserializer reads by the registry alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat.support.broker import BrokerProcess
from headwater.demo.schema_registry import DemoRegistry
from headwater.demo.visits import visits_app

START = 1_700_000_000_000


@pytest.fixture
def registry(group_broker: BrokerProcess, tmp_path: Path) -> Iterator[str]:
    with DemoRegistry(group_broker.bootstrap, tmp_path / "registry.log") as registry:
        yield registry.url


def test_visits_are_typed(registry: str, topic: str) -> None:
    with visits_app("", "views", topic, registry).test() as driver:
        for at_s, visitor, page in ((0, "ann", "/"), (12, "ann", "/news"), (60, "ben", "/"), (120, "cat", "/")):
            view = {"page": page, "time_ms": START + at_s * 1000, "visitor": visitor}
            driver.pipe("views", visitor, json.dumps(view).encode())
        rows = driver.read_raw(topic)
    with SchemaRegistryClient({"url": registry}) as client:
        assert client.get_latest_version(f"{topic}-value").schema.schema_type == "AVRO"
        read = AvroDeserializer(client)
        where = SerializationContext(topic, MessageField.VALUE)
        assert [(row.key, read(row.value, where)) for row in rows] == [
            (b"ann", {"visitor": "ann", "seconds": 12.0, "pages": 2, "path": ["/", "/news"]}),
            (b"ben", {"visitor": "ben", "seconds": 0.0, "pages": 1, "path": ["/"]}),
        ]

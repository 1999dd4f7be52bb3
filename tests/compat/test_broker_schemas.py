"""Schemas checked by the broker, before confluent-kafka's AvroSerializer and a registry as users start it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat.support.broker import BrokerProcess
from compat.support.registry import Registry
from headwater.client import Admin, NewTopic
from headwater.testing import Broker

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
PATIENCE_S = 120


@pytest.fixture(scope="module")
def registry(group_broker: BrokerProcess) -> Iterator[Registry]:
    with Registry(group_broker.bootstrap) as registry:
        yield registry


@pytest.fixture(scope="module")
def broker(registry: Registry) -> Iterator[Broker]:
    with Broker({"confluent.schema.registry.url": registry.url}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics(
                [
                    NewTopic("typed", 1, 1, configs={"confluent.value.schema.validation": "true"}),
                    NewTopic(
                        "named",
                        1,
                        1,
                        configs={
                            "headwater.value.schema.validation": "true",
                            "headwater.value.subject.name.strategy": "record",
                        },
                    ),
                    NewTopic("free", 1, 1),
                ]
            )
        yield broker


class Sender:
    """One record at a time, and what became of it."""

    def __init__(self, broker: Broker, **settings: Any) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **settings})

    def send(self, topic: str, *values: bytes | None) -> list[KafkaError | None]:
        results: list[KafkaError | None] = []
        for value in values:
            self._producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        assert self._producer.flush(PATIENCE_S) == 0
        return results


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_an_avro_serializer_registered_is_taken_and_all_else_refused(
    broker: Broker, registry: Registry, codec: str
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    with client:
        avro = AvroSerializer(client, USER)
        typed = avro({"name": "Ada"}, SerializationContext("typed", MessageField.VALUE))
        other = AvroSerializer(client, USER.replace("User", "Other"))
        elsewhere = other({"name": "Ada"}, SerializationContext("elsewhere", MessageField.VALUE))
    sender = Sender(broker, **{"compression.type": codec})
    assert sender.send("typed", typed, None, typed) == [None, None, None]
    for wrong in (b"plain", elsewhere, b"\0\0\0\x7f\xff" + typed[5:]):
        (error,) = sender.send("typed", wrong)
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD
    assert sender.send("free", b"plain") == [None]
    assert sender.send("named", b"plain")[0] is not None


def test_the_subject_may_be_the_name_of_the_record(broker: Broker, registry: Registry) -> None:
    registered = registry.register("User", USER)
    sender = Sender(broker)
    assert sender.send("named", b"\0" + registered["id"].to_bytes(4) + b"\6Ada") == [None]
    other = registry.register("named-value", USER.replace("User", "Unnamed"))
    (error,) = sender.send("named", b"\0" + other["id"].to_bytes(4) + b"\6Ada")
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD


def test_a_registry_that_is_away_does_not_keep_known_schemas_out(broker: Broker, registry: Registry) -> None:
    """And what is not known is retried by the producer until the registry is back."""
    known = b"\0" + registry.register("typed-value", USER)["id"].to_bytes(4) + b"\6Ada"
    later = USER.replace("]}", ', {"name": "age", "type": "int", "default": 0}]}')
    unseen = b"\0" + registry.register("typed-value", later)["id"].to_bytes(4) + b"\6Ada\2"
    sender = Sender(broker)
    assert sender.send("typed", known) == [None]
    registry.stop()
    try:
        assert sender.send("typed", known) == [None]
        hasty = Sender(broker, **{"retries": 0, "enable.idempotence": False})
        (error,) = hasty.send("typed", unseen)
        assert error is not None
        assert error.code() == KafkaError.REQUEST_TIMED_OUT
    finally:
        registry.start()
    assert sender.send("typed", unseen) == [None]

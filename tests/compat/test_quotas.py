"""Quotas as others' clients meet them: what they are told, that they lose nothing by waiting, and that their neighbours
do not wait.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.java import Java
from headwater.client import Admin
from headwater.client.admin import quota_entity
from headwater.client.outcomes import all_or_raise

TIMEOUT_S = 120
RECORDS, SIZE_BYTES = 40, 1000
IN_ALL = RECORDS * SIZE_BYTES


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    started = HeadwaterBroker(tmp_path_factory.mktemp("quotas"), {"quota.window.num": "2"})
    started.start()
    yield started
    started.stop()


@pytest.fixture
def orders(broker: BrokerProcess, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(TIMEOUT_S)
    return topic


def set_quota(broker: BrokerProcess, client_id: str, **quotas: float) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        all_or_raise(admin.alter_client_quotas({quota_entity(client_id=client_id): quotas}))


def send_all(broker: BrokerProcess, topic: str, client_id: str, throttles: list[float]) -> float:
    """How long it took, in seconds, until everything was confirmed."""
    outcomes: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "batch.num.messages": 5,
            "linger.ms": 0,
            "enable.idempotence": True,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    began_s = time.monotonic()
    for number in range(RECORDS):
        producer.produce(topic, bytes([number]) * SIZE_BYTES, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert outcomes == [None] * RECORDS
    return time.monotonic() - began_s


def read_all(broker: BrokerProcess, topic: str, client_id: str, throttles: list[float]) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": topic,
            "fetch.message.max.bytes": 6 * SIZE_BYTES,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    values: list[int] = []
    consumer.assign([TopicPartition(topic, 0, 0)])
    until_s = time.monotonic() + TIMEOUT_S
    while len(values) < RECORDS and time.monotonic() < until_s:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            values.append((message.value() or b"?")[0])
    consumer.close()
    return values


def test_librdkafka_is_told_to_wait_and_loses_nothing(broker: BrokerProcess, orders: str) -> None:
    throttles: list[float] = []
    set_quota(broker, "slow", producer_byte_rate=IN_ALL / 4, consumer_byte_rate=IN_ALL / 2)
    assert send_all(broker, orders, "slow", throttles) > 1, "four seconds' worth, of which two may come at once"
    assert max(throttles) > 0
    throttles.clear()
    assert send_all(broker, orders, "free", throttles) > 0
    assert throttles == []
    assert sorted(read_all(broker, orders, "free", throttles)) == sorted([*range(RECORDS)])
    assert throttles == []
    assert read_all(broker, orders, "slow", throttles) == list(range(RECORDS))
    assert max(throttles) > 0


def test_java_s_producer_measures_what_it_was_told(broker: BrokerProcess, orders: str, java: Java) -> None:
    set_quota(broker, "measured", producer_byte_rate=IN_ALL / 4)
    done = java.tool(
        "ProducerPerformance",
        *("--topic", orders, "--num-records", str(RECORDS), "--record-size", str(SIZE_BYTES), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap}", "client.id=measured", "batch.size=5000"),
        "--print-metrics",
    )
    assert f"{RECORDS} records sent" in done.stdout, done
    told = re.search(r"produce-throttle-time-max\S*\s*:\s*([\d.]+)", done.stdout)
    assert told is not None, done.stdout
    assert float(told[1]) > 0

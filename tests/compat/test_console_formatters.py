"""The formatters of internal topics in our console consumer, beside Apache Kafka's, over the same partitions."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import Java
from compat.support.quick import QUICK
from compat.support.records import read_all
from headwater.client import Consumer, Producer, TopicPartition

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer."
INTERNAL_PARTITIONS = int(QUICK["offsets.topic.num.partitions"])  # of both topics
OURS = [sys.executable, "-c", "from headwater.cli.kafka.console_consumer import main; main()"]
PATIENCE_S = 60
LEVEL = "read_uncommitted"  # the default of console consumers


@pytest.fixture
def written(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> str:
    """A group and a transactional id with the name of a topic; the group has no members any more."""
    topic = group_topic(1)
    with Producer(bootstrap_servers=group_broker.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"v")
        for _ in range(5):  # formatters show their records, which read_committed leaves out
            producer.begin_transaction()
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 0}, topic)
            producer.abort_transaction()
    settings = {"bootstrap.servers": group_broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in consumer.poll(PATIENCE_S)] == [b"v"]
        consumer.commit()
    return topic


@pytest.mark.parametrize(
    ("internal", "formatter"),
    [
        ("__consumer_offsets", "OffsetsMessageFormatter"),
        ("__consumer_offsets", "GroupMetadataMessageFormatter"),
        ("__transaction_state", "TransactionLogMessageFormatter"),
    ],
)
def test_internal_topics_are_shown_as_kafkas_formatters_do(
    group_broker: BrokerProcess, group_java: Java, written: str, internal: str, formatter: str
) -> None:
    found = 0
    for partition in range(INTERNAL_PARTITIONS):
        count = len(read_all(group_broker.bootstrap, internal, partition, **{"isolation.level": LEVEL}))
        if not count:
            continue
        arguments = [
            *("--bootstrap-server", group_broker.bootstrap, "--topic", internal, "--partition", str(partition)),
            *("--offset", "earliest", "--max-messages", str(count), "--formatter", FORMATTERS + formatter),
        ]
        theirs = group_java.tool(CONSOLE_CONSUMER, *arguments).stdout
        mine = subprocess.run(
            [*OURS, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout
        lines = [json.loads(line) for line in mine.splitlines()]
        assert lines == objects(theirs)
        found += f'"{written}"' in mine
    assert found == 1


def objects(text: str) -> list[dict[str, Any]]:
    """Kafka's formatters write one object after the other, without anything in between."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        one, at = decoder.raw_decode(text, at)
        found.append(one)
    return found

"""Consume, transform, produce: a process to be killed. `python copier.py BOOTSTRAP GROUP TRANSACTIONAL_ID SOURCE
TARGET`.

Each transaction takes some records of the source, writes "copy of ..." to the same partition of the target, and commits
the offsets with them. After an error that aborts, it reads again from what is committed; after a fatal one it ends, and
whoever started it starts it again.

librdkafka 2.16 may wait for ever in `send_offsets_to_transaction`, past its timeout, for a group coordinator that it
has given up itself: when it has lost all brokers and begins again from its bootstrap servers, or when a broker is gone
from the metadata. It does so with Apache Kafka too (librdkafka issues 5456 and 5511). Meanwhile its consumer sends
heartbeats, so the group waits for it to join until its rebalance timeout is over. Hence the first is turned off here,
and a call that does not return ends the process.
"""

import faulthandler
import random
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

PATIENCE_S = 20
TIMEOUT_S = 12


def run(bootstrap: str, group: str, transactional_id: str, source: str, target: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 2000,
            "heartbeat.interval.ms": 200,
            "reconnect.backoff.max.ms": 300,
            "log_level": 0,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 8000,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 300,
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
    )
    _retrying(lambda: producer.init_transactions(TIMEOUT_S))
    member: list[Any] = []

    def assigned(consumer: Any, _partitions: list[Any]) -> None:
        """Who we are in this generation. Asked for later it may be nobody, and offsets of nobody are not fenced."""
        member[:] = [consumer.consumer_group_metadata()]

    consumer.subscribe([source], on_assign=assigned)
    while True:
        messages = [one for one in consumer.consume(random.randint(1, 40), 0.2) if one.error() is None]
        if messages:
            _copy(consumer, producer, messages, target, member[0])


def _copy(consumer: Any, producer: Any, messages: list[Any], target: str, member: Any) -> None:
    try:
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, b"copy of " + message.value(), partition=message.partition())
        if random.random() < 0.1:
            raise KafkaException(KafkaError(KafkaError._INTR, "at random", False, False, True))
        ends = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
        offsets = [TopicPartition(*place, end) for place, end in ends.items()]
        _retrying(lambda: producer.send_offsets_to_transaction(offsets, member, TIMEOUT_S))
        _retrying(lambda: producer.commit_transaction(TIMEOUT_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _retrying(lambda: producer.abort_transaction(TIMEOUT_S))
        _rewind(consumer)


def _rewind(consumer: Any) -> None:
    for place in consumer.committed(consumer.assignment(), TIMEOUT_S):
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset < 0:
            place.offset = 0
        consumer.seek(place)


def _retrying(call: Any) -> None:
    """Who is told to try again for long, or told nothing, ends with a traceback and is started anew."""
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    try:
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    run(*sys.argv[1:])

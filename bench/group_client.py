"""Members of librdkafka, and transactional producers of librdkafka and of our own client, run as a process of its own.

    python -m bench.group_client join PORT TOPIC MEMBERS PARTITIONS
    python -m bench.group_client produce PORT TOPIC CLIENT RECORDS VALUE_BYTES PRODUCERS TRANSACTION_RECORDS

`join`: the milliseconds from the first subscription until every partition has an owner and every member a part.
`produce`: the records per second of several producers in threads, each waiting for its last 1,000 before it goes on:
by a commit of its transaction, or (TRANSACTION_RECORDS 0) by a flush. CLIENT is librdkafka or headwater.
One JSON object on stdout.
"""

import json
import sys
import threading
import time
import uuid

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.client import value_of

STALL_S = 60
WAIT_RECORDS = 1000


def join(port: int, topic: str, members: int, partitions: int) -> dict[str, float]:
    group = f"bench-{uuid.uuid4()}"
    config = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": group, "enable.auto.commit": False}
    config |= {"heartbeat.interval.ms": 500, "log_level": 0}
    consumers = [Consumer(config) for _ in range(members)]
    held = [0] * members

    def assigned(index: int, got: list[TopicPartition]) -> None:
        held[index] = len(got)

    for consumer in consumers:
        consumer.poll(0)  # the client is up: from here on it is about the group
    began = time.perf_counter()
    for index, consumer in enumerate(consumers):
        consumer.subscribe(
            [topic],
            on_assign=lambda _, got, index=index: assigned(index, got),
            on_revoke=lambda _, __, index=index: assigned(index, []),
        )
    while sum(held) != partitions or not all(held):
        for consumer in consumers:
            consumer.poll(0)
        time.sleep(0.001)
        if time.perf_counter() - began > STALL_S:
            raise KafkaException(f"{sum(held)} of {partitions} partitions have an owner after {STALL_S} s")
    took_ms = (time.perf_counter() - began) * 1e3
    for consumer in consumers:
        consumer.unsubscribe()
    for consumer in consumers:
        consumer.close()
    return {"ms": took_ms}


class Librdkafka:
    def __init__(self, port: int, transactional: bool) -> None:
        config = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "linger.ms": 1,
            "log_level": 0,
        }
        if transactional:
            config["transactional.id"] = f"bench-{uuid.uuid4()}"
        self._producer = Producer(config)
        if transactional:
            self._producer.init_transactions(STALL_S)

    def plainly(self, topic: str, partition: int, value: bytes) -> None:
        produce = self._producer.produce
        for _ in range(WAIT_RECORDS):
            produce(topic, value, partition=partition)
        if self._producer.flush(STALL_S):
            raise KafkaException("records were not delivered")

    def in_transaction(self, topic: str, partition: int, value: bytes) -> None:
        produce = self._producer.produce
        self._producer.begin_transaction()
        for _ in range(WAIT_RECORDS):
            produce(topic, value, partition=partition)
        self._producer.commit_transaction(STALL_S)


class Headwater:
    def __init__(self, port: int, transactional: bool) -> None:
        from headwater.client import Producer as Own

        config = {"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 1}
        if transactional:
            config["transactional.id"] = f"bench-{uuid.uuid4()}"
        self._producer = Own(config)
        if transactional:
            self._producer.init_transactions()

    def plainly(self, topic: str, partition: int, value: bytes) -> None:
        send = self._producer.send
        for _ in range(WAIT_RECORDS):
            send(topic, value, partition=partition)
        self._producer.flush()

    def in_transaction(self, topic: str, partition: int, value: bytes) -> None:
        send = self._producer.send
        self._producer.begin_transaction()
        for _ in range(WAIT_RECORDS):
            send(topic, value, partition=partition)
        self._producer.commit_transaction()


def produce(
    port: int, topic: str, client: str, records: int, size: int, producers: int, transaction: int
) -> dict[str, float]:
    kind = {"librdkafka": Librdkafka, "headwater": Headwater}[client]
    made = [kind(port, bool(transaction)) for _ in range(producers)]
    batches = [each.in_transaction if transaction else each.plainly for each in made]
    value = value_of(size)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        try:
            for _ in range(records // producers // WAIT_RECORDS):
                batches[index](topic, index, value)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    for index, batch in enumerate(batches):
        batch(topic, index, value)  # connections, coordinators and leaders are known
    threads = [threading.Thread(target=run, args=(index,)) for index in range(producers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failures:
        raise failures[0]
    return {"records": records // producers // WAIT_RECORDS * WAIT_RECORDS * producers, "seconds": seconds}


def main(arguments: list[str]) -> None:
    what, port, topic, *given = arguments
    if what == "join":
        found = join(int(port), topic, *map(int, given))
    else:
        client, *numbers = given
        found = produce(int(port), topic, client, *map(int, numbers))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

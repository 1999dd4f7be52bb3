"""The producers of confluent-kafka, kafka-python, aiokafka and Java."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AioError
from kafka.errors import KafkaError as PythonError

from compat.support.java import JavaError
from compat.support.transactional.base import TIMEOUT_S, Place, Refused, Transactional


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except (confluent_kafka.KafkaException, PythonError, AioError, JavaError) as error:
        raise Refused(error) from error
    except SystemError as error:  # confluent-kafka, when a fatal error comes before the report of a record
        raise Refused(error.__cause__ or error) from error


class ConfluentTransactional(Transactional):
    name = "confluent"

    def init(self) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": self.timeout_ms,
                "message.timeout.ms": self.timeout_ms,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
                "metadata.recovery.strategy": "none",  # or it may hang when the only broker died: see copier.py
                "log_level": 0,
            }
        )
        with refusals():
            self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        with refusals():
            self._producer.begin_transaction()

    def send(self, place: Place, value: str) -> None:
        failed: list[Any] = []
        topic, partition = place
        with refusals():
            self._producer.produce(topic, value, partition=partition, on_delivery=lambda e, _: failed.append(e))
            self._producer.flush(TIMEOUT_S)
            if failed[0] is not None:
                raise confluent_kafka.KafkaException(failed[0])

    def offsets(self, group: str, offsets: dict[Place, int]) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        wanted = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            with refusals():
                self._producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), TIMEOUT_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        with refusals():
            self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        with refusals():
            self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        if hasattr(self, "_producer"):
            self._producer.purge()
            del self._producer


class KafkaPythonTransactional(Transactional):
    name = "kafka-python"

    def init(self) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            retry_backoff_ms=50,
            reconnect_backoff_max_ms=500,
        )
        with refusals():
            self._producer.init_transactions()

    def begin(self) -> None:
        with refusals():
            self._producer.begin_transaction()

    def send(self, place: Place, value: str) -> None:
        topic, partition = place
        with refusals():
            self._producer.send(topic, value.encode(), partition=partition).get(TIMEOUT_S)

    def offsets(self, group: str, offsets: dict[Place, int]) -> None:
        wanted = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()
        }
        with refusals():
            self._producer.send_offsets_to_transaction(wanted, group)

    def commit(self) -> None:
        with refusals():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with refusals():
            self._producer.abort_transaction()

    def close(self) -> None:
        if hasattr(self, "_producer"):
            self._producer.close(timeout=1)


class AiokafkaTransactional(Transactional):
    name = "aiokafka"

    def init(self) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                retry_backoff_ms=50,
            )
            await producer.start()
            return producer

        with refusals():
            self._producer = self._loop.run_until_complete(make())

    def _run(self, make: Callable[[], Any]) -> Any:
        with refusals():
            return self._loop.run_until_complete(asyncio.wait_for(make(), TIMEOUT_S))

    def begin(self) -> None:
        self._run(lambda: self._producer.begin_transaction())

    def send(self, place: Place, value: str) -> None:
        topic, partition = place
        self._run(lambda: self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def offsets(self, group: str, offsets: dict[Place, int]) -> None:
        wanted = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(lambda: self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(lambda: self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(lambda: self._producer.abort_transaction())

    def close(self) -> None:
        if hasattr(self, "_producer"):
            self._loop.run_until_complete(self._producer.stop())
            self._loop.run_until_complete(asyncio.sleep(0.01))
            self._loop.close()
            del self._producer


class JavaTransactional(Transactional):
    name = "java"

    def init(self) -> None:
        self._handle = str(uuid.uuid4())
        config = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": self.timeout_ms,
            "max.block.ms": TIMEOUT_S * 1000,
            "request.timeout.ms": 10_000,
            "delivery.timeout.ms": 20_000,
            "linger.ms": 1,
            "reconnect.backoff.max.ms": 500,
        }
        self._tell("open", config=config)
        self._tell("init")

    def _tell(self, what: str, **arguments: Any) -> None:
        with refusals():
            self.java.call("transaction", handle=self._handle, do=what, **arguments)

    def begin(self) -> None:
        self._tell("begin")

    def send(self, place: Place, value: str) -> None:
        self._tell("send", topic=place[0], partition=place[1], value=value)

    def offsets(self, group: str, offsets: dict[Place, int]) -> None:
        self._tell("offsets", group=group, offsets=[[*place, offset] for place, offset in offsets.items()])

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def close(self) -> None:
        if hasattr(self, "_handle"):
            self._tell("close", seconds=1)

"""What the tests of transactions ask of a producer. Each adapter uses its library as a user would."""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import confluent_kafka

from compat.support.offsets import when_loaded
from headwater.client import Admin, TopicPartition
from headwater.client.types import LATEST, READ_COMMITTED

Place = tuple[str, int]
TIMEOUT_S = 60
TRANSACTION_MS = 120_000  # nobody's transaction ends because the machine is busy


class Refused(Exception):
    """What a library raised. `fenced`: another producer has taken over this transactional id."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        text = repr(error).lower()
        self.fenced = "fenced" in text or "epoch" in text


class Transactional(ABC):
    """One producer with a transactional id. `init` makes it ready, and fences an older one of the same id."""

    name: ClassVar[str]

    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TRANSACTION_MS, java: Any = None
    ) -> None:
        self.bootstrap = bootstrap
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.java = java

    @abstractmethod
    def init(self) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, place: Place, value: str) -> None:
        """Waits until it is in the log."""

    @abstractmethod
    def offsets(self, group: str, offsets: dict[Place, int]) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


def read(bootstrap: str, topic: str, partition: int = 0, *, committed: bool = True, start: int = 0) -> list[str]:
    """All values that a consumer gets up to the end, which for read_committed is the last stable offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 0,
        }
    )
    values: list[str] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, start)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no end of {topic}-{partition} within {TIMEOUT_S} s"
            if message.error() is None:
                values.append(message.value().decode())
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return values
            elif not message.error().retriable() and not message.error().code() < 0:
                raise confluent_kafka.KafkaException(message.error())
    finally:
        consumer.close()


def until_decided(bootstrap: str, topic: str, partitions: int) -> None:
    """Waits until no transaction is open there, also of a producer that was killed: up to then nobody reads past it."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    deadline = time.monotonic() + TIMEOUT_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while True:
            stable = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
            if stable == admin.list_offsets(dict.fromkeys(places, LATEST)):
                return
            assert time.monotonic() < deadline, f"a transaction is open: {stable}"
            time.sleep(0.05)


def committed_offset(bootstrap: str, group: str, place: Place) -> int | None:
    """By a client that is not in the group. It waits for offsets whose transaction has not ended."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    wanted = [confluent_kafka.TopicPartition(*place)]
    try:
        (found,) = when_loaded(lambda: consumer.committed(wanted, TIMEOUT_S))
        return found.offset if found.offset >= 0 else None
    finally:
        consumer.close()

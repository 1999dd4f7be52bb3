"""The same workload with Headwater's own client."""

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from chaos.support.history import History
from chaos.support.processes import WAIT_S
from chaos.support.workload import PACE_S, Client, Reader, Workload, Writer
from headwater.client import Consumer, KafkaError, Producer, RecordMetadata, TopicPartition

PATIENCE = {
    "delivery_timeout_ms": WAIT_S * 2000,
    "request_timeout_ms": 2000,
    "socket_connection_setup_timeout_ms": 5000,
    "retry_backoff_ms": 50,
}


class OwnWriter(Writer):
    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, history: History, **config: Any) -> None:
        Client.__init__(self, name)
        self.steps = None
        self._own = Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=1, **PATIENCE, **config)
        self._topic, self._partitions, self._history = topic, partitions, history
        self._numbers = itertools.count()
        self.sent = self.acknowledged = 0
        self.last_acknowledged = -1
        self.refused: list[Any] = []

    def step(self) -> None:
        number = next(self._numbers)
        self.sent = number + 1
        value = f"{self.name}/{number}".encode()
        partition = number % self._partitions
        self._history.sent(self.name, value)

        def told(error: Exception | None, metadata: RecordMetadata | None) -> None:
            if error is not None or metadata is None:
                self.refused.append((value, error))
                return
            self.acknowledged += 1
            self.last_acknowledged = max(number, self.last_acknowledged)
            offset = metadata.offset if metadata.offset >= 0 else None
            self._history.acknowledged(partition, offset, value)

        self._own.send(self._topic, value, partition=partition, on_delivery=told)
        time.sleep(PACE_S)

    def end(self) -> None:
        self._own.close(WAIT_S if self._problem is None and not self._is_lost else 0)

    def stop(self) -> None:
        Client.stop(self)
        assert not self.refused, f"{len(self.refused)} records were refused, first {self.refused[0]}"
        assert self.acknowledged == self.sent, f"{self.sent - self.acknowledged} records of {self.name} have no answer"


class OwnReader(Reader):
    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, history: History, group: str = "", **config: Any
    ) -> None:
        Client.__init__(self, name)
        self._history = history
        self._watched = None
        self._is_member = bool(group)
        self.next_offsets = dict.fromkeys(range(partitions), 0)
        self.problems: list[str] = []
        membership: dict[str, Any] = (
            {"group_id": group, "session_timeout_ms": 3000, "heartbeat_interval_ms": 300} if group else {}
        )
        self._own = Consumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest" if group else "none",
            fetch_max_wait_ms=100,
            request_timeout_ms=10_000,
            **membership,
            **config,
        )
        if group:
            self._own.subscribe([topic], on_assigned=self._were_assigned)
        else:
            places = [TopicPartition(topic, partition) for partition in range(partitions)]
            self._own.assign(places)
            self._were_assigned(places)
            for place in places:
                self._own.seek(place, 0)

    def _were_assigned(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            self._history.assigned(self.name, place.partition)

    def step(self) -> None:
        try:
            records = self._own.poll(0.1)
        except KafkaError as problem:
            self.problems.append(str(problem))
            raise
        for record in records:
            self._history.read(self.name, record.partition, record.offset, record.value)
            self.next_offsets[record.partition] = record.offset + 1
        if self._is_member and records:
            with suppress(KafkaError, TimeoutError):  # no coordinator, or another generation
                self._own.commit(timeout=5)

    def end(self) -> None:
        self._own.close(5)


class OwnWorkload(Workload):
    writer_class = OwnWriter
    reader_class = OwnReader

"""librdkafka through confluent-kafka."""

from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from compat.support.members.base import POLL_S, WAIT_S, Got, Joining, Place, ThreadMember


def configuration(bootstrap: str, joining: Joining) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": joining.group,
        "group.protocol": joining.protocol,
        "auto.offset.reset": joining.reset,
        "enable.auto.commit": bool(joining.auto_commit_ms),
        "isolation.level": "read_committed" if joining.committed else "read_uncommitted",
        "topic.metadata.refresh.interval.ms": joining.metadata_ms,
        "reconnect.backoff.max.ms": 500,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
    }
    if joining.auto_commit_ms:
        config["auto.commit.interval.ms"] = joining.auto_commit_ms
    if joining.instance is not None:
        config["group.instance.id"] = joining.instance
    if joining.protocol == "classic":
        config["partition.assignment.strategy"] = joining.assignor
        config["session.timeout.ms"] = joining.session_ms
        config["heartbeat.interval.ms"] = joining.heartbeat_ms
    elif joining.remote is not None:
        config["group.remote.assignor"] = joining.remote
    return config


class ConfluentMember(ThreadMember):
    name = "confluent"
    assignors = ("range", "roundrobin", "cooperative-sticky")

    def _start(self) -> None:
        self._consumer = confluent_kafka.Consumer(configuration(self.bootstrap, self.joining))
        topics = [self.joining.pattern] if self.joining.pattern else list(self.joining.topics)
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, got: self.event("assigned", _places(got)),
            on_revoke=lambda _, gone: self.event("revoked", _places(gone)),
            on_lost=lambda _, gone: self.event("lost", _places(gone)),
        )

    def _turn(self) -> None:
        for message in self._consumer.consume(500, POLL_S):
            if message.error() is None:
                self.received.append(Got(message.topic(), message.partition(), message.offset(), message.value()))
            elif message.error().fatal():
                raise confluent_kafka.KafkaException(message.error())
            else:
                self.errors.append(str(message.error()))
        self.assignment = frozenset(_places(self._consumer.assignment()))

    def _end(self) -> None:
        self._consumer.close()

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        if offsets is None:
            found = self.do(lambda: self._consumer.commit(asynchronous=False))
        else:
            wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            found = self.do(lambda: self._consumer.commit(offsets=wanted, asynchronous=False))
        for partition in found:
            if partition.error is not None:
                raise confluent_kafka.KafkaException(partition.error)

    def commit_soon(self, *offsets: dict[Place, int]) -> None:
        def run() -> None:
            for one in offsets:
                wanted = [TopicPartition(*place, offset) for place, offset in one.items()]
                self._consumer.commit(offsets=wanted, asynchronous=True)

        self.do(run)

    def committed(self, *places: Place) -> dict[Place, int | None]:
        wanted = [TopicPartition(*place) for place in places]
        found = self.do(lambda: self._consumer.committed(wanted, WAIT_S))
        return {(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in found}

    def seek(self, place: Place, offset: int) -> None:
        self.do(lambda: self._consumer.seek(TopicPartition(*place, offset)))

    def pause(self, *places: Place) -> None:
        self.do(lambda: self._consumer.pause([TopicPartition(*place) for place in places]))

    def resume(self, *places: Place) -> None:
        self.do(lambda: self._consumer.resume([TopicPartition(*place) for place in places]))


def _places(partitions: Any) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]

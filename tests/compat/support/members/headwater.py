"""Headwater's own client."""

import re
from collections.abc import Collection
from typing import Any

from compat.support.members.base import POLL_S, Got, Joining, Place, ThreadMember
from headwater.client import Consumer, KafkaError, SubscriptionPattern, TopicPartition


def settings(bootstrap: str, joining: Joining) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": joining.group,
        "group.protocol": joining.protocol,
        "group.instance.id": joining.instance,
        "auto.offset.reset": joining.reset,
        "enable.auto.commit": bool(joining.auto_commit_ms),
        "isolation.level": "read_committed" if joining.committed else "read_uncommitted",
        "metadata.max.age.ms": joining.metadata_ms,
        "reconnect.backoff.max.ms": 500,
        "fetch.max.wait.ms": 100,
    }
    if joining.auto_commit_ms:
        config["auto.commit.interval.ms"] = joining.auto_commit_ms
    if joining.protocol == "classic":
        config["partition.assignment.strategy"] = joining.assignor
        config["session.timeout.ms"] = joining.session_ms
        config["heartbeat.interval.ms"] = joining.heartbeat_ms
    elif joining.remote is not None:
        config["group.remote.assignor"] = joining.remote
    return config


class HeadwaterMember(ThreadMember):
    name = "headwater"

    def _start(self) -> None:
        self._consumer = Consumer(settings(self.bootstrap, self.joining))
        pattern = self.joining.pattern
        wanted: Any = list(self.joining.topics)
        if pattern is not None:
            server_side = self.joining.protocol == "consumer"
            wanted = SubscriptionPattern(pattern) if server_side else re.compile(pattern)
        self._consumer.subscribe(
            wanted,
            on_assigned=lambda got: self.event("assigned", got),
            on_revoked=lambda gone: self.event("revoked", gone),
            on_lost=lambda gone: self.event("lost", gone),
        )

    def event(self, kind: str, places: Collection[Place]) -> None:
        super().event(kind, [(topic, partition) for topic, partition in places])

    def _turn(self) -> None:
        try:
            found = self._consumer.poll(POLL_S)
        except KafkaError as error:
            self.errors.append(repr(error))
            found = []
        self.received += [Got(each.topic, each.partition, each.offset, each.value) for each in found]
        self.assignment = frozenset((topic, partition) for topic, partition in self._consumer.assignment())

    def _end(self) -> None:
        self._consumer.close()

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        self.do(lambda: self._consumer.commit(_offsets(offsets)))

    def commit_soon(self, *offsets: dict[Place, int]) -> None:
        self.do(lambda: [self._consumer.commit_async(_offsets(one)) for one in offsets])

    def committed(self, *places: Place) -> dict[Place, int | None]:
        found = self.do(lambda: self._consumer.committed(*[TopicPartition(*place) for place in places]))
        return {(topic, partition): at.offset if at else None for (topic, partition), at in found.items()}

    def seek(self, place: Place, offset: int) -> None:
        self.do(lambda: self._consumer.seek(TopicPartition(*place), offset))

    def pause(self, *places: Place) -> None:
        self.do(lambda: self._consumer.pause(*[TopicPartition(*place) for place in places]))

    def resume(self, *places: Place) -> None:
        self.do(lambda: self._consumer.resume(*[TopicPartition(*place) for place in places]))


def _offsets(offsets: dict[Place, int] | None) -> dict[TopicPartition, int] | None:
    return None if offsets is None else {TopicPartition(*place): offset for place, offset in offsets.items()}

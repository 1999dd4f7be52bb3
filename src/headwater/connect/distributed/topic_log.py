"""A compacted topic as a log that a worker reads from its beginning and then follows: all of the storage topics are
one.

One thread reads, and hands each record to `on_record` in the order of its partition. `read_to_end` waits until
everything is read that was written before the call, also what lies in transactions: it waits for their end.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import (
    LATEST,
    Admin,
    ConfigResource,
    Consumer,
    ConsumerRecord,
    NewTopic,
    ResourceType,
    WakeupError,
)
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.topic_creation import NO_RIGHT, is_there

logger = logging.getLogger("headwater.connect")

_POLL_S: Final = 1.0
_POLL_WAITED_FOR_S: Final = 0.02
_AGAIN_S: Final = 1.0
Settings = Mapping[str, Any]


def ensure_topic(admin: Admin, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
    """Makes it, compacted, unless it is there; one that loses records, or a config topic with several partitions, is
    refused. How it is cleaned up is not looked at by a worker that may not do that.
    """
    wanted = {"cleanup.policy": "compact", **configs}
    (outcome,) = admin.create_topics([NewTopic(topic, partitions, replicas, wanted)]).values()
    if not isinstance(outcome, KafkaError):
        return
    if not is_there(admin, topic, outcome):
        raise UserError(f"The topic {topic!r} of the Connect workers cannot be made", str(outcome))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource]
    policy = "compact"
    if not isinstance(found, KafkaError):
        policy = next((each.value or "" for each in found if each.name == "cleanup.policy"), "")
    elif found.code not in NO_RIGHT:
        raise UserError(f"The topic {topic!r} of the Connect workers cannot be looked at", str(found))
    if "compact" not in policy or "delete" in policy:
        raise UserError(
            f"The topic {topic!r} cannot be used by Connect workers",
            f"its cleanup.policy is {policy!r}, so it would forget what is in it",
            "Set cleanup.policy=compact on it, or name another topic",
        )
    if partitions == 1 and len(admin.describe_topic(topic).partitions) != 1:
        raise UserError(
            f"The topic {topic!r} cannot keep configs of connectors",
            "it has several partitions, and what is in it would have no order",
            "Name another topic as config.storage.topic",
        )


class TopicLog:
    """`on_record` runs in the thread of the log; `on_news` too, after each batch."""

    def __init__(
        self,
        topic: str,
        consumer_settings: Settings,
        admin: Admin,
        on_record: Callable[[ConsumerRecord], None],
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.topic = topic
        self._settings = {
            **consumer_settings,
            "group.id": None,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        self._admin, self._on_record, self._on_news = admin, on_record, on_news
        self._read = threading.Condition()
        self._next: dict[TopicPartition, int] = {}
        self._waiting = 0
        self._closed = False
        self._consumer: Consumer | None = None
        self._thread = threading.Thread(target=self._run, name=f"connect-log-{topic}", daemon=True)

    def start(self, timeout_s: float) -> None:
        """Returns when everything is read that is there."""
        count = len(self._admin.describe_topic(self.topic).partitions)
        partitions = [TopicPartition(self.topic, each) for each in range(count)]
        consumer = Consumer({name: value for name, value in self._settings.items() if value is not None})
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        self._consumer = consumer
        self._next = dict.fromkeys(partitions, 0)
        self._thread.start()
        self.read_to_end(timeout_s)

    def read_to_end(self, timeout_s: float) -> None:
        """Raises ConnectError if that takes too long."""
        until = time.monotonic() + timeout_s
        found = self._admin.list_offsets(dict.fromkeys(self._next, LATEST))
        ends = {}
        for partition, end in found.items():
            if isinstance(end, KafkaError):
                raise end
            ends[partition] = end.offset
        with self._read:
            self._waiting += 1
            self._wake()
            try:
                while any(self._next[partition] < end for partition, end in ends.items()):
                    left = until - time.monotonic()
                    if left <= 0 or self._closed:
                        raise ConnectError(f"The topic {self.topic} was not read to its end within {timeout_s:g} s")
                    self._read.wait(left)
            finally:
                self._waiting -= 1

    def _wake(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            consumer.wakeup()

    def close(self) -> None:
        with self._read:
            self._closed = True
            self._read.notify_all()
        if self._consumer is not None:
            self._wake()
            self._thread.join()

    def _run(self) -> None:
        consumer = self._consumer
        assert consumer is not None
        with consumer:
            while not self._closed:
                try:
                    self._follow(consumer)
                except WakeupError:
                    continue
                except KafkaError as error:
                    logger.warning("event=storage-topic-unread topic=%s error=%r", self.topic, str(error)[:500])
                    time.sleep(_AGAIN_S)

    def _follow(self, consumer: Consumer) -> None:
        records = consumer.poll(_POLL_WAITED_FOR_S if self._waiting else _POLL_S)
        for record in records:
            try:
                self._on_record(record)
            except Exception:  # one record that nobody has foreseen must not hide all that come behind it
                logger.exception(
                    "event=storage-record-unread topic=%s partition=%d offset=%d",
                    *record.topic_partition,
                    record.offset,
                )
        positions = {partition: consumer.position(partition) for partition in self._next}
        with self._read:
            self._next.update(positions)
            self._read.notify_all()
        if records:
            try:
                self._on_news()
            except Exception:
                logger.exception("event=storage-news-failed topic=%s", self.topic)

"""Where records of sinks go that could not be taken: the dead letter topic. One that cannot be written there fails its
task before anything counts as done: it comes again.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.errors import KafkaError
from headwater.client import Admin, NewTopic, Producer
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.error_counts import ErrorCounter
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Failure, context_headers
from headwater.connect.runtime.topic_creation import is_there

logger = logging.getLogger("headwater.connect")
Settings = Mapping[str, object]


class DeadLetters:
    """The dead letter topic: made where it is missing, written by a producer of its own."""

    def __init__(
        self,
        task_id: TaskId,
        config: dict[str, Any],
        producer: Settings,
        admin: Settings,
        redact: Callable[[str], str],
        metrics: ErrorCounter | None = None,
    ) -> None:
        self._id, self._redact, self._metrics = task_id, redact, metrics
        self._topic: str = config["errors.deadletterqueue.topic.name"]
        self._with_context: bool = config["errors.deadletterqueue.context.headers.enable"]
        with Admin(admin) as client:
            made = client.create_topics(
                [NewTopic(self._topic, 1, config["errors.deadletterqueue.topic.replication.factor"])]
            )
            for outcome in made.values():
                if isinstance(outcome, KafkaError) and not is_there(client, self._topic, outcome):
                    raise ConnectError(f"Cannot make the dead letter topic {self._topic!r}: {outcome}")
        self._unflushed = False
        self._lost: BaseException | None = None  # set by the producer's thread
        self._producer = Producer({"client.id": f"connector-dlq-producer-{task_id}"} | dict(producer))

    def report(self, failure: Failure) -> None:
        """The record as it was, with its time; headers that it has from another dead letter topic stay, before ours."""
        record = failure.record
        headers = list(record.headers)
        if self._with_context:
            headers += context_headers(failure, *self._id, self._redact)
        self._count("deadletterqueue-produce-requests")
        self._unflushed = True
        self._producer.send(
            self._topic,
            record.value,
            key=record.key,
            headers=headers,
            timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
            on_delivery=self._delivered,
        )

    def _delivered(self, error: BaseException | None, _metadata: Any) -> None:
        if error is not None:
            self._lost = error
            logger.error(
                "event=dead-letter-lost connector=%r task=%d topic=%r error=%r", *self._id, self._topic, str(error)
            )
            self._count("deadletterqueue-produce-failures")

    def _count(self, name: str) -> None:
        if self._metrics is not None:
            self._metrics.error(name)

    def flush(self) -> None:
        """What was reported is safe when this returns. Raises ConnectError if something of it could not be written."""
        if not self._unflushed:
            return
        self._producer.flush()
        self._unflushed = False
        lost, self._lost = self._lost, None
        if lost is not None:
            raise ConnectError(f"A record could not be written to the dead letter topic {self._topic!r}: {lost}")

    def close(self) -> None:
        self._producer.close()

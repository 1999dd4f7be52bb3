"""Where records of sinks go that could not be taken: the dead letter topic."""

from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Admin, NewTopic, Producer
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Failure, context_headers

Settings = Mapping[str, object]


class DeadLetters:
    """The dead letter topic: made where it is missing, written by a producer of its own."""

    def __init__(
        self, task_id: TaskId, config: dict[str, Any], producer: Settings, admin: Settings, redact: Callable[[str], str]
    ) -> None:
        self._id, self._redact = task_id, redact
        self._topic: str = config["errors.deadletterqueue.topic.name"]
        self._with_context: bool = config["errors.deadletterqueue.context.headers.enable"]
        with Admin(admin) as client:
            made = client.create_topics(
                [NewTopic(self._topic, 1, config["errors.deadletterqueue.topic.replication.factor"])]
            )
            for outcome in made.values():
                if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise ConnectError(f"Cannot make the dead letter topic {self._topic!r}: {outcome}")
        self._producer = Producer({"client.id": f"connector-dlq-producer-{task_id}"} | dict(producer))

    def report(self, failure: Failure) -> None:
        record = failure.record
        headers = list(record.headers)
        if self._with_context:
            headers += context_headers(failure, *self._id, self._redact)
        self._producer.send(self._topic, record.value, key=record.key, headers=headers)

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

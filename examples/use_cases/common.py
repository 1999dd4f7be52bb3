"""What the five scripts share: where the broker is, and a topic that is there."""

import os
import signal
from collections.abc import Callable, Sequence

from headwater.client import Admin, Consumer, ConsumerRecord, ErrorCode, KafkaError, NewTopic

BOOTSTRAP = os.environ.get("HEADWATER_BOOTSTRAP", "localhost:9092")


def ensure_topic(name: str, partitions: int = 3, **configs: str) -> None:
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        (answer,) = admin.create_topics([NewTopic(name, partitions, configs=settings)]).values()
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer


def until_told(consumer: Consumer, handle: Callable[[Sequence[ConsumerRecord]], None]) -> None:
    """Polls until Ctrl-C or SIGTERM, and leaves the group when it ends."""
    told: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: told.append(number))
    with consumer:
        while not told:
            records = consumer.poll(0.5)
            if records:
                handle(records)

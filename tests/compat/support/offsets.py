"""Committed offsets, asked for with confluent-kafka, which does not wait for a coordinator that has only just come."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

TIMEOUT_S = 60
_LOADING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)

Answer = TypeVar("Answer")


def when_loaded(ask: Callable[[], Answer]) -> Answer:
    """What is answered once the coordinator has read its partition: up to then it says so, and librdkafka gives up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as problem:
            if problem.args[0].code() not in _LOADING or time.monotonic() > deadline:
                raise
            time.sleep(0.05)

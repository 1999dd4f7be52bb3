"""What a slot tells of its tasks of an application, for whoever looks: how far each is, and what went wrong lately.

The slot's thread notes it now and then (a consumer belongs to one thread); other threads read what was noted last. Rows
are as they stand in the status of the application.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer import Consumer
from headwater.streams.slot.open_task import OpenTask

_NOTE_EVERY_S: Final = 0.5
_ERRORS_MAX: Final = 5
_ERROR_CHARACTERS_MAX: Final = 500

Row = dict[str, Any]


class SlotReport:
    def __init__(self) -> None:
        self._noted_at = 0.0
        self._inputs: Mapping[str, list[Row]] = {}
        self._errors: deque[Row] = deque(maxlen=_ERRORS_MAX)

    # By the slot's thread

    def note_inputs(self, tasks: Sequence[OpenTask], topics: Mapping[str, int], consumer: Consumer) -> None:
        """Positions of what was processed, and the ends as far as the last fetch knew them."""
        now = time.monotonic()
        if now - self._noted_at < _NOTE_EVERY_S:
            return
        self._noted_at = now
        self._inputs = {
            task.name: [_input(task, each, consumer) for each in task.inputs(topics)]
            for task in tasks
            if task.is_running
        }

    def note_error(self, what: str, error: object) -> None:
        text = f"{what}: {str(error) or type(error).__name__}"[:_ERROR_CHARACTERS_MAX]
        self._errors.append({"at_ms": time.time_ns() // 1_000_000, "error": text})

    # By any thread

    def rows(self, tasks: Sequence[OpenTask]) -> list[Row]:
        return [self._row(task) for task in list(tasks)]

    @property
    def errors(self) -> list[Row]:
        return list(self._errors)

    def _row(self, task: OpenTask) -> Row:
        restore = task.restore
        return {
            "task": task.name,
            "state": "running" if task.is_running else "restoring",
            "restored_records": restore.records,
            "restored_offsets": restore.offsets,
            "restore_offsets": restore.offsets_total,
            "inputs": self._inputs.get(task.name, []) if task.is_running else [],
        }


def _input(task: OpenTask, partition: TopicPartition, consumer: Consumer) -> Row:
    """Without a position where the consumer is looking for one, because the brokers have deleted what came next. Nobody
    waits for it here: its leader may be away.
    """
    try:
        fetched = consumer.position(partition, timeout=0)
    except KafkaError:
        return {**partition._asdict(), "position": None, "end": None, "lag": None}
    behind = consumer.current_lag(partition)
    queue = task.task.group.queues[partition.topic, partition.partition]
    position = fetched
    if len(
        queue
    ):  # buffered; of the first ones, what they begin with is not known, and a gap between them is overlooked
        position = queue.last_offset + 1 if queue.last_offset >= 0 else max(fetched - len(queue), 0)
    end = fetched + behind if behind is not None else None
    lag = end - position if end is not None else None
    return {**partition._asdict(), "position": position, "end": end, "lag": lag}

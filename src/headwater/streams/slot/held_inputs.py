"""Which inputs of a slot are not fetched further: those of which as many records as the run allows wait already, for
records of other inputs to be merged with, or for a run that is paused to be resumed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer import Consumer
from headwater.streams.slot.open_task import OpenTask


class HeldInputs:
    """Owned by the slot, whose consumer it pauses and resumes."""

    def __init__(self, consumer: Consumer, records_max: int) -> None:
        self._consumer = consumer
        self._records_max = records_max
        self._held: set[tuple[str, int]] = set()

    def update(self, owner_of: Mapping[tuple[str, int], OpenTask]) -> None:
        """They are fetched again when half of them are processed."""
        for place, task in owner_of.items():
            buffered = len(task.task.group.queues[place])
            partition = TopicPartition(*place)
            if buffered > self._records_max:
                if place not in self._held:
                    self._consumer.pause(partition)
                    self._held.add(place)
            elif place in self._held and buffered <= self._records_max // 2:
                self._consumer.resume(partition)
                self._held.discard(place)

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """They are read from another place: nothing of them waits."""
        began = list(partitions)
        self._consumer.resume(*began)
        self._held.difference_update((each.topic, each.partition) for each in began)

    def keep(self, places: Collection[Any]) -> None:
        """The others are of tasks that the slot has no more."""
        self._held.intersection_update(places)

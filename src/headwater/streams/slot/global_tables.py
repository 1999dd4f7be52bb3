"""Global tables of a slot: every partition of their topics, complete before the first record is processed, then
followed.

They live in memory and are read anew at each start. Their dead letters wait here until a commit has written them: they
are not made again by a recovery, which does not read the topics anew; but a start makes them again. Owned by the slot,
whose thread feeds them.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.model.record import InputRecord, OutputRecord
from headwater.streams.slot.open_task import Clients
from headwater.streams.stores.memory import MemoryState
from headwater.streams.topology.topology import SubTopology, global_topology


class GlobalTables:
    def __init__(self, plans: list[SubTopology], settings: TaskSettings, topics: Mapping[str, int]) -> None:
        plan = global_topology(plans)
        self._state = MemoryState()
        self._task = None if plan is None else Task(plan, 0, settings, self._state)
        self._topics = set() if self._task is None else {topic for topic, _ in self._task.group.queues}
        self.pending: list[OutputRecord] = []  # until a commit has written them
        self._dropped: dict[str, int] = {}
        self._partitions = [TopicPartition(topic, index) for topic, n in topics.items() for index in range(n)]

    @property
    def stores(self) -> dict[str, Any]:
        return {} if self._task is None else dict(self._task.stores)

    def restore(self, clients: Clients, given_up: Callable[[], bool] | None = None) -> dict[TopicPartition, int]:
        """Reads everything that is committed, one topic after the other in the order of the stores, so a processor
        finds what those before it have made; the offsets to follow from. As in Kafka Streams, nobody waits for a
        transaction of others that is open: what is behind its beginning is followed.
        """
        if self._task is None:
            return {}
        self._task.restoring = True
        begins = clients.admin.list_offsets(dict.fromkeys(self._partitions, EARLIEST))
        stable = dict.fromkeys(self._partitions, LATEST)
        ends = clients.admin.list_offsets(stable, isolation_level=READ_COMMITTED)
        follow = {}
        for partition in self._partitions:
            begin, end = begins[partition], ends[partition]
            for answer in (begin, end):
                if isinstance(answer, KafkaError):
                    raise answer
            assert not isinstance(begin, KafkaError)
            assert not isinstance(end, KafkaError)
            for record in clients.reader.records(partition, begin.offset, end.offset, lost="skip", given_up=given_up):
                self.update(_input(record))
            follow[partition] = end.offset
        self._task.restoring = False
        self._state.commit({})
        return follow

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def update(self, record: InputRecord) -> None:
        task = self._task
        assert task is not None
        task.wall_clock_ms = time.time_ns() // 1_000_000
        task.add(record.topic, [record])
        task.process_next()
        output = task.collect()
        if not task.restoring:  # what is pending would keep each key that was ever deleted
            self._state.commit({})
        self.pending += output.records
        for reason, count in output.dropped.items():
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def take_dropped(self) -> dict[str, int]:
        """How many records were left out since the last call, and why."""
        taken, self._dropped = self._dropped, {}
        return taken

    def close(self) -> None:
        if self._task is not None:
            self._task.close()


def _input(record: ConsumerRecord) -> InputRecord:
    return InputRecord(
        record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
    )

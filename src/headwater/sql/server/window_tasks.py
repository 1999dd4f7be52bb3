"""Which task of a query a row of its result comes from. Each task has a part of the query's store and a time of its
own, by which windows expire there; the topic of the result may have other partitions, or other keys.

Rows go to the tasks by the bytes of their keys in the topic that the tasks read, as Kafka's producers choose a
partition by the key (murmur2). So the task of a key is told from the key alone. That is the way of ksqlDB, too, which
looks for a key nowhere else. Keys with the id of a schema before them are taken to be written with the schema that the
registry has for them, as the usual serializers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError
from headwater.client.partitioner import partition_for_key
from headwater.sql.formats.registry.serde import RegistrySerde
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.topology.topology import SinkNode, SourceNode

if TYPE_CHECKING:
    from headwater.client import AsyncConsumer
    from headwater.sql.plan.catalog import SourceInfo
    from headwater.sql.plan.session import Session
    from headwater.sql.server.lookup import Key
    from headwater.streams.serdes.port import Serde


_ASKED_S: Final = 1.0  # partitions may be added; tasks notice that later than this


@dataclass(slots=True)
class WindowTasks:
    """The tasks that write a table in windows. `topic`: what they read, a partition each; `key`: how its keys are
    written, None where that is not known; `count`: how many they are, None as long as the topic is not there.
    """

    topic: str
    key: Serde | None
    count: int | None = None
    _asked: float = float("-inf")
    _is_prepared: bool = True

    def __post_init__(self) -> None:
        self._is_prepared = not isinstance(self.key, RegistrySerde)

    async def learn(self, consumer: AsyncConsumer) -> None:
        """How many partitions the topic has, and how its keys are written: before the first row is asked for, and
        every now and then.
        """
        if not self._is_prepared:
            await self._prepare()
        now = asyncio.get_running_loop().time()
        if self.count is None or now - self._asked >= _ASKED_S:
            try:
                self.count = len(await consumer.partitions_for(self.topic)) or None
                self._asked = now
            except KafkaError:  # it is made when the query starts
                return

    async def _prepare(self) -> None:
        """Keys with schemas: asks the registry, in a thread. One that does not answer is asked again."""
        if isinstance(self.key, RegistrySerde):
            try:
                self.key = self.key if await asyncio.to_thread(self.key.prepare_known) else None
            except ClusterFailure:
                return
        self._is_prepared = True

    def of(self, key: list[Any], name: Key, partition: int) -> Hashable:
        """The task of a key. `partition`: of the row's record in the topic of the result, which counts where it is not
        known how keys are written. As long as the topic is not there each key has a time of its own, so that no window
        goes too early.
        """
        if self.count == 1:
            return 0
        if self.key is None:
            return partition
        if self.count is None or not self._is_prepared:
            return name
        data: bytes | None = self.key.serialize(key)
        return name if data is None else partition_for_key(data, self.count)


def tasks_of(source: SourceInfo, session: Session) -> WindowTasks | None:
    """None: the table has no windows, or no query of ours writes it. Then the partitions of its own topic count."""
    query = session.queries.get(source.made_by_query or "")
    if source.window is None or query is None:
        return None
    for plan in query.app.topology().sub_topologies():
        nodes = {node.name: node for node in plan.nodes}
        for sink in plan.nodes:
            if not isinstance(sink, SinkNode) or sink.topic != source.topic:
                continue
            here: Any = sink
            while not isinstance(here, SourceNode):
                here = nodes[here.parents[0]]
            topic, is_own = here.topics[0], here.topics[0] in plan.internal_names
            return WindowTasks(f"{query.app.name}-{topic}" if is_own else topic, here.key)
    return None

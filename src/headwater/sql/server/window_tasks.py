"""Which task of a query a row of its result comes from. Each task has a part of the query's store and a time of its
own, by which windows expire there; the topic of the result may have other partitions, or other keys.

Rows go to the tasks by the bytes of their keys in the topic that the tasks read, as Kafka's producers choose a
partition by the key (murmur2). So the task of a key is told from the key alone. That is the way of ksqlDB, too, which
looks for a key nowhere else.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.base.errors import KafkaError
from headwater.client.partitioner import partition_for_key
from headwater.sql.formats.library import with_registry
from headwater.streams.topology.topology import SinkNode, SourceNode

if TYPE_CHECKING:
    from headwater.client import AsyncConsumer
    from headwater.sql.plan.catalog import SourceInfo
    from headwater.sql.plan.session import Session
    from headwater.sql.server.lookup import Key
    from headwater.streams.serdes.port import Serde


@dataclass(slots=True)
class WindowTasks:
    """The tasks that write a table in windows. `topic`: what they read, a partition each; `key`: how its keys are
    written; `count`: how many they are, None as long as the topic is not there.
    """

    topic: str
    key: Serde
    count: int | None = None

    async def learn(self, consumer: AsyncConsumer) -> None:
        """How many partitions the topic has: before the first row is asked for."""
        if self.count is None:
            try:
                self.count = len(await consumer.partitions_for(self.topic)) or None
            except KafkaError:  # it is made when the query starts
                return

    def of(self, key: list[Any], name: Key) -> Hashable:
        """The task of a key. Where that cannot be told each key has its own, so that no window goes too early."""
        if self.count == 1:
            return 0
        data = self.key.serialize(key) if self.count is not None else None
        return name if data is None or self.count is None else partition_for_key(data, self.count)


def tasks_of(source: SourceInfo, session: Session) -> WindowTasks | None:
    """None: the table has no windows, no query of ours writes it, or its keys have bytes that only the registry knows.
    Then the partitions of its own topic count.
    """
    query = session.queries.get(source.made_by_query or "")
    if source.window is None or query is None or with_registry(source.key_format.name) is not None:
        return None
    read = [session.catalog.sources[name] for name in query.sources if name in session.catalog.sources]
    for plan in query.app.topology().sub_topologies():
        nodes = {node.name: node for node in plan.nodes}
        for sink in plan.nodes:
            if not isinstance(sink, SinkNode) or sink.topic != source.topic:
                continue
            here: Any = sink
            while not isinstance(here, SourceNode):
                here = nodes[here.parents[0]]
            topic, is_own = here.topics[0], here.topics[0] in plan.internal_names
            known = any(each.topic == topic and with_registry(each.key_format.name) is None for each in read)
            if here.key is None or not (is_own or known):
                return None
            return WindowTasks(f"{query.app.name}-{topic}" if is_own else topic, here.key)
    return None

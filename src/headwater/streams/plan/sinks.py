"""Sinks of the logical graph: `stream.to(...)`."""

from headwater.streams.plan.graph import GraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde
from headwater.streams.topology.partitioning import ByInnerKey
from headwater.streams.topology.topology import Partitioner, SinkNode, TopicExtractor, Topology


class StreamSinkNode(GraphNode):
    """Into a topic, or into the one that a function names for each record."""

    def __init__(
        self,
        name: str,
        topic: str | TopicExtractor,
        key: Serde | None,
        value: Serde | None,
        partitioner: Partitioner | None,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.key = key
        self.value = value
        if partitioner is None and isinstance(key, WindowedSerde | SessionWindowedSerde):
            partitioner = ByInnerKey(key)
        self.partitioner = partitioner

    def write(self, topology: Topology) -> None:
        topology.add_sink(self.sink(self.parent_names))

    def sink(self, parents: list[str]) -> SinkNode:
        return SinkNode(self.name, self.topic, self.key, self.value, self.partitioner, parents)

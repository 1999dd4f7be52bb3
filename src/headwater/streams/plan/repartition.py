"""Repartition topics: a filter for records without a key, a sink into an internal topic, and a source that reads it.

Their names take three numbers of the graph, even where a given name makes them unnecessary, as in Kafka Streams.
"""

import re
from typing import Final

from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.model.time import fail_on_invalid_timestamp
from headwater.streams.plan.graph import Graph, GraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.topology.topology import Partitioner, SinkNode, SourceNode, Topology

SUFFIX: Final = "-repartition"
_GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")


class RepartitionNode(GraphNode):
    """Its name is that of the source, on which children hang."""

    def __init__(
        self,
        graph: Graph,
        topic_prefix: str,
        key: Serde | None,
        value: Serde | None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self.topic = topic_prefix if topic_prefix.endswith(SUFFIX) else topic_prefix + SUFFIX
        self.sink_name = graph.new_name("KSTREAM-SINK-")
        self.filter_name = graph.new_name("KSTREAM-FILTER-")
        name = graph.new_name("KSTREAM-SOURCE-")
        if not _GENERATED.fullmatch(topic_prefix):
            self.sink_name, self.filter_name, name = (
                f"{self.topic}-sink",
                f"{self.topic}-filter",
                f"{self.topic}-source",
            )
        super().__init__(name)
        self.key = key
        self.value = value
        self.partitions = partitions
        self.partitioner = partitioner
        self.keeps_null_keys = False

    def write(self, topology: Topology) -> None:
        keeps = _everything if self.keeps_null_keys else _has_key
        topology.add_internal_topic(self.topic, self.partitions)
        topology.add_processor(self.filter_name, lambda: StreamFilter(keeps), self.parent_names)
        topology.add_sink(
            SinkNode(self.sink_name, self.topic, self.key, self.value, self.partitioner, [self.filter_name])
        )
        topology.add_source(SourceNode(self.name, (self.topic,), None, self.key, self.value, fail_on_invalid_timestamp))


def _everything(key: object, value: object) -> bool:  # noqa: ARG001
    return True


def _has_key(key: object, value: object) -> bool:  # noqa: ARG001
    return key is not None

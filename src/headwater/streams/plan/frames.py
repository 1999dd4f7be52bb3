"""Topics between an application and DataFrames: what `.df` writes, and what `from_df` reads. Pure.

Names are `<application>-<name>-df`. Nodes that `.df` adds take no number of the graph: the names of other operators,
and so of stores, are the same with and without it. The topic of a stream keeps records as long as brokers keep those of
any topic; that of a table is compacted, and has the latest change of each row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.base.errors import UserError
from headwater.streams.engine.table_to_stream import TableToStream
from headwater.streams.plan.graph import GraphNode
from headwater.streams.plan.sinks import StreamSinkNode
from headwater.streams.serdes.port import Serde
from headwater.streams.topology.topology import Topology

_SUFFIX: Final = "-df"
TABLE_CONFIG: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class FrameTopic:
    """`partitions`: None for as many as its writers have tasks (`.df`), or as brokers give a new topic (`from_df`)."""

    name: str
    is_input: bool
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


def frame_topic_name(application_id: str, name: str) -> str:
    if not name:
        raise UserError("A DataFrame of an application needs a name", "it is in the name of its topic")
    return f"{application_id}-{name}{_SUFFIX}"


class FrameSinkNode(StreamSinkNode):
    """What `.df` hangs on a stream or a table: a sink, for a table behind a node that makes records of its changes."""

    def __init__(self, topic: FrameTopic, key: Serde | None, value: Serde | None, *, of_table: bool) -> None:
        super().__init__(f"{topic.name}-sink", topic.name, key, value, None)
        self.frame_topic = topic
        self.of_table = of_table

    def write(self, topology: Topology) -> None:
        topology.frame_topics[self.frame_topic.name] = self.frame_topic
        if not self.of_table:
            super().write(topology)
            return
        changes = f"{self.frame_topic.name}-changes"
        topology.add_processor(changes, TableToStream, self.parent_names)
        topology.add_sink(self.sink([changes]))


def frame_sink_of(node: GraphNode, topic: str) -> FrameSinkNode | None:
    """The one that an earlier `.df` has put there."""
    for child in node.children:
        if isinstance(child, FrameSinkNode) and child.frame_topic.name == topic:
            return child
    return None

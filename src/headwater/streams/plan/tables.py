"""Tables in the logical graph: read from a topic, made of a stream, global, and the repartition topic of their
aggregation.
"""

from headwater.streams.engine.table_source import TableSource
from headwater.streams.model.processor import Supplier
from headwater.streams.model.time import TimestampExtractor, fail_on_invalid_timestamp
from headwater.streams.plan.graph import GraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SinkNode, SourceNode, Topology


class TableSourceNode(GraphNode):
    """`app.table(topic)`: a source, and behind it the table. The store is there if somebody needs it when the topology
    is written.
    """

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        key: Serde | None,
        value: Serde | None,
        extractor: TimestampExtractor | None,
        reset: str | None,
        supplier: TableSource,
        store: StorePlan,
    ) -> None:
        super().__init__(name)
        self.source = SourceNode(source_name, (topic,), None, key, value, extractor, reset)
        self.supplier = supplier
        self.store = store
        self.output_versioned = store.versioned

    def write(self, topology: Topology) -> None:
        topology.add_source(self.source)
        topology.add_processor(self.name, self.supplier, [self.source.name])
        if self.supplier.materialized:
            topology.add_store(self.store, [self.name])


class StreamToTableNode(GraphNode):
    """`stream.to_table()`."""

    def __init__(self, name: str, supplier: TableSource, store: StorePlan) -> None:
        super().__init__(name)
        self.supplier = supplier
        self.store = store
        self.output_versioned = store.versioned

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self.supplier, self.parent_names)
        if self.supplier.materialized:
            topology.add_store(self.store, [self.name])


class GlobalStoreNode(GraphNode):
    """A global table or store: every task reads all of it."""

    def __init__(self, processor_name: str, source: SourceNode, store: StorePlan, supplier: Supplier) -> None:
        super().__init__(processor_name)
        self.source = source
        self.store = store
        self.supplier = supplier

    def write(self, topology: Topology) -> None:
        topology.add_global_store(self.store, self.source, self.name, self.supplier)


class GroupedTableRepartitionNode(GraphNode):
    """The changes of a table on their way to its aggregation. Its name is that of the source."""

    def __init__(self, source_name: str, sink_name: str, topic: str, key: Serde | None, change: Serde) -> None:
        super().__init__(source_name)
        self.sink_name = sink_name
        self.topic = topic
        self.key = key
        self.change = change

    def write(self, topology: Topology) -> None:
        topology.add_internal_topic(self.topic)
        topology.add_sink(SinkNode(self.sink_name, self.topic, self.key, self.change, None, self.parent_names))
        topology.add_source(
            SourceNode(self.name, (self.topic,), None, self.key, self.change, fail_on_invalid_timestamp)
        )

"""The topology: sources, processors and sinks by name, their stores, and the sub-topologies that they fall into.

Nodes stand in the order in which they were added; that order decides the numbers of sub-topologies and the order of
children, as in Kafka Streams. A sub-topology is what hangs together by edges or by shared stores; a repartition topic
is a sink of one and a source of another.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.streams.model.processor import Supplier
from headwater.streams.model.record import Record
from headwater.streams.model.time import TimestampExtractor
from headwater.streams.serdes.port import Serde
from headwater.streams.topology.name_rules import check_name
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.plan.frames import FrameTopic

TopicExtractor = Callable[[Record, Any], str]
Partitioner = Callable[[str, Any, Any, int], "int | Iterable[int] | None"]


@dataclass(slots=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    pattern: str | None
    key: Serde | None
    value: Serde | None
    extractor: TimestampExtractor | None
    reset: str | None = None
    is_global: bool = False


@dataclass(slots=True)
class ProcessorNode:
    name: str
    supplier: Supplier
    parents: list[str]
    stores: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SinkNode:
    name: str
    topic: str | TopicExtractor
    key: Serde | None
    value: Serde | None
    partitioner: Partitioner | None
    parents: list[str]


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(slots=True)
class SubTopology:
    """What the tasks of one number run. Names of internal topics are without the application's id, as in `describe`."""

    number: int
    nodes: list[Node]
    stores: list[StorePlan]
    internal_topics: dict[str, int | None]  # repartition topics that it reads -> number of partitions, if it was given
    internal_names: frozenset[str]  # of the whole topology: these get the application's id in front
    is_global: bool = False

    @property
    def source_topics(self) -> list[str]:
        """Of a running application, which has named them when it started; the test driver takes them as they come."""
        for node in self.nodes:
            if isinstance(node, SourceNode) and node.pattern is not None:
                raise UserError(
                    f"{node.name} reads all topics that match {node.pattern}",
                    "which ones these are is known when the application starts",
                    "name the topics",
                )
        return [topic for node in self.nodes if isinstance(node, SourceNode) for topic in node.topics]


def global_topology(plans: Iterable[SubTopology]) -> SubTopology | None:
    """All global tables and stores in one, in their order: one task makes them all, as in Kafka Streams, so the
    processor of one may use the others. None if there are none.
    """
    plans = [plan for plan in plans if plan.is_global]
    if not plans:
        return None
    nodes = [node for plan in plans for node in plan.nodes]
    stores = [store for plan in plans for store in plan.stores]
    return SubTopology(plans[0].number, nodes, stores, {}, plans[0].internal_names, is_global=True)


class Topology:
    """Built once from a graph, or by hand; then read by `describe`, by tasks and by those who make topics."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StorePlan] = {}
        self.internal_topics: dict[str, int | None] = {}
        self.frame_topics: dict[str, FrameTopic] = {}  # between the application and DataFrames
        self.copartitioned: list[set[str]] = []
        self._users: dict[str, list[str]] = {}  # store -> processors
        self._group: dict[str, str] = {}  # node -> another of its sub-topology, towards a root

    # -- building

    def add_source(self, node: SourceNode) -> None:
        self._check_new(node.name)
        for topic in node.topics:
            for other in self.sources():
                if topic in other.topics:
                    raise UserError(
                        f"The topic {topic} has two sources, {other.name} and {node.name}", "a topic is read once"
                    )
        self._check_patterns(node)
        self.nodes[node.name] = node
        self._group[node.name] = node.name

    def _check_patterns(self, node: SourceNode) -> None:
        """A pattern and a topic that it matches are two sources of one topic, too."""
        for other in self.sources():
            for named, by_pattern in ((node, other), (other, node)):
                for topic in named.topics if by_pattern.pattern is not None else ():
                    if topic not in self.internal_topics and re.fullmatch(by_pattern.pattern or "", topic):
                        raise UserError(
                            f"The topic {topic} of {named.name} matches the pattern {by_pattern.pattern} of "
                            f"{by_pattern.name}",
                            "a topic is read once",
                        )

    def add_processor(self, name: str, supplier: Supplier, parents: Iterable[str]) -> None:
        self._check_new(name)
        node = ProcessorNode(name, supplier, self._known(name, parents))
        self.nodes[name] = node
        self._group[name] = name
        self._unite(name, *node.parents)

    def add_sink(self, node: SinkNode) -> None:
        self._check_new(node.name)
        node.parents = self._known(node.name, node.parents)
        self.nodes[node.name] = node
        self._group[node.name] = node.name
        self._unite(node.name, *node.parents)

    def add_internal_topic(self, topic: str, partitions: int | None = None) -> None:
        self.internal_topics[topic] = partitions

    def add_store(self, store: StorePlan, processors: Iterable[str]) -> None:
        known = self.stores.get(store.name)
        if known is not None and known is not store:
            raise UserError(f"There are two stores named {store.name}", "names of stores are unique in an application")
        if store.spec.logged:
            check_name(store.name, "a store")  # its changelog has it
        self.stores[store.name] = store
        self._users.setdefault(store.name, [])
        for processor in processors:
            self.connect(processor, store.name)

    def add_global_store(self, store: StorePlan, source: SourceNode, processor: str, supplier: Supplier) -> None:
        source.is_global = True
        store.source_topic = source.topics[0]
        self.add_source(source)
        self.add_processor(processor, supplier, [source.name])
        self.add_store(store, [processor])

    def connect(self, processor: str, store: str) -> None:
        if store not in self.stores:
            raise UserError(
                f"{processor} uses the store {store}, which nobody has added", "", "app.add_store(...) adds one"
            )
        if self.is_global_store(store) and self._users[store]:
            raise UserError(f"{store} is a global store", "every processor may read it", "do not name it for one")
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise UserError(f"{processor} is no processor", f"so the store {store} cannot be connected to it")
        users = self._users[store]
        if users:
            self._unite(users[0], processor)
        if processor not in users:
            users.append(processor)
        if store not in node.stores:
            node.stores.append(store)

    def _check_new(self, name: str) -> None:
        if name in self.nodes:
            raise UserError(f"There are two nodes named {name}", "names are unique in a topology")

    def _known(self, name: str, parents: Iterable[str]) -> list[str]:
        known = list(parents)
        for parent in known:
            if parent not in self.nodes:
                raise UserError(f"{name} has a parent {parent}, which is not there")
            if isinstance(self.nodes[parent], SinkNode):
                raise UserError(f"{name} hangs on {parent}", "a sink has no children")
        return known

    # -- reading

    def sources(self) -> list[SourceNode]:
        return [node for node in self.nodes.values() if isinstance(node, SourceNode)]

    def is_global_store(self, name: str) -> bool:
        store = self.stores.get(name)
        return store is not None and any(
            source.is_global and store.source_topic in source.topics for source in self.sources()
        )

    def processors_of(self, store: str) -> list[str]:
        return self._users[store]

    def sub_topologies(self) -> list[SubTopology]:
        """In the order of their numbers, global ones included: they have a number and no tasks."""
        groups: dict[str, SubTopology] = {}
        internal = frozenset(self.internal_topics)
        for name, node in self.nodes.items():
            group = groups.setdefault(self._root(name), SubTopology(len(groups), [], [], {}, internal))
            group.nodes.append(node)
            if isinstance(node, SourceNode):
                group.is_global = group.is_global or node.is_global
                for topic in node.topics:
                    if topic in self.internal_topics:
                        group.internal_topics[topic] = self.internal_topics[topic]
        for store in self.stores.values():
            if self._users[store.name]:
                groups[self._root(self._users[store.name][0])].stores.append(store)
        return list(groups.values())

    def check_copartitioned(self) -> None:
        """Repartition topics with given numbers of partitions that meet in a join must have the same."""
        for group in self.copartitioned:
            topics = [topic for source in self.sources() if source.name in group for topic in source.topics]
            counts = {topic: self.internal_topics.get(topic) for topic in topics}
            if None not in counts.values() and len(set(counts.values())) > 1:
                listed = ", ".join(f"{topic} {count}" for topic, count in sorted(counts.items()))
                raise UserError(
                    "Topics that are joined have different numbers of partitions", listed, "give them the same"
                )

    def copartitioned_topics(self) -> list[set[str]]:
        by_name = {source.name: source for source in self.sources()}
        groups = [
            {topic for name in group if name in by_name for topic in by_name[name].topics}
            for group in self.copartitioned
        ]
        return [group for group in groups if len(group) > 1]

    def _root(self, name: str) -> str:
        while self._group[name] != name:
            name = self._group[name]
        return name

    def _unite(self, first: str, *others: str) -> None:
        for other in others:
            one, two = self._root(first), self._root(other)
            if one != two:
                self._group[one] = two

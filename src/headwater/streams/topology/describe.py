"""`describe()`: the text that Kafka Streams' `Topology.describe()` gives, to the letter.

Nodes of a sub-topology stand by size (how much hangs below them), then by name. Sets of topics and stores stand in the
order of Java's HashSet, because that is what its text shows.
"""

from collections.abc import Iterable

from headwater.streams.topology.topology import Node, ProcessorNode, SinkNode, SourceNode, SubTopology, Topology


def describe(topology: Topology) -> str:
    text = ["Topologies:\n "]
    for group in topology.sub_topologies():
        text.append("  ")
        text.append(_global(group) if group.is_global else _sub_topology(group))
    return "".join(text)


def _sub_topology(group: SubTopology) -> str:
    nodes = {node.name: node for node in group.nodes}
    drawn = _Drawing(nodes)
    lines = "".join(
        f"    {_node(nodes[name], drawn.successors[name], drawn.predecessors[name])}\n"
        for name in sorted(nodes, key=drawn.rank)
    )
    return f"Sub-topology: {group.number}\n{lines}\n"


class _Drawing:
    """Sizes and neighbours as Kafka Streams finds them: edge by edge, in the order of a HashMap.

    Each edge adds the child's size of that moment to the parent and all above it. Neighbours are sorted by the sizes of
    the moment when they are linked, and stay so while sizes grow.
    """

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.sizes = dict.fromkeys(nodes, 1)
        self.predecessors: dict[str, list[str]] = {name: [] for name in nodes}
        self.successors: dict[str, list[str]] = {name: [] for name in nodes}
        for name in java_hash_order(nodes):
            for parent in _parents(nodes[name]):
                self._insert(self.predecessors[name], parent)
                self._insert(self.successors[parent], name)
                self._grow(parent, self.sizes[name])

    def rank(self, name: str) -> tuple[int, str]:
        return -self.sizes[name], name

    def _insert(self, names: list[str], name: str) -> None:
        if name in names:
            return
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            if self.rank(names[middle]) < self.rank(name):
                low = middle + 1
            else:
                high = middle
        names.insert(low, name)

    def _grow(self, name: str, by: int) -> None:
        self.sizes[name] += by
        for parent in self.predecessors[name]:
            self._grow(parent, by)


def _parents(node: Node) -> list[str]:
    return [] if isinstance(node, SourceNode) else node.parents


def _node(node: Node, successors: list[str], predecessors: list[str]) -> str:
    after, before = ", ".join(successors) or "none", ", ".join(predecessors) or "none"
    if isinstance(node, SourceNode):
        topics = node.pattern if node.pattern is not None else f"[{', '.join(java_hash_order(node.topics))}]"
        return f"Source: {node.name} (topics: {topics})\n      --> {after}"
    if isinstance(node, ProcessorNode):
        stores = ", ".join(java_hash_order(node.stores))
        return f"Processor: {node.name} (stores: [{stores}])\n      --> {after}\n      <-- {before}"
    assert isinstance(node, SinkNode)
    if isinstance(node.topic, str):
        return f"Sink: {node.name} (topic: {node.topic})\n      <-- {before}"
    name = getattr(node.topic, "__qualname__", type(node.topic).__name__)
    return f"Sink: {node.name} (extractor class: {name})\n      <-- {before}"


def _global(group: SubTopology) -> str:
    source = next(node for node in group.nodes if isinstance(node, SourceNode))
    processor = next(node for node in group.nodes if isinstance(node, ProcessorNode))
    return (
        f"Sub-topology: {group.number} for global store (will not generate tasks)\n"
        f"    {_node(source, [processor.name], [])}\n"
        f"    {_node(processor, [], [source.name])}\n"
    )


def java_hash_order(names: Iterable[str]) -> list[str]:
    """The order in which a java.util.HashSet or HashMap of these strings is walked."""
    distinct = list(dict.fromkeys(names))
    size = 16
    while len(distinct) > size * 3 // 4:
        size *= 2
    return sorted(distinct, key=lambda name: _bucket(name, size))


def _bucket(name: str, size: int) -> int:
    """Strings that share a bucket stay in the order in which they were put there."""
    value = 0
    units = name.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return (value ^ value >> 16) & (size - 1)

"""The topology that a logical graph becomes. Its nodes are written in Kafka Streams' order: by build priority, parents
before children.
"""

from heapq import heappop, heappush
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.plan.graph import Graph, GraphNode, RootNode
from headwater.streams.plan.repartition import RepartitionNode
from headwater.streams.plan.sources import merge_duplicate_sources
from headwater.streams.topology.topology import Topology


def build(graph: Graph) -> Topology:
    """The topology. The graph stays as it is and may grow further."""
    merge_duplicate_sources(graph.root)
    _drop_null_keys(graph.root)
    _enable_versioned_semantics(graph.root)
    topology = Topology()
    for node in _all(graph.root):
        node.written = False
    waiting: list[tuple[int, int, GraphNode]] = [(-1, 0, graph.root)]
    sequence = 0
    while waiting:
        _, _, node = heappop(waiting)
        if node.written or not all(parent.written for parent in node.parents):
            continue
        node.write(topology)
        node.written = True
        for child in node.children:
            sequence += 1
            heappush(waiting, (child.build_priority, sequence, child))
    topology.frame_topics |= graph.frame_inputs
    topology.copartitioned = [set(group) for group in graph.copartitioned]
    topology.check_copartitioned()
    return topology


def _enable_versioned_semantics(root: GraphNode) -> None:
    """Operators below a versioned table leave out what came out of order; `suppress` cannot stand there."""
    for node in _all(root):
        supplier: Any = getattr(node, "supplier", None)
        if hasattr(supplier, "use_versioned_semantics"):
            supplier.use_versioned_semantics = any(_versioned(parent) for parent in node.parents)
        for parent in node.parents:
            node.enable_versioned_semantics(_versioned(parent), parent.name)
        if node.refuses_versioned and _versioned_above(node):
            raise UserError(
                f"{node.name} stands below a versioned table", "suppress works on tables without versions only"
            )


def _versioned(node: GraphNode) -> bool:
    return node.output_versioned if node.output_versioned is not None else _versioned_above(node)


def _versioned_above(node: GraphNode) -> bool:
    """Whether all parents are versioned; what hangs on the root is not."""
    return not isinstance(node, RootNode) and bool(node.parents) and all(_versioned(parent) for parent in node.parents)


def _drop_null_keys(root: GraphNode) -> None:
    """Repartition topics take no records without a key, unless a join downstream keeps them."""
    relaxed: set[int] = set()
    seen: set[int] = set()

    def visit(node: GraphNode) -> None:
        if id(node) in seen:
            return
        for child in node.children:
            visit(child)
            if child.null_key_relaxed_join or id(child) in relaxed:
                relaxed.add(id(node))
        seen.add(id(node))

    visit(root)
    for node in _all(root):
        if isinstance(node, RepartitionNode):
            node.keeps_null_keys = id(node) in relaxed


def _all(root: GraphNode) -> list[GraphNode]:
    found: dict[int, GraphNode] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting.extend(node.children)
    return list(found.values())

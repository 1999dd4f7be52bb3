"""`describe_svg()`: a topology as a picture, in SVG that needs nothing else.

Each sub-topology is a frame; its nodes stand in columns by how far they are from a source, stores below the nodes that
use them. Dashed lines go from sinks to the sources of other sub-topologies that read their topics. Pure: the same
topology gives the same text.
"""

from html import escape
from typing import Final, NamedTuple

from headwater.streams.topology.topology import Node, ProcessorNode, SinkNode, SourceNode, SubTopology, Topology

_CHARACTER: Final = 7
_COLUMN_GAP: Final = 60
_ROW: Final = 64
_BOX: Final = 40
_STORE: Final = 18
_MARGIN: Final = 24
_FRAME_HEAD: Final = 28
_FILL: Final = {SourceNode: "#dbeafe", ProcessorNode: "#f3f4f6", SinkNode: "#dcfce7"}


class _Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int


def draw(topology: Topology) -> str:
    pieces: list[str] = []
    places: dict[str, _Box] = {}
    y, right = _MARGIN, 0
    subs = topology.sub_topologies()
    for sub in subs:
        boxes, width, height = _placed(sub, y)
        places |= boxes
        pieces.append(_frame(sub, y, width, height))
        y += height + _MARGIN
        right = max(right, width)
    for sub in subs:
        nodes = {node.name: node for node in sub.nodes}
        pieces += [
            _edge(places[parent], places[n.name]) for n in sub.nodes for parent in _parents(n) if parent in nodes
        ]
        pieces += [_node(node, places[node.name]) for node in sub.nodes]
    pieces += _between(topology, places)
    width = right + 2 * _MARGIN
    style = "text{font:12px ui-monospace,monospace;fill:#111827}.t{fill:#6b7280}.e{fill:none;stroke:#6b7280;stroke-width:1.2}"
    arrow = '<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">'
        f"<defs>{arrow}</defs><style>{style}</style>\n" + "\n".join(pieces) + "\n</svg>\n"
    )


def _parents(node: Node) -> list[str]:
    return [] if isinstance(node, SourceNode) else node.parents


def _columns(sub: SubTopology) -> list[list[Node]]:
    """By the longest way from a source. Parents stand before their children in the topology."""
    depth: dict[str, int] = {}
    for node in sub.nodes:
        depth[node.name] = max((depth[parent] + 1 for parent in _parents(node) if parent in depth), default=0)
    columns: list[list[Node]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for node in sub.nodes:
        columns[depth[node.name]].append(node)
    return columns


def _placed(sub: SubTopology, top: int) -> tuple[dict[str, _Box], int, int]:
    boxes: dict[str, _Box] = {}
    x, bottom = 2 * _MARGIN, top + _FRAME_HEAD
    for column in _columns(sub):
        width = max(max(len(text) for text in (node.name, *_labels(node))) for node in column) * _CHARACTER + 20
        y = top + _FRAME_HEAD
        for node in column:
            height = _BOX + _STORE * (len(node.stores) if isinstance(node, ProcessorNode) else 0)
            boxes[node.name] = _Box(x, y, width, height)
            y += height + _ROW - _BOX
        bottom = max(bottom, y)
        x += width + _COLUMN_GAP
    head = len(_title(sub)) * _CHARACTER + 2 * _MARGIN
    return boxes, max(x - _COLUMN_GAP, head), bottom - top


def _title(sub: SubTopology) -> str:
    return f"Sub-topology: {sub.number}" + (" for global store (will not generate tasks)" if sub.is_global else "")


def _labels(node: Node) -> list[str]:
    """What stands below the name: topics, or stores."""
    if isinstance(node, SourceNode):
        return [node.pattern if node.pattern is not None else ", ".join(node.topics)]
    if isinstance(node, SinkNode):
        name = node.topic if isinstance(node.topic, str) else getattr(node.topic, "__qualname__", "a function")
        return [name]
    return [f"store {store}" for store in node.stores]


def _frame(sub: SubTopology, y: int, width: int, height: int) -> str:
    return (
        f'<rect x="{_MARGIN}" y="{y}" width="{width}" height="{height}" rx="6" fill="none" stroke="#d1d5db"/>'
        f'<text class="t" x="{_MARGIN + 10}" y="{y + 18}">{escape(_title(sub))}</text>'
    )


def _node(node: Node, box: _Box) -> str:
    radius = 4 if isinstance(node, ProcessorNode) else 18
    lines = [
        f'<text x="{box.x + 10}" y="{box.y + (24 if isinstance(node, ProcessorNode) else 17)}">{escape(node.name)}</text>'
    ]
    for index, label in enumerate(_labels(node)):
        at = box.y + (_BOX + _STORE * index + 4 if isinstance(node, ProcessorNode) else 33)
        lines.append(f'<text class="t" x="{box.x + 10}" y="{at}">{escape(label)}</text>')
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="{radius}" '
        f'fill="{_FILL[type(node)]}" stroke="#6b7280"/>' + "".join(lines)
    )


def _edge(one: _Box, two: _Box, dashed: bool = False) -> str:
    x1, y1, x2, y2 = one.x + one.width, one.y + _BOX // 2, two.x, two.y + _BOX // 2
    bend = max(abs(x2 - x1) // 2, 30)
    extra = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<path class="e" marker-end="url(#a)"{extra} d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _between(topology: Topology, places: dict[str, _Box]) -> list[str]:
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode) and isinstance(node.topic, str)]
    return [
        _edge(places[sink.name], places[source.name], dashed=True)
        for sink in sinks
        for source in topology.sources()
        if sink.topic in source.topics
    ]

"""Sources of the logical graph: a stream's topics or pattern."""

import logging
import re
from typing import Final

from headwater.base.errors import UserError
from headwater.streams.model.time import TimestampExtractor
from headwater.streams.plan.graph import GraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.topology.topology import SourceNode, Topology

EARLIEST: Final = "earliest"
RESET_SETTING: Final = "auto.offset.reset"


class StreamSourceNode(GraphNode):
    """`app.stream(...)`: one or several topics, or all that match a pattern."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        pattern: str | None,
        key: Serde | None,
        value: Serde | None,
        extractor: TimestampExtractor | None,
        reset: str | None,
    ) -> None:
        super().__init__(name)
        self.topics = topics
        self.pattern = pattern
        self.key = key
        self.value = value
        self.extractor = extractor
        self.reset = reset

    def write(self, topology: Topology) -> None:
        topology.add_source(
            SourceNode(self.name, self.topics, self.pattern, self.key, self.value, self.extractor, self.reset)
        )


def check_reset(reset: object) -> None:
    """Where an input begins that has no committed offset, as consumers are told it."""
    if reset is None or reset in (EARLIEST, "latest"):
        return
    from headwater.client.consumer.resolving import ResetPolicy

    try:
        ResetPolicy.parse(str(reset))
    except ValueError as error:
        raise UserError(f"There is no reset {reset!r}", str(error)) from None


def check_pattern(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except (re.error, TypeError) as error:
        raise UserError(f"{pattern!r} is no pattern", str(error), "Patterns are Python's regular expressions") from None


def merge_duplicate_sources(root: GraphNode) -> None:
    """A topic that several calls read has one source: the first, which takes the children of the others."""
    mains: dict[tuple[tuple[str, ...], str | None], StreamSourceNode] = {}
    by_topic: dict[str, StreamSourceNode] = {}
    for node in list(root.children):
        if not isinstance(node, StreamSourceNode):
            continue
        main = mains.setdefault((node.topics, node.pattern), node)
        if main is not node:
            _merge(main, node)
            root.children.remove(node)
            node.parents.remove(root)
            continue
        for topic in node.topics:
            other = by_topic.setdefault(topic, node)
            if other is not node:
                raise UserError(
                    f"Two streams share the topic {topic} and differ in others",
                    f"{', '.join(other.topics)} and {', '.join(node.topics)}",
                    "give each topic its own stream, and merge them",
                )


def _name_of(given: object) -> object:
    """Of a serde: two that are made of one type are the same. None: as the application says."""
    return None if given is None else getattr(given, "name", given)


def _merge(main: StreamSourceNode, other: StreamSourceNode) -> None:
    if main.reset != other.reset:
        raise UserError("Two streams of one topic begin at different places", f"{main.reset} and {other.reset}")
    for what in ("key", "value", "extractor"):
        mine, theirs = getattr(main, what), getattr(other, what)
        if theirs is not None and (mine is None or (what != "extractor" and _name_of(mine) != _name_of(theirs))):
            logging.getLogger("headwater.streams").warning(
                "%s and %s read the same topics: what the first says of the %s goes for both, as in Kafka Streams (%s, "
                "and not %s)",
                main.name,
                other.name,
                "timestamps" if what == "extractor" else f"serde of {what}s",
                _name_of(mine),
                _name_of(theirs),
            )
    for child in list(other.children):
        other.children.remove(child)
        child.parents.remove(other)
        main.add_child(child)

"""Streams of all topics that match a pattern: which ones these are when an application starts. Pure.

Topics that come later are read from the next start on. The application's own internal topics are not among them.
"""

import copy
import re
from collections.abc import Iterable
from dataclasses import replace

from headwater.base.errors import UserError
from headwater.streams.topology.topology import SourceNode, Topology


def with_topics_named(topology: Topology, application_id: str, names: Iterable[str]) -> Topology:
    """The same with topics of this moment in the place of patterns. `names`: of all topics of users."""
    others = _of_others(topology, application_id, names)
    taken = {topic: node.name for node in topology.sources() for topic in node.topics}
    named = copy.copy(topology)
    named.nodes = {
        name: _named(node, others, taken) if isinstance(node, SourceNode) and node.pattern is not None else node
        for name, node in topology.nodes.items()
    }
    return named


def topics_of_patterns(topology: Topology, application_id: str, names: Iterable[str]) -> set[str]:
    """All topics of this moment that match a pattern; there may be none."""
    others = _of_others(topology, application_id, names)
    patterns = [node.pattern for node in topology.sources() if node.pattern is not None]
    return {topic for pattern in patterns for topic in _matching(pattern, others)}


def own_topics(topology: Topology, application_id: str) -> set[str]:
    """The application's internal topics, as it is now."""
    own = {f"{application_id}-{name}" for name in topology.internal_topics}
    changelogs = {
        store.changelog_topic(application_id) for store in topology.stores.values() if store.source_topic is None
    }
    return own | {topic for topic in changelogs if topic is not None}


def _of_others(topology: Topology, application_id: str, names: Iterable[str]) -> list[str]:
    return sorted(set(names) - own_topics(topology, application_id))


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if re.fullmatch(pattern, name) is not None]


def _named(node: SourceNode, names: list[str], taken: dict[str, str]) -> SourceNode:
    assert node.pattern is not None
    found = _matching(node.pattern, names)
    if not found:
        raise UserError(
            f"No topic matches {node.pattern}",
            f"{node.name} reads all topics that match it when the application starts",
            "Create one, or mend the pattern",
        )
    for topic in found:
        if topic in taken:
            raise UserError(
                f"The topic {topic} has two sources, {taken[topic]} and {node.name}", "a topic is read once"
            )
        taken[topic] = node.name
    return replace(node, topics=tuple(found), pattern=None)

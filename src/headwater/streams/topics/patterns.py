"""Streams of all topics that match a pattern: which ones these are when an application starts. Pure.

Topics that come later are read from the next start on. The application's own internal topics are not among them.
"""

import re
from collections.abc import Iterable

from headwater.base.errors import UserError
from headwater.streams.topology.topology import SourceNode, Topology


def name_topics(topology: Topology, application_id: str, names: Iterable[str]) -> None:
    """Puts the topics of this moment in the place of patterns. `names`: of all topics of users."""
    sources = [node for node in topology.sources() if node.pattern is not None]
    if not sources:
        return
    own = tuple(f"{application_id}-{name}" for name in topology.internal_topics)
    own += tuple(
        topic for store in topology.stores.values() if (topic := store.changelog_topic(application_id)) is not None
    )
    others = sorted(name for name in names if name not in own)
    taken = {topic: node.name for node in topology.sources() for topic in node.topics}
    for node in sources:
        _name(node, others, taken)


def _name(node: SourceNode, names: list[str], taken: dict[str, str]) -> None:
    assert node.pattern is not None
    found = [name for name in names if re.fullmatch(node.pattern, name) is not None]
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
    node.topics, node.pattern = tuple(found), None

"""The topics of streams and tables: what a new one is made with, and whether one may be deleted with its source.
Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.sql.language import tree
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import properties as clauses
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.sources import is_internal


def is_deletable(source: SourceInfo) -> bool:
    """Whether /ksql/terminate may delete its topic: one that a query has made. Others have written what others read."""
    return source.made_by_query is not None and not is_internal(source.topic)


class Retention(NamedTuple):
    """`retention.ms` of a topic, -1 for ever, and whether it is its own: else it is the brokers'."""

    ms: int
    is_own: bool


def sink_configs(sink: SourceInfo, properties: tree.Properties, of_input: Retention | None) -> dict[str, str]:
    """The configs of the topic that a query writes. What it reads passes on its retention, `of_input`, where that is
    known and the statement names none; windows are kept at least as long as their query keeps them.
    """
    is_compacted = sink.kind is SourceKind.TABLE and sink.window is None
    configs = topic_configs(properties, {"cleanup.policy": "compact"} if is_compacted else {})
    if is_compacted:
        return configs
    said = configs.get("retention.ms")
    if said is None and of_input is not None and of_input.is_own:
        configs["retention.ms"] = said = str(of_input.ms)
    kept_ms = sink.window.kept_ms if sink.window is not None else None
    held_ms = int(said) if said is not None else of_input.ms if of_input is not None else -1
    if kept_ms is not None and -1 < held_ms < kept_ms:
        configs["retention.ms"] = str(kept_ms)
    return configs


def topic_configs(properties: tree.Properties, defaults: Mapping[str, str]) -> dict[str, str]:
    """The configs of a new topic: RETENTION_MS and CLEANUP_POLICY of the WITH clause."""
    configs = dict(defaults)
    of_topic = {name: value for name, value in properties.items() if name in ("RETENTION_MS", "CLEANUP_POLICY")}
    given = clauses.read(tree.Properties(of_topic), sink=True)
    if given.retention_ms is not None:
        configs["retention.ms"] = str(given.retention_ms)
    if given.cleanup_policy is not None:
        configs["cleanup.policy"] = given.cleanup_policy
    return configs

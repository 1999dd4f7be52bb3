"""The topics of streams and tables: what a new one is made with, and whether one may be deleted with its source.
Pure.
"""

from collections.abc import Mapping

from headwater.sql.language import tree
from headwater.sql.plan import properties as clauses
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.sources import is_internal


def is_deletable(source: SourceInfo) -> bool:
    """Whether /ksql/terminate may delete its topic: one that a query has made. Others have written what others read."""
    return source.made_by_query is not None and not is_internal(source.topic)


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

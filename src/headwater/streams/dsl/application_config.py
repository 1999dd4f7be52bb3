"""`App(config={...})`: those of Kafka Streams' settings that belong to an application, by their names. What is said
elsewhere here, or nowhere, is refused: it would have no effect, and nobody would notice.
"""

import difflib
import logging
from collections.abc import Mapping
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.dsl.record_cache import CACHE_SETTINGS
from headwater.streams.dsl.store_types import DEFAULT_STORE
from headwater.streams.plan.sources import RESET_SETTING, check_reset
from headwater.streams.topology.stores import InternalTopicSettings

OPTIMIZATION: Final = "topology.optimization"
SELF_JOIN: Final = "single.store.self.join"
_OPTIMIZATIONS: Final = ("reuse.ktable.source.topics", "merge.repartition.topics", SELF_JOIN)
_REPLICATION: Final = "replication.factor"
_RETENTION: Final = "windowstore.changelog.additional.retention.ms"
_TOPICS: Final = "topic."
_KNOWN: Final = (OPTIMIZATION, DEFAULT_STORE, *CACHE_SETTINGS, RESET_SETTING, _REPLICATION, _RETENTION)

_RUN: Final = "run_here({}=...), or run(spark, {}=...)"
_ELSEWHERE: Final = {
    "application.id": "App(name)",
    "bootstrap.servers": "App(name, brokers=...)",
    "default.key.serde": "App(name, key=...)",
    "default.value.serde": "App(name, value=...)",
    "default.timestamp.extractor": "App(name, timestamp=...)",
    "errors.dead.letter.queue.topic.name": "App(name, dead_letter_topic=...)",
    **dict.fromkeys(
        (
            "default.deserialization.exception.handler",
            "deserialization.exception.handler",
            "processing.exception.handler",
            "default.production.exception.handler",
            "production.exception.handler",
        ),
        "App(name, on_error=...)",
    ),
    **{
        name.replace("_", "."): _RUN.format(name, name)
        for name in (
            "acceptable_recovery_lag",
            "buffered_records_per_partition",
            "commit_interval_ms",
            "max_warmup_replicas",
            "num_standby_replicas",
            "processing_guarantee",
            "repartition_purge_interval_ms",
            "state_dir",
            "transaction_timeout_ms",
        )
    },
}


def checked_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same. Raises UserError for what has no effect here."""
    given = dict(config or {})
    for name in given:
        if name not in _KNOWN and not name.startswith(_TOPICS):
            raise _refusal(name)
    if optimizations(given) - {SELF_JOIN}:
        logging.getLogger("headwater.streams").warning(
            "of topology.optimization only %s is there: tables have changelogs of their own, and each grouping has its "
            "repartition topic, so state of a Java application that ran with more is not taken over",
            SELF_JOIN,
        )
    check_reset(given.get(RESET_SETTING))
    return given


def _refusal(name: str) -> UserError:
    if name in _ELSEWHERE:
        return UserError(f"config= does not take {name}", "it is said elsewhere", _ELSEWHERE[name])
    near = difflib.get_close_matches(name, _KNOWN, 1)
    known = f"It takes {', '.join(_KNOWN)} and topic.*; settings of clients go into run_here(client=...)"
    return UserError(
        f"config= does not take {name}", "it would have no effect", f"Did you mean {near[0]}?" if near else known
    )


def optimizations(config: Mapping[str, Any]) -> frozenset[str]:
    """`topology.optimization`, as in Kafka Streams: none, all, or a list."""
    chosen = [each.strip() for each in str(config.get(OPTIMIZATION) or "none").split(",")]
    if chosen == ["none"]:
        return frozenset()
    if chosen == ["all"]:
        return frozenset(_OPTIMIZATIONS)
    for each in chosen:
        if each not in _OPTIMIZATIONS:
            raise UserError(
                f"{OPTIMIZATION} cannot be {config[OPTIMIZATION]!r}",
                "",
                f"none, all, or some of {', '.join(_OPTIMIZATIONS)}",
            )
    return frozenset(chosen)


def internal_topic_settings(config: Mapping[str, Any]) -> InternalTopicSettings:
    topics = {name.removeprefix(_TOPICS): str(value) for name, value in config.items() if name.startswith(_TOPICS)}
    found = InternalTopicSettings(topics)
    factor, retention = config.get(_REPLICATION), config.get(_RETENTION)
    if factor is not None:
        found.replication_factor = _number(_REPLICATION, factor, -1)
        if found.replication_factor == 0:
            raise UserError(f"{_REPLICATION} cannot be 0", "", "-1 is the brokers' default")
    if retention is not None:
        found.additional_retention_ms = _number(_RETENTION, retention, 0)
    return found


def _number(name: str, given: Any, least: int) -> int:
    try:
        number = int(given)
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise UserError(f"{name} cannot be {given!r}", f"it is a whole number, {least} at least")
    return number

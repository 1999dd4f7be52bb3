"""Which properties SET, ALTER SYSTEM and requests may set, and what SHOW PROPERTIES tells of all of them.

Some have an effect here; those of Kafka Streams and its clients are taken, because ksqlDB's scripts set them, and have
none: SHOW PROPERTIES says so. What would change results, and cannot be changed here, is taken with the value that holds
and refused with any other. Properties of the server itself are set where it is started.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.client.consumer.consumer_settings import CONSUMER
from headwater.client.settings.producer import PRODUCER
from headwater.sql.formats.library import format_named
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.reading import FAIL_ON_BYTES, THROW_ON_INVALID
from headwater.sql.plan.session import KEY_FORMAT, OFFSET_RESET, TOPIC_PREFIX, VALUE_FORMAT, WRAP_SINGLE
from headwater.sql.server.config import (
    LAG_MAX,
    LIMITED_PULLS,
    RANGE_SCANS,
    SCANS,
    SETTABLE,
    STREAM_PULLS,
    TABLE,
    SqlServerConfig,
    bare,
)
from headwater.sql.server.refusals import WrongPropertyError

# Names of Kafka Streams and of ksqlDB that scripts set, and that change nothing here.
_WITHOUT_EFFECT: Final = """
    acceptable.recovery.lag buffered.records.per.partition cache.max.bytes.buffering commit.interval.ms
    default.deserialization.exception.handler default.production.exception.handler default.timestamp.extractor
    max.task.idle.ms max.warmup.replicas num.standby.replicas num.stream.threads poll.ms processing.guarantee
    probing.rebalance.interval.ms replication.factor rocksdb.config.setter state.cleanup.delay.ms state.dir
    statestore.cache.max.bytes task.timeout.ms topology.optimization
    ksql.endpoint.migrate.query ksql.json_sr.converter.deserializer.enabled ksql.new.query.planner.enabled
    ksql.query.persistent.max.bytes.buffering.total ksql.query.pull.consistency.token.enabled
    ksql.query.pull.coordinator.queue.capacity ksql.query.pull.enable.standby.reads
    ksql.query.pull.forwarding.timeout.ms ksql.query.pull.interpreter.enabled
    ksql.query.pull.max.concurrent.requests ksql.query.pull.max.hourly.bandwidth.megabytes
    ksql.query.pull.max.qps ksql.query.pull.router.queue.capacity ksql.query.pull.router.thread.pool.size
    ksql.query.pull.thread.pool.size ksql.query.push.v2.alos.enabled
    ksql.query.push.v2.catchup.consumer.msg.window ksql.query.push.v2.continuation.tokens.enabled
    ksql.query.push.v2.enabled ksql.query.push.v2.interpreter.enabled ksql.query.push.v2.latest.reset.age.ms
    ksql.query.push.v2.max.catchup.consumers ksql.query.push.v2.max.hourly.bandwidth.megabytes
    ksql.query.push.v2.new.latest.delay.ms ksql.query.push.v2.registry.installed
    ksql.query.transient.max.bytes.buffering.total ksql.suppress.buffer.size.bytes
"""
# What holds here, and why nothing else can.
_ALWAYS: Final = {
    "ksql.cast.strings.preserve.nulls": ("true", "NULL as text is NULL"),
    "ksql.create.or.replace.enabled": ("true", "the language has OR REPLACE"),
    "ksql.fail.on.production.error": ("true", "a query whose rows cannot be written ends, so that none is lost"),
    "ksql.headers.columns.enabled": ("true", "the language has columns of headers"),
    "ksql.insert.into.values.enabled": ("true", "the language has INSERT VALUES"),
    "ksql.lambdas.enabled": ("true", "the language has lambdas"),
    "ksql.nested.error.set.null": ("true", "what has no value within an array, map or struct is NULL there"),
    "ksql.source.table.materialization.enabled": ("true", "pull queries may ask every table"),
    "ksql.suppress.enabled": ("true", "the language has EMIT FINAL"),
    "ksql.variable.substitution.enable": ("true", "variables are replaced"),
    "ksql.windowed.session.key.legacy": ("false", "keys of sessions have their start and end"),
}
_TRUTH: Final = (re.compile("true|false", re.IGNORECASE), "'true' or 'false'")
_LIMIT: Final = (re.compile(r"-?[0-9]{1,9}"), "a whole number")
# What ALTER SYSTEM may set, but for formats: which values, and how to say it.
_VALUES: Final = {
    OFFSET_RESET: (re.compile("earliest|latest"), "'earliest' or 'latest'"),
    TOPIC_PREFIX: (re.compile(r"[A-Za-z0-9._-]{0,100}"), "up to 100 letters, digits, '.', '_' and '-'"),
    WRAP_SINGLE: _TRUTH,
    THROW_ON_INVALID: _TRUTH,
    FAIL_ON_BYTES: _TRUTH,
    SCANS: _TRUTH,
    STREAM_PULLS: _TRUTH,
    LIMITED_PULLS: _TRUTH,
    RANGE_SCANS: _TRUTH,
    LAG_MAX: (re.compile("[0-9]{1,19}"), "a number of offsets"),
    **{name: _LIMIT for name in SETTABLE if name.startswith("ksql.functions.")},
}
_STREAMS: Final = frozenset(_WITHOUT_EFFECT.split())
_PREFIXES: Final = ("ksql.streams.", "main.consumer.", "restore.consumer.", "consumer.", "producer.", "admin.")


def check_request(given: Mapping[str, str]) -> None:
    """The properties of a request. Raises WrongPropertyError."""
    for name, value in given.items():
        try:
            check_settable(name, value)
        except SqlError as error:
            raise WrongPropertyError(error.message, error.why, error.hint) from None


def check_settable(name: str, value: str | None = None) -> None:
    """Whether it may be set at all, or to this value. Raises SqlError, in ksqlDB's words."""
    plain = name
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix)
    if name in SETTABLE or plain in SETTABLE:
        if value is not None:
            _check_value(name if name in SETTABLE else plain, value)
        return
    if plain in _STREAMS:
        return
    if plain in _ALWAYS:
        holds, why = _ALWAYS[plain]
        if value is not None and value.strip().lower() != holds:
            raise SqlError(f"{plain} cannot be '{value}'.", why=f"It is '{holds}': {why}", hint=f"UNSET '{name}';")
        return
    if name in TABLE:
        raise SqlError(
            f"One or more properties overrides set locally are prohibited by the KSQL server: [{name}]",
            hint="It is a property of the server: set it where that is started.",
        )
    if plain not in CONSUMER and plain not in PRODUCER:
        near = difflib.get_close_matches(plain, [*SETTABLE, *_STREAMS, *_ALWAYS], 1, 0.8)
        raise SqlError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            hint=f"Did you mean '{near[0]}'?" if near else "SHOW PROPERTIES; lists those that have an effect.",
        )


def check_system(name: str, value: str) -> None:
    """Whether ALTER SYSTEM may set it: only what has an effect, and to a value with which statements work: it is for
    everybody's. Raises SqlError.
    """
    plain = bare(name)
    if plain not in SETTABLE:
        known = ", ".join(sorted(SETTABLE))
        raise SqlError(f"ALTER SYSTEM cannot set '{name}'.", why=f"It sets one of: {known}")
    _check_value(plain, value)


def defaults_of(config: SqlServerConfig) -> dict[str, str]:
    """What the server's properties say for all statements that do not set it themselves. Raises SqlError."""
    for name, value in config.of_statements.items():
        _check_value(name, value)
    return config.of_statements


def _check_value(plain: str, value: str) -> None:
    if plain in (KEY_FORMAT, VALUE_FORMAT):
        format_named(value)
        return
    pattern, meaning = _VALUES[plain]
    if not pattern.fullmatch(value):
        raise SqlError(f"{plain} cannot be '{value}'.", hint=f"It is {meaning}.")


def properties(config: SqlServerConfig, system: Mapping[str, str], settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of SHOW PROPERTIES: those of the server, of ALTER SYSTEM, and of the session, which count last."""
    rows: dict[str, dict[str, Any]] = {}
    for name, row in TABLE.items():
        if not row.is_sensitive:
            given = config.values[name]
            level = "SERVER" if name in config.given else ""
            rows[name] = _row(name, _text(given), level)
    for name in SETTABLE - rows.keys():
        given = config.of_statements.get(name)
        rows[name] = _row(name, given, "" if given is None else "SERVER")
    for level, values in (("SYSTEM", system), ("SESSION", settings)):
        for name, value in values.items():
            rows[name] = _row(name, value, level)
    return [rows[name] for name in sorted(rows)]


def _text(given: Any) -> str | None:
    """A value as it stands in a file of properties."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, list | tuple):
        return ",".join(map(str, given))
    return None if given is None else str(given)


def _row(name: str, value: str | None, level: str) -> dict[str, Any]:
    scope = "KSQL" if name.startswith("ksql.") or name in TABLE else "KAFKA STREAMS"
    return {"name": name, "scope": scope, "value": value, "editable": bare(name) in SETTABLE, "level": level}

"""What each public method of Kafka Streams' DSL is here: `docs/STREAMS_DSL.md`, made of this and of
kafka_dsl_methods.json.

The names of Java's methods are checked in; tests/compat/test_streams_oracle.py asks its classes for them by reflection.
A method that is not named in `OTHERS` is the method of the same name in Python's spelling. What is not there begins
with "missing", and says why.
"""

import json
import re
from pathlib import Path
from typing import Any

import headwater.streams as streams
from headwater.streams.dsl.branched import BranchedStream
from headwater.streams.dsl.cogrouped import CogroupedStream
from headwater.streams.dsl.grouped_stream import GroupedStream
from headwater.streams.dsl.grouped_table import GroupedTable
from headwater.streams.dsl.windowed_stream import WindowedStream

METHODS: dict[str, list[str]] = json.loads(Path(__file__).with_name("kafka_dsl_methods.json").read_text())

CLASSES: dict[str, type] = {
    "StreamsBuilder": streams.App,
    "KStream": streams.Stream,
    "BranchedKStream": BranchedStream,
    "KGroupedStream": GroupedStream,
    "TimeWindowedKStream": WindowedStream,
    "SessionWindowedKStream": WindowedStream,
    "CogroupedKStream": CogroupedStream,
    "TimeWindowedCogroupedKStream": CogroupedStream,
    "SessionWindowedCogroupedKStream": CogroupedStream,
    "KTable": streams.Table,
    "KGroupedTable": GroupedTable,
    "JoinWindows": streams.JoinWindows,
}
KNOWN: dict[str, Any] = {kind.__name__: kind for kind in CLASSES.values()} | {
    name: getattr(streams, name) for name in streams.__all__
}

_GETTER = "options are arguments: nothing has to be read back from them"
_PYTHON = "a keyword argument takes the place of the object"
_JOIN_SERDES = "missing: a join writes with the serdes of its streams; give others where these are made, or by `Stream.repartition`"

OTHERS: dict[str, dict[str, str]] = {
    "StreamsBuilder": {
        "addStateStore": "`App.add_store`",
        "build": "`App.topology`",
    },
    "TimeWindowedKStream": {"emitStrategy": "`WindowedStream.emit`"},
    "SessionWindowedKStream": {"emitStrategy": "`WindowedStream.emit`"},
    "KTable": {"queryableStoreName": "the attribute queryable_name of a table"},
    "GlobalKTable": {"queryableStoreName": "the attribute queryable_name of a table"},
    "Consumed": {
        "as": "`App.stream(name=)`, `App.table(name=)`",
        "with": _PYTHON,
        "withKeySerde": "`App.stream(key=)`, `App.table(key=)`",
        "withName": "`App.stream(name=)`",
        "withOffsetResetPolicy": "`App.stream(reset=)`",
        "withTimestampExtractor": "`App.stream(timestamp=)`",
        "withValueSerde": "`App.stream(value=)`",
    },
    "Produced": {
        "as": "`Stream.to(name=)`",
        "keySerde": _GETTER,
        "streamPartitioner": "`Stream.to(partitioner=)`",
        "valueSerde": _GETTER,
        "with": _PYTHON,
        "withKeySerde": "`Stream.to(key=)`",
        "withName": "`Stream.to(name=)`",
        "withStreamPartitioner": "`Stream.to(partitioner=)`",
        "withValueSerde": "`Stream.to(value=)`",
    },
    "Grouped": {
        "as": "`Stream.group_by(name=)`, `Stream.group_by_key(name=)`, `Table.group_by(name=)`",
        "keySerde": _GETTER,
        "valueSerde": _GETTER,
        "with": _PYTHON,
        "withKeySerde": "`Stream.group_by(key=)`, `Table.group_by(key=)`",
        "withName": "`Stream.group_by(name=)`",
        "withValueSerde": "`Stream.group_by(value=)`, `Table.group_by(value=)`",
    },
    "Repartitioned": {
        "as": "`Stream.repartition(name=)`",
        "numberOfPartitions": "`Stream.repartition(partitions=)`",
        "streamPartitioner": "`Stream.repartition(partitioner=)`",
        "with": _PYTHON,
        "withKeySerde": "`Stream.repartition(key=)`",
        "withName": "`Stream.repartition(name=)`",
        "withNumberOfPartitions": "`Stream.repartition(partitions=)`",
        "withStreamPartitioner": "`Stream.repartition(partitioner=)`",
        "withValueSerde": "`Stream.repartition(value=)`",
    },
    "Materialized": {
        "as": "`Materialized(name=)`, or the name alone",
        "with": "`Materialized(key=)`, `Materialized(value=)`",
        "withCachingDisabled": "`Materialized(caching=)`",
        "withCachingEnabled": "`Materialized(caching=)`",
        "withKeySerde": "`Materialized(key=)`",
        "withLoggingDisabled": "`Materialized(logging=)`",
        "withLoggingEnabled": "`Materialized(topic_config=)`",
        "withRetention": "`Materialized(retention_ms=)`",
        "withStoreType": "`Materialized(store_type=)`",
        "withValueSerde": "`Materialized(value=)`",
    },
    "Named": {"as": "every operator has an argument name", "withName": "every operator has an argument name"},
    "Branched": {
        "as": "`BranchedStream.branch(name=)`",
        "withConsumer": "`BranchedStream.branch(then=)`",
        "withFunction": "`BranchedStream.branch(then=)`",
        "withName": "`BranchedStream.branch(name=)`",
    },
    "Joined": {
        "as": "`Stream.join(name=)`",
        "gracePeriod": _GETTER,
        "keySerde": _GETTER,
        "otherValueSerde": _GETTER,
        "valueSerde": _GETTER,
        "with": _JOIN_SERDES,
        "withGracePeriod": "`Stream.join(grace_ms=)`",
        "withKeySerde": _JOIN_SERDES,
        "withName": "`Stream.join(name=)`",
        "withOtherValueSerde": _JOIN_SERDES,
        "withValueSerde": _JOIN_SERDES,
    },
    "StreamJoined": {
        "as": "`Stream.join(store=)`",
        "with": _JOIN_SERDES,
        "withDslStoreSuppliers": "`Stream.join(store=)`: `Materialized(store_type=)`",
        "withKeySerde": _JOIN_SERDES,
        "withLoggingDisabled": "`Stream.join(store=)`: `Materialized(logging=)`",
        "withLoggingEnabled": "`Stream.join(store=)`: `Materialized(topic_config=)`",
        "withName": "`Stream.join(name=)`",
        "withOtherStoreSupplier": "missing: both sides are kept alike, by `Stream.join(store=)`",
        "withOtherValueSerde": _JOIN_SERDES,
        "withStoreName": "`Stream.join(store=)`",
        "withThisStoreSupplier": "missing: both sides are kept alike, by `Stream.join(store=)`",
        "withValueSerde": _JOIN_SERDES,
    },
    "TableJoined": {
        "as": "`Table.join(name=)`",
        "with": "missing: partitioners of a foreign-key join; subscriptions go by the key, answers back to who asked",
        "withName": "`Table.join(name=)`",
        "withOtherPartitioner": "missing: subscriptions go to partitions by the key",
        "withPartitioner": "answers go to the partition that has asked",
    },
    "Printed": {
        "toFile": "`Stream.print(file=)`",
        "toSysOut": "`Stream.print`",
        "withKeyValueMapper": "`Stream.print(mapper=)`",
        "withLabel": "`Stream.print(label=)`",
        "withName": "`Stream.print(name=)`",
    },
    "TimeWindows": {
        "advanceBy": "`hopping`",
        "gracePeriodMs": _GETTER,
        "ofSizeAndGrace": "`tumbling(grace=)`, `hopping(grace=)`",
        "ofSizeWithNoGrace": "`tumbling`, `hopping`",
        "size": _GETTER,
        "windowsFor": "within: users see `Windowed`",
    },
    "SlidingWindows": {
        "gracePeriodMs": _GETTER,
        "ofTimeDifferenceAndGrace": "`sliding(grace=)`",
        "ofTimeDifferenceWithNoGrace": "`sliding`",
        "timeDifferenceMs": _GETTER,
    },
    "SessionWindows": {
        "gracePeriodMs": _GETTER,
        "inactivityGap": _GETTER,
        "ofInactivityGapAndGrace": "`session(grace=)`",
        "ofInactivityGapWithNoGrace": "`session`",
    },
    "UnlimitedWindows": {
        "gracePeriodMs": _GETTER,
        "of": "`unlimited`",
        "size": _GETTER,
        "startOn": "`unlimited(start_ms=)`",
        "windowsFor": "within: users see `Windowed`",
    },
    "JoinWindows": {
        "grace": "`JoinWindows(grace_ms=)`; Java's is deprecated",
        "gracePeriodMs": "`JoinWindows(grace_ms=)`",
        "ofTimeDifferenceAndGrace": "`JoinWindows.of(grace_ms=)`",
        "ofTimeDifferenceWithNoGrace": "`JoinWindows.of`",
        "size": "`JoinWindows.size_ms`",
        "windowsFor": "it has no windows in Kafka Streams either: it throws",
    },
    "EmitStrategy": {
        "onWindowClose": '`WindowedStream.emit`: `emit("close")`',
        "onWindowUpdate": '`WindowedStream.emit`: `emit("update")`',
        "type": _GETTER,
    },
    "Suppressed": {
        "untilTimeLimit": "`Table.suppress(until_time_limit=)`",
        "untilWindowCloses": "`Table.suppress(until_window_closes=)`",
        "withName": "`Table.suppress(name=)`",
    },
    "Windowed": {"key": "`Windowed.key`", "window": "`Windowed.start`, `Windowed.end`"},
}
_BUFFER = {
    "emitEarlyWhenFull": "`Table.suppress(emit_early_when_full=)`",
    "maxBytes": "`Table.suppress(bytes_max=)`",
    "maxRecords": "`Table.suppress(records_max=)`",
    "shutDownWhenFull": "`Table.suppress(emit_early_when_full=)`",
    "unbounded": "`Table.suppress` without a limit",
    "withLoggingDisabled": "`Table.suppress(logging=)`",
    "withLoggingEnabled": "`Table.suppress(topic_config=)`",
    "withMaxBytes": "`Table.suppress(bytes_max=)`",
    "withMaxRecords": "`Table.suppress(records_max=)`",
    "withNoBound": "`Table.suppress` without a limit",
}
_STATIC = ("maxBytes", "maxRecords", "unbounded")
OTHERS["BufferConfig"] = _BUFFER
OTHERS["StrictBufferConfig"] = {name: told for name, told in _BUFFER.items() if name not in _STATIC}


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


def ours(kind: str, method: str) -> str:
    """What it is here, in words with names in backticks."""
    told = OTHERS.get(kind, {}).get(method)
    if told is not None:
        return told
    return f"`{CLASSES[kind].__name__}.{snake(method)}`" if kind in CLASSES else "nobody has said"


def table() -> str:
    """docs/STREAMS_DSL.md."""
    lines = [
        "# Kafka Streams' DSL and ours",
        "",
        "Every public method of the classes of Kafka Streams' DSL (4.3), and what it is in `headwater.streams`: the same name in",
        "Python's spelling, or what stands beside it. Made by `tests/unit/streams/dsl_table.py`, which the tests compare with",
        "Java's classes.",
    ]
    for kind, methods in METHODS.items():
        lines += ["", f"## {kind}", "", "| Kafka Streams | Headwater |", "|---|---|"]
        lines += [f"| `{method}` | {ours(kind, method)} |" for method in methods]
    return "\n".join(lines) + "\n"

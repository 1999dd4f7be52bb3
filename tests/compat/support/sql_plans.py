"""Random SQL queries, each with the topology of Kafka Streams that means the same, as the steps of StreamsOracle.java.

Keys are texts, values whole numbers, in Kafka's own bytes for SQL and in those of `AnySerde` for the oracle. Each piece
of a query names the function of tests/java/src/StreamsFunctions.java that it is; where a row has no value, NULL goes
into no expression (COALESCE), because those functions know no SQL.
"""

import random
import struct
from dataclasses import dataclass, field
from typing import Any

from compat.support.streams.cases import EMIT_INTERVAL

Step = dict[str, Any]
_PARITY = "CASE WHEN v % 2 = 0 THEN 'e' ELSE 'o' END"
_FILTERS = {"v % 2 = 0": "even", "v IS NOT NULL": "present", "k < 'c'": "low_key"}
_VALUES = {"v": "same", "v + 1": "increment", "CAST(v AS STRING) + '!'": "tag"}
_AGGREGATES: dict[str, Step] = {
    "COUNT(*)": {"op": "count"},
    "SUM(v)": {"op": "aggregate", "fn": "sum", "initial": "zero"},
    "LATEST_BY_OFFSET(v)": {"op": "aggregate", "fn": "last", "initial": "nothing"},
}
_OF_TABLES: dict[str, Step] = {
    "COUNT(*)": {"op": "count"},
    "SUM(v)": {"op": "aggregate", "fn": "sum", "undo": "difference", "initial": "zero"},
}
KINDS = ("project", "group", "window", "session", "final", "stream_table", "streams", "tables", "table_group")


@dataclass
class Plan:
    """`tables`: which inputs are tables, whose values may be null."""

    sql: str
    steps: list[Step]
    tables: set[str] = field(default_factory=set)
    inputs: list[dict[str, Any]] = field(default_factory=list)

    def case(self, state_dir: str) -> dict[str, Any]:
        return {"steps": self.steps, "inputs": self.inputs, "config": {EMIT_INTERVAL: 0, "state.dir": state_dir}}


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[Step] = []
        self.sql: list[str] = []
        self.tables: set[str] = set()
        self.last = ""

    def add(self, op: str, *inputs: str, **more: Any) -> str:
        self.last = f"v{len(self.steps)}"
        self.steps.append({"op": op, "in": list(inputs or ()), "out": self.last, **more})
        return self.last

    def aggregate(self, grouped: str, step: Step) -> None:
        self.add(step["op"], grouped, **{name: each for name, each in step.items() if name != "op"})

    def source(self, name: str, kind: str, value: str = "v") -> str:
        key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
        self.sql.append(
            f"CREATE {kind} {name} (k STRING {key}, {value} BIGINT) WITH (kafka_topic='{name}', value_format='KAFKA');"
        )
        if kind == "TABLE":
            self.tables.add(name)
        return self.add(kind.lower(), topic=name)

    def where(self, at: str) -> tuple[str, str]:
        """A condition, or none; and what is left."""
        if self.chance.random() < 0.5:
            return "", at
        text, name = self.chance.choice(list(_FILTERS.items()))
        return f"WHERE {text}", self.add("filter", at, fn=name)

    def ms(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def made(self, kind: str, query: str, *, table: bool = False, windowed: bool = False) -> Plan:
        if table:
            self.add("to_stream", self.last)
        self.steps.append({"op": "to", "in": [self.last], "topic": "out", "windowed": windowed})
        self.sql.append(f"CREATE {kind} made WITH (kafka_topic='out', value_format='KAFKA') AS {query};")
        return Plan("\n".join(self.sql), self.steps, self.tables)


def _project(writer: _Writer) -> Plan:
    where, at = writer.where(writer.source("one", "STREAM"))
    text, name = writer.chance.choice(list(_VALUES.items()))
    writer.add("map_values", at, fn=name)
    return writer.made("STREAM", f"SELECT k, {text} AS x FROM one {where}")


def _having(writer: _Writer, aggregate: str) -> str:
    if writer.chance.random() < 0.6:
        return ""
    writer.add("filter", writer.last, fn="even")
    return f"HAVING {aggregate} % 2 = 0"


def _group(writer: _Writer) -> Plan:
    where, at = writer.where(writer.source("one", "STREAM"))
    by_key = writer.chance.random() < 0.5
    by = "k" if by_key else _PARITY
    grouped = writer.add("group_by_key", at) if by_key else writer.add("group_by", at, fn="parity")
    text, step = writer.chance.choice(list(_AGGREGATES.items()))
    writer.aggregate(grouped, step)
    having = _having(writer, text)
    return writer.made("TABLE", f"SELECT {by} AS g, {text} AS x FROM one {where} GROUP BY {by} {having}", table=True)


def _windowed(writer: _Writer, window: str, shape: Step, *, final: bool = False) -> Plan:
    where, at = writer.where(writer.source("one", "STREAM"))
    made = writer.add("windowed_by", writer.add("group_by_key", at), window=shape)
    sessions = shape["kind"] == "session"  # what the oracle merges two of them with is no function of SQL
    text, step = writer.chance.choice(list(_AGGREGATES.items())[: 1 if sessions else None])
    writer.aggregate(made, step)
    having = _having(writer, text)
    if final:
        writer.add("suppress", writer.last, until="window_closes")
    emit = "EMIT FINAL" if final else ""
    query = f"SELECT k, {text} AS x FROM one WINDOW {window} {where} GROUP BY k {having} {emit}"
    return writer.made("TABLE", query, table=True, windowed=True)


def _time_window(writer: _Writer) -> tuple[str, Step]:
    size, grace = writer.ms(2, 20), writer.ms(0, 20)
    if writer.chance.random() < 0.5:
        text = f"TUMBLING (SIZE {size} MILLISECONDS, GRACE PERIOD {grace} MILLISECONDS)"
        return text, {"kind": "tumbling", "size": size, "grace": grace}
    advance = max(1, size // writer.chance.randint(1, 4))
    text = f"HOPPING (SIZE {size} MILLISECONDS, ADVANCE BY {advance} MILLISECONDS, GRACE PERIOD {grace} MILLISECONDS)"
    return text, {"kind": "hopping", "size": size, "advance": advance, "grace": grace}


def _window(writer: _Writer) -> Plan:
    return _windowed(writer, *_time_window(writer))


def _final(writer: _Writer) -> Plan:
    return _windowed(writer, *_time_window(writer), final=True)


def _session(writer: _Writer) -> Plan:
    gap, grace = writer.ms(2, 20), writer.ms(0, 20)
    text = f"SESSION ({gap} MILLISECONDS, GRACE PERIOD {grace} MILLISECONDS)"
    return _windowed(writer, text, {"kind": "session", "size": gap, "grace": grace})


_TOTAL = "COALESCE(one.v, CAST(0 AS BIGINT)) + COALESCE(two.w, CAST(0 AS BIGINT)) AS x"


def _joined(writer: _Writer, sorts: tuple[str, str], kinds: tuple[str, ...], within: str = "", **more: Any) -> Plan:
    left, right = writer.source("one", sorts[0]), writer.source("two", sorts[1], "w")
    kind = writer.chance.choice(kinds)
    op = {"JOIN": "join", "LEFT JOIN": "left_join", "FULL OUTER JOIN": "outer_join"}[kind]
    writer.add(op, left, right, fn="total", **more)
    key = "ROWKEY" if op == "outer_join" else "one.k AS k"
    query = f"SELECT {key}, {_TOTAL} FROM one {kind} two {within} ON one.k = two.k"
    return writer.made(sorts[0], query, table=sorts[0] == "TABLE")


_ALL = ("JOIN", "LEFT JOIN", "FULL OUTER JOIN")


def _stream_table(writer: _Writer) -> Plan:
    return _joined(writer, ("STREAM", "TABLE"), _ALL[:2])


def _streams(writer: _Writer) -> Plan:
    before, after, grace = writer.ms(0, 15), writer.ms(1, 15), writer.ms(0, 15)
    within = f"WITHIN ({before} MILLISECONDS, {after} MILLISECONDS) GRACE PERIOD {grace} MILLISECONDS"
    window = {"before": before, "after": after, "grace": grace}
    return _joined(writer, ("STREAM", "STREAM"), _ALL, within, window=window)


def _tables(writer: _Writer) -> Plan:
    return _joined(writer, ("TABLE", "TABLE"), _ALL)


def _table_group(writer: _Writer) -> Plan:
    grouped = writer.add("group_by", writer.source("one", "TABLE"), fn="parity/same")
    text, step = writer.chance.choice(list(_OF_TABLES.items()))
    writer.aggregate(grouped, step)
    return writer.made("TABLE", f"SELECT {_PARITY} AS g, {text} AS x FROM one GROUP BY {_PARITY}", table=True)


_MAKERS = (_project, _group, _window, _session, _final, _stream_table, _streams, _tables, _table_group)


def make_plan(kind: str, seed: int) -> Plan:
    """The same each time."""
    chance = random.Random(f"{kind} {seed}")
    plan = dict(zip(KINDS, _MAKERS, strict=True))[kind](_Writer(chance))
    topics = [step["topic"] for step in plan.steps if step["op"] in ("stream", "table")]
    now = 0
    for _ in range(chance.randint(5, 25)):
        topic = chance.choice(topics)
        now = max(0, now + chance.choice((0, 1, 2, 5, 30, -3, -20)))
        key = None if topic not in plan.tables and chance.random() < 0.08 else chance.choice("abcd")
        value = None if topic in plan.tables and chance.random() < 0.2 else chance.randint(-5, 9)
        plan.inputs.append({"topic": topic, "key": key, "value": value, "timestamp": now, "headers": []})
    return plan


def long_bytes(value: int | None) -> bytes | None:
    return None if value is None else struct.pack(">q", value)


def oracle_value(data: str | None) -> Any:
    """What a value of the oracle is: `AnySerde`'s, or that of a count, which is Kafka's own."""
    if data is None:
        return None
    raw = bytes.fromhex(data)
    if raw[:1] in (b"\0", b"\xff"):
        return struct.unpack(">q", raw)[0]
    return struct.unpack(">q", raw[1:])[0] if raw[:1] == b"L" else raw[1:].decode()

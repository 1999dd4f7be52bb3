"""Random cases by seed: a topology as a list of steps, and its inputs.

`make_case(seed)` is the same each time. A case begins with one operator that the seed chooses (`OPERATORS` in turn), so
that each of them has its share; what goes before and after it is random. All streams and tables end in a topic of their
own.
"""

import random
from collections.abc import Callable, Collection
from typing import Any

from compat.support.streams import functions

Step = dict[str, Any]
Case = dict[str, Any]
EMIT_INTERVAL = "__emit.interval.ms.kstreams.windowed.aggregation__"


class Writer:
    """Writes steps, and knows what each variable is:
    stream, table, global, grouped..., with a plain or a windowed key.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.unit = dice.choice([1, 1, 1000, 30_000])
        self.steps: list[Step] = []
        self.streams: list[str] = []  # with plain keys
        self.tables: list[str] = []  # with plain keys
        self.windowed: dict[str, str] = {}  # tables with windowed keys -> kind of window
        self.windowed_streams: list[str] = []
        self.topics: list[str] = []
        self.config: dict[str, Any] = {EMIT_INTERVAL: 0}
        self._number = 0
        self.versioned: set[str] = set()
        self.used: set[str] = set()

    def new(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def add(self, op: str, *inputs: str, **more: Any) -> str:
        out = self.new("v")
        step = {"op": op, "in": list(inputs), "out": out} | {k: v for k, v in more.items() if v is not None}
        self.steps.append(step)
        self.used.update(inputs)
        return out

    def name(self) -> str | None:
        return self.new("named-") if self.dice.random() < 0.15 else None

    def store(self, chance: float = 0.4, **more: Any) -> dict[str, Any] | None:
        if self.dice.random() >= chance:
            return None
        return {"name": self.new("store-") if self.dice.random() < 0.7 else None} | more

    def pick(self, table: dict[str, Any]) -> str:
        return self.dice.choice(sorted(table))

    def topic(self) -> str:
        topic = self.new("topic-")
        self.topics.append(topic)
        return topic

    # -- sources

    def stream(self, fresh: bool = False) -> str:
        if self.streams and not fresh and self.dice.random() < 0.7:
            return self.dice.choice(self.streams)
        made = self.add("stream", topic=self.topic(), name=self.name())
        self.streams.append(made)
        return made

    def table(self, fresh: bool = False) -> str:
        if self.tables and not fresh and self.dice.random() < 0.6:
            return self.dice.choice(self.tables)
        store = self.store()
        versioned = self.dice.random() < 0.15
        if versioned:
            store = {"name": self.new("store-"), "versioned": self.dice.choice([20, 60, 1000]) * self.unit}
        made = self.add("table", topic=self.topic(), store=store, name=self.name())
        self.tables.append(made)
        if versioned:
            self.versioned.add(made)
        return made

    def time(self, lowest: int = 1, highest: int = 20) -> int:
        return self.dice.randint(lowest, highest) * self.unit


def _with_key(fn: str, writer: Writer) -> bool | None:
    return True if fn == "with_key" or writer.dice.random() < 0.5 else None


# -- operators of streams


def stateless(op: str, table: dict[str, Any]) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        fn = writer.pick(table)
        name = writer.name()
        keyed = _with_key(fn, writer) if op in ("map_values", "flat_map_values") else None
        writer.streams.append(writer.add(op, writer.stream(), fn=fn, with_key=keyed, name=name))

    return write


def map_(writer: Writer) -> None:
    fn = f"{writer.pick(functions.KEYS)}/{writer.pick(functions.VALUES)}"
    writer.streams.append(writer.add("map", writer.stream(), fn=fn, name=writer.name()))


def peek(writer: Writer) -> None:
    writer.streams.append(writer.add("peek", writer.stream(), name=writer.name()))
    if writer.dice.random() < 0.3:
        writer.add("foreach", writer.stream(), name=writer.name())


def merge(writer: Writer) -> None:
    writer.streams.append(writer.add("merge", writer.stream(), writer.stream(fresh=True), name=writer.name()))


def repartition(writer: Writer) -> None:
    writer.streams.append(writer.add("repartition", writer.stream(), name=writer.name()))


def several_topics(writer: Writer) -> None:
    topics = [writer.topic() for _ in range(writer.dice.randint(2, 3))]
    writer.streams.append(writer.add("stream", topics=topics, name=writer.name()))


def pattern(writer: Writer) -> None:
    prefix = writer.new("topic-")
    topics = [f"{prefix}-{letter}" for letter in "xyz"[: writer.dice.randint(1, 3)]]
    writer.topics += topics
    more = {"topics": topics, "pattern": f"{prefix}-[a-z]", "name": writer.name()}
    writer.streams.append(writer.add("stream", **more))


def extracted(writer: Writer) -> None:
    """Timestamps of one's own, of a stream and maybe of a table."""
    more = {"topic": writer.topic(), "timestamp": writer.pick(functions.TIMES), "name": writer.name()}
    writer.streams.append(writer.add("stream", **more))
    if writer.dice.random() < 0.5:
        more = {"topic": writer.topic(), "timestamp": writer.pick(functions.TIMES), "name": writer.name()}
        writer.tables.append(writer.add("table", store=writer.store(), **more))


def print_(writer: Writer) -> None:
    label = writer.new("label-") if writer.dice.random() < 0.5 else None
    writer.add("print", writer.stream(), fn=writer.pick(functions.VALUES), label=label, name=writer.name())


def _unasked(writer: Writer) -> Step:
    """An extractor, which Kafka Streams takes and does not ask."""
    return {"timestamp": writer.pick(functions.TIMES)} if writer.dice.random() < 0.5 else {}


def global_store(writer: Writer) -> None:
    """And a processor that reads it; maybe with another one, before or behind it, that its own processor reads."""
    stores = [writer.new("store-") for _ in range(writer.dice.randint(1, 2))]
    kept = [
        {"op": "global_store", "topic": writer.topic(), "store_name": name, "fn": writer.pick(functions.AGGREGATORS)}
        | _unasked(writer)
        for name in stores
    ]
    store = writer.dice.choice(stores)
    for step in kept:
        if step["store_name"] == store and len(stores) > 1:
            step["other"] = next(name for name in stores if name != store)
        if writer.dice.random() < 0.5:
            step["stamped"] = True
        writer.steps.append(step | {"name": writer.name()})
    writer.streams.append(writer.add("process", writer.stream(), fn="global", global_name=store, name=writer.name()))


def to_dynamic(writer: Writer) -> None:
    writer.add("to", writer.stream(), topic=writer.new("out-"), dynamic=True, name=writer.name())


def to_table(writer: Writer) -> None:
    writer.tables.append(writer.add("to_table", writer.stream(), store=writer.store(), name=writer.name()))


def split(writer: Writer) -> None:
    source = writer.stream()
    count = writer.dice.randint(1, 3)
    named = writer.dice.random() < 0.5
    branches = [
        {"fn": writer.pick(functions.PREDICATES), "name": writer.new("-b") if named else None} for _ in range(count)
    ]
    default = writer.dice.random() < 0.6
    outs = [writer.new("v") for _ in range(count + default)]
    name = writer.new("split-") if writer.dice.random() < 0.5 else None
    writer.steps.append(
        {"op": "split", "in": [source], "branches": branches, "default": default, "outs": outs, "name": name}
    )
    writer.used.add(source)
    writer.streams.extend(outs)


def process(writer: Writer) -> None:
    fn = writer.dice.choice(["pass", "headers", "count", "window", "stream_time", "wall_time"])
    source = writer.stream()
    more: dict[str, Any] = {}
    if fn == "window":
        more["store_name"] = writer.new("store-")
        times = {"retention": 40 * writer.unit, "size": 5 * writer.unit}
        writer.steps.append({"op": "state_store", "kind": "window", "store_name": more["store_name"], **times})
    elif fn in ("count", "stream_time", "wall_time"):
        more["store_name"] = writer.new("store-")
        writer.steps.append({"op": "state_store", "kind": "key_value", "store_name": more["store_name"]})
    if fn in ("stream_time", "wall_time"):
        more["interval"] = writer.time(2, 12)
    writer.streams.append(writer.add("process", source, fn=fn, name=writer.name(), **more))


def process_store(kind: str) -> Callable[[Writer], None]:
    """A processor with sessions or versions of its own."""

    def write(writer: Writer) -> None:
        source, store = writer.stream(), writer.new("store-")
        kept = {"kind": kind, "store_name": store, "retention": writer.dice.choice([10, 40]) * writer.unit}
        writer.steps.append({"op": "state_store", **kept})
        more = {"store_name": store, "apart": writer.time(1, 8)}
        writer.streams.append(writer.add("process", source, fn=kind, name=writer.name(), **more))

    return write


def process_values(writer: Writer) -> None:
    fn = writer.dice.choice(["pass", "headers", "count"])
    source = writer.stream()
    more: dict[str, Any] = {}
    if fn == "count":
        more["store_name"] = writer.new("store-")
        writer.steps.append({"op": "state_store", "kind": "key_value", "store_name": more["store_name"]})
    writer.streams.append(writer.add("process_values", source, fn=fn, name=writer.name(), **more))


# -- aggregations


def _grouped(writer: Writer, named: bool = False) -> str:
    name = writer.new("named-") if named else writer.name()
    if writer.dice.random() < 0.5:
        return writer.add("group_by_key", writer.stream(), name=name)
    return writer.add("group_by", writer.stream(), fn=writer.pick(functions.KEYS), name=name)


def _aggregated(writer: Writer, grouped: str, store: dict[str, Any] | None, stores: bool = True) -> str:
    op = writer.dice.choice(["count", "reduce", "aggregate"])
    name = writer.name()
    if op == "count":
        return writer.add("count", grouped, store=store, name=name)
    if op == "reduce":
        return writer.add("reduce", grouped, fn=writer.pick(functions.REDUCERS), store=store, name=name)
    fn, initial = writer.pick(functions.AGGREGATORS), writer.pick(functions.INITIAL)
    return writer.add("aggregate", grouped, fn=fn, initial=initial, store=store, name=name)


def aggregate(writer: Writer) -> None:
    writer.tables.append(_aggregated(writer, _grouped(writer), writer.store()))


def _window(writer: Writer, kind: str) -> dict[str, Any]:
    size = writer.time(2, 20)
    window: dict[str, Any] = {"kind": kind, "size": size}
    if kind == "hopping":
        window["advance"] = max(writer.unit, size // writer.dice.randint(1, 4))
    if writer.dice.random() < 0.6:
        window["grace"] = writer.time(0, 20)
    return window


def _retention(window: dict[str, Any], writer: Writer) -> dict[str, Any]:
    if writer.dice.random() < 0.7:
        return {}
    needed = int(window["size"] * (2 if window["kind"] == "sliding" else 1) + window.get("grace", 0))
    return {"retention": needed + writer.time(0, 30)}


def windowed(kind: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        window = _window(writer, kind)
        made = writer.add("windowed_by", _grouped(writer), window=window)
        if writer.dice.random() < 0.35:
            made = writer.add("emit", made, when=writer.dice.choice(["close", "close", "update"]))
        table = _aggregated(writer, made, writer.store(0.4, **_retention(window, writer)))
        writer.windowed[table] = kind
        _after_window(writer, table)

    return write


def unlimited(writer: Writer) -> None:
    made = writer.add("windowed_by", _grouped(writer), window={"kind": "unlimited"})
    table = _aggregated(writer, made, writer.store())
    writer.windowed[table] = "unlimited"


def _after_window(writer: Writer, table: str) -> None:
    for _ in range(writer.dice.choice([0, 0, 1, 2])):
        op = writer.dice.choice(["filter", "map_values", "suppress", "to_stream", "group_by"])
        if op == "filter":
            fn = writer.pick(functions.PREDICATES)
            made = writer.add(writer.dice.choice(["filter", "filter_not"]), table, fn=fn, name=writer.name())
        elif op == "map_values":
            fn = writer.pick(functions.VALUES)
            made = writer.add("map_values", table, fn=fn, with_key=True, name=writer.name())
        elif op == "suppress":
            made = writer.add("suppress", table, until="window_closes", name=writer.name())
        elif op == "group_by":
            fn = f"{writer.dice.choice(['same', 'first', 'parity'])}/{writer.pick(functions.VALUES)}"
            grouped = writer.add("group_by", table, fn=fn, name=writer.name())
            writer.tables.append(_table_aggregated(writer, grouped))
            continue
        else:
            writer.streams.append(writer.add("to_stream", table, fn="same", name=writer.name()))
            continue
        writer.windowed[made] = writer.windowed[table]
        table = made


def suppress_windows(writer: Writer) -> None:
    kind = writer.dice.choice(["tumbling", "hopping", "session", "sliding"])
    window = _window(writer, kind)
    table = _aggregated(writer, writer.add("windowed_by", _grouped(writer), window=window), writer.store())
    made = writer.add("suppress", table, until="window_closes", name=writer.name())
    writer.windowed[table] = writer.windowed[made] = kind


def suppress_time(writer: Writer) -> None:
    most = writer.dice.choice([None, None, 1, 2, 3])
    made = writer.add(
        "suppress",
        _plain_table(writer),
        until="time_limit",
        wait=writer.time(1, 15),
        max_records=most,
        name=writer.name(),
    )
    writer.tables.append(made)


def suppress_bytes(writer: Writer) -> None:
    """With room for one to four rows or so."""
    most, wait = writer.dice.randint(60, 400), writer.time(5, 30)
    made = writer.add("suppress", _plain_table(writer), until="time_limit", wait=wait, max_bytes=most)
    writer.tables.append(made)


def cogroup(writer: Writer) -> None:
    several = writer.dice.randint(0, 2)
    first = _grouped(writer, several > 0)  # two repartitions of one cogroup need names
    made = writer.add("cogroup", first, fn=writer.pick(functions.AGGREGATORS))
    for _ in range(several):
        made = writer.add("cogroup_with", made, _grouped(writer, True), fn=writer.pick(functions.AGGREGATORS))
    kind = writer.dice.choice([None, "tumbling", "hopping", "sliding", "session"])
    initial = writer.pick(functions.INITIAL)
    if kind is None:
        writer.tables.append(writer.add("aggregate", made, initial=initial, store=writer.store(), name=writer.name()))
        return
    window = _window(writer, kind)
    made = writer.add("windowed_by", made, window=window)
    table = writer.add("aggregate", made, initial=initial, store=writer.store(1.0), name=writer.name())
    writer.windowed[table] = kind


# -- operators of tables


def _plain_table(writer: Writer) -> str:
    """Without versions, which tables inherit from what they are made of: `suppress` refuses them."""
    table = writer.table()
    return writer.add("to_table", writer.add("to_stream", table)) if writer.versioned else table


def table_filter(writer: Writer) -> None:
    op = writer.dice.choice(["filter", "filter_not"])
    made = writer.add(
        op, writer.table(), fn=writer.pick(functions.PREDICATES), store=writer.store(), name=writer.name()
    )
    writer.tables.append(made)


def table_map_values(writer: Writer) -> None:
    fn = writer.pick(functions.VALUES)
    keyed = _with_key(fn, writer)
    made = writer.add("map_values", writer.table(), fn=fn, with_key=keyed, store=writer.store(), name=writer.name())
    writer.tables.append(made)


def transform_values(writer: Writer) -> None:
    fn = writer.pick(functions.VALUES)
    writer.tables.append(
        writer.add("transform_values", writer.table(), fn=fn, store=writer.store(), name=writer.name())
    )


def to_stream(writer: Writer) -> None:
    fn = writer.pick(functions.KEYS) if writer.dice.random() < 0.5 else None
    writer.streams.append(writer.add("to_stream", writer.table(), fn=fn, name=writer.name()))


def _table_aggregated(writer: Writer, grouped: str) -> str:
    op = writer.dice.choice(["count", "reduce", "aggregate"])
    if op == "count":
        return writer.add("count", grouped, store=writer.store(), name=writer.name())
    if op == "reduce":
        return writer.add("reduce", grouped, fn="add", undo="subtract", store=writer.store())
    fn, undo = writer.dice.choice(
        [("sum", "difference"), ("join", "cross_out"), ("null_odd", "cross_out"), ("last", "null_odd")]
    )
    initial = writer.pick(functions.INITIAL)
    return writer.add("aggregate", grouped, fn=fn, undo=undo, initial=initial, store=writer.store())


def table_aggregate(writer: Writer) -> None:
    fn = f"{writer.pick(functions.KEYS)}/{writer.pick(functions.VALUES)}"
    grouped = writer.add("group_by", writer.table(), fn=fn, name=writer.name())
    writer.tables.append(_table_aggregated(writer, grouped))


# -- joins


def _joiner(writer: Writer) -> dict[str, Any]:
    fn = writer.pick(functions.JOINERS)
    return {"fn": fn, "with_key": _with_key(fn, writer)}


def stream_join(op: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        left, right = writer.stream(), writer.stream(fresh=writer.dice.random() < 0.7)
        if op == "join" and writer.dice.random() < 0.1:
            right = left
        if right == left and op != "join":
            right = writer.stream(fresh=True)
        window = {"before": writer.time(0, 15), "after": writer.time(1, 15)}
        if writer.dice.random() < 0.7:
            window["grace"] = writer.time(0, 15)
        store = writer.new("store-") if writer.dice.random() < 0.2 else None
        more = _joiner(writer)
        writer.streams.append(writer.add(op, left, right, window=window, store_name=store, name=writer.name(), **more))

    return write


def self_join(writer: Writer) -> None:
    stream = writer.stream()
    window = {"before": writer.time(0, 15), "after": writer.time(1, 15), "grace": writer.time(0, 15)}
    writer.streams.append(writer.add("join", stream, stream, window=window, **_joiner(writer)))
    if writer.dice.random() < 0.7:
        writer.config["topology.optimization"] = "single.store.self.join"


def stream_table_join(op: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        table = writer.table()
        grace = writer.time(0, 15) if table in writer.versioned and writer.dice.random() < 0.7 else None
        stream = writer.stream()
        writer.streams.append(writer.add(op, stream, table, grace=grace, name=writer.name(), **_joiner(writer)))

    return write


def versioned_join(writer: Writer) -> None:
    retention = writer.dice.choice([20, 60, 1000]) * writer.unit
    table = writer.add("table", topic=writer.topic(), store={"name": writer.new("store-"), "versioned": retention})
    writer.tables.append(table)
    writer.versioned.add(table)
    grace = writer.dice.choice([None, 0, 5, 15])
    writer.streams.append(
        writer.add(
            writer.dice.choice(["join", "left_join"]),
            writer.stream(),
            table,
            grace=None if grace is None else grace * writer.unit,
            **_joiner(writer),
        )
    )


def table_join(op: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        left, right = writer.table(), writer.table(fresh=writer.dice.random() < 0.7)
        fn = writer.dice.choice(["pair", "left", "right", "null_odd", "total"])
        writer.tables.append(writer.add(op, left, right, fn=fn, store=writer.store(), name=writer.name()))

    return write


def foreign_key_join(op: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        left, right = writer.table(), writer.table(fresh=writer.dice.random() < 0.7)
        fn = writer.dice.choice(["pair", "left", "right", "null_odd", "total"])
        keys = writer.pick(functions.KEYS)
        made = writer.add(op, left, right, key_fn=keys, fn=fn, store=writer.store(), name=writer.name())
        writer.tables.append(made)

    return write


def global_join(op: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        store = {"name": writer.new("store-")} if writer.dice.random() < 0.4 else None
        table = writer.add("global_table", topic=writer.topic(), store=store, **_unasked(writer))
        keys = writer.pick(functions.KEYS)
        more = _joiner(writer) | {"with_key": True}
        writer.streams.append(writer.add(op, writer.stream(), table, key_fn=keys, name=writer.name(), **more))

    return write


OPERATORS: dict[str, Callable[[Writer], None]] = {
    "filter": stateless("filter", functions.PREDICATES),
    "filter_not": stateless("filter_not", functions.PREDICATES),
    "map": map_,
    "map_values": stateless("map_values", functions.VALUES),
    "flat_map": stateless("flat_map", functions.PAIRS),
    "flat_map_values": stateless("flat_map_values", functions.MANY_VALUES),
    "select_key": stateless("select_key", functions.KEYS),
    "peek": peek,
    "merge": merge,
    "repartition": repartition,
    "to_dynamic": to_dynamic,
    "to_table": to_table,
    "split": split,
    "several_topics": several_topics,
    "process": process,
    "process_sessions": process_store("session"),
    "process_versions": process_store("versioned"),
    "process_values": process_values,
    "aggregate": aggregate,
    "tumbling": windowed("tumbling"),
    "hopping": windowed("hopping"),
    "sliding": windowed("sliding"),
    "session": windowed("session"),
    "unlimited": unlimited,
    "suppress_windows": suppress_windows,
    "suppress_time": suppress_time,
    "suppress_bytes": suppress_bytes,
    "cogroup": cogroup,
    "table_filter": table_filter,
    "table_map_values": table_map_values,
    "transform_values": transform_values,
    "to_stream": to_stream,
    "table_aggregate": table_aggregate,
    "stream_join": stream_join("join"),
    "stream_left_join": stream_join("left_join"),
    "stream_outer_join": stream_join("outer_join"),
    "self_join": self_join,
    "stream_table_join": stream_table_join("join"),
    "stream_table_left_join": stream_table_join("left_join"),
    "versioned_join": versioned_join,
    "table_join": table_join("join"),
    "table_left_join": table_join("left_join"),
    "table_outer_join": table_join("outer_join"),
    "foreign_key_join": foreign_key_join("join"),
    "foreign_key_left_join": foreign_key_join("left_join"),
    "global_join": global_join("join"),
    "global_left_join": global_join("left_join"),
    "global_store": global_store,
    "pattern": pattern,
    "extracted": extracted,
    "print": print_,
}


def make_case(seed: int, among: Collection[str] = ()) -> Case:
    """The operator in whose turn the seed is, and some others before and after it."""
    dice = random.Random(seed)
    writer = Writer(dice)
    names = list(OPERATORS)
    others = [name for name in names if name in among] if among else names
    chosen = [dice.choice(others) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))]
    chosen.insert(dice.randint(0, len(chosen)), names[seed % len(names)])
    for name in chosen:
        OPERATORS[name](writer)
    _sinks(writer)
    inputs = _inputs(dice, writer, dice.randint(5, 30))
    return {"seed": seed, "operators": chosen, "steps": writer.steps, "inputs": inputs, "config": writer.config}


def _sinks(writer: Writer) -> None:
    for table in [*writer.tables, *writer.windowed]:
        if table in writer.used and writer.dice.random() < 0.5:
            continue
        stream = writer.add("to_stream", table)
        windowed = True if table in writer.windowed and writer.dice.random() < 0.7 else None
        writer.add("to", stream, topic=writer.new("out-"), windowed=windowed, name=writer.name())
    for stream in writer.streams:
        if stream not in writer.used or writer.dice.random() < 0.3:
            writer.add("to", stream, topic=writer.new("out-"), name=writer.name())


def _inputs(dice: random.Random, writer: Writer, records: int) -> list[dict[str, Any]]:
    inputs: list[dict[str, Any]] = []
    now = dice.randint(0, 100) * writer.unit
    for _ in range(records):
        if dice.random() < 0.06:
            inputs.append({"advance": dice.randint(1, 20) * writer.unit})
            continue
        now += dice.choice([0, 0, 1, 1, 2, 3, 8, 30 if dice.random() < 0.3 else 1]) * writer.unit
        late = dice.choice([0, 0, 0, 1, 2, 5, 12, 40]) * writer.unit
        headers = [["h", dice.choice(["1", "2"])]] if dice.random() < 0.15 else []
        inputs.append(
            {
                "topic": dice.choice(writer.topics),
                "key": None if dice.random() < 0.04 else dice.choice("abc"),
                "value": _value(dice),
                "timestamp": max(0, now - late),
                "headers": headers,
            }
        )
    return inputs


def _value(dice: random.Random) -> str | int | None:
    chance = dice.random()
    if chance < 0.12:
        return None
    if chance < 0.45:
        return dice.randint(0, 12)
    return "".join(dice.choice("abcxy") for _ in range(dice.randint(0, 4)))


def make_cached_case(seed: int) -> Case:
    """The same with a record cache, and with commits at random instead of after each record. Some caches are so small
    that they flush of themselves.

    Stores of windows keep everything: what has passed their retention Kafka Streams shows as long as it is cached, here
    it is gone. And small caches are not of stores that are read by range (windows that are emitted on close are): an
    iterator of Kafka Streams makes recent what it passes, here only what is looked up by key is. Nor beside global
    tables, which have no cache here.
    """
    dice = random.Random(f"cached {seed}")
    case = make_case(seed)
    windowed: set[str] = set()
    steps = []
    for step in case["steps"]:
        if (step["op"] == "windowed_by" and step["window"]["kind"] != "unlimited") or (
            step["op"] == "emit" and windowed.intersection(step["in"])
        ):
            windowed.add(step["out"])
        if windowed.intersection(step.get("in", ())) and step["op"] in ("count", "reduce", "aggregate"):
            step = step | {"store": {"name": None} | step.get("store", {}) | {"retention": 1 << 40}}
        if "store" in step and dice.random() < 0.1:
            step = step | {"store": step["store"] | {"caching": False}}
        steps.append(step)
    inputs: list[Step] = []
    for step in case["inputs"]:
        if "advance" not in step:
            inputs += [step] if dice.random() < 0.7 else [step, {"commit": True}]
    other_order = any(
        step.get("window", {}).get("kind") in ("sliding", "session")
        or step["op"] == "global_table"
        or (step["op"] == "emit" and step["when"] == "close")
        for step in steps
    )
    size = 10 << 20 if other_order or dice.random() < 0.6 else dice.randint(100, 2_000)
    return case | {
        "steps": steps,
        "inputs": [*inputs, {"commit": True}],
        "commits": True,
        "config": case["config"] | {"statestore.cache.max.bytes": size},
    }

"""How nodes with stores are written out. What a run changes lies in dicts of its own until it is through, then it goes
into the stores.

Rows are read and written in the bytes of `stores.formats`; changelog records are those that the stores themselves would
write.
"""

from bisect import insort
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headwater.streams.engine.lane.code import Flow, NotInLane, Raw, WindowKey, reader
from headwater.streams.engine.stream_aggregate import StreamAggregateProcessor, may_change
from headwater.streams.engine.stream_join import LATE, JoinWindowKeeper, StreamJoinSide
from headwater.streams.engine.stream_table_join import StreamTableJoin
from headwater.streams.engine.table import StoreGetter
from headwater.streams.engine.table_source import TableSourceProcessor
from headwater.streams.engine.typed_stores import TimestampedKeyValueStore
from headwater.streams.engine.window_aggregate import WindowAggregateProcessor
from headwater.streams.model.processor import Processor
from headwater.streams.model.windows import TimeWindows, Windowed
from headwater.streams.serdes.port import writer
from headwater.streams.serdes.stock import LONG
from headwater.streams.stores.cached import CachedKeyValues, CachedWindows
from headwater.streams.stores.formats import LONG as EIGHT
from headwater.streams.stores.formats import SEQUENCE_MAX, TWO_LONGS, WINDOW
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.window import Windows

if TYPE_CHECKING:
    from headwater.streams.engine.lane.compiler import Compiler

Writer = Callable[["Compiler", str, Any, Flow], None]
_NULL: Final = "null key or value"
_SOME: Final = 8  # rows of a key: with more, those that expired go


class Rows:
    """The variables of one store in a run: `fresh` is what the run has put."""

    def __init__(self, compiler: "Compiler", name: str, kind: type[KeyValues] | type[Windows]) -> None:
        store = compiler.task.byte_stores.get(name)
        if not isinstance(store, kind) or type(store) not in (kind, CachedKeyValues, CachedWindows):
            raise NotInLane(f"the store {name}")
        code, plan = compiler.code, compiler.store_plan(name)
        rows = store.rows
        self.name, self.plan = name, plan
        self.store: Any = store
        self.key = plan.key or compiler.task.settings.key
        self.value = plan.value or compiler.task.settings.value
        self.fresh, self.get, self.recent = code.name("fresh"), code.bind(rows.get, "get"), code.name("recent")
        code.before.append(f"{self.fresh} = {{}}")
        code.before.append(f"{self.recent} = {code.bind(rows, 'rows')}.recent")
        code.after.append(f"{code.bind(rows.put_all, 'put_all')}({self.fresh})")
        topic = plan.changelog_topic(compiler.task.settings.application_id)
        logged = topic is not None and plan.spec.logged and plan.source_topic is None
        self.log = compiler.output(topic, compiler.task.partition) if logged and topic is not None else None
        self._code = code

    def find(self, row: str) -> str:
        """What the run has put, or what was there before it: mostly in memory."""
        there = f"{self.recent}[{row}] if {row} in {self.recent} else {self.get}({row})"
        return f"{self.fresh}[{row}] if {row} in {self.fresh} else {there}"

    def logs(self, key: str, value: str, time: str) -> None:
        if self.log is not None:
            self.log.write(self._code, key, value, time)


def _aggregated(compiler: "Compiler", rows: Rows, processor: Any, flow: Flow, raw: str) -> tuple[str, str, str, str]:
    """From the bytes that were found: variables of the new value, its bytes, the old value and the time."""
    code = compiler.code
    new, data, old, time = (code.name(hint) for hint in ("new", "data", "old", "time"))
    eight = code.bind(EIGHT.pack, "pack")
    if processor.is_count and rows.value is LONG:
        with code.block(f"if {raw} is None:"):
            code.line(f"{time}, {old}, {new} = {flow.time}, 0, 1")
        with code.block("else:"):
            code.line(f"{time}, {old} = {code.bind(TWO_LONGS.unpack, 'unpack')}({raw})")
            code.line(f"{new} = {old} + 1")
            with code.block(f"if {time} < {flow.time}:"):
                code.line(f"{time} = {flow.time}")
        code.line(f"{data} = {eight}({new})")
        return new, data, old, time
    aggregate = code.bind(processor.aggregator, "aggregate")
    read, write = code.bind(rows.value.deserialize, "read"), code.bind(writer(rows.value), "write")
    with code.block(f"if {raw} is None:"):
        code.line(f"{time} = {flow.time}")
        if processor.initializer is None:
            code.line(f"{old}, {new} = None, {flow.value}")
        else:
            initial = code.bind(processor.initializer, "initial")
            code.line(f"{old} = {initial}()")
            code.line(f"{new} = {aggregate}({flow.key}, {flow.value}, {old})")
            _old_again(compiler, processor, old, f"{initial}()")
    with code.block("else:"):
        code.line(f"{old} = {read}({raw}[8:])")
        code.line(f"{time} = {code.bind(EIGHT.unpack_from, 'stamp')}({raw})[0]")
        with code.block(f"if {time} < {flow.time}:"):
            code.line(f"{time} = {flow.time}")
        code.line(f"{new} = {aggregate}({flow.key}, {flow.value}, {old})")
        _old_again(compiler, processor, old, f"{read}({raw}[8:])")
    code.line(f"{data} = None if {new} is None else {write}({new})")
    return new, data, old, time


def _old_again(compiler: "Compiler", processor: Any, old: str, source: str) -> None:
    """What goes on as the old value, where the function may have changed it: see `may_change`."""
    if processor.send_old_values:
        with compiler.code.block(f"if {compiler.code.bind(may_change, 'may_change')}({old}):"):
            compiler.code.line(f"{old} = {source}")


def _or_none(processor: Any, data: str, row: str) -> str:
    """A count is never None; another aggregate may be, which deletes."""
    return row if processor.is_count else f"None if {data} is None else {row}"


def _or_time(processor: Any, data: str, time: str, flow: Flow) -> str:
    """The record of a deletion has the time of the record that deletes."""
    return time if processor.is_count else f"{flow.time} if {data} is None else {time}"


def _aggregate(compiler: "Compiler", node: str, processor: StreamAggregateProcessor, flow: Flow) -> None:
    code, rows = compiler.code, compiler.rows_of(processor.store_name, KeyValues)
    if flow.old is not None or not isinstance(compiler.task.stores[rows.name], TimestampedKeyValueStore):
        raise NotInLane("versions")
    key, raw = compiler.raw_key(flow, rows.key), code.name("raw")
    with code.block(f"if {compiler.is_none_key(flow)} or {compiler.is_none_value(flow)}:"):
        compiler.drop(_NULL)
    with code.block("else:"):
        code.line(f"{raw} = {rows.find(compiler.held(key))}")
        key = compiler.held(key)
        new, data, old, time = _aggregated(compiler, rows, processor, flow, raw)
        row = f"{code.bind(EIGHT.pack, 'pack')}({time}) + {data}"
        code.line(f"{rows.fresh}[{key}] = {_or_none(processor, data, row)}")
        rows.logs(key, data, _or_time(processor, data, time, flow))
        sent = old if processor.send_old_values else "None"
        raw_key = Raw(rows.key, key) if compiler.exact(rows.key) else None
        changed = replace(flow, value=new, old=sent, time=time, raw_key=raw_key, raw_value=Raw(rows.value, data))
        compiler.forward(node, replace(changed, at_source_time=False))


def _window_store(compiler: "Compiler", rows: Rows) -> dict[str, str]:
    """The variables of a window store in a run. Runs end before a segment would expire."""
    store, code = rows.store, compiler.code
    segments = code.bind(store.segments, "segments")

    def make() -> dict[str, str]:
        names = {each: code.name(each) for each in ("latest", "oldest", "expired", "sequence", "lists", "added")}
        code.before.append(f"{names['latest']} = {segments}.stream_time")
        code.before.append(f"{names['oldest']} = {segments}.oldest")
        code.before.append(f"{names['expired']} = 0")
        code.after.append(f"{segments}.observe({names['latest']})")
        code.after.append(f"{segments}.expired_records += {names['expired']}")
        if store.duplicates:
            owner = code.bind(store, "store")
            code.before.append(f"{names['sequence']} = {owner}.sequence")
            code.before.append(f"{names['lists']} = {owner}.by_key.lists()")
            code.before.append(f"{names['added']} = []")
            code.failed.append(f"{owner}.by_key.take_back({names['added']})")
            code.after.append(f"{owner}.use_sequence({names['sequence']})")
            code.after.append(f"{owner}.by_key.added({names['added']})")
        return names

    return compiler.shared(f"store {rows.name}", make)


def _put_window(compiler: "Compiler", rows: Rows, names: dict[str, str], start: str, row: str, value: str) -> None:
    code, interval = compiler.code, rows.store.segments.interval_ms
    with code.block(f"if {start} > {names['latest']}:"):
        code.line(f"{names['latest']} = {start}")
    with code.block(f"if {start} // {interval} < {names['oldest']}:"):
        code.line(f"{names['expired']} += 1")
    with code.block("else:"):
        code.line(f"{rows.fresh}[{row}] = {value}")


def _kept(compiler: "Compiler", node: str, processor: Processor, attribute: str) -> str:
    """The variable of an attribute of a node, which gets it back at the end."""
    code = compiler.code

    def make() -> dict[str, str]:
        name, owner = code.name("kept"), code.bind(processor, "node")
        code.before.append(f"{name} = {owner}.{attribute}")
        code.after.append(f"{owner}.{attribute} = {name}")
        return {attribute: name}

    return compiler.shared(f"{attribute} of {node}", make)[attribute]


def _window_aggregate(compiler: "Compiler", node: str, processor: WindowAggregateProcessor, flow: Flow) -> None:
    windows, code = processor.windows, compiler.code
    rows = compiler.rows_of(processor.store_name, Windows)
    store = rows.store
    if processor.emits_on_close or store.time_ordered or store.duplicates or not rows.plan.spec.timestamped:
        raise NotInLane("windows that are emitted on close")
    if not isinstance(windows, TimeWindows) or flow.old is not None or not flow.at_source_time:
        raise NotInLane("windows of another kind")
    if compiler.task.settings.late_records_topic is not None:
        raise NotInLane("late records are kept as they were read, which only the nodes know")
    compiler.expires(store.segments, windows.advance_ms)
    size, advance, time = windows.size_ms, windows.advance_ms, flow.time
    key, start = compiler.raw_key(flow, rows.key), code.name("start")
    observed = _kept(compiler, node, processor, "observed_stream_time")
    names = _window_store(compiler, rows)
    with code.block(f"if {compiler.is_none_key(flow)}:"):
        compiler.drop("null key")
    with code.block("else:"):
        key = compiler.held(key)
        with code.block(f"if {time} > {observed}:"):
            code.line(f"{observed} = {time}")
        first = f"max(0, {time} - {size - advance}) // {advance} * {advance}"
        loop = f"range({first}, {time} + 1, {advance})" if advance < size else f"({time} // {size} * {size},)"
        with code.block(f"for {start} in {loop}:"):
            with code.block(f"if {start} + {size} > {observed} - {windows.grace_ms}:"):
                _update_window(compiler, node, processor, flow, rows, names, key, start)
            with code.block("else:"):
                compiler.drop("late")


def _update_window(
    compiler: "Compiler",
    node: str,
    processor: WindowAggregateProcessor,
    flow: Flow,
    rows: Rows,
    names: dict[str, str],
    key: str,
    start: str,
) -> None:
    code, segments = compiler.code, rows.store.segments
    pack, both, row, raw = code.bind(EIGHT.pack, "pack"), code.name("window"), code.name("row"), code.name("raw")
    code.line(f"{both} = {key} + {code.bind(WINDOW.pack, 'pack_window')}({start}, 0)")
    code.line(f"{row} = {pack}({start} // {segments.interval_ms}) + {both}")
    gone = f"{start} < {names['latest']} - {segments.retention_ms} + 1"
    code.line(f"{raw} = None if {gone} else {rows.find(row)}")
    new, data, old, time = _aggregated(compiler, rows, processor, flow, raw)
    _put_window(compiler, rows, names, start, row, _or_none(processor, data, f"{pack}({time}) + {data}"))
    rows.logs(both, data, _or_time(processor, data, time, flow))
    sent = old if processor.send_old_values else "None"
    windowed = f"{code.bind(Windowed, 'Windowed')}({flow.key}, {start}, {start} + {processor.windows.size_ms})"
    window = WindowKey(rows.key, key, f"{both}[:-4]")
    changed = Flow(windowed, new, time, None, Raw(rows.value, data), sent, window, at_source_time=False)
    compiler.forward(node, changed)


def _table_source(compiler: "Compiler", node: str, processor: TableSourceProcessor, flow: Flow) -> None:
    code = compiler.code
    if processor.store_name is None:
        with code.block(f"if {compiler.is_none_key(flow)}:"):
            compiler.drop("null key")
        with code.block("else:"):
            compiler.forward(node, replace(flow, old="None"))
        return
    rows = compiler.rows_of(processor.store_name, KeyValues)
    if not isinstance(compiler.task.stores[rows.name], TimestampedKeyValueStore):
        raise NotInLane("versions")
    key, data, old, raw = compiler.raw_key(flow, rows.key), code.name("data"), code.name("old"), code.name("raw")
    with code.block(f"if {compiler.is_none_key(flow)}:"):
        compiler.drop("null key")
    with code.block("else:"):
        key = compiler.held(key)
        if processor.send_old_values:
            code.line(f"{raw} = {rows.find(key)}")
            read = code.bind(rows.value.deserialize, "read")
            code.line(f"{old} = None if {raw} is None else {read}({raw}[8:])")
        code.line(f"{data} = {compiler.raw_value(flow, rows.value)}")
        pack = code.bind(EIGHT.pack, "pack")
        code.line(f"{rows.fresh}[{key}] = None if {data} is None else {pack}({flow.time}) + {data}")
        rows.logs(key, data, flow.time)
        compiler.forward(node, replace(flow, old=old if processor.send_old_values else "None"))


def _stream_table_join(compiler: "Compiler", node: str, processor: StreamTableJoin, flow: Flow) -> None:
    getter, code = processor.getter, compiler.code
    if type(getter) is not StoreGetter or processor.mapper is not None or processor.buffer_name is not None:
        raise NotInLane("a join with a global table, a computed one, or a grace")
    if flow.old is not None or getter.name in compiler.task.global_stores:
        raise NotInLane("a global table")
    rows = compiler.rows_of(getter.name, KeyValues)
    if not isinstance(compiler.task.stores[rows.name], TimestampedKeyValueStore):
        raise NotInLane("versions")
    key, raw, right, value = (
        compiler.raw_key(flow, rows.key),
        code.name("raw"),
        code.name("right"),
        code.name("value"),
    )
    absent = compiler.is_none_value(flow)
    with code.block(f"if {absent}:" if processor.left else f"if {absent} or {compiler.is_none_key(flow)}:"):
        compiler.drop(_NULL)
    with code.block("else:"):
        key = compiler.held(key)
        alone = f"None if {compiler.is_none_key(flow)} else " if processor.left else ""
        code.line(f"{raw} = {alone}{rows.find(key)}")
        read = f"{code.bind(reader(rows.value), 'read')}({raw}[8:])"
        joined = f"{value} = {compiler.joiner(processor.joiner, flow.key, flow.value, right)}"
        if processor.left:
            code.line(f"{right} = None if {raw} is None else {read}")
            code.line(joined)
            compiler.forward(node, flow.with_value(value))
            return
        with code.block(f"if {raw} is not None:"):
            code.line(f"{right} = {read}")
            code.line(joined)
            compiler.forward(node, flow.with_value(value))


def _side_store(compiler: "Compiler", name: str) -> Rows:
    rows = compiler.rows_of(name, Windows)
    by_key = rows.store.by_key
    if by_key is None:
        raise NotInLane("no store of a join")
    compiler.needs(lambda: bool(by_key.complete))
    return rows


def _keeper(compiler: "Compiler", node: str, processor: JoinWindowKeeper, flow: Flow) -> None:
    code, rows = compiler.code, _side_store(compiler, processor.store_name)
    if flow.old is not None or not flow.at_source_time:
        raise NotInLane("a join of other times")
    compiler.expires(rows.store.segments, 1)
    compiler.forward(node, flow)
    names, both, data = _window_store(compiler, rows), code.name("window"), code.name("data")
    sequence, lists, time = names["sequence"], names["lists"], flow.time
    together, entry = code.name("together"), code.name("entry")
    with code.block(f"if not ({compiler.is_none_key(flow)}):"):
        key = compiler.held(compiler.raw_key(flow, rows.key))
        code.line(f"{sequence} = ({sequence} + 1) & {SEQUENCE_MAX}")
        code.line(f"{both} = {key} + {code.bind(WINDOW.pack, 'pack_window')}({time}, {sequence})")
        code.line(f"{data} = {compiler.raw_value(flow, rows.value)}")
        with code.block(f"if {data} is not None:"):
            row = f"{code.bind(EIGHT.pack, 'pack')}({time} // {rows.store.segments.interval_ms}) + {both}"
            _put_window(compiler, rows, names, time, row, data)
            with code.block(f"if {time} // {rows.store.segments.interval_ms} >= {names['oldest']}:"):
                code.line(f"{entry} = ({time}, {sequence}, {data})")
                code.line(f"{together} = {lists}.get({key})")
                with code.block(f"if {together} is None:"):
                    code.line(f"{lists}[{key}] = [{entry}]")
                with code.block(f"elif {together}[-1] < {entry}:"):
                    code.line(f"{together}.append({entry})")
                with code.block("else:"):
                    code.line(f"{code.bind(insort, 'insort')}({together}, {entry})")
                code.line(f"{names['added']}.append(({key}, {entry}))")
        rows.logs(both, data, time)


def _stream_join(compiler: "Compiler", node: str, processor: StreamJoinSide, flow: Flow) -> None:
    code, sides = compiler.code, processor.sides
    if sides.waiting_store is not None or processor.outer or flow.old is not None or not flow.at_source_time:
        raise NotInLane("a join that waits")
    if compiler.task.settings.late_records_topic is not None:
        raise NotInLane("late records are kept as they were read, which only the nodes know")
    rows = _side_store(compiler, sides.other_store if processor.is_left else sides.this_store)
    names = _window_store(compiler, rows)
    seen, fresh = (_kept(compiler, node, processor, each) for each in ("stream_time", "fresh"))
    time, together = flow.time, code.name("together")
    with code.block(f"if {fresh}:"):
        code.line(f"{fresh}, {seen} = False, max({seen}, {names['latest']})")
    with code.block(f"if {time} > {seen}:"):
        code.line(f"{seen} = {time}")
    with code.block(f"if {compiler.is_none_key(flow)} or {compiler.is_none_value(flow)}:"):
        compiler.drop(_NULL)
    with code.block("else:"):
        key = compiler.held(compiler.raw_key(flow, rows.key))
        closes = f"{time} + {processor.after + sides.grace_ms}"
        with code.block(f"if {closes} < {seen} or {closes} < {names['latest']}:"):
            compiler.drop(LATE)
        code.line(f"{together} = {names['lists']}.get({key})")
        with code.block(f"if {together} is not None:"):
            _meet(compiler, node, processor, flow, rows, names, together)


def _meet(
    compiler: "Compiler",
    node: str,
    processor: StreamJoinSide,
    flow: Flow,
    rows: Rows,
    names: dict[str, str],
    together: str,
) -> None:
    """A record and those of the other side: `together`, in the order of their times."""
    code, time, store = compiler.code, flow.time, rows.store
    met, other, value, joined_at = (code.name(n) for n in ("met", "other", "value", "time"))
    since, until, gone = (code.name(n) for n in ("since", "until", "gone"))
    code.before.append(f"{gone} = {names['latest']} - {store.segments.retention_ms - 1}")  # also if the run fails
    with code.block(f"if {together}[0][0] < {gone} and len({together}) > {_SOME}:"):
        trim = code.bind(store.by_key.trim, "trim")
        code.line(f"{together} = {trim}({compiler.held(compiler.raw_key(flow, rows.key))}, {gone})")
    code.line(f"{since} = max(0, {time} - {processor.before}, {names['latest']} - {store.segments.retention_ms - 1})")
    code.line(f"{until} = max(0, {time} + {processor.after})")
    with code.block(f"for {met}, _, {other} in {together}:"):
        with code.block(f"if {met} > {until}:"):
            code.line("break")
        with code.block(f"if {met} >= {since}:"):
            read = code.bind(reader(rows.value), "read")
            left, right = (flow.value, f"{read}({other})") if processor.is_left else (f"{read}({other})", flow.value)
            code.line(f"{value} = {compiler.joiner(processor.sides.joiner, flow.key, left, right)}")
            code.line(f"{joined_at} = {met} if {met} > {time} else {time}")
            moved = replace(flow.with_value(value), time=joined_at, at_source_time=False)
            compiler.forward(node, moved)


STATEFUL: dict[type[Processor], Writer] = {
    StreamAggregateProcessor: _aggregate,
    WindowAggregateProcessor: _window_aggregate,
    TableSourceProcessor: _table_source,
    StreamTableJoin: _stream_table_join,
    JoinWindowKeeper: _keeper,
    StreamJoinSide: _stream_join,
}

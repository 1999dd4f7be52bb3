"""From the steps of a case to an application of `headwater.streams`."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat.support.streams import functions, processors
from compat.support.streams.cases import EMIT_INTERVAL
from compat.support.streams.functions import AnySerde, WindowText
from headwater.streams import App

Step = dict[str, Any]
ANY = AnySerde()
OF_JAVA = (EMIT_INTERVAL, "state.dir")  # settings that are Kafka Streams' alone


def build(case: dict[str, Any], name: str = "app", brokers: str | None = None, printed: Path | None = None) -> App:
    """`printed`: a directory for the files that streams are printed to, named by the variables of their steps."""
    config = {setting: value for setting, value in case["config"].items() if setting not in OF_JAVA}
    app = App(name, brokers=brokers, key="text", value=ANY, config=config)
    builder = _Builder(app, Path(tempfile.gettempdir()) if printed is None else printed)
    for step in case["steps"]:
        made = builder.make(step)
        if isinstance(step.get("out"), str):
            builder.variables[step["out"]] = made
    return builder.app


class _Builder:
    def __init__(self, app: App, printed: Path) -> None:
        self.app = app
        self._printed_to = printed
        self.variables: dict[str, Any] = {}
        self.sessions: set[str] = set()  # variables that are windowed by sessions: their aggregations merge

    def make(self, step: Step) -> Any:
        return getattr(self, "_" + step["op"])(step)

    def _in(self, step: Step, index: int = 0) -> Any:
        return self.variables[step["in"][index]]

    # -- sources

    def _stream(self, step: Step) -> Any:
        if "pattern" in step:
            return self.app.stream(pattern=step["pattern"], key="text", name=step.get("name"))
        topics = step["topics"] if "topics" in step else [step["topic"]]
        return self.app.stream(*topics, key="text", name=step.get("name"), **_times(step))

    def _table(self, step: Step) -> Any:
        return self.app.table(step["topic"], key="text", name=step.get("name"), **_times(step), **_store(step))

    def _global_store(self, step: Step) -> None:
        kept = processors.store(step | {"kind": "key_value"})
        more = _name(step) | _times(step)
        self.app.add_global_store(kept, step["topic"], lambda: processors.Kept(step), key="text", **more)

    def _global_table(self, step: Step) -> Any:
        return self.app.global_table(step["topic"], key="text", name=step.get("name"), **_times(step), **_store(step))

    def _state_store(self, step: Step) -> None:
        self.app.add_store(processors.store(step))

    # -- records one by one

    def _named(self, step: Step, function: Callable[..., Any] | None = None, **more: Any) -> Any:
        method = getattr(self._in(step), step["op"])
        arguments = () if function is None else (function,)
        return method(*arguments, name=step.get("name"), **more)

    def _filter(self, step: Step) -> Any:
        return self._named(step, functions.PREDICATES[step["fn"]], **_store(step))

    _filter_not = _filter

    def _map(self, step: Step) -> Any:
        return self._named(step, functions.pair(step["fn"]))

    def _map_values(self, step: Step) -> Any:
        function = functions.VALUES[step["fn"]]
        plain = function if step.get("with_key") else lambda value: function(None, value)
        return self._named(step, plain, **_store(step))

    def _flat_map(self, step: Step) -> Any:
        return self._named(step, functions.PAIRS[step["fn"]])

    def _flat_map_values(self, step: Step) -> Any:
        function = functions.MANY_VALUES[step["fn"]]
        return self._named(step, function if step.get("with_key") else lambda value: function(None, value))

    def _print(self, step: Step) -> Any:
        function = functions.VALUES[step["fn"]]
        file = str(self._printed_to / step["out"])
        return self._in(step).print(
            mapper=lambda key, value: functions.text(function(key, value)),
            label=step.get("label"),
            file=file,
            name=step.get("name"),
        )

    def _select_key(self, step: Step) -> Any:
        return self._named(step, functions.KEYS[step["fn"]])

    def _peek(self, step: Step) -> Any:
        return self._named(step, lambda key, value: None)

    _foreach = _peek

    def _merge(self, step: Step) -> Any:
        return self._in(step).merge(self._in(step, 1), name=step.get("name"))

    def _repartition(self, step: Step) -> Any:
        return self._named(step)

    def _to(self, step: Step) -> Any:
        topic: Any = step["topic"]
        if step.get("dynamic"):
            prefix = step["topic"]
            topic = lambda record, context: prefix + ("-odd" if functions.odd(record.value) else "-even")  # noqa: E731
        key = WindowText() if step.get("windowed") else None
        return self._in(step).to(topic, name=step.get("name"), key=key)

    def _split(self, step: Step) -> None:
        branched = self._in(step).split(name=step.get("name"))
        for branch in step["branches"]:
            branched = branched.branch(functions.PREDICATES[branch["fn"]], name=branch.get("name"))
        streams = branched.default_branch() if step["default"] else branched.no_default_branch()
        for out, stream in zip(step["outs"], streams.values(), strict=True):
            self.variables[out] = stream

    def _process(self, step: Step) -> Any:
        stores = [step["store_name"]] if "store_name" in step else []
        return self._in(step).process(processors.supplier(step), stores=stores, name=step.get("name"))

    def _process_values(self, step: Step) -> Any:
        stores = [step["store_name"]] if "store_name" in step else []
        return self._in(step).process_values(processors.supplier(step), stores=stores, name=step.get("name"))

    # -- aggregations

    def _group_by_key(self, step: Step) -> Any:
        return self._in(step).group_by_key(name=step.get("name"))

    def _group_by(self, step: Step) -> Any:
        function = functions.pair(step["fn"]) if "/" in step["fn"] else functions.KEYS[step["fn"]]
        return self._in(step).group_by(function, name=step.get("name"))

    def _windowed_by(self, step: Step) -> Any:
        if step["window"]["kind"] == "session":
            self.sessions.add(step["out"])
        return self._in(step).windowed_by(_window(step["window"]))

    def _emit(self, step: Step) -> Any:
        if step["in"][0] in self.sessions:
            self.sessions.add(step["out"])
        return self._in(step).emit(step["when"])

    def _count(self, step: Step) -> Any:
        return self._in(step).count(name=step.get("name"), **_store(step))

    def _reduce(self, step: Step) -> Any:
        given = [functions.REDUCERS[step["fn"]]]
        if "undo" in step:
            given.append(functions.REDUCERS[step["undo"]])
        return self._in(step).reduce(*given, **_name(step), **_store(step))

    def _aggregate(self, step: Step) -> Any:
        given: list[Any] = [functions.INITIAL[step["initial"]]]
        if "fn" in step:
            given.append(functions.AGGREGATORS[step["fn"]])
        if "undo" in step:
            given.append(functions.AGGREGATORS[step["undo"]])
        if step["in"][0] in self.sessions:
            given.append(lambda key, left, right: functions.add(left, right))
        return self._in(step).aggregate(*given, **_name(step), **_store(step))

    def _cogroup(self, step: Step) -> Any:
        return self._in(step).cogroup(functions.AGGREGATORS[step["fn"]])

    def _cogroup_with(self, step: Step) -> Any:
        return self._in(step).cogroup(self._in(step, 1), functions.AGGREGATORS[step["fn"]])

    # -- tables

    def _to_table(self, step: Step) -> Any:
        return self._in(step).to_table(name=step.get("name"), **_store(step))

    def _transform_values(self, step: Step) -> Any:
        return self._named(step, processors.values_supplier(step), **_store(step))

    def _to_stream(self, step: Step) -> Any:
        return self._named(step, functions.KEYS[step["fn"]] if "fn" in step else None)

    def _suppress(self, step: Step) -> Any:
        if step["until"] == "window_closes":
            return self._in(step).suppress(until_window_closes=True, name=step.get("name"))
        limits = {"records_max": step.get("max_records"), "bytes_max": step.get("max_bytes")}
        return self._in(step).suppress(until_time_limit=step["wait"], name=step.get("name"), **limits)

    # -- joins

    def _join(self, step: Step) -> Any:
        function = functions.JOINERS[step["fn"]]
        joiner = function if step.get("with_key") else lambda left, right: function(None, left, right)
        more: dict[str, Any] = {"name": step.get("name")} | _store(step)
        if "window" in step:
            more["window"] = _join_window(step["window"])
            if "store_name" in step or step.get("name"):
                more["store"] = step.get("store_name") or step.get("name")
        if "key_fn" in step:
            more["on"] = functions.KEYS[step["key_fn"]]
        if "grace" in step:
            more["grace_ms"] = step["grace"]
        return getattr(self._in(step), step["op"])(self._in(step, 1), joiner, **more)

    _left_join = _outer_join = _join


def _times(step: Step) -> dict[str, Any]:
    if "timestamp" not in step:
        return {}
    function = functions.TIMES[step["timestamp"]]
    return {"timestamp": lambda record, time: function(record.value, record.timestamp, time)}


def _name(step: Step) -> dict[str, Any]:
    return {"name": step["name"]} if step.get("name") else {}


def _store(step: Step) -> dict[str, Any]:
    """The arguments that say which store a table has."""
    if "store" not in step:
        return {}
    from headwater.streams import Materialized

    given = step["store"]
    return {
        "store": Materialized(
            given["name"],
            retention_ms=given.get("retention"),
            history_ms=given.get("versioned"),
            caching=given.get("caching", True),
        )
    }


def _window(window: dict[str, Any]) -> Any:
    from headwater.streams import hopping, session, sliding, tumbling, unlimited

    grace = {"grace": window.get("grace", 0)}
    kind = window["kind"]
    if kind == "tumbling":
        return tumbling(window["size"], **grace)
    if kind == "hopping":
        return hopping(window["size"], window["advance"], **grace)
    if kind == "sliding":
        return sliding(window["size"], **grace)
    if kind == "session":
        return session(window["size"], **grace)
    return unlimited()


def _join_window(window: dict[str, Any]) -> Any:
    from headwater.streams import JoinWindows

    return JoinWindows(window["before"], window["after"], window.get("grace", 0))

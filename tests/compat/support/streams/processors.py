"""The processors that a case names: the same as in tests/java/src/StreamsProcessors.java."""

from collections.abc import Callable
from typing import Any

from compat.support.streams import functions
from headwater.streams import Processor, Record, versioned_store
from headwater.streams.engine.table_transform_values import ValueTransformer
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.topology.stores import StorePlan

Step = dict[str, Any]


def store(step: Step) -> StorePlan:
    if step["kind"] == "window":
        times = {"retention_ms": step["retention"], "window_size_ms": step["size"]}
        return StorePlan(StoreSpec(step["store_name"], StoreKind.WINDOW, timestamped=False, **times))
    if step["kind"] == "session":
        sessions = StoreSpec(step["store_name"], StoreKind.SESSION, timestamped=False, retention_ms=step["retention"])
        return StorePlan(sessions)
    if step["kind"] == "versioned":
        return versioned_store(step["store_name"], step["retention"])
    return StorePlan(StoreSpec(step["store_name"], timestamped=False))


class Pass(Processor):
    def process(self, record: Record) -> None:
        self.forward(record)


class AddHeader(Processor):
    def __init__(self, later: int) -> None:
        self._later = later

    def process(self, record: Record) -> None:
        headers = (*record.headers, ("seen", functions.key_text(record.key).encode()))
        self.forward(record.with_headers(headers).with_timestamp(record.timestamp + self._later))


class Count(Processor):
    def __init__(self, step: Step) -> None:
        self._name = step["store_name"]

    def init(self, context: Any) -> None:
        self._store = context.store(self._name)

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        count = functions.size(self._store.get(record.key)) + 1
        self._store.put(record.key, count)
        self.forward(record.with_value(count))


class Kept(Processor):
    """Makes a global store of a topic, and maybe of what another one has."""

    def __init__(self, step: Step) -> None:
        self._name, self._add = step["store_name"], functions.AGGREGATORS[step["fn"]]
        self._other, self._stamped = step.get("other"), "stamped" in step

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        value = record.value
        if self._other is not None:
            found = self.context.store(self._other).get(record.key)
            value = functions.cut(f"{functions.text(value)}/{functions.text(found)}")
        if self._stamped:
            value = functions.cut(f"{functions.text(value)}@{record.timestamp}")
        store = self.context.store(self._name)
        store.put(record.key, self._add(record.key, value, store.get(record.key)))


class Looked(Processor):
    """Tells what stands in a global store."""

    def __init__(self, step: Step) -> None:
        self._name = step["global_name"]

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        found = self.context.store(self._name).get(record.key)
        self.forward(record.with_value(functions.cut(f"{functions.text(record.value)}/{functions.text(found)}")))


class Recent(Processor):
    def __init__(self, step: Step) -> None:
        self._name = step["store_name"]

    def init(self, context: Any) -> None:
        self._store = context.store(self._name)

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            return
        self._store.put(record.key, record.value, record.timestamp)
        found = ""
        for timestamp, value in self._store.fetch(record.key, max(0, record.timestamp - 20), record.timestamp + 5):
            found = functions.cut(f"{found}{timestamp}={functions.text(value)}")
        self.forward(record.with_value(found))


class Sessions(Processor):
    """Puts one session for each record, tells those that are near, and removes the first of them if there are many."""

    def __init__(self, step: Step) -> None:
        self._name, self._apart = step["store_name"], step["apart"]

    def init(self, context: Any) -> None:
        self._store = context.store(self._name)

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        at, apart = record.timestamp, self._apart
        self._store.put(record.key, at, at + apart, record.value)
        near = list(self._store.find_sessions(record.key, at - apart, at + 2 * apart))
        found = ""
        for _, start, end, value in near:
            found = functions.cut(f"{found}{start}-{end}={functions.text(value)}")
        if len(near) > 2:
            self._store.remove(record.key, near[0][1], near[0][2])
        self.forward(record.with_value(found))


class Versions(Processor):
    """Puts a version for each record, and tells the latest and one of a time before."""

    def __init__(self, step: Step) -> None:
        self._name, self._apart = step["store_name"], step["apart"]

    def init(self, context: Any) -> None:
        self._store = context.store(self._name)

    def process(self, record: Record) -> None:
        if record.key is None:
            return
        until = self._store.put(record.key, record.value, record.timestamp)
        found = functions.cut(f"{until}")
        before = record.timestamp - self._apart
        for version in (self._store.get(record.key), self._store.get_as_of(record.key, before)):
            told = "none" if version is None else f"{functions.text(version[0])}@{version[1]}"
            found = functions.cut(f"{found} {told}")
        self.forward(record.with_value(found))


class Punctuated(Processor):
    """Keeps the last value of each key and forwards all of them at each turn."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def init(self, context: Any) -> None:
        self._store = context.store(self._step["store_name"])
        kind = "stream" if self._step["fn"] == "stream_time" else "wall"
        context.schedule(self._step["interval"], kind, self._punctuate)

    def process(self, record: Record) -> None:
        if record.key is not None:
            self._store.put(record.key, record.value)

    def _punctuate(self, timestamp: int) -> None:
        for key, value in self._store.all():
            self.forward(Record(key, value, timestamp))


def supplier(step: Step) -> Callable[[], Processor]:
    fn = step["fn"]
    if fn == "pass":
        return Pass
    if fn == "headers":
        return lambda: AddHeader(1 if step["op"] == "process" else 0)
    if fn == "count":
        return lambda: Count(step)
    if fn == "global":
        return lambda: Looked(step)
    if fn == "window":
        return lambda: Recent(step)
    if fn == "session":
        return lambda: Sessions(step)
    if fn == "versioned":
        return lambda: Versions(step)
    return lambda: Punctuated(step)


def values_supplier(step: Step) -> Callable[[], Any]:
    """For `transform_values` of a table: an object with `transform(key, value)`."""
    function = functions.VALUES[step["fn"]]

    class Values(ValueTransformer):
        def init(self, context: Any) -> None:
            pass

        def close(self) -> None:
            pass

        def transform(self, key: Any, value: Any) -> Any:
            return function(key, value)

    return Values

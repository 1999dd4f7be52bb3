"""A case for an application, line by line: records in, time, and what must come out. What `headwater stream test` runs.
Pure.

Each line is one JSON object; empty lines and those that begin with # say nothing.

    {"topic": "orders", "key": "1", "value": {"amount": 200}, "timestamp": 1000}    a record in; headers, partition
    {"advance_ms": 60000}                                                           the wall clock moves on
    {"expect": "revenue", "key": "ann", "value": 200}                               the next record of a topic
    {"expect_none": "revenue"}                                                      and no further one
    {"expect_store": "totals", "key": "ann", "value": 200}                          what a store holds; null: nothing
    {"expect_store": "per-day", "key": {"key": "ann", "start": 0}, "value": 200}    of a window; session: end

What a topic's serdes cannot read (a dead letter may be anything) is shown as {"base64": ...}. Of an expected record
only what is written there is compared. A topic that is expected anywhere must have no further records at the end. A
case without any expectation is only run, and its outputs are shown.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.model.time import whole
from headwater.streams.query.store_query import encode, from_json, plain
from headwater.streams.serdes.port import Serde, SerdeError
from headwater.streams.stores.spec import StoreKind
from headwater.streams.testing.driver import Driver

_INPUT: Final = {"topic", "key", "value", "timestamp", "headers", "partition"}
_KINDS: Final = {
    "topic": _INPUT,
    "advance_ms": {"advance_ms"},
    "expect": {"expect", "key", "value", "timestamp", "headers", "partition"},
    "expect_none": {"expect_none"},
    "expect_store": {"expect_store", "key", "value", "timestamp", "partition"},
}


def _is_whole(given: Any) -> bool:
    return whole(given) is not None


def _are_headers(given: Any) -> bool:
    return isinstance(given, dict) and all(isinstance(text, str | None) for text in given.values())


_PARTS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "advance_ms": (_is_whole, "a whole number of milliseconds"),
    "timestamp": (_is_whole, "a whole number of milliseconds"),
    "partition": (_is_whole, "a whole number"),
    "headers": (_are_headers, 'an object of texts: {"name": "value"}'),
}
_PLACES: Final[Mapping[StoreKind, tuple[str, ...]]] = {
    StoreKind.WINDOW: ("key", "start"),
    StoreKind.SESSION: ("key", "start", "end"),
}


@dataclass(slots=True)
class Outcome:
    """`outputs`: every record that came out, in its topic's order. `differences`: sentences; none if all is as
    expected.
    """

    outputs: list[dict[str, Any]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    expectations: int = 0


def parse(text: str, name: str = "the case") -> list[tuple[int, dict[str, Any]]]:
    """The objects with their line numbers. Raises UserError that names the line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            step = json.loads(line)
        except ValueError as error:
            raise UserError(f"Line {number} of {name} is no JSON", str(error)) from None
        kinds = [kind for kind in _KINDS if isinstance(step, dict) and kind in step]
        if len(kinds) != 1:
            raise UserError(f"Line {number} of {name} says nothing to do", f"one of {', '.join(_KINDS)} is needed")
        unknown = sorted(set(step) - _KINDS[kinds[0]])
        if unknown:
            raise UserError(f"Line {number} of {name} has an unknown {unknown[0]!r}", f"beside {kinds[0]}")
        for part, (takes, what) in _PARTS.items():
            if step.get(part) is not None and not takes(step[part]):
                raise UserError(f"Line {number} of {name} has {step[part]!r} for {part}", f"it is {what}")
        found.append((number, step))
    return found


def run(driver: Driver, steps: Iterable[tuple[int, dict[str, Any]]]) -> Outcome:
    case = _Case(driver)
    for number, step in steps:
        case.step(number, step)
    return case.finish()


class _Case:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        app = driver.app
        self._internal = frozenset(f"{app.name}-{topic}" for topic in app.topology().internal_topics)
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # outputs that nothing has expected yet
        self._expected: set[str] = set()
        self._outcome = Outcome()

    def step(self, number: int, step: dict[str, Any]) -> None:
        if "topic" in step:
            self._pipe(number, step)
        elif "advance_ms" in step:
            self._driver.advance(whole(step["advance_ms"]) or 0)
            self._read()
        else:
            self._outcome.expectations += 1
            if "expect" in step:
                self._expect(number, step)
            elif "expect_none" in step:
                self._expect_none(number, str(step["expect_none"]))
            else:
                self._expect_store(number, step)

    def finish(self) -> Outcome:
        for topic in sorted(self._expected):
            for record in self._waiting.get(topic, []):
                self._outcome.differences.append(f"{topic} has a further record: {_shown(record)}")
        return self._outcome

    def _pipe(self, number: int, step: dict[str, Any]) -> None:
        topic = str(step["topic"])
        key, value = self._driver.serdes_of(topic)
        try:
            read_key, read_value = _taken(step.get("key"), key), _taken(step.get("value"), value)
        except (SerdeError, ValueError) as error:
            raise UserError(f"The record of line {number} does not fit the topic {topic}", str(error)) from None
        given = (step.get("headers") or {}).items()
        headers = tuple((name, None if text is None else text.encode()) for name, text in given)
        self._driver.pipe(topic, read_key, read_value, step.get("timestamp"), headers, step.get("partition"))
        self._read()

    def _read(self) -> None:
        for topic in sorted(self._driver.output_topics):
            if topic in self._internal:
                continue  # on its way through a repartition topic
            key, value = self._driver.serdes_of(topic)
            for record in self._driver.read_raw(topic):
                row = {
                    "topic": topic,
                    "key": _read_part(record.key, key),
                    "value": _read_part(record.value, value),
                    "timestamp": record.timestamp,
                    "partition": record.partition or 0,
                    "headers": {
                        name: None if data is None else data.decode("utf-8", "replace") for name, data in record.headers
                    },
                }
                row = json.loads(encode(row))  # as it stands in a file
                self._waiting.setdefault(topic, []).append(row)
                self._outcome.outputs.append(row)

    def _expect(self, number: int, step: dict[str, Any]) -> None:
        topic = str(step["expect"])
        self._expected.add(topic)
        waiting = self._waiting.get(topic, [])
        wanted = {name: given for name, given in step.items() if name != "expect"}
        if not waiting:
            self._outcome.differences.append(f"line {number}: nothing came to {topic}, expected {_shown(wanted)}")
            return
        found = waiting.pop(0)
        if any(found[name] != given for name, given in wanted.items()):
            seen = {name: found[name] for name in wanted}
            self._outcome.differences.append(f"line {number}: {topic} has {_shown(seen)}, expected {_shown(wanted)}")

    def _check_topic(self, number: int, topic: str) -> None:
        """A slip in its name would look as if nothing came."""
        try:
            self._driver.check_written(topic)
        except UserError as error:
            raise UserError(f"Line {number} expects what cannot come", f"{error.what}: {error.why}") from None

    def _expect_none(self, number: int, topic: str) -> None:
        self._check_topic(number, topic)
        for record in self._waiting.pop(topic, []):
            self._outcome.differences.append(f"line {number}: {topic} has {_shown(record)}, expected nothing")

    def _expect_store(self, number: int, step: dict[str, Any]) -> None:
        name, partition = str(step["expect_store"]), whole(step.get("partition")) or 0
        _, value = self._driver.serdes_of_store(name)
        found = self._driver.store(name, partition).get(*self._place(number, name, step.get("key")))
        timestamp = None
        if isinstance(found, tuple):  # of a table's store: a value and its time
            found, timestamp = found
        seen = json.loads(encode({"value": plain(found, value), "timestamp": timestamp}))
        for field_name in ("value", "timestamp"):
            if field_name in step and seen[field_name] != step[field_name]:
                self._outcome.differences.append(
                    f"line {number}: {name} has {field_name} {_shown(seen[field_name])} under "
                    f"{_shown(step.get('key'))}, expected {_shown(step[field_name])}"
                )

    def _place(self, number: int, name: str, given: Any) -> list[Any]:
        """What a store has a row under: its key, and of windows and sessions their times."""
        parts = _PLACES.get(self._driver.plan_of_store(name).spec.kind, ())
        if parts and not (isinstance(given, dict) and given.get("key") is not None):
            shown = ", ".join(f'"{part}": ...' for part in parts)
            raise UserError(f"Line {number} names no row of {name}", "it is a store of windows", f'"key": {{{shown}}}')
        plain_key = given["key"] if parts else given
        times = [whole(given.get(part)) for part in parts[1:]]
        if plain_key is None or None in times:
            missing = (
                "it names no key" if plain_key is None else f"{' and '.join(parts[1:])} are needed, in milliseconds"
            )
            raise UserError(f"Line {number} names no row of {name}", missing)
        key, _ = self._driver.serdes_of_store(name)
        try:
            taken = _taken(plain_key, key)
            key.serialize(taken)
        except (SerdeError, ValueError) as error:
            raise UserError(f"The key of line {number} does not fit the store {name}", str(error)) from None
        return [taken, *times]


def _read_part(data: bytes | None, serde: Serde) -> Any:
    """A key or value as JSON shows it; its bytes where the topic's serde is not theirs."""
    if data is None:
        return None
    try:
        return plain(serde.deserialize(data), serde)
    except Exception:  # noqa: BLE001 - a serde of the user's may raise anything
        return plain(data, serde)


def _taken(given: Any, serde: Serde) -> Any:
    return None if given is None else from_json(json.dumps(given), serde)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

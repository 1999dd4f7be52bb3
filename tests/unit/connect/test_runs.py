"""Runs of records: whatever goes by runs comes to the same as record by record."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import ConsumerRecord
from headwater.connect.api import SourceTask
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connectors.file_sink import FileStreamSinkTask
from headwater.connect.connectors.file_source import _LINE, Lines
from headwater.connect.converters.base import Converter
from headwater.connect.converters.basic import (
    ByteArrayConverter,
    IntegerConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from headwater.connect.converters.json_converter import JsonConverter
from headwater.connect.data import schema as s
from headwater.connect.data.json_text import dumps
from headwater.connect.data.record import Header, SourceRecord
from headwater.connect.data.runs import RUN_RECORDS_MIN, Column, SinkRun, SourceRun, source_runs
from headwater.connect.data.schema import INT64, STRING, Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError
from headwater.connect.plugins import Catalog, Kind, Plugin, of_function
from headwater.connect.runtime import source
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.tolerance import Tolerance
from headwater.connect.transforms.fields import HoistField

PATIENCE_S = 60.0
PROPS = {"name": "c", "connector.class": "C", "errors.restart": "false"}
WORKER = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
MANY = 3 * RUN_RECORDS_MIN


# Records into runs


def test_runs_are_the_records_in_their_order_and_alike() -> None:
    dice = Random(16)
    choices: list[dict[str, Any]] = [
        {"topic": "t"}, {"topic": "u"}, {"topic": "t", "value_schema": STRING}, {"topic": "t", "partition": 1},
        {"topic": "t", "source_partition": {"p": 2}}, {"topic": "t", "headers": (Header("h", STRING, "x"),)},
    ]  # fmt: skip
    for _ in range(100):
        records = [
            SourceRecord(**dice.choice(choices), value=number)
            for _ in range(dice.randrange(6))
            for number in range(dice.randrange(3 * RUN_RECORDS_MIN))
        ]
        pieces = list(source_runs(records))
        assert [id(each) for piece in pieces for each in piece] == [id(each) for each in records]
        for run in (piece for piece in pieces if isinstance(piece, SourceRun)):
            assert (
                len({(each.topic, each.partition, each.value_schema, str(each.source_partition)) for each in run}) == 1
            )
            assert not any(each.headers for each in run)


def test_a_run_makes_each_record_once() -> None:
    run = SourceRun(
        "t", ["a", "b"], STRING, source_partition={"p": 1}, offset_at=lambda index: {"n": index}, keys=[1, 2]
    )
    first, second = run
    assert run[0] is first
    assert run[1:] == [second]
    assert (second.value, second.key, second.source_offset) == ("b", 2, {"n": 1})


def test_the_newest_offset_is_that_of_the_last_record_that_has_one() -> None:
    offsets: list[dict[str, int] | None] = [{"n": 1}, {"n": 2}, None]
    run = SourceRun("t", "abc", STRING, source_partition={}, offset_at=lambda index: offsets[index])
    assert run.newest_offset == {"n": 2}


# A source task


class Delivery:
    def __init__(self, error: KafkaError | None) -> None:
        self._error = error

    def exception(self, _timeout: float) -> KafkaError | None:
        return self._error

    def add_done_callback(self, callback: Callable[["Delivery"], None]) -> None:
        callback(self)


class MemoryProducer:
    """Delivers at once, or fails runs."""

    takes_many = True

    def __init__(self) -> None:
        self.one_by_one: list[tuple[Any, ...]] = []
        self.runs: list[list[tuple[Any, ...]]] = []
        self.sent: list[tuple[Any, ...]] = []  # both, in their order
        self.error: KafkaError | None = None

    def __call__(self, _settings: object) -> "MemoryProducer":
        return self

    def send(self, topic: str, value: bytes, **rest: Any) -> None:
        self.one_by_one.append((topic, rest["key"], value, rest["partition"], rest["timestamp_ms"]))
        self.sent.append(self.one_by_one[-1])
        rest["on_delivery"](None, None)

    def send_many(
        self, topic: str, values: Sequence[bytes], *, keys: Any, partition: int | None, timestamps_ms: Any
    ) -> Delivery:
        times = timestamps_ms if isinstance(timestamps_ms, list) else [timestamps_ms] * len(values)
        rows = zip(keys or [None] * len(values), values, times, strict=True)
        self.runs.append([(topic, key, value, partition, time_ms) for key, value, time_ms in rows])
        self.sent += self.runs[-1]
        return Delivery(self.error)

    def flush(self, _timeout: float) -> None: ...

    def close(self, _timeout: float | None = None) -> None: ...


class OnePoll(SourceTask):
    def __init__(self, records: Sequence[SourceRecord]) -> None:
        self._records = [records]
        self.sent = threading.Event()

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._records:
            return self._records.pop()
        self.sent.set()
        return None


class Told(OnePoll):
    told = 0

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        del record, metadata
        self.told += 1


def run_task(
    monkeypatch: pytest.MonkeyPatch, task: OnePoll, producer: MemoryProducer, **props: str
) -> tuple[SourceWorkerTask, ConnectorOffsets]:
    monkeypatch.setattr(source, "Producer", producer)
    catalog, offsets = Catalog(), ConnectorOffsets(MemoryOffsetStore(), "c")
    given = PROPS | props
    config = connector_def(catalog, Kind.SOURCE).parse(given)
    worker = SourceWorkerTask(
        TaskId("c", 0), lambda: task, lambda: Pipeline(catalog, given, config, WORKER), given, config, offsets, {}, {},
        flush_interval_s=0.0, flush_timeout_s=1.0, topic_creation=False, on_topic=lambda _topic: None,
    )  # fmt: skip
    worker.on_end = task.sent.set
    worker.start()
    assert task.sent.wait(PATIENCE_S)
    worker.begin_stop()
    assert worker.join(PATIENCE_S)
    return worker, offsets


def numbered(count: int, value: Callable[[int], Any] = lambda number: f"v{number}") -> list[SourceRecord]:
    return [
        SourceRecord(
            topic="t", key_schema=STRING, key=f"k{number}", value_schema=STRING, value=value(number),
            timestamp_ms=number, source_partition={"p": 1}, source_offset={"n": number},
        )
        for number in range(count)
    ]  # fmt: skip


def expected(count: int) -> list[tuple[Any, ...]]:
    return [("t", b"k%d" % number, b"v%d" % number, None, number) for number in range(count)]


def test_what_a_poll_gives_is_sent_at_once_and_its_newest_offset_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = MemoryProducer()
    _, offsets = run_task(monkeypatch, OnePoll(numbered(MANY)), producer)
    assert producer.runs == [expected(MANY)]
    assert not producer.one_by_one
    assert offsets.all() == [({"p": 1}, {"n": MANY - 1})]


@pytest.mark.parametrize(
    ("props", "task"),
    [
        ({"transforms": "a", "transforms.a.type": "InsertHeader", "transforms.a.header": "h", "transforms.a.value.literal": "1"}, OnePoll),
        ({"errors.tolerance": "all"}, OnePoll),
        ({}, Told),
    ],
)  # fmt: skip
def test_records_go_one_by_one_where_each_counts(
    monkeypatch: pytest.MonkeyPatch, props: dict[str, str], task: type[OnePoll]
) -> None:
    producer, made = MemoryProducer(), task(numbered(MANY))
    run_task(monkeypatch, made, producer, **props)
    assert producer.one_by_one == expected(MANY)
    assert not producer.runs
    assert not isinstance(made, Told) or made.told == MANY


def test_a_run_with_a_null_a_large_value_or_a_mixture_of_keys_goes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    of_none = numbered(MANY, lambda number: None if number == 5 else "v")
    of_large = numbered(MANY, lambda number: "x" * 100_000 if number == 5 else "v")
    of_keys = [each.replaced(key=None) if number == 5 else each for number, each in enumerate(numbered(MANY))]
    for records in (of_none, of_large, of_keys):
        producer = MemoryProducer()
        run_task(monkeypatch, OnePoll(records), producer)
        assert len(producer.one_by_one) == MANY
        assert not producer.runs


def test_records_before_one_that_cannot_be_converted_arrive_and_it_ends_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = MemoryProducer()
    props = {"value.converter": "IntegerConverter"}
    records = numbered(MANY, lambda number: "no number" if number == 20 else number)
    worker, offsets = run_task(monkeypatch, OnePoll(records), producer, **props)
    assert worker.state is State.FAILED
    assert "VALUE_CONVERTER" in (worker.trace or "")
    assert len(producer.one_by_one) == 20
    assert offsets.all() == [({"p": 1}, {"n": 19})]


def test_a_run_that_was_not_delivered_ends_the_task_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = MemoryProducer()
    producer.error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    worker, offsets = run_task(monkeypatch, OnePoll(numbered(MANY)), producer)
    assert worker.state is State.FAILED
    assert "too large" in (worker.trace or "")
    assert offsets.all() == []


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_a_record_that_the_producer_refuses_at_once_is_one_that_could_not_be_delivered(
    monkeypatch: pytest.MonkeyPatch, tolerance: str
) -> None:
    """One larger than max.request.size failed the task again and again, whatever errors.tolerance said."""

    class Refusing(MemoryProducer):
        def send(self, topic: str, value: bytes, **rest: Any) -> None:
            if value == b"v1":
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
            super().send(topic, value, **rest)

    producer, task = Refusing(), Told(numbered(3))
    worker, offsets = run_task(monkeypatch, task, producer, **{"errors.tolerance": tolerance})
    values = [value for _, _, value, _, _ in producer.one_by_one]
    if tolerance == "all":
        assert (worker.state, values, task.told) == (State.UNASSIGNED, [b"v0", b"v2"], 3)
        assert offsets.all() == [({"p": 1}, {"n": 2})]
    else:
        assert (worker.state, values) == (State.FAILED, [b"v0"])
        assert "could not be delivered" in (worker.trace or "")
        assert offsets.all() == [({"p": 1}, {"n": 0})]


# Converters

AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
ROW = s.struct(
    [("id", INT64), ("name", s.OPTIONAL_STRING), ("x", s.FLOAT64), ("ok", s.BOOLEAN), ("at", s.TIMESTAMP_SCHEMA)]
)
INNER = s.struct([("row", s.struct([("id", s.INT8)])), ("price", s.decimal_schema(2))])


def converter(cls: type[Converter], **props: str) -> Converter:
    made = cls()
    made.configure(props)
    return made


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except DataError as error:
        return str(error)


@pytest.mark.parametrize(
    ("cls", "props", "schema", "values"),
    [
        (StringConverter, {}, STRING, ["a", "é", "\ud800", ""]),
        (StringConverter, {"converter.encoding": "ascii"}, STRING, ["a", "é"]),
        (StringConverter, {}, s.FLOAT32, [1.5, 0.1, None]),
        (StringConverter, {}, None, [True, None, 1, "x", [1, 2.0]]),
        (ByteArrayConverter, {}, s.BYTES, [b"a", b"", None, bytearray(b"b")]),
        (ByteArrayConverter, {}, STRING, [b"a"]),
        (IntegerConverter, {}, s.INT32, [1, 2]),
        (JsonConverter, {}, ROW, [Struct(ROW, {"id": 1, "name": name, "x": 1e-4, "ok": True, "at": AT}) for name in ('a"\n', None)]),
        (JsonConverter, {}, INT64, [1, 1 << 62, 1 << 63, True, "x", None]),
        (JsonConverter, {}, s.FLOAT64, [1.0, 1e7, 1e-3, 9999999.999, 0.1, -0.0, 1e300, float("nan"), 1]),
        (JsonConverter, {"schemas.enable": "false"}, STRING, ["a", 'q"\\', "\x01", 1]),
        (JsonConverter, {"schemas.enable": "false"}, None, [{"a": [1, None]}, None, "x"]),
        (JsonConverter, {}, INNER, [Struct(INNER, {"row": Struct(INNER.fields[0].schema, {"id": 3}), "price": Decimal("1.50")})]),
    ],
)  # fmt: skip
def test_a_run_is_converted_as_its_values_are_by_general_code(
    cls: type[Converter], props: dict[str, str], schema: Schema | None, values: list[Any]
) -> None:
    made = converter(cls, **props)
    for value in values:
        alone = outcome(lambda value=value: made.from_connect("t", schema, value))
        assert outcome(lambda value=value: made.from_connect_run("t", schema, [value])) in ([alone], alone)
        if isinstance(made, JsonConverter) and isinstance(alone, bytes):
            general = json.loads(alone)
            payload = general["payload"] if props.get("schemas.enable") != "false" else general
            assert payload == json.loads(_general(made, schema, value))
    good = [
        value
        for value in values
        if not isinstance(outcome(lambda value=value: made.from_connect("t", schema, value)), str)
    ]
    written = made.from_connect_run("t", schema, good)
    assert written == [made.from_connect("t", schema, value) for value in good]
    read = made.to_connect_run("t", written)
    assert [(read.schema_at(index), repr(value)) for index, value in enumerate(read.values)] == [
        (found.schema, repr(found.value)) for found in (made.to_connect("t", each) for each in written)
    ]


def test_a_header_with_half_a_character_is_written_as_values_are() -> None:
    """It failed the task, or lost the record with errors.tolerance=all; as Java writes it, it has a question mark."""
    made = SimpleHeaderConverter()
    made.configure({}, kind="header")
    assert made.from_connect("t", STRING, "half \ud83d") == b"half ?"
    assert made.from_connect("t", None, ["half \ud83d"]) == b'["half ?"]'


def _general(made: JsonConverter, schema: Schema | None, value: Any) -> str:
    return dumps(made.to_json(schema, value))


def test_messages_with_the_same_envelope_are_read_as_any() -> None:
    text = '{"schema":{"type":"int64","optional":true},"payload":%s}'
    others = [
        text % 1, text % 2, text % "null", text % '"x"', (text % 3) + "  trailing", (text % 4)[:-1] + ',"more":1}',
        (text % "")[:-1], text % "{", text.replace("int64", "string") % '"a"', text % 5, " " + text % 6,
        '{"payload":7,"schema":{"type":"int64"}}', text % "8 ", '{"schema":null,"payload":[1]}', '{"schema":null,"payload":2}',
    ]  # fmt: skip
    made = converter(JsonConverter)
    for _ in range(2):
        for message in others:
            fresh = converter(JsonConverter)
            assert outcome(lambda message=message: made.to_connect("t", message.encode())) == outcome(
                lambda message=message, fresh=fresh: fresh.to_connect("t", message.encode())
            )


# A sink


def consumed(values: Sequence[bytes | None], **changes: Any) -> list[ConsumerRecord]:
    made = [ConsumerRecord("t", 1, 7 + at, 1000 + at, 0, b"k", value, (), 0) for at, value in enumerate(values)]
    return [each._replace(**changes) if changes and at == 3 else each for at, each in enumerate(made)]


def conversion(**props: str) -> SinkConversion:
    catalog = Catalog()
    given = {**PROPS, "topics": "t", **props}
    config = connector_def(catalog, Kind.SINK).parse(given)
    return SinkConversion(
        Pipeline(catalog, given, config, WORKER), Tolerance(config, [], lambda: 0, lambda _seconds: False)
    )


def test_a_sink_gets_the_same_records_by_runs() -> None:
    made = conversion()
    records = consumed([None, *(b"v%d" % number for number in range(MANY))])
    run = made.sink_run(records)
    assert run is not None
    assert list(run) == [made.sink_record(record) for record in records]


def test_a_sinks_records_go_one_by_one_where_each_counts() -> None:
    values = [b"v"] * MANY
    assert conversion().sink_run(consumed(values)) is not None
    assert conversion().sink_run(consumed(values, headers=(("h", b"1"),))) is None
    assert conversion().sink_run(consumed(values, topic="u")) is None
    assert conversion().sink_run(consumed(values[:3])) is None
    assert conversion(**{"value.converter": "IntegerConverter"}).sink_run(consumed(values)) is None
    failing = {"transforms": "a", "transforms.a.type": "ExtractField$Value", "transforms.a.field": "x"}
    assert conversion(**failing).sink_run(consumed(values)) is None
    assert conversion(**{"transforms": "a", "transforms.a.type": "Filter"}).sink_run(consumed(values)) == []


def test_transforms_that_may_not_be_repeated_see_each_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def counts(record: Any) -> Any:
        seen.append(record.value)
        return record

    class Derived(HoistField):  # whatever it does besides
        pass

    for made, pure in ((of_function(counts), False), (Derived, False), (HoistField, True)):
        catalog = Catalog()
        catalog.add(Plugin(Kind.TRANSFORMATION, "Made", made), ("Made",))
        monkeypatch.setattr(f"{__name__}.Catalog", lambda catalog=catalog: catalog)
        props = {"transforms": "a", "transforms.a.type": "Made", "transforms.a.field": "x"}
        assert (conversion(**props).sink_run(consumed([b"v"] * MANY)) is not None) == pure
    assert seen == []


CHAIN = {
    "transforms": "name,route,hide,key,drop,head",
    "transforms.name.type": "HoistField$Value",
    "transforms.name.field": "line",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": "t",
    "transforms.route.replacement": "routed",
    "transforms.hide.type": "InsertField$Value",
    "transforms.hide.timestamp.field": "at",
    "transforms.hide.static.field": "who",
    "transforms.hide.static.value": "me",
    "transforms.key.type": "ValueToKey",
    "transforms.key.fields": "line,at",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "p",
    "transforms.head.type": "InsertHeader",
    "transforms.head.header": "h",
    "transforms.head.value.literal": "1",
    "transforms.head.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "TopicNameMatches",
    "predicates.p.pattern": "u.*",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
}


def test_a_sink_gets_the_same_records_when_transforms_go_over_them_at_once() -> None:
    made = conversion(**CHAIN | {"key.converter": "StringConverter"})
    records = consumed([b'{"schema":{"type":"int32"},"payload":%d}' % number for number in range(MANY)])
    run = made.sink_run(records)
    assert run is not None
    assert list(run) == [made.sink_record(each) for each in records]
    assert {each.topic for each in run} == {"routed"}


@pytest.mark.parametrize("seed", range(10))
def test_a_source_sends_the_same_when_transforms_go_over_its_records_at_once(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Some dropped, some with headers, some of other topics and source partitions; offsets, records and their order."""
    dice = Random(seed)
    records: list[SourceRecord] = []
    while len(records) < 4 * MANY:
        topic, partition = dice.choice("tuvw") if records else "t", {"p": dice.randrange(2)}
        for _ in range(dice.randrange(2 * RUN_RECORDS_MIN) if records else RUN_RECORDS_MIN):
            number = len(records)
            records.append(
                SourceRecord(
                    topic=topic, value_schema=STRING, value=f"v{number}", timestamp_ms=number,
                    source_partition=partition, source_offset={"n": number},
                )
            )  # fmt: skip
    chain = {**CHAIN, "predicates.p.pattern": "u", "transforms.head.predicate": "q", "predicates": "p,q"}
    chain |= {"predicates.q.type": "TopicNameMatches", "predicates.q.pattern": "w"}
    at_once, one_by_one = MemoryProducer(), MemoryProducer()
    one_by_one.takes_many = False
    outcomes = []
    for producer in (at_once, one_by_one):
        worker, offsets = run_task(monkeypatch, OnePoll(records), producer, **chain)
        assert worker.trace is None
        outcomes.append(sorted(offsets.all(), key=str))
    assert outcomes[0] == outcomes[1]
    assert at_once.sent == one_by_one.sent
    assert at_once.runs
    assert len(at_once.one_by_one) < len(one_by_one.one_by_one)


def test_a_record_that_a_transform_refuses_is_told_and_those_before_it_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = MemoryProducer()
    props = {"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "int32"}
    records = numbered(MANY, lambda number: "no number" if number == 20 else str(number))
    worker, offsets = run_task(monkeypatch, OnePoll(records), producer, **props)
    assert worker.state is State.FAILED
    assert "TRANSFORMATION" in (worker.trace or "")
    assert len(producer.one_by_one) == 20
    assert offsets.all() == [({"p": 1}, {"n": 19})]


@pytest.mark.parametrize("values", [["a", "é", "\ud800"], [None, "a", 1, 2.0], [True, {"a": 1}]])
def test_the_file_sink_writes_the_same_lines_by_runs(tmp_path: Path, values: list[Any]) -> None:
    originals = consumed([b""] * len(values))
    run = SinkRun(originals, Column(None, [None] * len(values)), Column(None, values))
    written = []
    for name, given in (("run", run), ("list", list(run))):
        task = FileStreamSinkTask()
        task.start({"file": str(tmp_path / name)})
        task.put(given)
        task.stop()
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") == len(values)


# Lines of a file


@pytest.mark.parametrize("alphabet", [b"a\n", b"a\r\n", b"\xff\xc3\xa9\n"])
@pytest.mark.parametrize("ends", [b"", b"\r\n"])
def test_lines_are_those_of_the_expression_however_the_bytes_come(alphabet: bytes, ends: bytes) -> None:
    dice = Random(alphabet + ends)
    for _ in range(60):
        text = bytes(dice.choices(alphabet, k=dice.randrange(200)))
        text = text.replace(b"\n", ends) if ends else text
        lines, found, at = Lines(5), [], 0
        while at < len(text):
            size = dice.randrange(1, 40)
            lines.feed(text[at : at + size])
            at += size
            while (taken := lines.take(dice.randrange(1, 9))).texts:
                found += [(each, taken.end(index)) for index, each in enumerate(taken.texts)]
        wanted = [(each[1].decode("utf-8", "replace"), 5 + each.end()) for each in _LINE.finditer(text)]
        assert found == wanted, text
        assert lines.position == (found[-1][1] if found else 5)


@dataclass(frozen=True, kw_only=True)
class _Derived(SourceRecord):
    """As a connector of one's own may have it."""

    lines: int = 0


def test_a_record_of_a_class_of_ones_own_can_be_changed() -> None:
    made = _Derived(topic="t", value=1, lines=3, source_offset={"n": 1}).replaced(topic="u")
    assert made == _Derived(topic="u", value=1, lines=3, source_offset={"n": 1})
    plain = SourceRecord(topic="t", value=1, source_offset={"n": 1})
    assert plain.replaced(value=2) == SourceRecord(topic="t", value=2, source_offset={"n": 1})
    with pytest.raises(TypeError, match="vlaue"):
        plain.replaced(vlaue=2)

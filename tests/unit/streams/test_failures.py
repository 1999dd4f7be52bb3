"""Poison pills in key, value, user function, punctuator and serializer: fail, skip, dead letter."""

from typing import Any, ClassVar

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Context, ErrorPolicy, Failure, Processor, Record, StreamsError, key_value_store


def boom(value: str) -> str:
    if value == "bad":
        raise ValueError("no good")
    return value


def build(**options: object) -> App:
    app = App("app", value="text", **options)  # type: ignore[arg-type]
    stream = app.stream("in", value="text")
    stream.map_values(boom).to("out")
    return app


def test_failing_names_the_record_the_node_and_the_users_line() -> None:
    driver = build().test()
    driver.pipe("in", "k", "good", 1)
    with pytest.raises(StreamsError) as caught:
        driver.pipe("in", "k", "bad", 2)
    text = str(caught.value)
    assert "Processing failed in KSTREAM-MAPVALUES-0000000001 of task 0_0, with the record at in-0 offset 1" in text
    assert "ValueError: no good" in text
    assert 'test_failures.py:13 `raise ValueError("no good")`' in text
    assert isinstance(caught.value.__cause__, ValueError)


def test_records_that_are_not_json_are_told_with_how_to_name_their_serde() -> None:
    """The first thing that a newcomer meets: lines of text, and an application that did not say so."""
    app = App("app")
    app.stream("lines").to("out")
    driver = app.test()
    with pytest.raises(StreamsError) as caught:
        driver.pipe("lines", b"k", b"hello world", 1)
    assert 'app.stream(topic, key="text", value="bytes")' in caught.value.hint
    assert "on_error" in caught.value.hint


def test_skipping_counts_and_goes_on() -> None:
    driver = build(on_error="skip").test()
    for value in ("good", "bad", "fine"):
        driver.pipe("in", "k", value, 1)
    driver.pipe("in", "k", b"\xff", 1)
    assert [record.value for record in driver.read("out")] == ["good", "fine"]
    assert driver.dropped == {"processing error": 1, "deserialization error": 1}


def test_a_failure_in_one_branch_leaves_the_others_alone() -> None:
    app = App("app", value="text", on_error="skip")
    stream = app.stream("in").peek(lambda v: None)
    stream.map_values(boom).to("one")
    stream.to("two")
    driver = app.test()
    driver.pipe("in", "k", "bad", 1)
    assert driver.read("one") == []
    assert len(driver.read("two")) == 1


def test_dead_letters_have_the_record_as_it_was_read_and_the_headers_of_kafka_streams() -> None:
    driver = build(on_error="dead_letter", dead_letter_topic="dlq").test()
    driver.pipe("in", "k", "bad", 7, headers=[("h", b"1")])
    (letter,) = driver.read_raw("dlq")
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"bad", 7)
    names = [name for name, _ in letter.headers]
    assert names == ["h"] + [
        f"__streams.errors.{what}" for what in ("exception", "message", "stacktrace", "topic", "partition", "offset")
    ]
    found = dict(letter.headers)
    assert found["__streams.errors.exception"] == b"ValueError"
    assert found["__streams.errors.message"] == b"no good"
    assert b"in boom" in (found["__streams.errors.stacktrace"] or b"")
    assert [found[f"__streams.errors.{what}"] for what in ("topic", "partition", "offset")] == [b"in", b"0", b"0"]


def test_an_error_that_quotes_half_a_character_makes_a_dead_letter_as_any_other() -> None:
    """JavaScript cuts emojis so. The letter was not made, and the application ended at that record each time."""

    def refuse(name: bytes) -> bytes:
        raise ValueError(f"nobody is called {name.decode()}\ud83d")

    app = App("app", value="bytes", on_error="dead_letter", dead_letter_topic="dlq")
    app.stream("in").map_values(refuse).to("out")
    driver = app.test()
    driver.pipe("in", "k", b"x", 1)
    (letter,) = driver.read_raw("dlq")
    headers = dict(letter.headers)
    assert headers["__streams.errors.message"] == b"nobody is called x?"
    assert b"nobody is called x?" in (headers["__streams.errors.stacktrace"] or b"")


def test_an_error_that_quotes_the_whole_record_makes_a_letter_that_is_not_larger_than_topics_take() -> None:
    """The letter was refused as too large, and the application ended at that record each time."""

    def refuse(value: bytes) -> bytes:
        raise ValueError(f"cannot read {value.decode() * 9}, which has no end")

    app = App("app", value="bytes", on_error="dead_letter", dead_letter_topic="dlq")
    app.stream("in").map_values(refuse).to("out")
    driver = app.test()
    driver.pipe("in", "k", b"x" * 500_000, 1)
    (letter,) = driver.read_raw("dlq")
    assert letter.value == b"x" * 500_000
    assert sum(len(value or b"") for _, value in letter.headers) < 50_000
    message = dict(letter.headers)["__streams.errors.message"] or b""
    assert message.startswith(b"cannot read xxx")
    assert message.endswith(b"xxx, which has no end")
    assert b" [... 4480030 characters ...] " in message


def test_an_error_that_cannot_say_what_it_is_makes_a_letter() -> None:
    class Unspeakable(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    def refuse(value: bytes) -> bytes:
        raise Unspeakable(value)

    app = App("app", value="bytes", on_error="dead_letter", dead_letter_topic="dlq")
    app.stream("in").map_values(refuse).to("out")
    driver = app.test()
    driver.pipe("in", "k", b"x", 1)
    assert dict(driver.read_raw("dlq")[0].headers)["__streams.errors.message"] == b"<exception str() failed>"


def test_a_key_that_cannot_be_read() -> None:
    app = App("app", value="text", key="long", on_error="dead_letter")
    app.stream("in").to("out")
    driver = app.test()
    driver.pipe("in", b"short", "v", 3)
    assert driver.read("out") == []
    assert driver.read_raw("app-dead-letters")[0].key == b"short"


def test_a_value_that_cannot_be_written() -> None:
    app = App("app", value="text", on_error=ErrorPolicy(production="dead_letter", dead_letter_topic="dlq"))
    app.stream("in").map_values(lambda v: 5).to("out", value="text")
    driver = app.test()
    driver.pipe("in", "k", "v", 3)
    (letter,) = driver.read_raw("dlq")
    assert letter.value == b"v"
    assert dict(letter.headers)["__streams.errors.message"] == b"the serde is text and the object is an int"


def test_a_function_decides_for_each_failure() -> None:
    seen: list[Failure] = []

    def decide(failure: Failure) -> str:
        seen.append(failure)
        return "skip" if failure.record and failure.record.offset == 0 else "fail"

    driver = build(on_error=ErrorPolicy(processing=decide)).test()  # type: ignore[arg-type]
    driver.pipe("in", "k", "bad", 1)
    with pytest.raises(StreamsError):
        driver.pipe("in", "k", "bad", 2)
    assert [(failure.stage, failure.node, failure.timestamp) for failure in seen] == [
        ("processing", "KSTREAM-MAPVALUES-0000000001", 1),
        ("processing", "KSTREAM-MAPVALUES-0000000001", 2),
    ]


class Bad(Processor):
    def init(self, context: Context) -> None:
        context.schedule(10, "wall", lambda now: boom("bad") and None)

    def process(self, record: Record) -> None:
        self.forward(record)


def test_a_punctuator_that_fails() -> None:
    app = App("app", value="text", on_error="skip")
    app.stream("in").process(Bad).to("out")
    driver = app.test()
    driver.advance(10)
    assert driver.dropped == {"processing error": 1}
    strict = App("app", value="text")
    strict.stream("in").process(Bad).to("out")
    with pytest.raises(StreamsError, match="with a punctuator"):
        strict.test().advance(10)


def test_the_position_is_behind_records_that_were_left_out() -> None:
    """Else a partition that ends with poison would be read again at every start."""
    from headwater.streams.engine.task import Task
    from headwater.streams.model.record import InputRecord

    app = build(on_error="skip")
    task = Task(app.topology().sub_topologies()[0], 0, app.settings())
    values = [b"\xff", b"good", b"\xff", b"bad", b"\xff"]
    task.add("in", [InputRecord("in", 0, offset, 1, None, value) for offset, value in enumerate(values)])
    assert task.collect().positions == {("in", 0): 1}  # what is before the first that can be read
    assert task.process() == 2
    assert task.collect().positions == {("in", 0): 5}
    assert task.collect().positions == {}


def test_what_a_node_stores_behind_a_failure_of_the_next_one_has_the_time_of_its_own_record() -> None:
    """The next one had got a record of another time, which stayed: the changelog told it, and rows expired by it."""

    class First(Processor):
        def process(self, record: Record) -> None:
            self.forward(Record(record.key, record.value, 5, record.headers))
            self.context.store("one").put(record.key, record.value)

    class Second(Processor):
        def process(self, record: Record) -> None:
            self.context.store("two").put(record.key, record.value)
            boom(record.value)

    app = App("app", key="text", value="text", on_error="skip")
    for name in ("one", "two"):
        app.add_store(key_value_store(name))
    app.stream("in").process(First, stores=["one"]).process(Second, stores=["two"]).to("out")
    driver = app.test()
    for value in ("good", "bad"):
        driver.pipe("in", "k", value, 100)
    assert [each.timestamp for each in driver.changelog["app-one-changelog"]] == [100, 100]
    assert [each.timestamp for each in driver.changelog["app-two-changelog"]] == [5, 5]


class Living(Processor):
    """Notes what becomes of it."""

    told: ClassVar[list[str]] = []
    fails_in: str | None = None

    def init(self, context: Context) -> None:
        self.told.append(f"init {context.node_name}")
        if self.fails_in == "init":
            raise ValueError("no licence")

    def process(self, record: Record) -> None:
        if self.fails_in == "process":
            raise ValueError("no")
        self.forward(record)

    def close(self) -> None:
        self.told.append(f"close {self.context.node_name}")
        if self.fails_in == "close":
            raise ValueError(f"{self.context.node_name} stays")


def living(*fail_in: str | None, on_error: Any = "fail") -> App:
    Living.told.clear()
    app = App("app", value="text", on_error=on_error)
    stream = app.stream("in")
    for number, each in enumerate(fail_in):
        stream = stream.process(type("Living", (Living,), {"fails_in": each}), name=str(number))
    stream.to("out")
    return app


def test_all_processors_are_closed_also_behind_one_that_raises() -> None:
    driver = living(None, "close", "close", None).test()
    Living.told.clear()
    with pytest.raises(ValueError, match="1 stays"):
        driver.close()
    assert Living.told == ["close 0", "close 1", "close 2", "close 3"]


def test_a_processor_that_does_not_come_to_life_is_named_and_those_before_are_closed() -> None:
    with pytest.raises(
        UserError, match=r"1 of task 0_0 failed in its init. ValueError: no licence, at .*test_failures"
    ):
        living("close", "init", None).test()
    assert Living.told == ["init 0", "init 1", "close 0"]


@pytest.mark.parametrize("told", ["gave None", "failed: ZeroDivisionError"])
def test_a_function_for_errors_that_fails_itself_is_told_as_such_and_asked_once(told: str) -> None:
    """It was asked again about its own failure, once for each node on the way out, and told as that of the record."""
    asked: list[Failure] = []

    def decide(failure: Failure) -> Any:
        asked.append(failure)
        return 1 // 0 if "Zero" in told else None

    with living(None, "process", on_error=ErrorPolicy(processing=decide)).test() as driver:
        with pytest.raises(StreamsError, match=f"The function for errors {told}.*failed in 1 of task 0_0"):
            driver.pipe("in", "a", "x")
        assert len(asked) == 1


@pytest.mark.parametrize("named", [None, ""])
def test_a_topic_that_has_no_name_is_the_failure_of_its_record(named: Any) -> None:
    app = App("app", value="text", on_error="skip")
    app.stream("in").to(lambda record, context: named)
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        assert (driver.dropped, driver.output_topics) == ({"processing error": 1}, set())

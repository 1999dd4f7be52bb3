"""Cases for applications in files, the command that runs them, and the fixture for test drivers."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.root import run as headwater
from headwater.streams import App, Processor, Record, key_value_store, session, tumbling
from headwater.streams.testing.cases import Outcome, parse, run
from headwater.streams.testing.driver import Driver


@dataclass
class Order:
    customer: str
    amount: int


class Reminder(Processor):
    def process(self, record: Record) -> None:
        self.context.schedule(1000, "wall", lambda _: self.forward(record))


def orders() -> App:
    app = App("orders", value=Order)
    orders = app.stream("orders")
    grouped = orders.group_by(lambda order: order.customer)
    grouped.aggregate(
        lambda: 0, lambda total, order: total + order.amount, store="totals", value="long"
    ).to_stream().to("totals", value="long")
    grouped.windowed_by(tumbling("10s")).count(store="windows").to_stream().to("windows")
    grouped.windowed_by(session("10s")).count(store="sessions")
    orders.process(Reminder).to("later")
    return app


INPUT = """
# an order, and another one
{"topic": "orders", "key": "1", "value": {"customer": "ann", "amount": 3}, "timestamp": 1000, "headers": {"h": "x"}}
{"topic": "orders", "key": "2", "value": {"customer": "ann", "amount": 4}, "timestamp": 2000}
"""


def outcome(text: str) -> Outcome:
    with orders().test() as driver:
        return run(driver, parse(INPUT + text))


def test_what_comes_is_as_expected() -> None:
    found = outcome(
        """
        {"expect": "totals", "key": "ann", "value": 3, "timestamp": 1000, "headers": {"h": "x"}}
        {"expect": "totals", "value": 7}
        {"expect_none": "totals"}
        {"expect_store": "totals", "key": "ann", "value": 7, "timestamp": 2000}
        {"expect_store": "totals", "key": "bob", "value": null}
        {"expect": "windows", "key": {"key": "ann", "start": 0, "end": 10000}, "value": 1}
        {"expect": "windows", "value": 2}
        {"expect_none": "later"}
        {"advance_ms": 1000}
        {"expect": "later", "value": {"customer": "ann", "amount": 3}}
        {"expect": "later", "key": "2"}
        """
    )
    assert found.differences == []
    assert found.expectations == 10


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ('{"expect": "totals", "value": 4}', 'line 5: totals has {"value": 3}, expected {"value": 4}'),
        ('{"expect": "totals", "value": 3}', "totals has a further record"),
        ('{"expect": "nowhere"}', "nothing came to nowhere"),
        ('{"expect_none": "totals"}', "expected nothing"),
        ('{"expect_store": "totals", "key": "ann", "value": 1}', "totals has value 7"),
    ],
)
def test_what_differs_is_said(expected: str, said: str) -> None:
    assert said in outcome(expected).differences[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "Line 1"),
        ("[]", "nothing to do"),
        ('{"topic": "a", "expect": "b"}', "nothing to do"),
        ('{"topic": "a", "when": 5}', "'when'"),
    ],
)
def test_a_case_that_makes_no_sense_is_refused(line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"advance_ms": "x"}', "advance_ms"),
        ('{"topic": "orders", "timestamp": "now"}', "timestamp"),
        ('{"topic": "orders", "partition": "first"}', "partition"),
        ('{"topic": "orders", "headers": [1]}', "headers"),
        ('{"topic": "orders", "headers": {"h": 5}}', "headers"),
        ('{"expect_store": "totals", "key": "ann", "partition": "x"}', "partition"),
        ('{"expect_store": "totals", "value": null}', "names no key"),
        ('{"expect_store": "totals", "key": 5}', "does not fit the store totals"),
        ('{"expect_store": "windows", "key": "ann"}', "a store of windows"),
        ('{"expect_store": "windows", "key": {"key": "ann"}}', "start are needed"),
        ('{"expect_store": "sessions", "key": {"key": "ann", "start": 0}}', "start and end are needed"),
    ],
)
def test_a_line_with_what_cannot_be_is_refused_in_words(line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        outcome(line)


def test_a_store_of_windows_or_sessions_is_looked_into_by_their_times() -> None:
    found = outcome(
        """
        {"expect_store": "windows", "key": {"key": "ann", "start": 0}, "value": 2, "timestamp": 2000}
        {"expect_store": "windows", "key": {"key": "ann", "start": 10000, "end": 20000}, "value": null}
        {"expect_store": "sessions", "key": {"key": "ann", "start": 1000, "end": 2000}, "value": 2}
        {"expect_store": "sessions", "key": {"key": "ann", "start": 1000, "end": 1000}, "value": 1}
        """
    )
    assert found.differences == [
        'line 9: sessions has value null under {"key": "ann", "start": 1000, "end": 1000}, expected 1'
    ]


def test_dead_letters_of_any_bytes_are_shown_and_compared() -> None:
    app = App("app", on_error="dead_letter")
    app.stream("in", key="long").map_values(lambda value: 1 / value).to("out", key="long")
    with app.test() as driver:
        found = run(
            driver,
            parse(
                """
                {"topic": "in", "key": 200, "value": 0, "headers": {"none": null, "h": "x"}}
                {"expect": "app-dead-letters", "key": {"base64": "AAAAAAAAAMg="}, "value": 0}
                """
            ),
        )
    assert found.differences == []
    headers = found.outputs[0]["headers"]
    assert (headers["none"], headers["h"], headers["__streams.errors.exception"]) == (None, "x", "ZeroDivisionError")


def test_a_topic_of_ones_own_that_is_read_again_is_an_output_whatever_its_name() -> None:
    app = App("orders", value="text")
    large = app.stream("orders").through("orders-large")
    large.group_by(lambda value: value, name="by").count().to_stream().to("counts", value="long")
    lines = """
        {"topic": "orders", "key": "1", "value": "x"}
        {"expect": "orders-large", "value": "x"}
        {"expect": "counts", "key": "x", "value": 1}
        """
    with app.test() as driver:
        found = run(driver, parse(lines))
    assert found.differences == []
    assert [output["topic"] for output in found.outputs] == ["counts", "orders-large"]


def test_a_record_that_does_not_fit_its_topic_is_refused() -> None:
    with orders().test() as driver, pytest.raises(UserError, match="line 1"):
        run(driver, parse('{"topic": "orders", "value": 5}'))


APP = """
from headwater.streams import App

app = App("upper", value="text")
app.stream("in").map_values(str.upper).to("out", value="text")
"""


def test_a_case_that_is_no_text_is_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app, case = tmp_path / "app.py", tmp_path / "case"
    app.write_text(APP)
    case.write_bytes(b'{"topic": "\xff"}')
    assert headwater(["stream", "test", str(app), str(case)]) == 1
    assert "is no text in UTF-8" in capsys.readouterr().err


def test_the_command_prints_or_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app, shown, good, bad = (tmp_path / name for name in ("app.py", "shown", "good", "bad"))
    app.write_text(APP)
    shown.write_text('{"topic": "in", "key": "k", "value": "a", "timestamp": 5}')
    good.write_text(shown.read_text() + '\n{"expect": "out", "value": "A"}')
    bad.write_text(shown.read_text() + '\n{"expect": "out", "value": "a"}')
    assert headwater(["stream", "test", str(app), str(shown)]) == 0
    assert '"value": "A"' in capsys.readouterr().out
    assert headwater(["stream", "test", str(app), str(good)]) == 0
    assert headwater(["stream", "test", str(app), str(good), str(bad)]) == 1
    assert "bad: line 2" in capsys.readouterr().out


def test_the_fixture_gives_drivers(headwater_streams: Callable[..., Driver]) -> None:
    driver = headwater_streams(orders(), partitions=2)
    driver.pipe("orders", "1", Order("ann", 3), timestamp=1)
    assert [record.value for record in driver.read("totals")] == [3]


def test_nothing_is_expected_of_a_topic_that_nothing_writes() -> None:
    """A slip in its name was as good as nothing to come."""
    with orders().test() as driver, pytest.raises(UserError, match=r"Line 1 .*Nothing writes to the topic total: "):
        run(driver, parse('{"expect_none": "total"}'))


def test_a_topology_as_a_picture() -> None:
    app = orders()
    app.add_global_store(key_value_store("names&co"), "a<b", Processor)
    root = ET.fromstring(app.describe_svg())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    topology = app.topology()
    assert {*topology.nodes, "store names&co", "store totals", "a<b", "totals"} <= set(texts)
    assert len([text for text in texts if (text or "").startswith("Sub-topology: ")]) == len(topology.sub_topologies())
    edges = [path for path in root.iter("{http://www.w3.org/2000/svg}path") if path.get("class") == "e"]
    dashed = [path for path in edges if path.get("stroke-dasharray")]
    assert len(dashed) == len(topology.internal_topics)
    frame = float(root.get("width") or 0), float(root.get("height") or 0)
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, width, height = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
        assert x + width <= frame[0]
        assert y + height <= frame[1]
    assert app.describe_svg() == app.describe_svg()

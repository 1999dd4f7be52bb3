"""The applications of examples/streams, each over a few records."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.cli.stream_files import load_app
from headwater.streams.testing.driver import Driver

EXAMPLES = Path(__file__).parents[3] / "examples/streams"
Start = Callable[[str], Driver]


@pytest.fixture
def start(headwater_streams: Callable[..., Driver]) -> Start:
    return lambda name: headwater_streams(load_app(EXAMPLES / f"{name}.py"))


def test_word_count(start: Start) -> None:
    driver = start("word_count")
    driver.pipe("lines", None, "All streams lead to all", 1)
    assert [(key, value) for key, value, _ in driver.read("word-counts")] == [
        ("all", 1),
        ("streams", 1),
        ("lead", 1),
        ("to", 1),
        ("all", 2),
    ]


def test_single_event(start: Start) -> None:
    driver = start("single_event")
    for level in ("INFO", "ERROR"):
        driver.pipe("logs", "a", {"level": level, "message": "m", "host": "h"}, 1)
    assert [record.value["host"] for record in driver.read("errors")] == ["h"]
    assert [record.value for record in driver.read("others")] == [{"level": "INFO", "message": "m"}]


def test_local_state(start: Start) -> None:
    driver = start("local_state")
    noon = 1_700_000_000_000
    for at, price in ((noon, 5), (noon + 1, 3), (noon + 86_400_000, 9)):
        driver.pipe("trades", "X", {"price": price}, at)
    assert [record.value for record in driver.read("daily-extremes")] == [
        {"low": 5, "high": 5},
        {"low": 3, "high": 5},
        {"low": 9, "high": 9},
    ]


def test_two_phase(start: Start) -> None:
    driver = start("two_phase")
    for stock, volume in (("A", 1), ("B", 5), ("C", 3), ("D", 4), ("A", 9)):
        driver.pipe("trades", stock, {"volume": volume}, 1)
    assert list(driver.read("top-stocks")[-1].value) == ["A", "B", "D"]


def test_stream_table_join(start: Start) -> None:
    driver = start("stream_table_join")
    driver.pipe("clicks", "u", {"page": "/"}, 1)
    driver.pipe("profiles", "u", {"city": "Ulm"}, 2)
    driver.pipe("clicks", "u", {"page": "/"}, 3)
    assert [record.value["city"] for record in driver.read("enriched-clicks")] == [None, "Ulm"]


def test_windowed_join(start: Start) -> None:
    driver = start("windowed_join")
    driver.pipe("searches", "u", {"query": "boots"}, 1_000)
    driver.pipe("clicks", "u", {"page": "/boots"}, 4_000)
    driver.pipe("clicks", "u", {"page": "/later"}, 60_000)
    assert [record.value for record in driver.read("search-clicks")] == [{"query": "boots", "page": "/boots"}]


def test_punctuator(start: Start) -> None:
    driver = start("punctuator")
    driver.pipe("heartbeats", "m1", {}, 1)
    driver.advance(30_000)
    driver.pipe("heartbeats", "m2", {}, 2)
    driver.advance(40_000)
    assert [(record.key, record.value["silent_for_ms"]) for record in driver.read("silent-machines")] == [
        ("m1", 70_000)
    ]


def test_poison_pill(start: Start) -> None:
    driver = start("poison_pill")
    driver.pipe("payments", "a", b"{no json", 1)
    driver.pipe("payments", "b", {"amount": "many"}, 2)
    driver.pipe("payments", "c", {"amount": 1.5}, 3)
    assert [record.value for record in driver.read("payments-in-cents")] == [{"cents": 150}]
    assert [letter.key for letter in driver.read_raw("payments-dead-letters")] == [b"a", b"b"]


def test_every_example_is_named_and_tested() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}.py`" in text and f"test_{name}" in globals() for name in names)

"""Dead letters read back: the record as it was, and which letters are meant."""

import pytest

from headwater.streams import App
from headwater.streams.dead_letters import DeadLetter, Wanted, read_letter, replayed
from headwater.streams.model.record import OutputRecord


def failing(value: str) -> str:
    if value.startswith("bad"):
        raise ValueError(f"no good: {value}")
    return value


def letters_of(inputs: list[tuple[str, str, int]], topic: str = "letters") -> list[OutputRecord]:
    app = App("app", key="text", value="text", on_error="dead_letter", dead_letter_topic=topic)
    app.stream("in", timestamp=lambda _: 99).map_values(failing).to("out")
    with app.test() as driver:
        for key, value, at in inputs:
            driver.pipe("in", key, value, at, headers=(("mine", b"1"),))
        return driver.read_raw(topic)


def read(record: OutputRecord, offset: int = 0) -> DeadLetter:
    return read_letter(record.partition or 0, offset, record.timestamp, record.key, record.value, record.headers)


def test_a_letter_gives_back_the_record_as_it_was() -> None:
    (record,) = letters_of([("a", "good", 1), ("b", "bad", 7)])
    letter = read(record)
    assert replayed(letter) == OutputRecord("in", 0, b"b", b"bad", 7, (("mine", b"1"),))
    assert (letter.exception, letter.message, letter.source_offset) == ("ValueError", "no good: bad", 1)
    assert "failing" in letter.stacktrace


def test_a_letter_of_a_letter_gives_back_the_letter() -> None:
    (first,) = letters_of([("b", "bad", 7)])
    again = first._replace(headers=first.headers + tuple((n, b"5") for n, _ in first.headers if n != "mine"))
    letter = read(again)
    assert (letter.exception, letter.source_offset) == ("5", 5)
    assert letter.headers == first.headers


def test_what_has_no_record_is_not_replayed() -> None:
    letter = read_letter(0, 0, 0, None, None, (("__streams.errors.topic", None), ("__streams.errors.partition", b"-1")))
    assert not letter.can_be_replayed
    assert read_letter(0, 0, 0, None, None, ()).source_topic is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), [0, 1, 2]),
        (Wanted(frozenset({(0, 1)})), [1]),
        (Wanted(frozenset({(0, None)})), [0, 1, 2]),
        (Wanted(frozenset({(1, None)})), []),
        (Wanted(topic="in", exception="Value"), [0, 1, 2]),
        (Wanted(topic="elsewhere"), []),
        (Wanted(message="bad2"), [1]),
        (Wanted(key=b"c"), [2]),
        (Wanted(since_ms=2, until_ms=3), [1]),
    ],
)
def test_which_letters_are_meant(wanted: Wanted, found: list[int]) -> None:
    records = letters_of([("a", "bad1", 1), ("b", "bad2", 2), ("c", "bad3", 3)])
    letters = [read(record, offset) for offset, record in enumerate(records)]
    assert [letter.offset for letter in letters if wanted.takes(letter)] == found

"""Reprocessing: two versions of a table compared, and made one; what cannot be reprocessed. Without a broker."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App
from headwater.streams.lead import local_run
from headwater.streams.reprocessing import reprocessing
from headwater.streams.reprocessing.comparison import (
    Comparison,
    Correction,
    Difference,
    Row,
    Table,
    compare,
    corrections,
    together,
)
from headwater.streams.reprocessing.reprocessing import Reprocessing, outputs_of, shadow_of
from headwater.streams.slot.settings import RunSettings


def table(*records: tuple[int, bytes | None, bytes | None]) -> Table:
    made = Table()
    for at, (partition, key, value) in enumerate(records):
        made.take(partition, key, value, at, ())
    return made


FORMER = table((0, b"a", b"0"), (0, b"a", b"1"), (0, b"b", b"2"), (0, b"c", b"3"), (1, b"a", b"9"), (0, None, b"x"))
NEW = table((0, b"a", b"1"), (0, b"b", b"5"), (0, b"d", b"4"), (0, b"e", b"1"), (0, b"e", None), (1, b"a", b"9"))


def test_tables_are_compared_by_the_latest_row_of_each_key() -> None:
    found = compare("out", FORMER, NEW)
    assert (found.equal, found.changed, found.missing, found.added, found.keyless) == (2, 1, 1, 1, 1)
    assert found.examples == (
        Difference(0, b"b", b"2", b"5"),
        Difference(0, b"c", b"3", None),
        Difference(0, b"d", None, b"4"),
    )
    assert len(compare("out", FORMER, NEW, examples=1).examples) == 1


def _of_partition(given: Table, partition: int) -> Table:
    rows = {place: row for place, row in given.rows.items() if place[0] == partition}
    return Table(rows, given.keyless if partition == 0 else 0)


def test_partitions_are_compared_one_by_one_with_the_same_result() -> None:
    former = table((1, b"z", b"1"), (2, b"a", b"2"))
    former.rows |= FORMER.rows
    former.keyless = FORMER.keyless

    def parts(examples: int) -> Iterator[Comparison]:
        for partition in range(4):
            yield compare("out", _of_partition(former, partition), _of_partition(NEW, partition), examples)

    for most in (0, 1, 4, 10):
        assert together("out", parts(10), most) == compare("out", former, NEW, most)
    assert together("out", parts(10)).examples[-1] == Difference(2, b"a", b"2", None)
    assert together("out", ()) == compare("out", Table(), Table())


def test_corrections_make_one_table_of_the_other_and_then_there_are_none() -> None:
    found = corrections(FORMER, NEW)
    assert found == [
        Correction(0, b"b", Row(b"5", 1, ())),
        Correction(0, b"c", None),
        Correction(0, b"d", Row(b"4", 2, ())),
    ]
    mended = Table(dict(FORMER.rows))
    for partition, key, row in found:
        mended.take(partition, key, row and row.value, 7, ())
    assert corrections(mended, NEW) == []


def test_both_versions_need_names_of_their_own(tmp_path: Path) -> None:
    app = App("orders")
    app.stream("in").to("out")
    with pytest.raises(UserError, match="Both versions"):
        Reprocessing(app, "orders", RunSettings("localhost:1", tmp_path))


def test_outputs_are_what_others_read() -> None:
    app = App("orders-v2")
    app.stream("in").select_key(lambda value: value).group_by_key().count().to_stream().to("out")
    assert list(outputs_of(app)) == ["out"]
    assert shadow_of("out", app.name) == "out-orders-v2-shadow"


def test_what_cannot_have_a_shadow_is_refused() -> None:
    nothing, dynamic, circle, matching = App("a"), App("b"), App("c"), App("d")
    nothing.stream("in").foreach(print)
    dynamic.stream("in").to(lambda *_: "out")
    circle.stream("in").through("out").to("end")
    matching.stream(pattern="in-.*").to("out")  # it had no inputs, so it was switched before it had read any
    refused = (nothing, "no output"), (dynamic, "record by record"), (circle, "reads the topic out")
    for app, said in (*refused, (matching, "that match in-")):
        with pytest.raises(UserError, match=said):
            outputs_of(app)


def test_topics_of_dataframes_have_no_shadow_and_frames_that_are_read_are_refused() -> None:
    app = App("v2")
    stream = app.stream("in").filter(lambda value: value)
    stream.frame_point(name="large")
    stream.to("out")
    assert set(outputs_of(app)) == {"out"}
    app.from_df(lambda spark: None, "prices").to("out")
    with pytest.raises(UserError, match="reads the DataFrame prices"):
        outputs_of(app)


def test_everything_is_processed_wherever_the_new_version_would_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for ever for records that came before `latest`."""
    begun: list[list[str | None]] = []

    class Run:
        def __init__(self, app: App, settings: Any) -> None:
            begun.append([source.reset for source in app.topology().sources()])

        def start(self) -> "Run":
            return self

    nothing = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(local_run, "LocalRun", Run)
    monkeypatch.setattr(reprocessing, "Admin", lambda _: nothing)
    monkeypatch.setattr(reprocessing, "RangeReader", lambda _: nothing)
    app = App("orders-v2", config={"auto.offset.reset": "latest"})
    app.stream("in").to("out")
    app.table("rows", reset="latest").to_stream().to("out")
    with Reprocessing(app, "orders", RunSettings("localhost:1", tmp_path)) as both:
        both._run()
    assert begun == [["earliest", "earliest"]]
    assert [source.reset for source in app.topology().sources()] == [None, "latest"]

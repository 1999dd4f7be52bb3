"""Ratios, targets and tables: what turns measurements into claims."""

import json

import pytest
from bench.report import (
    BEGIN,
    END,
    LESS,
    MORE,
    Figure,
    Kind,
    best,
    make_row,
    markdown_table,
    merged,
    read_json,
    rounded,
    text_table,
    write_docs,
    write_json,
)

THROUGHPUT = Kind("produce", "produce, large", "MB/s", MORE, "loopback", 0.4, of_limit=True)
LATENCY = Kind("p99", "p99, small", "ms", LESS, "a bare echo", 3)
FREE = Kind("librdkafka", "librdkafka", "records/s", MORE, "the client")


def test_the_best_round_counts_for_the_broker_and_for_the_limit():
    rounds = [Figure(900, 3000, "a"), Figure(1000, 2000, "b"), Figure(800, 4000, "c")]
    assert best(THROUGHPUT, rounds) == Figure(1000, 4000, "b")
    assert best(LATENCY, rounds) == Figure(800, 2000, "c")


def test_a_row_has_all_that_the_file_promises(tmp_path):
    row = make_row(THROUGHPUT, Figure(1500, 3000), Figure(500, 2900))
    assert (row.value, row.limit, row.ratio, row.peer, row.peer_ratio) == (1500, 3000, 0.5, 500, 3.0)
    assert row.command == "python -m bench --only produce"
    write_json(tmp_path / "deep" / "latest.json", [row])
    (written,) = json.loads((tmp_path / "deep" / "latest.json").read_text())
    assert {"row", "value", "unit", "limit", "ratio", "peer", "peer_ratio", "command"} <= set(written)


@pytest.mark.parametrize(
    ("kind", "figure", "met"),
    [
        (THROUGHPUT, Figure(1200, 3000), True),
        (THROUGHPUT, Figure(1199, 3000), False),
        (LATENCY, Figure(3.0, 1), True),
        (LATENCY, Figure(3.1, 1), False),
        (FREE, Figure(5, 10), None),
        (LATENCY, None, None),
    ],
)
def test_targets_go_the_right_way(kind, figure, met):
    assert make_row(kind, figure, None).met is met


def test_a_row_that_failed_is_empty_not_zero():
    row = make_row(THROUGHPUT, None, Figure(500, 1))
    assert (row.value, row.ratio, row.peer, row.peer_ratio) == (None, None, 500, None)
    assert "0" not in text_table([row]).splitlines()[1].split("MB/s")[0].removeprefix("produce")


@pytest.mark.parametrize(
    ("value", "shown"), [(123456.7, 123457.0), (12.345, 12.3), (1.2345, 1.23), (None, None), (0.0, 0.0)]
)
def test_no_more_digits_than_were_measured(value, shown):
    assert rounded(value) == shown


def test_the_table_lines_up():
    rows = [make_row(THROUGHPUT, Figure(1500, 3000), None), make_row(LATENCY, Figure(2.5, 1), Figure(5, 1))]
    title, first, second = text_table(rows).splitlines()
    at = title.index("unit")
    assert first[at:].startswith("MB/s")
    assert second[at:].startswith("ms")


def test_the_docs_keep_everything_around_the_table(tmp_path):
    path = tmp_path / "PERFORMANCE.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    row = make_row(THROUGHPUT, Figure(1500, 3000), None)
    table = markdown_table([row], {"produce": THROUGHPUT}, {"commit": "abc"})
    write_docs(path, table)
    write_docs(path, table)  # again, over itself
    text = path.read_text()
    assert text.startswith("before\n" + BEGIN)
    assert text.endswith(END + "\nafter\n")
    assert "old" not in text
    assert text.count("produce, large") == 1
    assert "commit abc" in text


def test_docs_without_marks_are_not_overwritten(tmp_path):
    path = tmp_path / "PERFORMANCE.md"
    path.write_text("nothing to see")
    with pytest.raises(ValueError, match="no marks"):
        write_docs(path, "table")
    assert path.read_text() == "nothing to see"


def test_rows_that_were_not_measured_now_stay():
    kinds = [Kind(name, name, "ms", LESS, "nothing") for name in ("a", "b", "c")]
    earlier = [make_row(kinds[0], Figure(10.0), Figure(20.0)), make_row(kinds[1], Figure(5.0), None)]
    now = [make_row(kinds[2], Figure(7.0), None), make_row(kinds[0], Figure(5.0), None)]
    found = {row.row: row for row in merged(now, earlier, ["a", "b", "c"])}
    assert list(found) == ["a", "b", "c"]
    assert (found["a"].value, found["a"].peer, found["a"].peer_ratio) == (5.0, 20.0, 0.25)
    assert found["b"] == earlier[1]


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [make_row(Kind("a", "a", "ms", LESS, "nothing", 3), Figure(10.0, 4.0, "also"), None)]
    assert read_json(tmp_path / "none.json") == []
    write_json(tmp_path / "rows.json", rows)
    assert read_json(tmp_path / "rows.json") == rows

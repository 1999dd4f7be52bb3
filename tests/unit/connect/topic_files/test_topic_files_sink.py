"""TopicFiles with the test kit: what is in the files, and what a restart in the middle makes of them."""

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.store import FileStore, Written
from headwater.connect.data import schema as s
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, DataError
from unit.connect.topic_files.sink_kit import contents, kit, lines, put_range

HERE = TopicPartition("t", 0)


def test_names_say_which_offsets_a_file_holds_and_the_group_follows(tmp_path: Path) -> None:
    sink = kit(tmp_path)
    put_range(sink, 2)
    assert (contents(tmp_path), sink.commit()) == ({}, 0)
    put_range(sink, 8)
    assert sink.context.commit_requested
    assert sink.commit() == 6
    assert list(contents(tmp_path)) == [
        "t/partition=0/t+0+0000000000+0000000002.json",
        "t/partition=0/t+0+0000000003+0000000005.json",
    ]
    assert [each["n"] for each in lines(tmp_path)] == list(range(6))


@pytest.mark.parametrize("stopped_at", range(11))
@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_anywhere_gives_the_same_files(tmp_path: Path, stopped_at: int, clean: bool) -> None:
    config = {"partitioner": "field", "partition_field_name": "kind"}
    whole = kit(tmp_path / "whole", **config)
    put_range(whole, 11)
    first = kit(tmp_path / "parts", **config)
    put_range(first, stopped_at)
    if clean:
        first.close()
    second = kit(tmp_path / "parts", **config)  # the group had committed nothing: files alone say from where
    assert second.next_offset <= stopped_at
    put_range(second, 11)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert len({each["n"] for each in lines(tmp_path / "whole")}) == len(lines(tmp_path / "whole")) >= 6


FILES = [Written("k=a", 4, 6, b"a"), Written("k=b", 5, 5, b"b"), Written("k=c", 3, 7, b"c")]


@pytest.mark.parametrize("step", range(1, 7))
def test_a_crash_at_each_rename_leaves_all_of_a_cut_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Three renames make files ready, three more finish them: the first of these decides."""
    store = FileStore(tmp_path, 1)
    store.write(HERE, "json", [Written("k=a", 0, 2, b"before")])
    renames, rename = 0, Path.rename

    def crashing(path: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames == step:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crashing)
        with pytest.raises(KeyboardInterrupt):
            store.write(HERE, "json", FILES)
    other = TopicPartition("t", 1)
    assert FileStore(tmp_path, 1).recover([other]) == {}  # another's: nothing of it is touched
    decided = step > 4
    assert FileStore(tmp_path, 1).next_offsets([HERE]) == {HERE: 8 if decided else 3}
    assert FileStore(tmp_path, 1).recover([HERE, other]) == {HERE: 8 if decided else 3}
    there = {"t/k=a/t+0+0+2.json": b"before"}
    if decided:
        there |= {"t/k=a/t+0+4+6.json": b"a", "t/k=b/t+0+5+5.json": b"b", "t/k=c/t+0+3+7.json": b"c"}
    assert contents(tmp_path) == there


def test_a_leftover_of_a_cut_that_is_there_does_not_come_twice(tmp_path: Path) -> None:
    FileStore(tmp_path, 10).write(HERE, "json", FILES)
    done = contents(tmp_path)
    (tmp_path / "t/k=b/.0+5+5+3+7+ff.json.ready").write_bytes(b"again")
    (tmp_path / "t/k=b/.0+5+5+3+7+ff.json.part").write_bytes(b"ag")
    (tmp_path / "t/k=b/notes.txt").write_bytes(b"mine")
    assert FileStore(tmp_path, 1).recover([HERE]) == {HERE: 8}
    assert contents(tmp_path) == done | {"t/k=b/notes.txt": b"mine"}


def test_a_file_that_is_not_whole_never_gets_a_name(tmp_path: Path) -> None:
    FileStore(tmp_path, 1).write(HERE, "json", FILES[:1])
    (tmp_path / "t/k=a/.0+5+5+3+7+ff.json.part").write_bytes(b"ha")
    assert FileStore(tmp_path, 1).recover([HERE]) == {HERE: 7}
    assert list(contents(tmp_path)) == ["t/k=a/t+0+4+6.json"]


@pytest.mark.parametrize("step", range(1, 7))
def test_a_task_that_lost_its_partition_writes_all_of_a_cut_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The new owner comes before one of the old one's renames; FILES are not in the order of their paths."""
    renames, rename = 0, Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames == step:
            FileStore(tmp_path, 1).recover([HERE])
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        if step <= 4:
            with pytest.raises(ConnectError):
                FileStore(tmp_path, 1).write(HERE, "json", FILES[::-1])
        else:
            FileStore(tmp_path, 1).write(HERE, "json", FILES[::-1])
    assert FileStore(tmp_path, 1).recover([HERE]) == ({} if step <= 4 else {HERE: 8})
    assert len(contents(tmp_path)) == (0 if step <= 4 else 3)


@pytest.mark.parametrize("step", [2, 3])
def test_a_new_owner_between_two_files_of_the_old_one_keeps_it_from_finishing_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    calls, directory = 0, FileStore._directory

    def interrupted(store: FileStore, topic: str, below: str) -> Path:
        nonlocal calls
        calls += 1
        if calls == step:
            FileStore(tmp_path, 1).recover([HERE])
        return directory(store, topic, below)

    monkeypatch.setattr(FileStore, "_directory", interrupted)
    with pytest.raises(ConnectError, match="another task"):
        FileStore(tmp_path, 1).write(HERE, "json", FILES[::-1])
    assert FileStore(tmp_path, 1).recover([HERE]) == {}
    assert contents(tmp_path) == {}


def test_the_first_file_decides_when_the_old_owner_finishes_while_the_new_one_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renames: list[tuple[Path, Path]] = []
    rename, unlink = Path.rename, Path.unlink

    def stopping(path: Path, target: Path) -> Path:
        renames.append((path, target))
        if len(renames) == 4:  # all are ready
            raise KeyboardInterrupt
        return rename(path, target)

    def late(path: Path) -> None:
        if renames:
            rename(*renames.pop())  # the old owner goes on, by one file
            renames.clear()
        unlink(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", stopping)
        with pytest.raises(KeyboardInterrupt):
            FileStore(tmp_path, 1).write(HERE, "json", FILES[::-1])
    monkeypatch.setattr(Path, "unlink", late)
    assert FileStore(tmp_path, 1).recover([HERE]) == {HERE: 8}
    assert sorted(contents(tmp_path).values()) == [b"a", b"b", b"c"]


def test_tombstones_are_errors_of_records_or_passed_over(tmp_path: Path) -> None:
    sink = kit(tmp_path)
    sink.put({"n": 0}, None, {"n": 2})
    assert [type(error) for _, error in sink.reported] == [DataError]
    sink = kit(tmp_path / "x", behavior_on_null_values="ignore")
    sink.put(None, None)
    assert (sink.commit(), sink.reported) == (2, [])
    sink.put({"n": 2}, None, {"n": 4}, {"n": 5})
    assert list(contents(tmp_path / "x")) == ["t/partition=0/t+0+0000000002+0000000005.json"]
    assert sink.commit() == 6


def test_a_topic_that_was_made_anew_is_told(tmp_path: Path) -> None:
    put_range(kit(tmp_path), 3)
    sink = kit(tmp_path)
    assert sink.next_offset == 3
    sink.next_offset = 0
    with pytest.raises(ConnectError, match="made anew"):
        sink.put({"n": 0})


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("not a directory")
    with pytest.raises(ConnectError, match="Cannot write"):
        put_range(kit(tmp_path), 3)


# What is in the files

INNER = s.struct([("x", s.OPTIONAL_INT32)], optional=True)
SCHEMA = s.struct(
    [
        ("id", s.INT64),
        ("name", s.OPTIONAL_STRING),
        ("small", s.INT8),
        ("single", s.FLOAT32),
        ("data", s.BYTES),
        ("price", s.decimal_schema(2)),
        ("day", s.DATE_SCHEMA),
        ("clock", s.TIME_SCHEMA),
        ("at", s.TIMESTAMP_SCHEMA),
        ("tags", s.array(s.STRING)),
        ("counts", s.map_of(s.STRING, s.OPTIONAL_INT64)),
        ("inner", INNER),
    ],
    name="Row",
)
ROW: dict[str, Any] = {
    "id": 1,
    "name": None,
    "small": -5,
    "single": 1.5,
    "data": b"\0\xff",
    "price": Decimal("12.30"),
    "day": date(2026, 1, 2),
    "clock": time(3, 4, 5, 6000),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
    "tags": ["a", "b"],
    "counts": {"k": 1, "l": None},
    "inner": {"x": 7},
}


def row(id_: int, **changes: Any) -> Struct:
    return Struct(SCHEMA, {**ROW, "inner": Struct(INNER, ROW["inner"]), "id": id_, **changes})


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_is_read_by_fastavro(tmp_path: Path, codec: str) -> None:
    sink = kit(tmp_path, format="avro", avro_codec=codec, flush_size="3000")
    sink.put(*(sink.record(row(n), schema=SCHEMA) for n in range(3000)))  # several blocks
    (data,) = contents(tmp_path).values()
    reader = fastavro.reader(io.BytesIO(data))
    assert reader.codec == codec
    assert list(reader) == [{**ROW, "id": n} for n in range(3000)]


def test_parquet_is_read_by_arrow(tmp_path: Path) -> None:
    sink = kit(tmp_path, format="parquet")
    sink.put(*(sink.record(row(n), schema=SCHEMA) for n in range(3)))
    (path,) = tmp_path.rglob("*.parquet")
    table = pq.ParquetFile(path).read()
    assert table.to_pylist() == [{**ROW, "id": n, "counts": [("k", 1), ("l", None)]} for n in range(3)]
    assert [str(table.schema.field(each).type) for each in ("small", "price", "at")] == ["int8", "decimal128(38, 2)", "timestamp[ms, tz=UTC]"]  # fmt: skip
    assert not table.schema.field("id").nullable


@pytest.mark.parametrize("format_", ["avro", "parquet"])
def test_another_schema_begins_another_file(tmp_path: Path, format_: str) -> None:
    sink = kit(tmp_path, format=format_)
    old, new = s.struct([("a", s.INT32)]), s.struct([("a", s.INT32), ("b", s.OPTIONAL_STRING)])
    sink.put(*(sink.record(Struct(each, {"a": 1}), schema=each) for each in (old, old, new, new, new)))
    assert [name.rpartition("/")[2] for name in contents(tmp_path)] == [
        f"t+0+0000000000+0000000001.{format_}",
        f"t+0+0000000002+0000000004.{format_}",
    ]


@pytest.mark.parametrize(
    ("format_", "schema", "value", "why"),
    [
        ("avro", None, {"a": 1}, "need values with a schema"),
        ("parquet", None, {"a": 1}, "need values with a schema"),
        ("parquet", s.STRING, "x", "HoistField"),
        ("parquet", s.struct([]), Struct(s.struct([])), "without fields"),
        ("parquet", SCHEMA, row(1, price=Decimal("1.234")), "scale"),
        ("parquet", SCHEMA, row(1, price=Decimal("1" * 37 + ".00")), "38 digits"),
        ("parquet", SCHEMA, row(1, name="\ud800"), "Unicode"),
        ("avro", SCHEMA, row(1, price=Decimal("1.234")), "scale"),
    ],
)
def test_what_does_not_fit_is_an_error_of_that_record(
    tmp_path: Path, format_: str, schema: s.Schema | None, value: Any, why: str
) -> None:
    sink = kit(tmp_path, format=format_, flush_size="2")
    good = s.struct([("a", s.INT32)])
    records = [sink.record(each, schema=its) for each, its in ((Struct(good, {"a": 1}), good), (value, schema), (Struct(good, {"a": 2}), good))]  # fmt: skip
    sink.put(*records)
    ((bad, error),) = sink.reported
    assert bad is records[1]
    assert why in str(error)
    assert list(contents(tmp_path)) == [f"t/partition=0/t+0+0000000000+0000000002.{format_}"]


def test_a_file_is_written_when_dead_letters_before_its_end_are_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of files say where to go on: a worker that was killed in between went on behind the record."""
    sink = kit(tmp_path)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(
        sink.context, "flush_reports", lambda: seen.append((len(sink.reported), len(contents(tmp_path))))
    )
    sink.put({"n": 0}, None, {"n": 2}, {"n": 3})
    assert seen == [(1, 0)]
    assert len(contents(tmp_path)) == 1
    sink.close()

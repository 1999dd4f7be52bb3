"""The file connectors, without Kafka: what a file does while it is read or written."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connector_config.validation import Delivery, validate
from headwater.connect.connectors.file_sink import FileStreamSinkTask
from headwater.connect.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask, Lines
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConfigError, ConnectError, RetriableError
from headwater.connect.plugins import Catalog
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore


def test_polls_that_could_give_no_line_are_refused() -> None:
    """With batch.size=0 the task ran, and no line came."""
    config = {"connector.class": "FileStreamSource", "name": "c", "topic": "t", "batch.size": "0"}
    checked = validate(Catalog(installed=False), config)
    assert {name: each.errors for name, each in checked.values.items() if each.errors} == {
        "batch.size": ["Invalid value 0 for configuration batch.size: Value must be at least 1"]
    }


class Context:
    stopping = False

    def __init__(self, store: MemoryOffsetStore) -> None:
        self.offset_reader = ConnectorOffsets(store, "c")
        self.config: dict[str, str] = {}


class Source:
    """A task, and the offset behind the last record it gave."""

    def __init__(self, path: Path, store: MemoryOffsetStore) -> None:
        self.path, self.store = path, store
        self.open()

    def open(self) -> None:
        self.task = FileStreamSourceTask()
        self.task.context = Context(self.store)
        self.task.start({"file": str(self.path), "topic": "t", "batch.size": "3"})
        self.task._stop.set()  # a poll without records does not wait

    def lines(self) -> list[str]:
        found: list[str] = []
        while records := self.task.poll():
            found += [record.value for record in records]
            partition, offset = records[-1].source_partition, records[-1].source_offset
            assert partition is not None
            self.task.context.offset_reader.write([(partition, offset)])  # type: ignore[attr-defined]
        return found

    def restart(self) -> None:
        self.task.close()
        self.open()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    made = Source(tmp_path / "in.txt", MemoryOffsetStore())
    yield made
    made.task.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("given", [{}, {"file": ""}])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_stdin_is_read_by_a_worker_alone(delivery: Delivery, given: dict[str, str]) -> None:
    """A worker of a group, any of them, read its own, and nobody said so."""
    config = {"connector.class": "FileStreamSource", "name": "c", "topic": "t", **given}
    errors = validate(Catalog(installed=False), config, delivery).values["file"].errors
    assert [each[:30] for each in errors] == (
        [] if delivery is Delivery.STANDALONE else ["Workers of a group need file: "]
    )
    assert validate(Catalog(installed=False), {**config, "file": "in.txt"}, delivery).errors == []


def test_a_file_that_grows_is_followed_line_by_line(source: Source) -> None:
    assert source.lines() == []  # it is not there yet
    append(source.path, "a\nb\nc\nd\nhal")
    assert source.lines() == ["a", "b", "c", "d"]
    append(source.path, "f\n")
    assert source.lines() == ["half"]


def test_a_restart_goes_on_behind_the_last_line(source: Source) -> None:
    append(source.path, "a\nb\nhal")
    assert source.lines() == ["a", "b"]
    source.restart()
    append(source.path, "f\n")
    assert source.lines() == ["half"]


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(source: Source) -> None:
    append(source.path, "a\n")
    assert source.lines() == ["a"]
    append(source.path, "b\n")
    source.path.rename(source.path.with_suffix(".1"))
    append(source.path, "c\n")
    assert source.lines() == ["b", "c"]


def test_what_is_written_between_the_end_and_the_rotation_is_not_lost(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer appends, renames and begins a new file just after the end of the old one was met."""
    append(source.path, "a\n")
    assert source.lines() == ["a"]
    read, rotated = os.read, source.path.with_suffix(".1")

    def read_and_rotate(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        if not data and not rotated.exists():
            append(source.path, "b\nc\nd\ne\n")
            source.path.rename(rotated)
            append(source.path, "f\n")
        return data

    monkeypatch.setattr(os, "read", read_and_rotate)
    assert source.lines() == ["b", "c", "d", "e", "f"]
    source.restart()
    append(source.path, "g\n")
    assert source.lines() == ["g"]


def test_a_file_that_was_cut_off_begins_again(source: Source) -> None:
    append(source.path, "aaaa\nbbbb\n")
    assert source.lines() == ["aaaa", "bbbb"]
    source.path.write_text("c\n")
    assert source.lines() == ["c"]
    source.path.write_text("")
    source.restart()
    assert source.lines() == []
    append(source.path, "d\n")
    assert source.lines() == ["d"]


def taken(lines: Lines, limit: int = 9) -> list[tuple[str, int]]:
    found = lines.take(limit)
    return [(text, found.end(index)) for index, text in enumerate(found.texts)]


def test_the_end_of_a_line_may_be_of_any_kind() -> None:
    lines = Lines()
    lines.feed(b"a\r\nb\rc\n\nd\r")
    assert taken(lines) == [("a", 3), ("b", 5), ("c", 7), ("", 8)]
    lines.feed(b"\ne")
    assert taken(lines) == [("d", 11)]
    assert lines.position == 11


def test_positions_count_bytes() -> None:
    lines = Lines()
    lines.feed("é\nx\n".encode())
    assert taken(lines) == [("é", 3), ("x", 5)]


def test_a_pipe_without_a_writer_holds_nobody(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    source = Source(path, MemoryOffsetStore())
    assert source.lines() == []
    with path.open("w") as pipe:
        pipe.write("a\nb\n")
        pipe.flush()
        assert source.lines() == ["a", "b"]
        assert source.lines() == []
    source.task.close()


def test_a_source_may_be_stopped_and_closed_though_it_never_started(tmp_path: Path) -> None:
    task = FileStreamSourceTask()
    with pytest.raises(ConfigError, match="topic"):
        task.start({"file": str(tmp_path / "in.txt")})
    task.stop()
    task.close()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    source = Source(tmp_path, MemoryOffsetStore())
    with pytest.raises(ConnectError, match="Is a directory"):
        source.lines()


def test_a_poll_that_waits_ends_with_stop(tmp_path: Path) -> None:
    source = Source(tmp_path / "none", MemoryOffsetStore())
    source.task._stop.clear()
    threading.Timer(0.01, source.task.stop).start()
    assert source.task.poll() is None


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"file": "x"}, {"position": 1}),
        ({"filename": "x"}, {"at": 1}),
        ({"filename": "x"}, {"position": "1"}),
        ({"filename": "x"}, {"position": -1}),
    ],
)
def test_offsets_that_make_no_sense_are_refused(partition: dict[str, Any], offset: dict[str, Any]) -> None:
    with pytest.raises(ConnectError):
        FileStreamSourceConnector().alter_offsets({"file": "x"}, [(partition, offset)])


def test_an_offset_of_any_partition_can_be_taken_away() -> None:
    wanted = [({"file": "of a connector before"}, None), ({"filename": "x", "more": 1}, {"position": 0})]
    assert FileStreamSourceConnector().alter_offsets({"file": "x"}, wanted)


def sink(path: Path) -> FileStreamSinkTask:
    task = FileStreamSinkTask()
    task.start({"file": str(path)})
    return task


def records(*values: Any) -> list[SinkRecord]:
    return [SinkRecord(topic="t", partition=0, offset=n, value=value) for n, value in enumerate(values)]


HERE = TopicPartition("t", 0)


def test_values_are_lines_and_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("before\n")
    task = sink(path)
    task.put(records("a", 5, None, 1.5, True, {"k": [1]}))
    assert task.pre_commit({HERE: 6}) == {HERE: 6}
    task.stop()
    assert path.read_text() == "before\na\n5\nnull\n1.5\ntrue\n{k=[1]}\n"


def test_a_pipe_that_nobody_reads_holds_the_records_back(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    task = sink(path)
    with pytest.raises(RetriableError, match="Nobody reads"):
        task.put(records("a"))
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    task.put(records("a"))
    assert os.read(reader, 10) == b"a\n"
    big = "x" * 600_000
    task.put(records(big, big, big))  # more than a pipe takes
    assert task.pre_commit({HERE: 3}) == {}
    with pytest.raises(RetriableError, match="does not take"):
        task.put(records("later"))
    while os.read(reader, 1 << 20):
        if task.pre_commit({HERE: 3}):
            break
    assert task.pre_commit({HERE: 3}) == {HERE: 3}
    task.stop()
    os.close(reader)

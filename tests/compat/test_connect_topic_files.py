"""A topic into files, by a worker and a broker: the worker starts anew in the middle, with a group that knows nothing;
offsets are set and deleted while the connector sleeps, and while a task of it hangs.
"""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer
from headwater.connect.connectors.topic_files.file_system import LocalFiles
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.refusals import BadRequest
from headwater.connect.runtime.task import State
from headwater.testing.connect import ConnectWorker


def produce(address: str, topic: str, numbers: range) -> None:
    with Producer({"bootstrap.servers": address}) as producer:
        for number in numbers:
            producer.send(topic, str(number).encode(), partition=0)
        producer.flush()


def committed(address: str, group: str, topic: str) -> int | None:
    with Consumer({"bootstrap.servers": address, "group.id": group}) as consumer:
        found = consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        return None if found is None else found.offset


def test_a_worker_that_starts_anew_goes_on_where_the_files_end(broker_address: str, topic: str, tmp_path: Path) -> None:
    config = {"connector.class": "TopicFiles", "topics": topic, "path": str(tmp_path), "format": "json"}
    config["flush.size"] = "4"

    def names() -> list[str]:
        return sorted(each.name for each in tmp_path.rglob("*.json"))

    produce(broker_address, topic, range(10))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"one-{topic}", config)
        worker.until(lambda: len(names()) == 2)
        worker.until(lambda: committed(broker_address, f"connect-one-{topic}", topic) == 8)
    produce(broker_address, topic, range(10, 17))
    with ConnectWorker(broker_address) as worker:
        worker.create(f"two-{topic}", config)  # its group begins at the beginning: the files know better
        worker.until(lambda: len(names()) == 4)
        assert worker.status(f"two-{topic}")["tasks"][0]["state"] == "RUNNING"
    assert names() == [f"{topic}+0+{n:010}+{n + 3:010}.json" for n in (0, 4, 8, 12)]
    lines = [line for name in names() for line in (tmp_path / topic / "partition=0" / name).read_text().splitlines()]
    assert [int(json.loads(line)) for line in lines] == list(range(16))


class Files:
    """What a connector with files of four records has written, and the calls to it."""

    def __init__(self, worker: ConnectWorker, topic: str, path: Path) -> None:
        self.worker, self.topic, self.name, self.path = worker, topic, f"files-{topic}", path
        config = {"connector.class": "TopicFiles", "topics": topic, "path": str(path), "format": "json"}
        worker.create(self.name, {**config, "flush.size": "4", "errors.restart": "false"})

    @property
    def numbers(self) -> list[int]:
        """Of the files that count, as readers see them."""
        files = sorted((self.path / self.topic / "partition=0").glob(f"{self.topic}*.json"))
        return [int(json.loads(line)) for each in files for line in each.read_text().splitlines()]

    def until_numbers(self, numbers: list[int]) -> None:
        self.worker.until(lambda: self.numbers == numbers)

    def target(self, state: State) -> None:
        self.worker.herder.set_target(self.name, state)

    def set_offset(self, offset: int) -> str:
        where = {"kafka_topic": self.topic, "kafka_partition": 0}
        return self.worker.herder.alter_offsets(
            self.name, {"offsets": [{"partition": where, "offset": {"kafka_offset": offset}}]}
        )

    @property
    def offset(self) -> int | None:
        found = self.worker.herder.read_offsets(self.name)
        return found[0]["offset"]["kafka_offset"] if found else None


def test_offsets_that_are_set_while_a_connector_sleeps_are_where_it_goes_on(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    """It sleeps with records that wait for their file's end. Each record is in one file, and none is missing."""
    produce(broker_address, topic, range(10))
    with ConnectWorker(broker_address) as worker:
        files = Files(worker, topic, tmp_path)
        files.until_numbers(list(range(8)))  # 8 and 9 are in memory
        worker.until(lambda: files.offset == 8)
        files.target(State.PAUSED)
        worker.until(lambda: worker.status(files.name)["tasks"][0]["state"] == "PAUSED")
        with pytest.raises(BadRequest, match="STOPPED state"):
            files.set_offset(4)
        produce(broker_address, topic, range(10, 13))
        files.target(State.STOPPED)
        assert "altered successfully" in files.set_offset(4)
        assert (files.numbers, files.offset) == ([0, 1, 2, 3], 4)
        with pytest.raises(ConnectError, match="choose 0, or 4"):
            files.set_offset(2)
        files.target(State.RUNNING)
        files.until_numbers(list(range(12)))
        worker.until(lambda: files.offset == 12)
        files.target(State.STOPPED)
        assert "reset successfully" in worker.herder.reset_offsets(files.name)
        assert (files.numbers, files.offset) == ([], None)
        produce(broker_address, topic, range(13, 17))
        files.target(State.RUNNING)
        files.until_numbers(list(range(16)))
        files.target(State.STOPPED)
        assert "altered successfully" in files.set_offset(17)  # what was 16 is passed over
        produce(broker_address, topic, range(17, 21))
        files.target(State.RUNNING)
        files.until_numbers([*range(16), *range(17, 21)])


def test_offsets_are_not_set_behind_the_back_of_a_task_that_hangs(
    broker_address: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has given the task up, and the connector is STOPPED; the task is in its group all the same."""
    hanging, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    write = LocalFiles.write

    def slow(self: LocalFiles, path: Path, data: bytes) -> Any:
        if "+4+7+" in path.name and not ended.is_set():
            hanging.set()
            assert goes_on.wait(60)
            ended.set()
        return write(self, path, data)

    monkeypatch.setattr(LocalFiles, "write", slow)
    produce(broker_address, topic, range(9))
    with ConnectWorker(broker_address, settings={"task.shutdown.graceful.timeout.ms": "100"}) as worker:
        files = Files(worker, topic, tmp_path)
        assert hanging.wait(60)
        files.target(State.STOPPED)
        before = sorted(tmp_path.rglob("*"))
        for call in (lambda: files.set_offset(0), lambda: worker.herder.reset_offsets(files.name)):
            with pytest.raises(ConnectError, match="have not stopped completely"):
                call()
        assert sorted(tmp_path.rglob("*")) == before
        goes_on.set()
        worker.until(lambda: set_at_last(files, 4))
        assert files.numbers == [0, 1, 2, 3]
        files.target(State.RUNNING)
        files.until_numbers(list(range(8)))


def set_at_last(files: Files, offset: int) -> bool:
    try:
        files.set_offset(offset)
    except ConnectError as error:
        if "have not stopped completely" not in str(error):
            raise
        return False
    return True

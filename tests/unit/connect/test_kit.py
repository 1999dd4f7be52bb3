"""The test kit for connectors, tried on our own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.connectors.datagen import DatagenConnector
from headwater.connect.connectors.file_sink import FileStreamSinkConnector
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import SinkKit, SourceKit

ORDERS = {"topic": "t", "quickstart": "orders", "max.interval.ms": "0", "batch.size": "3", "iterations": "7"}


def values(kit: SourceKit) -> list[dict[str, Any]]:
    return [
        {name: each for name, each in record.value.as_dict().items() if name != "ordertime"} for record in kit.poll()
    ]


def test_a_source_goes_on_where_it_committed_and_repeats_what_it_did_not() -> None:
    kit = SourceKit(DatagenConnector, ORDERS)
    first = values(kit)
    kit.commit()
    second = values(kit)
    kit.crash()
    assert values(kit) == second
    kit.commit()
    kit.restart()
    last = values(kit)
    assert [each["orderid"] for each in first + second + last] == list(range(7))
    assert kit.poll() == []
    kit.close()


def test_the_same_seed_makes_the_same_records() -> None:
    one, same, other = (SourceKit(DatagenConnector, {**ORDERS, "random.seed": seed}) for seed in ("1", "1", "2"))
    found = values(one)
    assert found == values(same) != values(other)


def test_every_type_of_a_template(tmp_path: Path) -> None:
    template = """{"a": {"type": "sequence", "start": 5}, "b": {"type": "int", "min": 1, "max": 1}, "c": {"type": "double"},
      "d": {"type": "boolean"}, "e": {"type": "string", "length": 4}, "f": {"type": "choice", "of": ["x"]},
      "g": {"type": "uuid"}, "h": {"type": "timestamp"}, "i": {"type": "long"}}"""
    kit = SourceKit(DatagenConnector, {"topic": "t", "template": template, "max.interval.ms": "0", "key.field": "f"})
    record = kit.poll()[0]
    found = record.value.as_dict()
    assert (found["a"], found["b"], len(found["e"]), found["f"], len(found["g"])) == (5, 1, 4, "x", 36)
    assert record.key == "x"


def test_a_sink_alone(tmp_path: Path) -> None:
    kit = SinkKit(FileStreamSinkConnector, {"file": str(tmp_path / "out")})
    kit.put("a", "b")
    assert kit.commit() == 2
    kit.close()
    assert (tmp_path / "out").read_text() == "a\nb\n"


def test_a_sink_goes_on_where_it_committed_or_where_it_asks(tmp_path: Path) -> None:
    lines = SinkKit(FileStreamSinkConnector, {"file": str(tmp_path / "out")})
    lines.put("a")
    lines.commit()
    lines.put("b")
    lines.crash()
    assert lines.next_offset == 1  # at least once: b comes again
    lines.put("b", "c")
    lines.commit()
    lines.restart()
    assert lines.next_offset == 3
    lines.close()
    files = SinkKit(TopicFilesConnector, {"path": str(tmp_path / "files"), "format": "json", "flush.size": "2"})
    files.put("a", "b", "c")
    files.crash()
    assert files.next_offset == 2  # its files know
    files.close()


class Picky(SinkTask):
    async def put(self, records: Sequence[Any]) -> None:
        for record in records:
            if record.value == "later":
                self.context.timeout(5)
                raise RetriableError
            if record.value == "bad":
                self.context.report(record, ValueError("bad"))


class PickyConnector(SinkConnector):
    task_class = Picky

    def start(self, props: Mapping[str, str]) -> None:
        self.props = props


def test_what_a_sink_reports_and_asks_for() -> None:
    kit = SinkKit(PickyConnector, {})
    kit.put("good", "bad")
    assert [record.value for record, _ in kit.reported] == ["bad"]
    with pytest.raises(RetriableError):
        kit.put("later")
    assert kit.context.timeout_ms == 5


def test_an_offset_of_another_form_is_refused_where_it_is_set() -> None:
    """It was taken, and the task ended in a KeyError."""
    connector = DatagenConnector()
    assert connector.alter_offsets(ORDERS, [({"task.id": "0"}, {"sequence": 5}), ({"x": 1}, None)])
    for partition, offset in (
        ({"task.id": 0}, {"sequence": 5}), ({}, {"sequence": 5}), ({"task.id": "0"}, {"sequence": "5"}),
        ({"task.id": "0"}, {"sequence": -1}), ({"task.id": "0"}, {"sequence": True}), ({"task.id": "0"}, {}),
    ):  # fmt: skip
        with pytest.raises(ConnectError, match="of Datagen"):
            connector.alter_offsets(ORDERS, [(partition, offset)])

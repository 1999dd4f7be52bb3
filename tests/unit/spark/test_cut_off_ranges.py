"""What a task of the source makes of a range that goes beyond the end of its log, and a driver of a group that does not
answer.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.reactor.kernel import Future, Kernel
from headwater.spark import admin, data_source_readers, partition_reader
from headwater.spark.admin import TELL_S, tell_group
from headwater.spark.data_source_readers import StreamReader
from headwater.spark.input_partitions import OffsetRange
from headwater.spark.options import parse_source_options
from headwater.spark.schema import source_schema

OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}


class Silent:
    """A reader that gives what is there, and then hears nothing for too long. `end`: of its log."""

    end = 150

    def __init__(self, settings: dict[str, object]) -> None:
        del settings

    def read_range(self, *_: Any, **__: Any) -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.record_batch({"value": pyarrow.array([b"x"])})
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nothing came from 150 on")

    def log_end(self, _partition: TopicPartition) -> int:
        return self.end

    def close(self) -> None: ...


def read(loss_matters: str) -> list[pyarrow.RecordBatch]:
    options = parse_source_options({**OPTIONS, "failOnDataLoss": loss_matters}, streaming=True)
    return list(partition_reader.read_range(options, OffsetRange("a", 0, 100, 200), ["value"]))


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "RangeReader", Silent)
    monkeypatch.setattr(partition_reader, "_idle", {})


def test_a_batch_whose_log_was_cut_off_gives_what_is_left_where_loss_does_not_matter() -> None:
    """It failed after two minutes, at each restart again, until the topic had grown beyond the batch."""
    (batch,) = read("false")
    assert batch.num_rows == 1


def test_a_batch_whose_log_was_cut_off_is_data_lost_where_that_matters() -> None:
    with pytest.raises(UserError, match="Data was lost"):
        read("true")


@pytest.mark.parametrize("loss_matters", ["true", "false"])
def test_a_log_that_is_as_long_as_it_was_has_lost_nothing(monkeypatch: pytest.MonkeyPatch, loss_matters: str) -> None:
    monkeypatch.setattr(Silent, "end", 200)
    with pytest.raises(KafkaError, match="nothing came"):
        read(loss_matters)


def test_a_group_that_does_not_answer_is_left_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch waited three minutes for it, though nothing hangs on what the group is told."""
    now = [0.0]
    kernel = Kernel(SimpleNamespace(wake=lambda: None), lambda: now[0])  # type: ignore[arg-type]

    async def never(*_: Any) -> Any:
        await Future()

    monkeypatch.setattr(admin, "alter_group_offsets", never)
    session: Any = SimpleNamespace(kernel=kernel)
    telling = kernel.spawn(tell_group(session, "g", {TopicPartition("a", 0): 1}))
    kernel.run_ready()
    assert not telling.done
    now[0] = TELL_S + 1
    kernel._run_timers()
    kernel.run_ready()
    assert telling.result() is False
    assert "group 'g' were not committed: no answer within 5 s" in capsys.readouterr().err


def test_a_group_that_did_not_answer_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers, told = [100.0], [False, True], []

    async def tell(_session: Any, _group: str, ends: Any) -> bool:
        told.append(dict(ends))
        return answers.pop(0)

    monkeypatch.setattr(data_source_readers, "tell_group", tell)
    monkeypatch.setattr(data_source_readers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    options = parse_source_options({**OPTIONS, "kafka.group.id": "g"}, streaming=True)
    reader, nobody = StreamReader(options, source_schema(headers=False)), SimpleNamespace()

    def batch(offset: int) -> None:
        commit = reader._group_commit({"a": {"0": offset}})
        if commit is not None:
            Kernel(SimpleNamespace(), lambda: 0.0).spawn(commit(nobody)).step()  # type: ignore[arg-type]

    for offset, seconds in ((1, 0), (2, 29), (3, 2), (3, 0)):
        now[0] += seconds
        batch(offset)
    assert [next(iter(each.values())) for each in told] == [1, 3]

"""What stays for ever in a Python worker is not looked through for garbage after each task."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow
import pytest

from headwater.spark import partition_reader, worker_garbage
from headwater.spark.input_partitions import OffsetRange
from headwater.spark.options import parse_source_options


@pytest.fixture(autouse=True)
def _as_a_new_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_garbage, "_modules_frozen", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_alive_is_frozen_once_and_again_after_more_modules_were_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_garbage.freeze_modules()
    assert gc.get_freeze_count() > 1000
    assert not worker_garbage.freeze_modules()
    monkeypatch.setitem(sys.modules, "loaded_by_a_later_task", ModuleType("loaded_by_a_later_task"))
    assert worker_garbage.freeze_modules()
    assert not worker_garbage.freeze_modules()


def test_garbage_is_collected_before_so_that_none_is_frozen() -> None:
    class Ring:
        freed = 0

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            Ring.freed += 1

    Ring()
    assert worker_garbage.freeze_modules()
    assert Ring.freed == 1


class FakeReader:
    def __init__(self, settings: dict[str, object]) -> None:
        pass

    def read_range(self, *_: Any, **__: Any) -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.record_batch({"value": pyarrow.array([b"x"])})

    def close(self) -> None:
        pass


@pytest.mark.parametrize("reused", ["1", ""], ids=["kept", "ends after its task"])
def test_a_task_of_the_source_freezes_its_worker_if_spark_keeps_it(
    monkeypatch: pytest.MonkeyPatch, reused: str
) -> None:
    monkeypatch.setattr(partition_reader, "RangeReader", FakeReader)
    monkeypatch.setattr(partition_reader, "_idle", {})
    monkeypatch.setenv("SPARK_REUSE_WORKER", reused)
    options = parse_source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a"}, streaming=True)
    (batch,) = partition_reader.read_range(options, OffsetRange("a", 0, 0, 1), ["value"])
    assert batch.num_rows == 1
    assert bool(gc.get_freeze_count()) is bool(reused)

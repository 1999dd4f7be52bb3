"""What stays for ever in a Python worker is not looked through for garbage after each task."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from headwater.spark import worker_garbage


@pytest.fixture(autouse=True)
def _as_a_new_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_garbage, "_modules_frozen", 0)
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


def test_only_a_worker_that_spark_keeps_gains_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    assert not worker_garbage.worker_is_kept()
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    assert worker_garbage.worker_is_kept()

"""What Python's garbage collector looks at while slots run."""

import gc
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from headwater.streams.slot.collector_pauses import CollectorPauses


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


class Ring:
    """Refers to itself, so only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_alive_is_frozen_until_the_last_slot_has_ended() -> None:
    pauses, lasting = CollectorPauses(), Ring()
    pauses.begin()
    assert pauses.freeze()
    assert not any(each is lasting for each in gc.get_objects())
    pauses.begin()
    pauses.end()
    assert gc.get_freeze_count()
    pauses.end()
    assert not gc.get_freeze_count()
    assert any(each is lasting for each in gc.get_objects())


def test_it_is_frozen_again_only_when_modules_were_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = CollectorPauses()
    pauses.begin()
    assert pauses.freeze()
    before = gc.get_freeze_count()
    kept = [Ring() for _ in range(100)]
    assert not pauses.freeze()
    assert gc.get_freeze_count() <= before
    monkeypatch.setitem(sys.modules, "a_module_that_came_later", types.ModuleType("a_module_that_came_later"))
    assert pauses.freeze()
    assert gc.get_freeze_count() >= before + len(kept)
    pauses.end()


def test_what_others_have_frozen_stays_frozen() -> None:
    pauses = CollectorPauses()
    gc.freeze()
    pauses.begin()
    pauses.freeze()
    pauses.end()
    assert gc.get_freeze_count()


def test_rings_that_slots_leave_are_collected_also_where_others_have_frozen() -> None:
    class Kept:
        ring: "Kept"

    pauses = CollectorPauses()
    gc.freeze()
    pauses.begin()
    kept = Kept()
    kept.ring = kept
    seen = weakref.ref(kept)
    pauses.freeze()
    del kept
    pauses.end()
    assert seen() is None
    assert gc.get_freeze_count()


def test_garbage_of_this_moment_is_not_frozen() -> None:
    pauses = CollectorPauses()
    pauses.begin()
    gc.disable()
    try:
        garbage = weakref.ref(Ring())
        assert garbage() is not None
        pauses.freeze()
    finally:
        gc.enable()
    assert garbage() is None
    pauses.end()

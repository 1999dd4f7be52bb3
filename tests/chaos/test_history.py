"""The checker itself: a history without fault passes, and every kind of violation is found."""

from collections.abc import Callable

import pytest

from chaos.support.history import Batch, History, Kind
from chaos.support.processes import WAIT_S
from chaos.support.workload import Writer
from compat.support.members import until

A, B, C = b"a", b"b", b"c"


def history(*values: bytes) -> History:
    found = History()
    for value in values:
        found.sent("writer", value)
    return found


def batch(offset: int, epoch: int = 0, content: bytes = b"x") -> Batch:
    return Batch(offset, offset, epoch, content)


def test_what_is_as_it_was_told_passes() -> None:
    told = history(A, B, C)
    told.acknowledged(0, 0, A)
    told.acknowledged(0, 1, B)
    told.assigned("reader", 0)
    told.read("reader", 0, 0, A)
    told.read("reader", 0, 1, B)
    told.assigned("reader", 0)  # again from the committed offset: reading twice is no fault
    told.read("reader", 0, 1, B)
    told.committed("group", 0, 1)
    told.committed("group", 0, 1)
    told.committed("group", 0, 2)
    told.ended({0: [(0, A), (1, B), (5, C)]})  # C was sent and not acknowledged: it may be there
    told.replicas(0, 2, {1: [batch(0), batch(1), batch(2)], 2: [batch(0), batch(1)]})
    told.check()


def test_what_was_sent_and_not_acknowledged_may_be_missing() -> None:
    told = history(A)
    told.ended({0: []})
    told.check()


def test_what_was_acknowledged_without_an_offset_is_somewhere() -> None:
    told = history(A, B)
    told.acknowledged(0, None, A)
    told.acknowledged(0, None, B)
    told.ended({0: [(0, A), (7, B)]})
    told.check()


def test_an_aborted_record_need_not_be_there() -> None:
    told = history(A)
    told.acknowledged(0, 0, A)
    told.aborted.add(A)
    told.ended({0: []})
    told.check()


def lost() -> History:
    told = history(A, B)
    told.acknowledged(0, 0, A)
    told.acknowledged(0, 1, B)
    told.ended({0: [(0, A)]})
    return told


def moved() -> History:
    """It is there, and not where it was acknowledged."""
    told = history(A)
    told.acknowledged(0, 0, A)
    told.ended({0: [(1, A)]})
    return told


def lost_somewhere() -> History:
    told = history(A, B)
    told.acknowledged(0, None, A)
    told.acknowledged(1, None, B)
    told.ended({0: [(0, A), (1, B)], 1: []})
    return told


def changed_for_a_reader() -> History:
    told = history(A, B)
    told.acknowledged(0, 0, A)
    told.assigned("reader", 0)
    told.read("reader", 0, 0, B)
    return told


def changed_between_acknowledgements() -> History:
    told = history(A, B)
    told.acknowledged(0, 7, A)
    told.acknowledged(0, 7, B)
    return told


def changed_in_the_end() -> History:
    told = history(A, B)
    told.assigned("reader", 0)
    told.read("reader", 0, 0, A)
    told.ended({0: [(0, B)]})
    return told


def twice() -> History:
    told = history(A)
    told.acknowledged(0, 1, A)
    told.ended({0: [(0, A), (1, A)]})
    return told


def twice_in_two_partitions() -> History:
    told = history(A)
    told.ended({0: [(0, A)], 1: [(0, A)]})
    return told


def invented() -> History:
    told = history()
    told.ended({0: [(0, A)]})
    return told


def aborted() -> History:
    told = history(A)
    told.aborted.add(A)
    told.ended({0: [(0, A)]})
    return told


def disorder() -> History:
    told = history(A, B)
    told.ended({0: [(0, B), (1, A)]})
    return told


def reader_goes_back() -> History:
    told = history(A, B)
    told.assigned("reader", 0)
    for offset, value in ((0, A), (1, B), (0, A)):
        told.read("reader", 0, offset, value)
    told.ended({0: [(0, A), (1, B)]})
    return told


def reader_skips() -> History:
    told = history(A, B, C)
    told.assigned("reader", 0)
    for offset, value in ((0, A), (2, C)):
        told.read("reader", 0, offset, value)
    told.ended({0: [(0, A), (1, B), (2, C)]})
    return told


def committed_offset_goes_back() -> History:
    told = history()
    told.committed("group", 0, 5)
    told.committed("group", 0, 4)
    return told


def committed_offset_vanishes() -> History:
    told = history()
    told.committed("group", 0, 5)
    told.committed("group", 0, -1)
    return told


def replicas_differ() -> History:
    told = history()
    told.replicas(0, 2, {1: [batch(0), batch(1, content=b"y")], 2: [batch(0), batch(1)]})
    return told


def replicas_are_cut_differently() -> History:
    """The same records in other batches are not the same bytes."""
    told = history()
    told.replicas(0, 2, {1: [Batch(0, 1, 0, b"xx-")], 2: [batch(0), batch(1)]})
    return told


def replica_is_short() -> History:
    told = history()
    told.replicas(0, 2, {1: [batch(0)], 2: [batch(0)]})
    return told


def epoch_goes_back() -> History:
    told = history()
    told.replicas(0, 2, {1: [batch(0, epoch=3), batch(1, epoch=2)]})
    return told


@pytest.mark.parametrize(
    ("make", "kinds"),
    [
        (lost, [Kind.LOST]),
        (moved, [Kind.LOST]),
        (lost_somewhere, [Kind.LOST]),
        (changed_for_a_reader, [Kind.CHANGED]),
        (changed_between_acknowledgements, [Kind.CHANGED]),
        (changed_in_the_end, [Kind.CHANGED]),
        (twice, [Kind.TWICE]),
        (twice_in_two_partitions, [Kind.TWICE]),
        (invented, [Kind.INVENTED]),
        (aborted, [Kind.ABORTED]),
        (disorder, [Kind.DISORDER]),
        (reader_goes_back, [Kind.BACKWARDS]),
        (reader_skips, [Kind.BACKWARDS]),
        (committed_offset_goes_back, [Kind.OFFSET_BACK]),
        (committed_offset_vanishes, [Kind.OFFSET_BACK]),
        (replicas_differ, [Kind.UNEQUAL]),
        (replicas_are_cut_differently, [Kind.UNEQUAL]),
        (replica_is_short, [Kind.LOST, Kind.LOST]),
        (epoch_goes_back, [Kind.EPOCH_BACK]),
    ],
)
def test_a_fault_is_found(make: Callable[[], History], kinds: list[Kind]) -> None:
    told = make()
    assert [one.kind for one in told.violations] == kinds
    with pytest.raises(AssertionError, match=kinds[0].name):
        told.check()


def test_a_writer_of_a_test_that_has_failed_waits_for_no_answer() -> None:
    """Each waited for three minutes for brokers that were gone, and so the time limit told, and not what had failed."""
    writer = Writer("writer", "127.0.0.1:1", "topic", 1, History())
    writer.start()
    until(lambda: writer.sent, "it has sent something")
    writer.tell(is_lost=True)
    writer.join(WAIT_S / 2)
    assert not writer.is_alive()
    assert writer.acknowledged == 0

"""Batches behind others that were refused: because the leader did not know yet that it leads, or because too few
replicas were in sync.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import LeaderEpoch
from headwater.replication.partition import REFUSED_MS, Partition

if TYPE_CHECKING:
    from conftest import World

BEGAN_MS = 1_700_000_000_000


class Term:
    """A partition that another broker led, with three records of producer 7, and that is taken over."""

    def __init__(self, world: "World", began_ms: int | None = BEGAN_MS) -> None:
        self.world = world
        self.log = world.create()
        self.log.append_as_leader(self._batch(0, 3), LeaderEpoch(0), BEGAN_MS)
        self.partition = Partition(
            "topic", self.log.topic_id, 0, self.log, LeaderEpoch(1), high_watermark=3, began_ms=began_ms
        )

    def send(self, sequence: int, after_ms: int = 10, **fields: Any) -> Any:
        return self.partition.append(self._batch(sequence, 1, **fields), BEGAN_MS + after_ms)

    def refused(self, sequence: int, after_ms: int = 10, **fields: Any) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.send(sequence, after_ms, **fields)
        assert self.log.log_end_offset == self.partition.log.log_end_offset
        return caught.value.code

    def has_enough_in_sync(self, *, enough: bool) -> None:
        self.partition.in_sync = SimpleNamespace(is_enough=lambda _: enough)  # type: ignore[assignment]

    def check_enough_in_sync(self, after_ms: int) -> None:
        """As before an append with acks=all."""
        self.partition.check_enough_in_sync(BEGAN_MS + after_ms)

    def _batch(self, sequence: int, count: int, epoch: int = 0) -> Any:
        return self.world.batch(count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def test_a_request_behind_one_that_a_broker_refused_before_it_led_is_refused_as_that_one(world: "World") -> None:
    """librdkafka, told of a gap, took another epoch and sent again what other leaders had written already."""
    term = Term(world)
    assert term.refused(5) == ErrorCode.NOT_LEADER_OR_FOLLOWER  # 3 and 4 were refused
    assert [term.send(each).base_offset for each in (3, 4, 5)] == [3, 4, 5]


def test_a_gap_is_told_when_the_producer_has_written_in_this_term(world: "World") -> None:
    term = Term(world)
    term.send(3)
    assert term.refused(5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_that_does_not_close_is_told_a_moment_later(world: "World") -> None:
    term = Term(world)
    assert term.refused(5, REFUSED_MS - 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert term.refused(5, REFUSED_MS) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_clock_that_was_set_back_hides_no_gap(world: "World") -> None:
    assert Term(world).refused(5, -1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_partition_that_was_not_taken_over_tells_of_gaps_at_once(world: "World") -> None:
    assert Term(world, None).refused(5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_comes_again_is_no_gap(world: "World") -> None:
    term = Term(world)
    assert term.refused(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # other borders than what is there
    assert term.partition.append(term._batch(0, 3), BEGAN_MS).duplicate


def test_an_epoch_begins_with_its_first_batch(world: "World") -> None:
    term = Term(world)
    assert term.refused(1, epoch=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert term.send(0, epoch=1).base_offset == 3
    assert term.send(1, epoch=1).base_offset == 4


def without_enough(term: Term, after_ms: int) -> None:
    """A batch is refused, and then the replicas are back."""
    term.has_enough_in_sync(enough=False)
    with pytest.raises(KafkaError) as caught:
        term.check_enough_in_sync(after_ms)
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    term.has_enough_in_sync(enough=True)
    term.check_enough_in_sync(after_ms)


def test_a_request_of_librdkafka_behind_one_that_had_too_few_replicas_is_refused_as_that_one(world: "World") -> None:
    """Told of a gap, it took another epoch, and sent the batch before them again, which was written and not yet
    acknowledged: it stood twice.
    """
    term = Term(world, None)
    term.send(3, 10)
    without_enough(term, 20)  # 4 was refused
    assert term.refused(5, 30) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert [term.send(each, 40).base_offset for each in (4, 5)] == [4, 5]


def test_too_few_replicas_explain_a_gap_for_a_moment_only(world: "World") -> None:
    term = Term(world, None)
    without_enough(term, 20)
    assert term.refused(5, 20 + REFUSED_MS - 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert term.refused(5, 20 + REFUSED_MS) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert term.refused(5, 19) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # a clock that was set back


def test_too_few_replicas_explain_no_other_borders_than_what_is_there(world: "World") -> None:
    term = Term(world, None)
    without_enough(term, 20)
    assert term.refused(1, 30) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_term_is_told_before_too_few_replicas(world: "World") -> None:
    """The client looks for the leader then."""
    term = Term(world)
    without_enough(term, 20)
    assert term.refused(5, 30) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    term.send(3, 40)
    assert term.refused(5, 50) == ErrorCode.NOT_ENOUGH_REPLICAS

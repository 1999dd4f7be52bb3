"""What a partition's history holds against a broker after a power loss: what may be written once more, and what not."""

import pytest

from headwater.sim.history import PartitionHistory
from headwater.sim.trace import Violation

VALUES = [b"second:2:", b"second:3:"]


def history(*, is_durable: bool = False, power_was_lost: bool = True) -> PartitionHistory:
    """Two records at 4 and 5 were acknowledged, and the broker died; DeleteRecords had moved the beginning to 9."""
    partition = PartitionHistory("plain-0", is_durable)
    partition.acknowledged(4, VALUES)
    partition.broker_ended(cleanly=False, power_was_lost=power_was_lost)
    return partition


def test_what_was_lost_with_a_log_that_begins_anew_may_be_written_once_more() -> None:
    partition = history()
    partition.survived(9, 9, was_emptied=True)
    partition.acknowledged(9, VALUES)
    assert partition.ends.latest == 11


def test_a_log_that_was_deleted_up_to_its_end_still_knows_its_producers() -> None:
    partition = history()
    partition.survived(9, 9)
    with pytest.raises(Violation, match=r"I3: b'second:2:' stands in plain-0 at 4 and at 9"):
        partition.acknowledged(9, VALUES)


def test_without_a_power_loss_no_log_forgets_its_producers() -> None:
    partition = history(power_was_lost=False)
    partition.survived(9, 9, was_emptied=True)
    with pytest.raises(Violation, match="I3"):
        partition.acknowledged(9, VALUES)


def test_a_topic_that_is_flushed_at_each_record_does_not_begin_anew() -> None:
    partition = history(is_durable=True)
    partition.survived(9, 9, was_emptied=True)
    with pytest.raises(Violation, match="I3"):
        partition.acknowledged(9, VALUES)

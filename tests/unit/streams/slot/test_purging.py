"""Repartition topics are purged beside the slot's loop, one request at a time."""

import logging
import threading
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.streams.slot.purging import Purge
from headwater.streams.topics.plan import InternalTopic, TopicPlan
from headwater.streams.topology.stores import REPARTITION_CONFIG

INTERNAL, OTHER = TopicPartition("app-by-repartition", 0), TopicPartition("orders", 0)


class SlowAdmin:
    """Answers when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[dict[TopicPartition, int]] = []
        self.go = threading.Event()
        self._error = error

    def delete_records(self, before: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.asked.append(dict(before))
        assert self.go.wait(60)
        if self._error is not None:
            raise self._error
        return {each: KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved") for each in before}


def purge() -> Purge:
    topic = InternalTopic(INTERNAL.topic, 1, REPARTITION_CONFIG, is_repartition=True)
    made = Purge(TopicPlan(internal=[topic]), 1000)
    made._purged_at = 0.0
    return made


def ended(made: Purge) -> None:
    assert made._request is not None
    made._request.join(60)
    assert not made._request.is_alive()


def test_a_slot_does_not_wait_for_a_purge_and_has_one_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """It waited for brokers in the slot's loop, and punctuators with it."""
    admin: Any = SlowAdmin()
    made = purge()
    made.committed({INTERNAL: 5, OTHER: 7})
    made.run(admin, 0.5)  # before its time
    assert made._request is None
    made.run(admin, 1.0)
    made.committed({INTERNAL: 8})
    made.run(admin, 9.0)  # the first one is not through
    with caplog.at_level(logging.WARNING, "headwater.streams"):
        admin.go.set()
        ended(made)
    assert admin.asked == [{INTERNAL: 5}]
    assert "a repartition topic was not purged" in caplog.text
    made.run(admin, 10.0)
    ended(made)
    assert admin.asked == [{INTERNAL: 5}, {INTERNAL: 8}]
    made.run(admin, 20.0)  # nothing new
    assert len(admin.asked) == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [(TimeoutError("too late"), True), (UserError("The admin client cannot be used any more"), False)],
)
def test_what_becomes_of_a_purge_ends_nothing(error: Exception, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    admin: Any = SlowAdmin(error)
    admin.go.set()
    made = purge()
    made.committed({INTERNAL: 5})
    with caplog.at_level(logging.WARNING, "headwater.streams"):
        made.run(admin, 1.0)
        ended(made)
    assert ("repartition topics were not purged" in caplog.text) == told

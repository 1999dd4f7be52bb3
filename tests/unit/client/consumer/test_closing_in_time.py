"""A consumer that closes takes no longer than it may, also if nobody takes its last commit."""

import asyncio
import time
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.aio import AsyncConsumer
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.membership.port import Departure, RebalanceEvent, RebalanceKind

P0 = TopicPartition("orders", 0)
SETTINGS = {"bootstrap.servers": "localhost:1", "group.id": "g", "session.timeout.ms": 9000}


class Member:
    """Of a group whose brokers are away, with one partition that was read up to an offset."""

    group_id, member_id, group_instance_id, generation = "g", "m", None, 3

    def __init__(self, consumer: Any) -> None:
        self.left_ms: int | None = None
        consumer.subscribe(["orders"], on_revoked=self.revoked)
        core = consumer._core
        core.membership._end_rebalancing()
        core.membership._end_tasks()
        core.membership = self
        core.subscription.add([P0])
        core.subscription.states[P0].seek(5)
        self.heard: list[Any] = []

    def revoked(self, partitions: list[TopicPartition]) -> None:
        self.heard += partitions

    def stop(self) -> RebalanceEvent:
        return RebalanceEvent(RebalanceKind.REVOKED, (P0,))

    async def leave(self, reason: str, departure: Departure = Departure.DEFAULT, timeout_ms: int | None = None) -> None:
        self.left_ms = timeout_ms


def test_a_commit_that_nobody_takes_does_not_hold_up_the_end() -> None:
    """It had a limit of its own, a third of session.timeout.ms, and came on top of the time that was given."""
    consumer = Consumer(SETTINGS)
    member = Member(consumer)
    began = time.monotonic()
    consumer.close(timeout=0.2)
    assert time.monotonic() - began < 2
    assert member.heard == [P0]
    assert member.left_ms == 0


def test_nor_does_it_in_asyncio() -> None:
    async def play() -> None:
        consumer = AsyncConsumer(SETTINGS)
        member = Member(consumer)
        began = time.monotonic()
        await consumer.close(timeout=0.2)
        assert time.monotonic() - began < 2
        assert member.heard == [P0]
        assert member.left_ms == 0

    asyncio.run(play())


def test_the_last_commit_leaves_time_to_leave_the_group() -> None:
    consumer = Consumer(SETTINGS)
    member = Member(consumer)
    allowed: list[Any] = []

    async def commit(_: object, *, timeout_ms: int) -> None:
        allowed.append(timeout_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumer._core.commits, "commit", commit)
        consumer.close(timeout=30)
    assert allowed == [3000]
    assert member.left_ms is not None
    assert 29_000 < member.left_ms <= 30_000

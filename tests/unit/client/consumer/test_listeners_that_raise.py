"""What a listener, or a callback of a commit, raises: it is told, and the consumer leaves its group all the same."""

import asyncio
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.aio import AsyncConsumer
from headwater.client.consumer.commits import Finished
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.membership.port import Departure, RebalanceEvent, RebalanceKind

P0 = TopicPartition("orders", 0)
SETTINGS = {"bootstrap.servers": "localhost:1", "group.id": "g", "enable.auto.commit": False}


class Member:
    """Of a group, with one partition."""

    def __init__(self) -> None:
        self.left = False

    def stop(self) -> RebalanceEvent | None:
        return RebalanceEvent(RebalanceKind.REVOKED, (P0,))

    async def leave(self, reason: str, departure: Departure = Departure.DEFAULT, timeout_ms: int | None = None) -> None:
        self.left = True


def revoked(_: object) -> None:
    raise RuntimeError("of the listener")


def joined(consumer: Any) -> Member:
    consumer.subscribe(["orders"], on_revoked=revoked)
    core = consumer._core
    core.membership._end_rebalancing()
    core.membership._end_tasks()
    core.membership = member = Member()
    core.subscription.add([P0])
    return member


def test_a_listener_that_raises_does_not_keep_an_unsubscribed_consumer_in_its_group() -> None:
    """It stayed a member that took part in no rebalance, and held its partitions for as long as it was polled."""
    with Consumer(SETTINGS) as consumer:
        member = joined(consumer)
        with pytest.raises(RuntimeError, match="of the listener"):
            consumer.unsubscribe()
        assert member.left
        assert consumer.subscription() == []


def test_nor_in_asyncio() -> None:
    async def play() -> None:
        async with AsyncConsumer(SETTINGS) as consumer:
            member = joined(consumer)
            with pytest.raises(RuntimeError, match="of the listener"):
                await consumer.unsubscribe()
            assert member.left
            assert consumer.subscription() == []

    asyncio.run(play())


def _finish(consumer: Any, told: list[str]) -> None:
    def callback(name: str) -> Any:
        def call(*_: object) -> None:
            told.append(name)
            if name == "first":
                raise ValueError("of the callback")

        return call

    consumer._core.commits.finished.extend(Finished(callback(name), {}, None) for name in ("first", "second"))


@pytest.mark.parametrize("listener", [True, False])
def test_close_calls_back_for_all_commits_whatever_is_raised(*, listener: bool) -> None:
    told: list[str] = []
    consumer = Consumer(SETTINGS)
    if listener:
        joined(consumer)
    _finish(consumer, told)
    with pytest.raises(ValueError, match="of the callback"):
        consumer.close()
    assert told == ["first", "second"]


@pytest.mark.parametrize("listener", [True, False])
def test_close_calls_back_for_all_commits_in_asyncio(*, listener: bool) -> None:
    async def play() -> None:
        told: list[str] = []
        consumer = AsyncConsumer(SETTINGS)
        if listener:
            joined(consumer)
        _finish(consumer, told)
        with pytest.raises(ValueError, match="of the callback"):
            await consumer.close()
        assert told == ["first", "second"]

    asyncio.run(play())

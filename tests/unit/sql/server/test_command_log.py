"""The log of statements as a server reads it: also where it has more than statements."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer
from headwater.sql.server.command_log import Command, CommandLog, create_topic
from headwater.sql.server.engine import Engine

CREATE = Command("CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);").encode()


class Polls:
    """What each poll gives, and the position behind it: markers of transactions have no record."""

    def __init__(self, *polls: tuple[list[tuple[int, bytes | None]], int]) -> None:
        self._polls = list(polls)
        self._at = 0

    async def poll(self, _timeout_s: float) -> list[Any]:
        records, self._at = self._polls.pop(0) if self._polls else ([], self._at)
        return [SimpleNamespace(offset=offset, value=value) for offset, value in records]

    async def position(self, _partition: TopicPartition) -> int:
        return self._at


async def _engine(polls: Polls, end: int) -> Engine:
    """As a server follows its log, until it has applied everything before `end`."""
    log, engine = CommandLog({}, "log", 1), Engine("default_", "")
    log._consumer = cast("AsyncConsumer", polls)
    async with asyncio.timeout(10), contextlib.aclosing(cast("Any", log.statements())) as statements:
        async for offset, data in statements:
            if data is None:
                engine.pass_over(offset)
            else:
                engine.apply(offset, data)
            if engine.applied >= end:
                break
    return engine


def test_a_log_that_ends_with_a_marker_or_without_a_value_is_read_to_its_end() -> None:
    """A server waited for its end for ever: at its start, and before every statement."""
    engine = asyncio.run(_engine(Polls(([(0, CREATE)], 2), ([], 2), ([(2, None)], 3)), 3))
    assert (engine.applied, engine.statements, list(engine.outcomes)) == (3, 1, [0])
    assert "S" in engine.session.catalog.sources


def test_markers_alone_are_passed_over() -> None:
    engine = asyncio.run(_engine(Polls(([], 0), ([], 4)), 4))
    assert (engine.applied, engine.statements) == (4, 0)


@pytest.mark.parametrize("exactly", [False, True])
def test_a_topic_with_fewer_replicas_than_it_should_have_is_told(
    exactly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log of statements lay on one disk where `ksql.internal.topic.replicas` says three, and nobody said so."""
    made: list[int] = []

    class Admin:
        async def create_topics(self, wanted: list[Any]) -> dict[str, KafkaError | None]:
            (topic,) = wanted
            made.append(topic.replication_factor)
            error = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "there are 2 brokers")
            return {topic.name: error if topic.replication_factor > 2 else None}

    creating = create_topic(cast("AsyncAdmin", Admin()), "log", 1, 3, exactly=exactly)
    if exactly:
        with pytest.raises(KafkaError, match="there are 2 brokers"):
            asyncio.run(creating)
        assert (made, caplog.messages) == ([3], [])
    else:
        asyncio.run(creating)
        assert made == [3, 1]
        assert "event=fewer_replicas topic=log wanted=3 made_with=1" in caplog.messages[0]

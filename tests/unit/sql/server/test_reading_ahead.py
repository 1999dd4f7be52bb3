"""Tables that are read before the first pull query asks for them."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.session import Session
from headwater.sql.server import views
from headwater.sql.server.lookup import Lookup, key_of
from headwater.sql.server.views import Views, beyond


@pytest.mark.parametrize(
    ("sizes", "rows_max", "given_up"),
    [
        ({}, 0, []),
        ({"A": 5, "B": 3}, 8, []),
        ({"A": 5, "B": 3}, 7, ["A"]),
        ({"A": 5, "B": 3, "C": 9}, 3, ["C", "A"]),
        ({"A": 5}, 4, ["A"]),
    ],
)
def test_the_largest_are_given_up(sizes: dict[str, int], rows_max: int, given_up: list[str]) -> None:
    assert beyond(sizes, rows_max) == given_up


class Topics:
    """What the brokers have: the values of each topic, under their numbers as keys."""

    def __init__(self, **values: Sequence[bytes | None]) -> None:
        self.values = values
        self.read: list[str] = []  # whose records were asked for
        self.open: list[str] = []
        self.silent: set[str] = set()  # whose leaders are away

    def consumer(self, _settings: Any) -> "FakeConsumer":
        return FakeConsumer(self)


class FakeConsumer:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._topic = ""

    async def partitions_for(self, _topic: str) -> list[Any]:
        return [SimpleNamespace(partition=0)]

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self._topics.silent & {each.topic for each in places}:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return {each: len(self._topics.values[each.topic]) for each in places}

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._topic = places[0].topic
        self._topics.read.append(self._topic)
        self._topics.open.append(self._topic)

    def seek(self, _place: TopicPartition, _offset: int) -> None:
        self._left = [
            SimpleNamespace(key=str(at).encode(), value=value, partition=0, offset=at, timestamp_ms=0)
            for at, value in enumerate(self._topics.values[self._topic])
        ]

    async def poll(self, _timeout_s: float) -> list[Any]:
        found, self._left = self._left, []
        if not found:
            await asyncio.Event().wait()
        return found

    async def position(self, _place: TopicPartition) -> int:
        return 0

    async def close(self) -> None:
        if self._topic:
            self._topics.open.remove(self._topic)


def _tables(*topics: str) -> list[SourceInfo]:
    session = Session()
    for each in topics:
        session.run(
            f"CREATE TABLE {each} (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='{each}', value_format='JSON');"
        )
    return list(session.catalog)


def _views(monkeypatch: pytest.MonkeyPatch, topics: Topics) -> Views:
    monkeypatch.setattr(views, "AsyncConsumer", topics.consumer)
    return Views({}, rows_max=10_000)


def _rows(count: int) -> list[bytes | None]:
    return [b'{"V": %d}' % each for each in range(count)]


async def _read(topics: Topics) -> None:
    for _ in range(5):  # the tasks of views, which wait for nothing
        await asyncio.sleep(0)


def test_large_tables_are_read_and_small_ones_wait_for_their_query(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(large=_rows(2_000), small=_rows(10))
    large, small = _tables("large", "small")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        await opened.read_ahead([large, small], 10_000)
        await _read(topics)
        assert topics.read == ["large"]
        assert await opened.rows(large, Lookup(keys=[key_of(["7"])])) == [[7, 0, 0, 7, "7"]]
        await opened.read_ahead([large, small], 10_000)
        assert topics.read == ["large"], "once"
        assert len(await opened.rows(small)) == 10
        await opened.close()
        assert topics.open == []

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_is_too_large_is_given_up_until_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(larger=_rows(3_000), large=_rows(2_000), endless=_rows(20_000))
    larger, large, endless = tables = _tables("larger", "large", "endless")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        for _ in range(4):
            await opened.read_ahead(tables, 4_000)
            await _read(topics)
        assert topics.read == ["larger", "large", "endless"], "each once"
        assert topics.open == ["large"]
        assert len(await opened.rows(larger)) == 3_000
        await opened.read_ahead(tables, 4_000)
        assert topics.open == ["large", "larger"]
        await opened.keep({"LARGE": large, "LARGER": larger, "ENDLESS": endless})
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_rows_are_bounded_while_the_leader_of_another_table_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looked at what was open: the look at what waits had failed before."""
    topics = Topics(larger=_rows(3_000), large=_rows(2_000), away=_rows(2_000))
    tables = _tables("larger", "large", "away")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        await opened.read_ahead(tables[:2], 4_000)
        await _read(topics)
        topics.silent.add("away")
        with pytest.raises(KafkaError):
            await opened.read_ahead(tables, 4_000)
        assert topics.open == ["large"]
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_table_that_is_asked_for_while_it_is_about_to_be_read_ahead_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted as one that nobody had asked for, and was closed under the query."""
    topics = Topics(large=_rows(2_000))
    (large,) = _tables("large")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        look = opened._records

        async def asked_meanwhile(tables: Sequence[SourceInfo]) -> dict[SourceInfo, int]:
            found = await look(tables)
            await opened.rows(large)
            return found

        monkeypatch.setattr(opened, "_records", asked_meanwhile)
        await opened.read_ahead([large], 1_500)
        assert topics.open == ["large"]
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_tables_that_were_given_up_and_dropped_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(large=_rows(2_000))
    (large,) = _tables("large")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        for _ in range(2):
            await opened.read_ahead([large], 1_500)
            await _read(topics)
        assert opened._given_up == {"LARGE": large}
        await opened.keep({"LARGE": large})
        assert opened._given_up == {"LARGE": large}
        await opened.keep({})
        assert opened._given_up == {}
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_record_that_is_no_row_is_left_out_and_the_others_of_its_run_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics(t=[b'{"V": 1}', b"{no row", None, b'{"V": 2}'])
    (table,) = _tables("t")

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        assert [row[0] for row in await opened.rows(table)] == [1, 2]
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_table_whose_topic_has_no_leader_keeps_no_other_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its query waited for brokers under a lock that all tables, and the log of statements, went through."""
    topics = Topics(away=_rows(1), there=_rows(1))
    away, there = _tables("away", "there")
    begins = FakeConsumer.beginning_offsets

    async def slowly(self: FakeConsumer, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if places[0].topic == "away":
            waiting.set()
            await answered.wait()
        return await begins(self, places)

    monkeypatch.setattr(FakeConsumer, "beginning_offsets", slowly)
    waiting, answered = asyncio.Event(), asyncio.Event()

    async def scenario() -> None:
        opened = _views(monkeypatch, topics)
        asked = asyncio.create_task(opened.rows(away))
        second = asyncio.create_task(opened.rows(away))
        await waiting.wait()
        assert len(await opened.rows(there)) == 1
        await opened.keep({each.name: each for each in (away, there)})
        assert not asked.done()
        answered.set()
        assert len(await asked) == len(await second) == 1
        assert topics.read == ["there", "away"], "each once"
        await opened.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))

"""The rows of a table as a pull query finds them: all that was committed before it was asked."""

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.record import ConsumerRecord
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.session import Session
from headwater.sql.server import push, views
from headwater.sql.server.views import TableView


class TwoPolls:
    """A topic of two records; each poll gives one, and moves the position."""

    def __init__(self, _settings: Any) -> None:
        self._at = 0

    async def partitions_for(self, _topic: str) -> list[Any]:
        return [SimpleNamespace(partition=0)]

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 2)

    def assign(self, _places: Sequence[TopicPartition]) -> None:
        pass

    def seek(self, _place: TopicPartition, _offset: int) -> None:
        pass

    async def poll(self, _timeout_s: float) -> list[Any]:
        if self._at == 2:
            await asyncio.Event().wait()
        self._at += 1
        at = self._at - 1
        return [SimpleNamespace(key=b"%d" % at, value=b'{"V": 1}', partition=0, offset=at, timestamp_ms=0)]

    async def position(self, _place: TopicPartition) -> int:
        return self._at

    async def close(self) -> None:
        pass


def test_records_that_a_thread_decodes_are_not_taken_for_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tables whose schemas are in a registry: the consumer's position was past them, so an answer lacked them."""
    monkeypatch.setattr(views, "AsyncConsumer", TwoPolls)
    session = Session()
    session.run("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    view = TableView(session.catalog.find("T"), {}, 10)
    view._waits = True
    decode, begun, released = view._decoded, threading.Event(), threading.Event()

    def slowly(records: Sequence[Any]) -> Any:
        if records[0].offset == 1:
            begun.set()
            assert released.wait(60)
        return decode(records)

    view._decoded = slowly  # type: ignore[method-assign]

    async def scenario() -> None:
        await view.open()
        asked = asyncio.create_task(view.rows())
        await asyncio.to_thread(begun.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        is_early = asked.done()
        released.set()
        assert len(await asked) == 2
        assert not is_early
        await view.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class Growing:
    """A topic that gets a second partition; each partition has one record, which is given once it is assigned."""

    count = 1

    def __init__(self, _settings: Any) -> None:
        self._assigned: list[int] = []
        self._positions: dict[int, int] = {}
        self._changed = asyncio.Event()

    async def partitions_for(self, _topic: str) -> list[Any]:
        return [SimpleNamespace(partition=each) for each in range(Growing.count)]

    async def beginning_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        await asyncio.sleep(0)
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 1)

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self._assigned = [each.partition for each in places]

    def seek(self, place: TopicPartition, offset: int) -> None:
        assert place.partition not in self._positions, "what was read is not read again"
        self._positions[place.partition] = offset
        self._changed.set()

    async def poll(self, _timeout_s: float) -> list[Any]:
        while True:
            for each in self._assigned:
                if self._positions.get(each) == 0:
                    self._positions[each] = 1
                    return [
                        SimpleNamespace(key=b"%d" % each, value=b'{"V": 1}', partition=each, offset=0, timestamp_ms=0)
                    ]
            self._changed.clear()
            await self._changed.wait()

    async def position(self, place: TopicPartition) -> int:
        return self._positions[place.partition]

    async def close(self) -> None:
        pass


def test_rows_of_a_partition_that_was_added_are_in_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were missing until the view was opened anew."""
    monkeypatch.setattr(views, "AsyncConsumer", Growing)
    monkeypatch.setattr(views, "_PARTITIONS_ASKED_S", 0.0)
    monkeypatch.setattr(Growing, "count", 1)
    session = Session()
    session.run("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    view = TableView(session.catalog.find("T"), {}, 10)

    async def scenario() -> None:
        await view.open()
        assert [row[-1] for row in await view.rows()] == ["0"]
        monkeypatch.setattr(Growing, "count", 3)
        for answer in await asyncio.gather(view.rows(), view.rows()):
            assert sorted(row[-1] for row in answer) == ["0", "1", "2"]
        await view.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_retention_takes_from_under_a_reader_does_not_take_the_rest() -> None:
    """It went on at the end of the log, and the answer lacked all that was left."""
    assert views.READING["auto.offset.reset"] == "earliest"
    session = Session()
    session.run("CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")
    (statement,) = session.parse("SELECT * FROM s;")
    made = push.plan(statement.query, session.catalog, "", {})  # type: ignore[attr-defined]
    assert push.PushQuery(made, {}, {}, to_end=True)._reading["auto.offset.reset"] == "earliest"


def test_rows_have_the_columns_of_headers_and_the_time_of_their_timestamp_column() -> None:
    """The columns of headers were left out, so that all behind them had the values of others."""
    session = Session()
    session.run(
        "CREATE SOURCE TABLE t (k STRING PRIMARY KEY, v BIGINT, h BYTES HEADER('h')) "
        "WITH (kafka_topic='t', value_format='JSON', timestamp='v');"
    )
    view = TableView(session.catalog.find("T"), {}, 10)
    records = [
        ConsumerRecord("t", 0, at, 99, 0, key, value, (("h", b"!"),), 0)
        for at, (key, value) in enumerate([(b"a", b'{"V": 7}'), (b"b", b'{"V": null}'), (b"a", b'{"V": -1}')])
    ]
    for record, row in zip(records, view._decoded(records), strict=True):
        view._take(record, row)
    assert list(view._rows.values()) == [[7, b"!", 7, 0, 0, "a"]]


class Silent(TwoPolls):
    """Its records do not come."""

    async def poll(self, _timeout_s: float) -> list[Any]:
        await asyncio.Event().wait()
        raise AssertionError


class Unanswered(Silent):
    """Nor does what was asked; whoever waits hears when it is closed."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._closed = asyncio.Event()

    async def end_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        del places
        await self._closed.wait()
        raise UserError("The client cannot be used any more", "it is closed")

    async def close(self) -> None:
        self._closed.set()


@pytest.mark.parametrize("consumer", [Silent, Unanswered])
def test_a_query_whose_table_is_dropped_meanwhile_is_told_so(
    monkeypatch: pytest.MonkeyPatch, consumer: type[Silent]
) -> None:
    """It ended as if whoever asked had gone, and the answer was cut off without a word."""
    monkeypatch.setattr(views, "AsyncConsumer", consumer)
    session = Session()
    session.run("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    opened = views.Views({}, 10)

    async def scenario() -> None:
        asked = asyncio.create_task(opened.rows(session.catalog.find("T")))
        while "T" not in opened._views:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        await opened.keep({})
        with pytest.raises(SqlError, match="T was dropped or replaced while its rows were read"):
            await asked

    asyncio.run(asyncio.wait_for(scenario(), 60))

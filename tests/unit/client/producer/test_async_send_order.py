"""AsyncProducer: records of a topic are appended in the order of the calls, whatever these have to wait for."""

import asyncio
import dataclasses
import threading
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headwater.base.errors import UserError
from headwater.client import AsyncProducer
from headwater.client.producer.waiting_sends import WaitingSends
from headwater.client.schema_registry import SchemaRegistryClient
from headwater.client.serialization.lookups import Lookups, looked_up

TOPIC = "orders"


class Registry:
    """It answers when it is released."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.begun = threading.Event()
        self.released = threading.Event()
        self.failure = failure

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        del body
        self.asked.append(f"{method} {path}")
        self.begun.set()
        assert self.released.wait(60)
        if self.failure is not None:
            raise self.failure
        return 200, {"id": 1, "schema": '"int"', "subject": "s", "version": 1}

    def close(self) -> None:
        pass


@dataclasses.dataclass
class Queues:
    """A topic of one partition."""

    name: str
    count: int = 1


class Engine:
    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await coroutine

    def submit(self, action: Any) -> Any:
        return action()


class Core:
    """Topics are known after the first wait; there is room for `room_for` records until there is more."""

    def __init__(self, client: SchemaRegistryClient, topics: dict[str, Any], room_for: int = 1_000) -> None:
        self.records: list[Any] = []
        self.plain = False
        self.sender = SimpleNamespace(wake=lambda: None, lingering_until=1.0)
        self.transactions = None
        self.accumulator = SimpleNamespace(closed=False, add_sections=self.add_sections)
        self.has_room = asyncio.Event()
        self.room_error: Exception | None = None
        self._client, self._topics, self._room_for = client, topics, room_for

    async def topic(self, name: str) -> Any:
        await asyncio.sleep(0)
        return self._topics.setdefault(name, Queues(name))

    def check(self) -> None:
        pass

    def check_send(self) -> None:
        pass

    async def room_for(self, size_bytes: int) -> None:
        assert size_bytes > 0
        if len(self.records) >= self._room_for:
            await self.room()

    def add_sections(self, queues: Any, sections: list[Any]) -> list[Any]:
        assert queues.name in self._topics
        self.records.append(f"{sum(each.record_count for each in sections)} rows")
        return []

    async def room(self) -> None:
        await self.has_room.wait()
        if self.room_error is not None:
            raise self.room_error
        self._room_for += 1_000

    def put(self, queues: Any, value: Any, *_: object) -> Any:
        assert queues.name in self._topics
        if value != "no schema":
            self._client.latest("s")
        if len(self.records) >= self._room_for:
            return None
        self.records.append(value)
        return value


def producer(registry: Registry, **options: Any) -> tuple[Any, Core]:
    made: Any = AsyncProducer({"bootstrap.servers": "localhost:1"})
    made._engine = Engine()
    core = made._core = made._intake = Core(
        SchemaRegistryClient("http://x", transport=registry), made._topics, **options
    )
    return made, core


async def begun(registry: Registry) -> None:
    assert await asyncio.to_thread(registry.begun.wait, 60)


def test_sends_that_wait_for_one_schema_keep_their_order_and_ask_once() -> None:
    async def play() -> None:
        registry = Registry()
        sending, core = producer(registry)
        sends = asyncio.gather(*(sending.send(TOPIC, number) for number in range(6)))
        await begun(registry)
        late = asyncio.ensure_future(sending.send(TOPIC, "no schema"))  # needs no answer, and stands behind them
        await asyncio.sleep(0)
        registry.released.set()
        await asyncio.wait_for(asyncio.gather(sends, late), 60)
        assert core.records == [0, 1, 2, 3, 4, 5, "no schema"]
        assert registry.asked == ["GET /subjects/s/versions/latest"]
        assert sending._waiting.lines == {}

    asyncio.run(play())


def test_a_send_that_is_cancelled_gives_its_place_away_and_leaves_nothing_behind() -> None:
    async def play() -> None:
        registry = Registry(failure=UserError("the registry is down"))
        sending, core = producer(registry)
        first = asyncio.ensure_future(sending.send(TOPIC, 0))
        await begun(registry)
        second, third = (asyncio.ensure_future(sending.send(TOPIC, number)) for number in (1, 2))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.wait([first, second])
        registry.released.set()
        with pytest.raises(UserError, match="is down"):  # it took part in the question of the first
            await asyncio.wait_for(third, 60)
        assert len(registry.asked) == 1
        registry.failure = None
        await sending.send(TOPIC, 3)
        assert core.records == [3]

    asyncio.run(play())


def test_a_registry_that_is_down_is_waited_for_once_by_all_that_wait() -> None:
    async def play() -> None:
        registry = Registry(failure=UserError("the registry is down"))
        sending, core = producer(registry)
        sends = asyncio.gather(*(sending.send(TOPIC, number) for number in range(4)), return_exceptions=True)
        await begun(registry)
        registry.released.set()
        assert [str(each) for each in await asyncio.wait_for(sends, 60)] == ["the registry is down"] * 4
        assert len(registry.asked) == 1
        assert core.records == []

    asyncio.run(play())


@pytest.mark.parametrize("error", [None, UserError("the buffer is full")])
def test_sends_that_wait_for_memory_keep_their_order_or_fail_together(error: UserError | None) -> None:
    async def play() -> None:
        registry = Registry()
        registry.released.set()
        sending, core = producer(registry, room_for=2)
        core.room_error = error
        sends = asyncio.gather(*(sending.send(TOPIC, number) for number in range(5)), return_exceptions=True)
        while len(core.records) < 2 or len(sending._waiting.lines[TOPIC]) > 3:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        core.has_room.set()
        found = await asyncio.wait_for(sends, 60)
        assert core.records == ([0, 1] if error else [0, 1, 2, 3, 4])
        assert found == [0, 1, *([error] * 3 if error else [2, 3, 4])]

    asyncio.run(play())


ROWS = pa.table({"value": [b"x", b"y", b"z"]})


def test_a_table_stands_behind_sends_that_wait_and_before_those_that_come_later() -> None:
    async def play() -> None:
        registry = Registry()
        sending, core = producer(registry)
        first = asyncio.ensure_future(sending.send(TOPIC, 0))
        await begun(registry)
        table = asyncio.ensure_future(sending.send_arrow(ROWS, TOPIC))  # needs no schema
        await asyncio.sleep(0)
        late = asyncio.ensure_future(sending.send(TOPIC, "no schema"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert core.records == []
        registry.released.set()
        await asyncio.wait_for(asyncio.gather(first, table, late), 60)
        assert core.records == [0, "3 rows", "no schema"]
        assert sending._waiting.lines == {}

    asyncio.run(play())


def test_sends_stand_behind_a_table_that_waits_for_its_schema_and_its_error_is_theirs() -> None:
    async def play() -> None:
        registry = Registry(failure=UserError("the registry is down"))
        sending, core = producer(registry)
        client = core._client

        def encode(column: Any) -> Any:
            client.latest("s")
            return column

        table = asyncio.ensure_future(sending.send_arrow(ROWS, TOPIC, encode={"value": encode}))
        await begun(registry)
        behind = [asyncio.ensure_future(sending.send(TOPIC, each)) for each in ("no schema", 1)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert core.records == []
        registry.released.set()
        found = await asyncio.wait_for(asyncio.gather(table, *behind, return_exceptions=True), 60)
        assert [str(each) for each in found] == ["the registry is down", "no schema", "the registry is down"]
        assert len(registry.asked) == 1
        registry.failure = None
        await sending.send_arrow(ROWS, TOPIC, encode={"value": encode})
        assert core.records == ["no schema", "3 rows"]

    asyncio.run(play())


def test_a_send_does_not_come_between_the_slices_of_a_table() -> None:
    async def play() -> None:
        registry = Registry()
        registry.released.set()
        sending, core = producer(registry, room_for=1)
        sending._settings = dataclasses.replace(sending._settings, buffer_bytes=4)  # a slice is one row
        table = asyncio.ensure_future(sending.send_arrow(ROWS, TOPIC))
        while not core.records:
            await asyncio.sleep(0)
        late = asyncio.ensure_future(sending.send(TOPIC, "no schema"))
        for _ in range(10):
            await asyncio.sleep(0)
        core.has_room.set()
        await asyncio.wait_for(asyncio.gather(table, late), 60)
        assert core.records == ["1 rows", "1 rows", "1 rows", "no schema"]

    asyncio.run(play())


def test_a_table_that_is_cancelled_gives_its_place_away() -> None:
    async def play() -> None:
        registry = Registry()
        registry.released.set()
        sending, core = producer(registry, room_for=0)
        table = asyncio.ensure_future(sending.send_arrow(ROWS, TOPIC))
        while TOPIC not in sending._waiting.lines:
            await asyncio.sleep(0)
        late = asyncio.ensure_future(sending.send(TOPIC, "no schema"))
        await asyncio.sleep(0)
        table.cancel()
        core.has_room.set()
        await asyncio.wait([table])
        await asyncio.wait_for(late, 60)
        assert table.cancelled()
        assert core.records == ["no schema"]
        assert sending._waiting.lines == {}

    asyncio.run(play())


def test_topics_do_not_wait_for_each_other() -> None:
    async def play() -> None:
        waiting = WaitingSends()
        with waiting.place("a") as first, waiting.place("b") as other:
            await first.first()
            await other.first()
            with waiting.place("a") as second:
                assert not second.turn.done()
                assert waiting.behind("a") == [second]
        assert waiting.lines == {}

    asyncio.run(play())


def test_an_answer_belongs_to_the_call_that_asked() -> None:
    async def play() -> None:
        asked: list[int] = []

        def ask() -> int:
            asked.append(1)
            return len(asked)

        lookups = Lookups()
        assert await lookups.answered(lambda: (looked_up("k", ask), looked_up("k", ask))) == (1, 1)
        assert await lookups.answered(lambda: looked_up("k", ask)) == 2
        assert looked_up("k", ask) == 3  # where one may wait

    asyncio.run(play())


def test_a_lookup_that_nobody_waited_for_is_not_given_to_a_later_call() -> None:
    """A send that timed out while the registry was down left its error to the next call, even a synchronous one."""

    async def play() -> None:
        registry = Registry(failure=OSError("refused"))
        client = SchemaRegistryClient("http://x", transport=registry)
        lookups = Lookups()
        call = asyncio.ensure_future(lookups.answered(lambda: client.latest("s")))
        await begun(registry)
        call.cancel()
        await asyncio.wait([call])
        registry.released.set()
        while lookups._under_way:
            await asyncio.sleep(0)
        registry.failure = None
        assert client.latest("s").version == 1
        assert (await lookups.answered(lambda: client.version("s"))).version == 1
        assert len(registry.asked) == 3

    asyncio.run(play())

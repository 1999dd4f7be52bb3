"""The rows that tables have now, for pull queries: each read from its topic and followed from then on. A table is read
when it is first asked for; one that has so many records that this would take long is read ahead (`Views.read_ahead`),
as far as memory is meant for it.

A row is kept under the decoded columns of its key, so that a query that names the key finds it without looking at the
others. Ranges of keys and of windows are found in sorted indexes, which are made when the first range is asked for.
Windows past their retention are forgotten (`expiry`).
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncConsumer
from headwater.sql.language.errors import SqlError
from headwater.sql.plan import reading, windowed
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.relations import Errors
from headwater.sql.server.expiry import expiry_of
from headwater.sql.server.key_index import Range, SortedIndex, cut
from headwater.sql.server.lookup import Key, Lookup, key_of
from headwater.sql.server.window_tasks import WindowTasks
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.model.record import InputRecord, Record

ALL = Lookup()
_NEVER: Final = float("-inf")  # when a table was asked for
_SOON_READ: Final = 1_000  # records: a first query hardly notices that they are read
_PARTITIONS_ASKED_S: Final = 1.0  # how long the partitions of a topic are known: not each query asks for them

# Nothing that only reads makes a topic: one that was deleted meanwhile would come back empty. Where retention has
# overtaken a reader, what is left is read: from the end on, an answer would lack it and nobody knew.
READING = {"isolation.level": "read_committed", "allow.auto.create.topics": False, "auto.offset.reset": "earliest"}


class TableView:
    """The rows of one table. Owned by the loop; its task reads the topic for as long as the view is open."""

    def __init__(
        self, source: SourceInfo, client: Mapping[str, str], rows_max: int, tasks: WindowTasks | None = None
    ) -> None:
        """`tasks`: those that write the table, by whose times its windows expire; None: by those of its partitions."""
        self.source = source
        self._tasks = tasks
        self._client = client
        self._rows_max = rows_max
        self._rows: dict[Key, list[Any]] = {}
        self._windows: dict[Key, list[Key]] = {}  # of windowed tables: the keys with windows of each key, by start
        self._by_key: SortedIndex[Key] | None = None
        self._by_start: SortedIndex[Key] | None = None
        self._read: dict[int, int] = {}
        self._partitions_asked = _NEVER
        self._in_hand = False  # records are past the consumer's position, and not in the rows yet
        self._moved = asyncio.Event()
        self._consumer: AsyncConsumer | None = None
        self._task: asyncio.Task[None] | None = None
        self._expiry = expiry_of(source.window, self._rows.__contains__)
        self._key, self._value = reading.key_serde(source), reading.value_serde(source)
        self._headers = reading.headers_of(source) if source.header_columns else None
        self._time_of = reading.timestamp_extractor(source, Errors(limit=0))
        self._waits = reading.asks_registry(source)

    async def open(self) -> None:
        self._consumer = AsyncConsumer({**READING, **self._client})
        await self._take_partitions(self._consumer)
        if self._tasks is not None:
            await self._tasks.learn(self._consumer)
        self._task = asyncio.create_task(self._follow())

    async def _take_partitions(self, consumer: AsyncConsumer) -> None:
        """Those that the topic has and the view does not, from their beginning. Several queries may ask at a time."""
        topic = self.source.topic
        found = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
        added = [each for each in found if each.partition not in self._read]
        begins = await consumer.beginning_offsets(added) if added else {}
        added = [each for each in added if each.partition not in self._read]
        self._read |= {each.partition: begins[each] for each in added}
        if added:
            consumer.assign([TopicPartition(topic, each) for each in self._read])
        for each in added:
            consumer.seek(each, begins[each])
        self._partitions_asked = asyncio.get_running_loop().time()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
            self._moved.set()
        if self._consumer is not None:
            await self._consumer.close()

    @property
    def size(self) -> int:
        """How many rows it has read by now."""
        return len(self._rows)

    @property
    def has_ended(self) -> bool:
        """Whether it has met an error, and has to be opened anew."""
        return self._task is not None and self._task.done()

    async def rows(self, lookup: Lookup = ALL, lag_max: int = 0) -> list[list[Any]]:
        """The rows of a look-up, as of now: what was committed before this call is in them, but for the last `lag_max`
        offsets of each partition. A partition that was added counts after a second.
        """
        try:
            await self._catch_up(lag_max)
        except (KafkaError, UserError):
            self._check()  # what the consumer of a closed view says means nothing
            raise
        names = self._named(lookup)
        if names is None:
            return list(self._rows.values())
        return [self._rows[each] for each in names if each in self._rows]

    async def _catch_up(self, lag_max: int) -> None:
        assert self._consumer is not None
        if asyncio.get_running_loop().time() - self._partitions_asked >= _PARTITIONS_ASKED_S:
            await self._take_partitions(self._consumer)
        partitions = [TopicPartition(self.source.topic, each) for each in self._read]
        ends = await self._consumer.end_offsets(partitions)
        while any(self._read[each.partition] < ends[each] - lag_max for each in partitions):
            self._check()
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), 1.0)
            self._check()
            for each in partitions:  # markers of transactions move the position without a record
                position = await self._consumer.position(each)
                if not self._in_hand:
                    self._read[each.partition] = max(self._read[each.partition], position)
        self._check()

    def _check(self) -> None:
        """Raises what has ended the reading of the topic, if something has."""
        if self._task is None or not self._task.done():
            return
        if self._task.cancelled():  # the view was closed
            raise SqlError(f"{self.source.name} was dropped or replaced while its rows were read.", hint="Ask again.")
        self._task.result()

    def _named(self, lookup: Lookup) -> Sequence[Key] | None:
        """The names of the rows of a look-up; None: of all."""
        is_there = self._rows.__contains__
        if lookup.keys is not None:
            if self.source.window is None:
                return lookup.keys
            starts = lookup.starts or Range()
            return [each for key in lookup.keys for each in cut(self._windows.get(key, []), starts, _start)]
        if lookup.key_range is not None:
            if self._by_key is None:
                self._by_key = SortedIndex((each for each in self._rows if _has_key(each)), _key, is_there)
            return self._by_key.between(lookup.key_range)
        if lookup.starts is not None:
            if self._by_start is None:
                self._by_start = SortedIndex(self._rows, _start, is_there)
            return self._by_start.between(lookup.starts)
        return None

    async def _follow(self) -> None:
        assert self._consumer is not None
        while True:
            records = await self._consumer.poll(1.0)
            decode, self._in_hand = self._decoded, True
            if self._tasks is not None and records:
                await self._tasks.learn(self._consumer)
            rows = await asyncio.to_thread(decode, records) if self._waits and records else decode(records)
            for record, row in zip(records, rows, strict=True):
                self._take(record, row)
                self._read[record.partition] = record.offset + 1
            self._in_hand = False
            self._moved.set()

    def _decoded(self, records: Sequence[Any]) -> list[tuple[Any, Any] | None]:
        """Keys and values; None for a record that is no row, which is left out, as the engine does."""
        together = getattr(self._value, "deserialize_all", None)
        if together is not None and len(records) > 1:
            with contextlib.suppress(Exception):  # one of them is no row: which one is found out below
                values = together([each.value if each.key is not None else None for each in records])
                keys = [None if each.key is None else self._key.deserialize(each.key) for each in records]
                return [
                    None if record.key is None else (key, value)
                    for record, key, value in zip(records, keys, values, strict=True)
                ]
        found: list[tuple[Any, Any] | None] = []
        for record in records:
            try:
                value = None if record.value is None else self._value.deserialize(record.value)
                found.append(None if record.key is None else (self._key.deserialize(record.key), value))
            except ClusterFailure:
                raise
            except Exception:  # noqa: BLE001
                found.append(None)
        return found

    def _take(self, record: Any, row: tuple[Any, Any] | None) -> None:
        if row is None:
            return
        key, value = row
        time = record.timestamp_ms
        if self._time_of is not None and value is not None:
            raw = InputRecord(record.topic, record.partition, record.offset, time, record.key, record.value)
            time = self._time_of(Record(key, value, time), raw, -1)
            if time < 0:  # no row, to a query that reads the table, either
                return
        bare = windowed.bare(key)
        bounds = windowed.bounds(key) if self.source.window else []
        name = key_of(bare)
        whole_name = (*name, *bounds)
        task: Hashable = record.partition
        if self._expiry is not None and self._tasks is not None:
            task = self._tasks.of(bare, name, record.partition)
        is_past = self._expiry is not None and self._expiry.is_past(task, whole_name)
        if self._expiry is not None:
            for each in self._expiry.take_past(task):
                self._forget(each[:-2], each)
        if value is None or is_past:
            self._forget(name, whole_name)
            return
        if len(self._rows) >= self._rows_max and whole_name not in self._rows:
            raise SqlError(
                f"{self.source.name} has more than {self._rows_max} rows, which is what a pull query may hold.",
                hint="Raise ksql.query.pull.rows.max, or ask with EMIT CHANGES.",
            )
        is_new = whole_name not in self._rows
        headers = self._headers(record.headers) if self._headers is not None else ()
        self._rows[whole_name] = [*value, *headers, time, record.partition, record.offset, *bare, *bounds]
        if is_new:
            self._index(name, whole_name)
            if self._expiry is not None:
                self._expiry.add(task, whole_name)

    def _forget(self, name: Key, whole_name: Key) -> None:
        if self._rows.pop(whole_name, None) is not None and self.source.window is not None:
            self._forget_window(name, whole_name)

    def _index(self, name: Key, whole_name: Key) -> None:
        if self.source.window is not None:
            insort(self._windows.setdefault(name, []), whole_name, key=_bounds)  # mostly at its end
            if self._by_start is not None:
                self._by_start.add(whole_name)
        if self._by_key is not None and _has_key(whole_name):
            self._by_key.add(whole_name)

    def _forget_window(self, name: Key, whole_name: Key) -> None:
        windows = self._windows.get(name, [])
        place = bisect_left(windows, _bounds(whole_name), key=_bounds)
        if place < len(windows) and windows[place] == whole_name:
            del windows[place]
            if not windows:
                del self._windows[name]


def _key(name: Key) -> Any:
    """The value of the first key column."""
    return name[0][1]


def _has_key(name: Key) -> bool:
    """NULL is in no range."""
    return name[0][1] is not None


def _start(name: Key) -> Any:
    return name[-2]


def _bounds(name: Key) -> Any:
    return name[-2:]


def beyond(sizes: Mapping[str, int], rows_max: int) -> list[str]:
    """Which views to give up, the largest first, so that the others have no more than `rows_max` rows together."""
    found, total = [], sum(sizes.values())
    for size, name in sorted(((size, name) for name, size in sizes.items()), reverse=True):
        if total <= rows_max:
            break
        found.append(name)
        total -= size
    return found


class Views:
    """The open views, by table. One that nobody asked for in a while is closed, unless it is read ahead."""

    def __init__(
        self,
        client: Mapping[str, str],
        rows_max: int,
        idle_s: float = 600.0,
        tasks_of: Callable[[SourceInfo], WindowTasks | None] = lambda _: None,
    ) -> None:
        self._client = client
        self._tasks_of = tasks_of
        self._rows_max = rows_max
        self._idle_s = idle_s
        self._views: dict[str, tuple[TableView, float]] = {}
        # While one is opened. Of each table: a topic without a leader keeps no other from being asked.
        self._opening: dict[str, asyncio.Lock] = {}
        self._ahead: set[str] = set()  # tables whose views stay open
        self._given_up: dict[str, SourceInfo] = {}  # that are too large to be read before somebody asks
        self._offsets: AsyncConsumer | None = None  # tells how many records topics have

    async def read_ahead(self, tables: Sequence[SourceInfo], rows_max: int) -> None:
        """Opens the views of tables whose first query would wait for long. All of these have no more than `rows_max`
        rows together: beyond that the largest are given up. To be called again and again.
        """
        try:
            await self._open_large(tables)
        finally:  # also where brokers do not tell of one of them: the others grow
            await self._bound(tables, rows_max)

    async def _open_large(self, tables: Sequence[SourceInfo]) -> None:
        waiting = [each for each in tables if each.name not in self._views and not self._is_given_up(each)]
        for source, records in (await self._records(waiting)).items():
            if records > _SOON_READ and source.name not in self._views:  # somebody may have asked meanwhile
                self._ahead.add(source.name)
                await self._view(source, _NEVER)

    async def _bound(self, tables: Sequence[SourceInfo], rows_max: int) -> None:
        known = {each.name for each in tables if each.name in self._views and not self._is_given_up(each)}
        sizes = {name: self._views[name][0].size for name in known}
        self._ahead = {name for name, size in sizes.items() if size > _SOON_READ or self._views[name][1] == _NEVER}
        ended = [name for name in known if self._views[name][0].has_ended]
        for name in {*beyond({name: sizes[name] for name in self._ahead}, rows_max), *ended}:
            await self._give_up(name)

    def _is_given_up(self, source: SourceInfo) -> bool:
        return self._given_up.get(source.name) is source

    async def _give_up(self, name: str) -> None:
        self._ahead.discard(name)
        if name not in self._views:  # its table was dropped meanwhile
            return
        view, asked = self._views[name]
        self._given_up[name] = view.source
        if view.has_ended or asyncio.get_running_loop().time() - asked > self._idle_s:
            del self._views[name]
            await view.close()

    async def _records(self, tables: Sequence[SourceInfo]) -> dict[SourceInfo, int]:
        """How many records the topic of each table has; it has no more rows."""
        if not tables:
            return {}
        if self._offsets is None:
            self._offsets = AsyncConsumer({**READING, **self._client})
        places: dict[SourceInfo, list[TopicPartition]] = {}
        for each in tables:
            with contextlib.suppress(KafkaError):  # its topic is gone
                found = await self._offsets.partitions_for(each.topic)
                places[each] = [TopicPartition(each.topic, at.partition) for at in found]
        every = [place for each in places.values() for place in each]
        begins, ends = await self._offsets.beginning_offsets(every), await self._offsets.end_offsets(every)
        return {source: sum(ends[each] - begins[each] for each in found) for source, found in places.items()}

    async def rows(self, source: SourceInfo, lookup: Lookup = ALL, lag_max: int = 0) -> list[list[Any]]:
        return await (await self._view(source)).rows(lookup, lag_max)

    async def _view(self, source: SourceInfo, asked_at: float | None = None) -> TableView:
        async with self._opening.setdefault(source.name, asyncio.Lock()):
            return await self._opened(source, asked_at)

    async def _opened(self, source: SourceInfo, asked_at: float | None) -> TableView:
        now = asyncio.get_running_loop().time()
        known = self._views.get(source.name)
        idle = [name for name, (_, asked) in self._views.items() if now - asked > self._idle_s]
        over = [name for name in idle if name != source.name and name not in self._ahead]
        if known is not None and (known[0].has_ended or known[0].source is not source):
            over.append(source.name)
            known = None
        for view, _ in [self._views.pop(name) for name in over]:
            await view.close()
        known = known and self._views.get(source.name)  # what is closed meanwhile is opened anew
        if known is None:
            view = TableView(source, self._client, self._rows_max, self._tasks_of(source))
            try:
                await view.open()
            except BaseException:
                await view.close()
                raise
            known = (view, _NEVER)
        self._views[source.name] = (known[0], now if asked_at is None else max(asked_at, known[1]))
        return known[0]

    async def keep(self, sources: Mapping[str, SourceInfo]) -> None:
        """Closes the views of tables that are no more, or are others of the same name."""
        self._given_up = {name: each for name, each in self._given_up.items() if sources.get(name) is each}
        self._opening = {name: each for name, each in self._opening.items() if name in sources or each.locked()}
        gone = [name for name, (view, _) in self._views.items() if sources.get(name) is not view.source]
        for view, _ in [self._views.pop(name) for name in gone]:
            await view.close()

    async def close(self) -> None:
        for view, _ in self._views.values():
            await view.close()
        self._views.clear()
        if self._offsets is not None:
            await self._offsets.close()

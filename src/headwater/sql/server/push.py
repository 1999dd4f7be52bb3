"""Push queries: rows to whoever asked, until the limit, the end of what was asked for, or a closed connection.

The topology of the query runs in memory, in this process: records are read by a consumer without a group and go through
the engine of `headwater.streams`; nothing is written anywhere. A pull query on a stream is the same, from the beginning
to the end that the log has now.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headwater.base.ids import TopicPartition
from headwater.client import AsyncConsumer
from headwater.sql.functions.collections import hashable
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import properties, queries, reading, windowed
from headwater.sql.plan.catalog import Catalog, Column
from headwater.sql.plan.relations import Errors
from headwater.sql.plan.topic_sharing import check_pushed
from headwater.sql.server.expiry import Expiry, expiry_of
from headwater.sql.server.row_threads import while_asked
from headwater.sql.server.views import READING
from headwater.streams.engine.failures import ErrorPolicy
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import InputRecord, Record

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App

_numbers = itertools.count()
RESET = "auto.offset.reset"


class Tombstone(list[Any]):
    """The row of a key that a table has no more: only the columns of the key have values."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A query on its own, compiled: its application appends rows to `rows`, and `last` makes of them those of the
    result, all that came together at once. Of a table, each has its task and its key with it, and None instead of a row
    tells that the key is gone: `gone` makes a row of that. Windows that cannot change any more are not remembered in
    `told`: `expiry` knows which these are, where the query itself makes windows.
    """

    id: str
    app: App
    columns: tuple[Column, ...]
    sources: tuple[str, ...]  # streams and tables
    streams: tuple[str, ...]  # topics
    tables: tuple[str, ...]
    together: tuple[frozenset[str], ...]  # topics that must have as many partitions as each other
    rows: list[Any]
    last: tuple[queries.LastStep, ...]
    gone: Callable[[Any], list[Any]] | None
    limit: int | None
    told: set[Any]  # keys of the rows that passed, where tombstones are asked for
    expiry: Expiry | None

    def finished(self, *, tombstones: bool = False) -> list[list[Any]]:
        """The rows of the result that are there by now; they are forgotten here. `tombstones`: also those of keys that
        are gone.
        """
        found = list(self.rows)
        self.rows.clear()
        if self.gone is None:
            return self._made(found)
        if not tombstones:
            return self._made([row for _, _, row in found if row is not None])
        *conditions, select = self.last
        for each in conditions:
            found = self._passing(each, found)
        made = iter(select([row for _, _, row in found if row is not None]))
        return [next(made) if row is not None else Tombstone(self.gone(key)) for _, key, row in found]

    def _passing(self, condition: queries.LastStep, found: list[Any]) -> list[Any]:
        """A key whose row passes no more is gone, and only then: nobody was told of what never passed."""
        passes = iter(condition.function.all([row for _, _, row in found if row is not None]))
        kept = []
        for task, key, row in found:
            identity = (hashable(windowed.bare(key)), *windowed.bounds(key))
            if row is not None and next(passes):
                self._remember(task, identity)
                kept.append((task, key, row))
            elif identity in self.told:
                self.told.remove(identity)
                kept.append((task, key, None))
        return kept

    def _remember(self, task: int, identity: Any) -> None:
        if self.expiry is None:
            self.told.add(identity)
            return
        if not self.expiry.is_past(task, identity) and identity not in self.told:
            self.told.add(identity)
            self.expiry.add(task, identity)
        self.told.difference_update(self.expiry.take_past(task))

    def _made(self, rows: list[list[Any]]) -> list[list[Any]]:
        for step in self.last:
            rows = step(rows)
        return rows


class _Changes(Processor):
    """Where the changes of a table end: with the partition of the task that each comes from."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def process(self, record: Record) -> None:
        self._rows.append((self.context.partition, record.key, record.value))


def plan(query: tree.Query, catalog: Catalog, brokers: str, settings: Mapping[str, str]) -> Plan:
    """Raises SqlError."""
    query_id = f"transient_{next(_numbers)}"
    from headwater.streams.dsl.app import App  # a server without queries does without

    undecodable: Literal["fail", "skip"] = "fail" if reading.is_set(settings, reading.FAIL_ON_BYTES) else "skip"
    app = App(query_id, brokers=brokers, on_error=ErrorPolicy(deserialization=undecodable))
    throws = reading.is_set(settings, reading.THROW_ON_INVALID)
    builder = queries.QueryBuilder(app, catalog, Errors(), transient=True, throws=throws)
    result = builder.build(query, "the result", properties.read(tree.Properties(), sink=True))
    rows: list[Any] = []
    told: set[Any] = set()
    node: Any = result.relation.node
    if result.relation.kind is SourceKind.TABLE:
        node.to_stream().process(lambda: _Changes(rows))
    else:
        node.foreach(lambda _, row: rows.append(row) if row is not None else None)
    topics: dict[SourceKind, list[str]] = {SourceKind.STREAM: [], SourceKind.TABLE: []}
    for _, source in result.relation.sources:
        if source.topic not in topics[source.kind]:
            topics[source.kind].append(source.topic)
    check_pushed(tuple(topics[SourceKind.STREAM]), tuple(topics[SourceKind.TABLE]))
    return Plan(
        query_id,
        app,
        result.value,
        tuple(dict.fromkeys(source.name for _, source in result.relation.sources)),
        tuple(topics[SourceKind.STREAM]),
        tuple(topics[SourceKind.TABLE]),
        tuple(builder.together),
        rows,
        result.last,
        result.gone if result.relation.kind is SourceKind.TABLE else None,
        query.limit,
        told,
        None if builder.grouped is None else expiry_of(result.relation.window, told.__contains__),
    )


class PushQuery:
    """One run of a plan. `rows()` is read once; closing it, or `close()`, ends it."""

    def __init__(
        self,
        made: Plan,
        client: Mapping[str, str],
        settings: Mapping[str, str],
        *,
        to_end: bool = False,
        tombstones: bool = False,
    ) -> None:
        reset = "earliest" if to_end else settings.get(RESET, "latest")
        if reset not in ("earliest", "latest"):
            raise SqlError(f"{RESET} cannot be '{reset}'.", hint="It is 'earliest' or 'latest'.")
        self._plan = made
        self._client = client
        self._from_beginning = reset == "earliest"
        self._to_end = to_end
        self._tombstones = tombstones
        self._closed = asyncio.Event()
        self._ends: dict[TopicPartition, int] = {}  # where the topics ended when it was asked
        self.has_begun = False
        self.owner = ""  # who asked, and what
        self.statement = ""

    @property
    def id(self) -> str:
        return self._plan.id

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._plan.columns

    def close(self) -> None:
        self._closed.set()

    async def locate(self) -> None:
        """Where it begins, if that is the end: to be known before the asker hears that it runs, so that what he sends
        then is among its rows.
        """
        if not self._from_beginning:
            async with AsyncConsumer(self._reading) as consumer:
                places = await self._places(consumer)
                self._ends = dict(await consumer.end_offsets([each for found in places.values() for each in found]))

    @property
    def _reading(self) -> dict[str, Any]:
        return {**self._client, **READING}

    async def _places(self, consumer: AsyncConsumer) -> dict[str, list[TopicPartition]]:
        return {
            topic: [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
            for topic in (*self._plan.streams, *self._plan.tables)
        }

    async def rows(self) -> AsyncGenerator[list[Any], None]:
        self.has_begun = True
        if self._plan.limit == 0:
            return
        async with AsyncConsumer(self._reading) as consumer:
            places = await self._places(consumer)
            check_together(self._plan.together, {topic: len(each) for topic, each in places.items()})
            left = self._plan.limit
            async for row in self._through(consumer, places):
                yield row
                left = None if left is None else left - 1
                if left is not None and left <= 0:
                    return

    async def _through(
        self, consumer: AsyncConsumer, places: Mapping[str, list[TopicPartition]]
    ) -> AsyncIterator[list[Any]]:
        """Records through the engine, batch by batch; the engine computes in a thread, so that others are served.

        A table beside streams is read to its end first, so that they meet what it has.
        """
        streams = [each for topic in self._plan.streams for each in places[topic]]
        tables = [each for topic in self._plan.tables for each in places[topic]]
        everything = [*streams, *tables]
        begins, ends = await consumer.beginning_offsets(everything), await consumer.end_offsets(everything)
        most = max(map(len, places.values()), default=0)  # a topic that is being deleted has none
        driver = await asyncio.to_thread(self._plan.app.test, partitions=max(most, 1))

        def process(batch: list[Any]) -> tuple[list[list[Any]], Exception | None]:
            """Rows, and what ended them: those of records before it are the asker's all the same."""
            failure = None
            try:
                driver.feed(
                    InputRecord(
                        each.topic, each.partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers
                    )
                    for each in batch
                )
                driver.forget()
            except Exception as error:  # noqa: BLE001 - it is raised behind the rows
                failure = error
            return self._plan.finished(tombstones=self._tombstones), failure

        first = bool(streams and tables)
        consumer.assign(tables if first else everything)
        for each in tables:
            consumer.seek(each, begins[each] if first or self._from_beginning else self._ends.get(each, ends[each]))
        if not first:
            self._seek(consumer, streams, begins, ends)
        while not self._closed.is_set():
            if first and await has_read(consumer, tables, ends):
                first = False
                at = {each: await consumer.position(each) for each in tables}
                consumer.assign(everything)
                for each, offset in at.items():
                    consumer.seek(each, offset)
                self._seek(consumer, streams, begins, ends)
            if not first and self._to_end and await has_read(consumer, everything, ends):
                return
            records = await consumer.poll(0.1)
            if records:
                rows, failure = await while_asked(None, process, records)
                for row in rows:
                    yield row
                if failure is not None:
                    raise failure

    def _seek(
        self,
        consumer: AsyncConsumer,
        streams: list[TopicPartition],
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        for each in streams:
            consumer.seek(each, begins[each] if self._from_beginning else self._ends.get(each, ends[each]))


def check_together(together: Sequence[frozenset[str]], counts: Mapping[str, int]) -> None:
    """Raises SqlError where a join is of topics whose partitions do not fit each other."""
    for topics in together:
        found = {topic: counts[topic] for topic in sorted(topics) if topic in counts}
        if len(set(found.values())) > 1:
            shown = ", ".join(f"{topic} has {count}" for topic, count in found.items())
            raise SqlError(
                "Can't join these sources since the number of partitions don't match.",
                why=f"Rows of one key must be in partitions of one number: {shown}",
                hint="Repartition one of them: CREATE STREAM ... WITH (PARTITIONS=...) AS SELECT ... PARTITION BY ...",
            )


async def has_read(
    consumer: AsyncConsumer, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int]
) -> bool:
    for each in partitions:
        if await consumer.position(each) < ends[each]:
            return False
    return True

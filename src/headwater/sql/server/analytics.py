"""What SQL can ask beyond one table: joins, sub-queries, a topic without a stream or table, functions that ksqlDB has
not. DuckDB answers it over the rows that its sources have when it is asked, within the bounds of pull queries.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headwater.base.acls import Operation
from headwater.base.ids import TopicPartition
from headwater.client import AsyncConsumer
from headwater.sql.language import tree
from headwater.sql.language.parser import Piece, parse
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.session import Session
from headwater.sql.server import duckdb_queries, push, rights
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.duckdb_errors import UnknownSourceError, WrongNameError, place_of
from headwater.sql.server.duckdb_functions import own_functions
from headwater.sql.server.duckdb_pool import DuckDbPool, Made
from headwater.sql.server.pull_settings import check_enabled
from headwater.sql.server.row_answers import Answer
from headwater.sql.server.views import READING, Views
from headwater.web.callers import Caller
from headwater.web.callers import topic as topic_need
from headwater.web.rights import require


class Analytics:
    """Owned by the loop of its server. `session` gives what exists now, `views` the rows of tables."""

    def __init__(self, config: SqlServerConfig, session: Callable[[], Session], views: Views) -> None:
        self._config = config
        self._session = session
        self._views = views
        self._bounds = duckdb_queries.Bounds(
            config.number("ksql.query.pull.rows.max"), config.number("ksql.query.pull.bytes.max")
        )
        self._duckdb = DuckDbPool(self._bounds)

    async def close(self) -> None:
        await self._duckdb.close()

    async def answer(
        self, piece: Piece, properties: Mapping[str, str], caller: Caller, *, parsed: bool = True
    ) -> Answer:
        """`parsed`: our own parser took it, so names that are not there are told in its words. Raises SqlError."""
        text = piece.text
        catalog = self._session().catalog
        pseudo = duckdb_queries.pseudo_in(text)
        sources: dict[duckdb_queries.SourceName, SourceInfo | str] = {}  # or a topic
        names = duckdb_queries.sources_in(text)
        for name, surely in names.items():
            source, topic = await self._meant(name, surely, caller)
            if source is not None:
                await rights.require_source(caller, Operation.READ, source)
                check_enabled(source, properties, scans=True)
                sources[name] = source
            elif topic is not None:
                await require(caller, topic_need(Operation.READ, topic))
                sources[name] = topic
            elif surely and parsed:
                await self._refuse_unknown(name.sql, piece, caller)
        reads_topics = any(isinstance(each, str) for each in sources.values())
        called = duckdb_queries.told_apart(sources)
        allowed = {name: each for name, each in catalog.functions.items() if name not in catalog.withheld}
        functions = own_functions(text, allowed)
        words = duckdb_queries.in_duckdbs_words(text, called, () if reads_topics else pseudo, functions)

        async def read() -> Made:
            taken = duckdb_queries.Taken(self._bounds)
            return {
                called[name]: await self._relation(each, properties, pseudo, taken) for name, each in sources.items()
            }

        try:
            columns, rows = await self._duckdb.answer(words, read, functions)
        except UnknownSourceError as error:
            unknown = error.name.upper()
            written = next((each.sql for each in names if each.text.upper() == unknown), unknown)
            await self._refuse_unknown(written, piece, caller)
            raise
        except WrongNameError as error:
            raise error.placed_in(piece) from None

        async def each_row() -> AsyncIterator[list[Any]]:
            for row in rows:
                yield row

        return Answer(None, columns, each_row())

    async def _meant(
        self, name: duckdb_queries.SourceName, surely: bool, caller: Caller
    ) -> tuple[SourceInfo | None, str | None]:
        """The stream or table of this name, or else the topic. A name between quotes is a stream's in other letters
        only where there is no topic that is called just so.
        """
        sources = self._session().catalog.sources
        source = sources.get(name.sql)
        if source is not None or not surely:
            return source, None
        topic = await self._topic_named(name.text, caller)
        alike = sources.get(name.text) or sources.get(name.text.upper())
        return (None, topic) if alike is None or topic == name.text else (alike, None)

    async def _relation(
        self,
        source: SourceInfo | str,
        properties: Mapping[str, str],
        pseudo: Sequence[str],
        taken: duckdb_queries.Taken,
    ) -> Callable[[], duckdb_queries.Relation]:
        """Reads the rows; a thread makes the relation of them."""
        if isinstance(source, str):
            return partial(duckdb_queries.relation_of_topic, await self._records(source, taken))
        if source.kind is SourceKind.TABLE:
            rows = await self._views.rows(source)
            taken.add(source.name, len(rows), 0)  # their values are those of the view
            return partial(duckdb_queries.relation_of, source, rows, pseudo)
        columns, rows = await self.read_stream(source, ("*", *pseudo), properties, taken)
        return partial(duckdb_queries.Relation, tuple((each.name, each.type) for each in columns), rows)

    async def read_stream(
        self,
        source: SourceInfo,
        names: Sequence[str],
        properties: Mapping[str, str],
        taken: duckdb_queries.Taken | None = None,
    ) -> tuple[tuple[Column, ...], list[list[Any]]]:
        """The rows of a stream to its present end, within bounds; beside others, with what is `taken`. Raises
        SqlError.
        """
        taken = taken or duckdb_queries.Taken(self._bounds)
        (statement,) = parse(f"SELECT {', '.join(names)} FROM `{source.name.replace('`', '``')}`;")
        assert isinstance(statement, tree.Select)
        catalog = self._session().catalog.copy()
        catalog.sources[source.name] = source  # by now another may have its name, for which nobody has asked
        planned = push.plan(statement.query, catalog, self._config.brokers, properties)
        made = push.PushQuery(planned, self._config.client, properties, to_end=True)
        rows: list[list[Any]] = []
        async with contextlib.aclosing(made.rows()) as found:
            async for row in found:
                rows.append(row)
                taken.add(source.name, 1, duckdb_queries.size_of(row))
        return made.columns, rows

    async def _refuse_unknown(self, name: str, piece: Piece, caller: Caller) -> None:
        """Says that it is not there, and suggests only what the caller may see."""
        catalog = self._session().catalog.copy()
        seen = await _described(caller, (each.topic for each in catalog.sources.values()))
        catalog.sources = {key: each for key, each in catalog.sources.items() if each.topic in seen}
        catalog.find(name, place_of(name, piece))

    async def _topic_named(self, name: str, caller: Caller) -> str | None:
        """The topic of this name, or of this name in other letters, if only one is. One that the caller may not see is
        not there: an answer that told it from one that does not exist would tell who asks what exists.
        """
        topics = await self._topics()
        alike = [each for each in topics if each.upper() == name.upper()]
        seen = await _described(caller, alike)
        topics = [each for each in alike if each in seen]
        if name in topics:
            return name
        return topics[0] if len(topics) == 1 else None

    async def _topics(self) -> list[str]:
        async with AsyncConsumer(READING | self._config.client) as consumer:
            return [each for each in await consumer.list_topics() if not each.startswith("_confluent-ksql-")]

    async def _records(self, topic: str, taken: duckdb_queries.Taken) -> list[Any]:
        """The records of a topic, to the end that it has now."""
        found: list[Any] = []
        async with AsyncConsumer(READING | self._config.client) as consumer:
            places = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
            begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            consumer.assign(places)
            for each in places:
                consumer.seek(each, begins[each])
            while not await push.has_read(consumer, places, ends):
                for record in await consumer.poll(0.1):
                    found.append(record)
                    taken.add(topic, 1, len(record.key or b"") + len(record.value or b""))
        return found


async def _described(caller: Caller, topics: Iterable[str]) -> set[str]:
    """Those that the caller may see."""
    asked = {topic_need(Operation.DESCRIBE, each) for each in topics}
    return {each.name for each in (asked if caller.may_everything else await caller.allowed(asked))}

"""What SQL can ask beyond one table: joins, sub-queries, a topic without a stream or table, functions that ksqlDB has
not. DuckDB answers it over the rows that its sources have when it is asked, within the bounds of pull queries.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
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
from headwater.sql.server.duckdb_pool import DuckDbPool
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
        relations: dict[duckdb_queries.SourceName, duckdb_queries.Relation] = {}
        pseudo = duckdb_queries.pseudo_in(text)
        reads_topics = False
        sources = duckdb_queries.sources_in(text)
        for name, surely in sources.items():
            source, topic = await self._meant(name, surely, caller)
            if source is not None:
                await rights.require_source(caller, Operation.READ, source)
                check_enabled(source, properties, scans=True)
                relations[name] = await self._relation(source, properties, pseudo)
            elif topic is not None:
                await require(caller, topic_need(Operation.READ, topic))
                relations[name] = duckdb_queries.relation_of_topic(await self._records(topic))
                reads_topics = True
            elif surely and parsed:
                await self._refuse_unknown(name.sql, piece, caller)
        called = duckdb_queries.told_apart(relations)
        allowed = {name: each for name, each in catalog.functions.items() if name not in catalog.withheld}
        functions = own_functions(text, allowed)
        words = duckdb_queries.in_duckdbs_words(text, called, () if reads_topics else pseudo, functions)
        named = {called[name]: each for name, each in relations.items()}
        try:
            columns, rows = await self._duckdb.answer(words, named, functions)
        except UnknownSourceError as error:
            unknown = error.name.upper()
            written = next((each.sql for each in sources if each.text.upper() == unknown), unknown)
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
        self, source: SourceInfo, properties: Mapping[str, str], pseudo: Sequence[str]
    ) -> duckdb_queries.Relation:
        if source.kind is SourceKind.TABLE:
            return duckdb_queries.relation_of(source, await self._views.rows(source), pseudo)
        columns, rows = await self.read_stream(source, ("*", *pseudo), properties)
        return duckdb_queries.Relation(tuple((each.name, each.type) for each in columns), rows)

    async def read_stream(
        self, source: SourceInfo, names: Sequence[str], properties: Mapping[str, str]
    ) -> tuple[tuple[Column, ...], list[list[Any]]]:
        """The rows of a stream to its present end, within bounds. Raises SqlError."""
        (statement,) = parse(f"SELECT {', '.join(names)} FROM `{source.name.replace('`', '``')}`;")
        assert isinstance(statement, tree.Select)
        planned = push.plan(statement.query, self._session().catalog.copy(), self._config.brokers, properties)
        made = push.PushQuery(planned, self._config.client, properties, to_end=True)
        rows: list[list[Any]] = []
        size = 0
        async with contextlib.aclosing(made.rows()) as found:
            async for row in found:
                rows.append(row)
                size += duckdb_queries.size_of(row)
                self._bounds.check(source.name, len(rows), size)
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

    async def _records(self, topic: str) -> list[Any]:
        """The records of a topic, to the end that it has now."""
        found: list[Any] = []
        size = 0
        async with AsyncConsumer(READING | self._config.client) as consumer:
            places = [TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)]
            begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            consumer.assign(places)
            for each in places:
                consumer.seek(each, begins[each])
            while not await push.has_read(consumer, places, ends):
                for record in await consumer.poll(0.1):
                    found.append(record)
                    size += len(record.key or b"") + len(record.value or b"")
                    self._bounds.check(topic, len(found), size)
        return found


async def _described(caller: Caller, topics: Iterable[str]) -> set[str]:
    """Those that the caller may see."""
    asked = {topic_need(Operation.DESCRIBE, each) for each in topics}
    return {each.name for each in (asked if caller.may_everything else await caller.allowed(asked))}

"""Statements that ask and change nothing: SHOW, DESCRIBE, EXPLAIN, ASSERT. What they tell is what the catalog, the
runner of queries and the brokers have now; of topics that the caller may not see, nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode, KafkaError
from headwater.sql.language import tree
from headwater.sql.language.errors import RegistryMissingError
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.session import PersistentQuery
from headwater.sql.plan.sources import is_hidden
from headwater.sql.server import answers, settable
from headwater.sql.server.inspecting import inspected
from headwater.sql.server.offsets import progress_of
from headwater.sql.server.push import Plan
from headwater.sql.server.query_states import QueryState
from headwater.sql.server.refusals import AssertionFailedError
from headwater.web.callers import Caller, topic

if TYPE_CHECKING:
    from headwater.client import AsyncAdmin
    from headwater.client.types import Topic
    from headwater.sql.server.config import SqlServerConfig
    from headwater.sql.server.engine import Engine
    from headwater.sql.server.row_queries import RowQueries
    from headwater.sql.server.schemas import RegistrySchemas

T = TypeVar("T")
_ASSERT_TIMEOUT_MS: Final = 1_000
_ASSERT_AGAIN_S: Final = 0.1


class Server(Protocol):
    """What is asked."""

    config: SqlServerConfig
    engine: Engine
    row_queries: RowQueries

    @property
    def admin(self) -> AsyncAdmin: ...

    @property
    def schemas(self) -> RegistrySchemas | None: ...

    async def ask_states(self) -> None: ...

    def state(self, query_id: str) -> QueryState: ...

    async def partitions(self, topic: str) -> int | None: ...

    async def run_in_thread(self, ask: Callable[..., T], *arguments: Any) -> T: ...


@dataclass(frozen=True, slots=True)
class StatementContext:
    """What goes with a statement: the properties and variables that are set, and who sends it."""

    settings: Mapping[str, str]
    variables: Mapping[str, str]
    caller: Caller


class ReadOnlyStatements:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def answer(self, statement: tree.Statement, text: str, context: StatementContext) -> answers.Entity:
        """Raises SqlError."""
        if isinstance(statement, tree.Show | tree.Describe | tree.DescribeAll | tree.Explain):
            await self._server.ask_states()
        engine, session = self._server.engine, self._server.engine.session
        settings = {**engine.of_system, **context.settings}
        subject = await self._server.run_in_thread(inspected, statement, session, settings)
        match statement:
            case tree.Show():
                return await self._show(statement, text, context)
            case tree.Describe(function=True):
                return answers.function(text, statement.name, session.catalog.functions)
            case tree.Describe():
                assert isinstance(subject, SourceInfo)
                (shown,), warnings = await self._described([subject], statement.extended, context.caller)
                return {**answers.description(text, shown), "warnings": warnings}
            case tree.DescribeAll():
                return await self._descriptions(statement.kind, text, statement.extended, context.caller)
            case tree.Explain(target=tree.Select() as select):
                assert isinstance(subject, Plan)
                return answers.plan_description(text, select, subject)
            case tree.Explain():
                assert isinstance(subject, PersistentQuery)
                runs = isinstance(statement.target, str)
                return answers.query_description(text, subject, self._server.state if runs else _no_state)
            case tree.Assert(what="TOPIC"):
                return await self._assert_topic(statement, text)
            case _:
                assert isinstance(statement, tree.Assert)
                return await self._assert_schema(statement, text)

    # -- SHOW ----------------------------------------------------------------------------------------------------------

    async def _show(self, statement: tree.Show, text: str, context: StatementContext) -> answers.Entity:
        session = self._server.engine.session
        match statement:
            case tree.Show(what="STREAMS" | "TABLES"):
                kind = SourceKind.STREAM if statement.what == "STREAMS" else SourceKind.TABLE
                if statement.extended:
                    return await self._descriptions(kind, text, True, context.caller)
                return answers.sources(text, session, kind, await self._seen(context.caller))
            case tree.Show(what="QUERIES"):
                seen = await self._seen(context.caller)
                if statement.extended:
                    return answers.query_descriptions(text, session, self._server.state, seen)
                pushes = self._server.row_queries.pushes_of(context.caller)
                return answers.queries(text, session, self._server.state, seen, pushes)
            case tree.Show(what="FUNCTIONS"):
                return answers.functions(text, session.catalog.functions)
            case tree.Show(what="TYPES"):
                return answers.custom_types(text, session)
            case tree.Show(what="PROPERTIES"):
                rows = settable.properties(self._server.config, self._server.engine.system, context.settings)
                return answers.properties(text, rows)
            case tree.Show(what="VARIABLES"):
                shown = [{"name": name, "value": value} for name, value in context.variables.items()]
                return answers.entity("variables", text, variables=shown)
            case _:
                return await self._topics(statement, text, context.caller)

    async def _seen(self, caller: Caller) -> Callable[[str], bool]:
        """Which topics of streams and tables the caller may see."""
        session = self._server.engine.session
        topics = {each.topic for each in session.catalog}
        return await visible(caller, topics | {each.sink.topic for each in session.queries.values()})

    async def _topics(self, statement: tree.Show, text: str, caller: Caller) -> answers.Entity:
        found = await self._server.admin.list_topics(internal=statement.internal)
        seen = await visible(caller, {each.name for each in found})
        shown = [each for each in found if seen(each.name) and (statement.internal or not is_hidden(each.name))]
        if not statement.extended:
            return answers.entity("kafka_topics", text, topics=[_topic(each) for each in shown])
        members, groups = await self._consumers(shown)
        rows = [
            {**_topic(each), "consumerCount": members[each.name], "consumerGroupCount": groups[each.name]}
            for each in shown
        ]
        return answers.entity("kafka_topics_extended", text, topics=rows)

    async def _consumers(self, topics: Iterable[Topic]) -> tuple[dict[str, int], dict[str, int]]:
        """Of each topic: how many members of groups read it, and of how many groups."""
        admin = self._server.admin
        names = [each.group_id for each in await admin.list_groups()]
        members = dict.fromkeys((each.name for each in topics), 0)
        groups = dict(members)
        for group in (await admin.describe_groups(names)).values():
            if isinstance(group, KafkaError):
                continue  # it has gone meanwhile
            read = [{each.topic for each in member.assignment} for member in group.members]
            for name in members:
                count = sum(name in each for each in read)
                members[name] += count
                groups[name] += count > 0
        return members, groups

    # -- DESCRIBE ------------------------------------------------------------------------------------------------------

    async def _descriptions(self, kind: SourceKind, text: str, extended: bool, caller: Caller) -> answers.Entity:
        seen = await self._seen(caller)
        sources = sorted(self._server.engine.session.catalog, key=lambda each: each.name)
        wanted = [each for each in sources if each.kind is kind and seen(each.topic)]
        shown, warnings = await self._described(wanted, extended, caller)
        return {**answers.entity("source_descriptions", text, sourceDescriptions=shown), "warnings": warnings}

    async def _described(
        self, sources: Sequence[SourceInfo], extended: bool, caller: Caller
    ) -> tuple[list[answers.Entity], list[dict[str, str]]]:
        """With what their topics have, and warnings about those that the brokers do not tell of. EXTENDED: also how far
        the queries that write a source have come in the topics that the caller may see.
        """
        session = self._server.engine.session
        shown, warnings = [], []
        topics = await self._topics_of(sources)
        for source in sources:
            told = answers.source_description(source, session, self._server.state, extended)
            found = topics.get(source.topic)
            if isinstance(found, KafkaError):
                warnings.append({"message": f"Error from Kafka: {found}"})
            elif found is not None and found.partitions:
                told |= {"partitions": len(found.partitions), "replication": len(found.partitions[0].replicas)}
            if extended:
                writers = [each for each in session.queries.values() if each.sink.name == source.name]
                told["queryOffsetSummaries"] = [await self._progress(each.app.name, caller) for each in writers]
            shown.append(told)
        return shown, warnings

    async def _topics_of(self, sources: Sequence[SourceInfo]) -> Mapping[str, Topic | KafkaError]:
        names = list(dict.fromkeys(each.topic for each in sources))
        if not names:
            return {}
        try:
            return await self._server.admin.describe_topics(names)
        except KafkaError as error:
            return dict.fromkeys(names, error)

    async def _progress(self, group: str, caller: Caller) -> dict[str, Any]:
        found = await progress_of(self._server.admin, group)
        seen = await visible(caller, {each["kafkaTopic"] for each in found["topicSummaries"]})
        return {**found, "topicSummaries": [each for each in found["topicSummaries"] if seen(each["kafkaTopic"])]}

    # -- ASSERT --------------------------------------------------------------------------------------------------------

    async def _assert_topic(self, statement: tree.Assert, text: str) -> answers.Entity:
        deadline = _deadline(statement)
        while problem := await self._wrong_with_topic(statement):
            if asyncio.get_running_loop().time() >= deadline:
                raise AssertionFailedError(problem)
            await asyncio.sleep(_ASSERT_AGAIN_S)
        return answers.entity("assert_topic", text, topicName=statement.name, exists=statement.exists)

    async def _wrong_with_topic(self, statement: tree.Assert) -> str:
        """What is not as it is asserted. Whether there is no such topic does not hang on its properties."""
        name = statement.name or ""
        found = (await self._server.admin.describe_topics([name])).get(name)
        if isinstance(found, KafkaError) and found.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise found
        parts = found.partitions if found is not None and not isinstance(found, KafkaError) else []
        if not statement.exists:
            return f"Topic {name} exists" if parts else ""
        if not parts:
            return f"Topic {name} does not exist"
        has = {"PARTITIONS": len(parts), "REPLICAS": len(parts[0].replicas)}
        return ". ".join(
            f"Mismatched configuration for topic {name}: For config {each.lower()}, expected {wanted} got {has[each]}"
            if each in has
            else f"Cannot assert unknown topic property: {each}"
            for each, wanted in statement.properties.items()
            if each not in has or wanted != has[each]
        )

    async def _assert_schema(self, statement: tree.Assert, text: str) -> answers.Entity:
        """ASSERT SCHEMA by subject, by id or by both."""
        schemas, subject, number = (
            self._server.schemas,
            statement.properties.get("SUBJECT"),
            statement.properties.get("ID"),
        )
        if schemas is None:
            raise RegistryMissingError(
                "There is no schema registry.", hint="Set ksql.schema.registry.url for the server."
            )

        def fits() -> bool:
            latest = schemas.latest(str(subject)) if subject is not None else None
            if subject is not None and (number is None or latest is None):
                return latest is not None
            known = schemas.by_id(int(str(number)))
            return known is not None and (latest is None or schemas.is_under(str(subject), int(str(number))))

        deadline = _deadline(statement)
        while await self._server.run_in_thread(fits) != statement.exists:
            if asyncio.get_running_loop().time() >= deadline:
                words = {"SUBJECT": "subject name", "ID": "id"}
                named = " ".join(f"{words[name]} {value}" for name, value in statement.properties.items())
                raise AssertionFailedError(f"Schema with {named} {'does not exist' if statement.exists else 'exists'}")
            await asyncio.sleep(_ASSERT_AGAIN_S)
        return answers.entity("assert_schema", text, subject=subject, id=number, exists=statement.exists)


def _no_state(_: str) -> QueryState:
    return QueryState("")


def _deadline(statement: tree.Assert) -> float:
    timeout_ms = statement.timeout_ms if statement.timeout_ms is not None else _ASSERT_TIMEOUT_MS
    return asyncio.get_running_loop().time() + timeout_ms / 1000


def _topic(found: Topic) -> answers.Entity:
    return {"name": found.name, "replicaInfo": [len(part.replicas) for part in found.partitions]}


async def visible(caller: Caller, topics: set[str]) -> Callable[[str], bool]:
    """Which of these topics the caller may see."""
    if caller.may_everything:
        return lambda _topic: True
    have = await caller.allowed(topic(Operation.DESCRIBE, each) for each in topics)
    return lambda name: topic(Operation.DESCRIBE, name) in have

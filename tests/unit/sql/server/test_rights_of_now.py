"""Rights count for the catalog that a statement changes, not for the one that its sender saw."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from headwater.base.acls import Operation
from headwater.sql.language.errors import SqlError
from headwater.sql.server.api import make_door
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import Engine
from headwater.sql.server.node import SqlNode
from headwater.web.callers import Need, cluster, topic
from headwater.web.messages import Headers, HttpError, Request

SECRET = "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='secret', VALUE_FORMAT='JSON');"


class Mallory:
    """May do with `own` what she likes; `when_asked` happens while the brokers are asked about her."""

    name = "mallory"
    may_everything = False

    def __init__(self, *has: Need) -> None:
        self.has = frozenset(has)
        self.when_asked: Any = lambda: None

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        wanted = frozenset(needs)
        self.when_asked()
        return frozenset(need for need in wanted if need.name == "own" or need in self.has)


class Log:
    """When its end is asked for, somebody else's statement has come."""

    def __init__(self, node: SqlNode, other: str) -> None:
        self._node, self._other = node, other
        self.written: list[str] = []

    async def end(self) -> int:
        if self._node.engine.applied == 0:
            self._node.engine.apply(0, Command(self._other).encode())
        return 1

    async def append(self, command: Command) -> int:
        self.written.append(command.statement)
        self._node.engine.apply(1, command.encode())
        return 1


class Admin:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def delete_topics(self, names: list[str]) -> dict[str, None]:
        self.deleted += names
        return dict.fromkeys(names)


def _node() -> tuple[SqlNode, Log, Admin]:
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    log, admin = Log(node, SECRET), Admin()
    node._log, node._admin = cast("Any", log), cast("Any", admin)
    return node, log, admin


def test_a_drop_that_waited_for_its_turn_needs_the_rights_of_what_is_there_then() -> None:
    async def scene() -> None:
        node, log, admin = _node()
        with pytest.raises(HttpError) as told:
            await node.execute("DROP STREAM s DELETE TOPIC;", {}, {}, caller=Mallory())
        assert told.value.status == 403
        assert (log.written, admin.deleted) == ([], [])
        may = Mallory(topic(Operation.ALTER, "secret"), topic(Operation.DELETE, "secret"))
        await node.execute("DROP STREAM s DELETE TOPIC;", {}, {}, caller=may)
        assert admin.deleted == ["secret"]

    asyncio.run(scene())


def test_a_query_reads_the_source_that_its_sender_was_asked_about() -> None:
    async def scene() -> None:
        node, _, _ = _node()
        node.engine.apply(0, Command(SECRET.replace("secret", "own")).encode())
        caller = Mallory()
        replaced = SECRET.replace("CREATE STREAM", "CREATE OR REPLACE STREAM").replace("n INT", "n INT, m INT")

        def somebody_replaces_it() -> None:
            if node.engine.applied == 1:
                node.engine.apply(1, Command("DROP STREAM s;").encode())
                node.engine.apply(2, Command(replaced).encode())

        caller.when_asked = somebody_replaces_it
        with pytest.raises(HttpError) as told:
            await node.row_queries.query("SELECT * FROM s EMIT CHANGES;", {}, {}, caller)
        assert told.value.status == 403
        assert node.row_queries.pushes == {}

    asyncio.run(scene())


def test_a_topic_that_one_may_not_see_is_as_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(name: str, caller: Mallory) -> str:
        node, _, _ = _node()
        node.engine.apply(0, Command(SECRET.replace("STREAM s", "STREAM secrets")).encode())

        async def topics() -> list[str]:
            return ["secret", "shown"]

        monkeypatch.setattr(node.row_queries._analytics, "_topics", topics)
        try:
            await node.row_queries.query(f"SELECT COUNT(*) FROM {name};", {}, {}, caller)
        except HttpError as error:
            return f"{error.status} {error.message}"
        except SqlError as error:
            return str(error)
        raise AssertionError("the query was answered")

    hidden, missing = asyncio.run(told("secret", Mallory())), asyncio.run(told("sacret", Mallory()))
    assert hidden.replace("SECRET", "SACRET") == missing
    assert "does not exist" in hidden
    assert "SECRETS" not in hidden
    described = topic(Operation.DESCRIBE, "secret")
    assert asyncio.run(told("secret", Mallory(described))).startswith("403 ")
    assert "Did you mean SECRETS?" in asyncio.run(told("secretz", Mallory(described)))


def test_a_schema_of_another_subject_is_not_shown_by_its_id() -> None:
    class Schemas:
        def is_under(self, subject: str, number: int) -> bool:
            return (subject, number) == ("own-value", 5)

    async def told(number: int, *has: Need) -> bool:
        """Whether the sender got beyond the question of rights: nothing listens where the server's brokers are."""
        node, log, _ = _node()
        node._schemas = cast("Any", Schemas())
        text = f"CREATE STREAM x WITH (KAFKA_TOPIC='own', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID={number});"
        with pytest.raises(Exception) as problem:
            await node.execute(text, {}, {}, caller=Mallory(*has))
        assert log.written == []
        return not isinstance(problem.value, HttpError)

    assert not asyncio.run(told(6))
    assert asyncio.run(told(5))
    assert asyncio.run(told(6, cluster(Operation.ALTER)))


def test_terminating_a_cluster_does_not_delete_topics_of_others() -> None:
    texts: list[str] = []

    class Node:
        def __init__(self) -> None:
            self.engine = Engine("default_", "nowhere:1")
            made = "CREATE STREAM mine WITH (KAFKA_TOPIC='secret') AS SELECT * FROM s;"
            for offset, text in enumerate((SECRET, made)):
                assert self.engine.apply(offset, Command(text).encode()).error is None

        async def execute(self, text: str, *_more: Any) -> list[Any]:
            texts.append(text)
            return []

    def told(body: bytes) -> str:
        request = Request(
            "POST",
            "/ksql/terminate",
            ("ksql", "terminate"),
            headers=Headers((("content-type", "application/json"),)),
            body=body,
            caller=Mallory(cluster(Operation.ALTER)),
        )
        with pytest.raises(HttpError) as refused:
            asyncio.run(make_door(cast("SqlNode", Node())).handle(request))
        assert (refused.value.status, texts) == (403, [])
        return refused.value.message

    assert "DELETE on TOPIC 'secret'" in told(b'{"deleteTopicList": ["own", "secret"]}')
    assert "DELETE on TOPIC 'elsewhere'" in told(b'{"deleteTopicList": ["elsewhere"]}')
    guessed = told(b'{"deleteTopicList": ["s.*"]}')
    assert "DELETE on the topic of MINE" in guessed
    assert "secret" not in guessed


def test_a_refusal_names_the_stream_and_not_the_topic_behind_it() -> None:
    """A topic that one may not see is not named to whoever knows the stream over it."""

    async def told(statement: str) -> str:
        node, _, _ = _node()
        node.engine.apply(0, Command(SECRET).encode())
        with pytest.raises(HttpError) as refused:
            await node.execute(statement, {}, {}, caller=Mallory())
        assert refused.value.status == 403
        return refused.value.message

    async def scene() -> None:
        for statement in (
            "DROP STREAM s;",
            "DESCRIBE s;",
            "INSERT INTO s VALUES (1);",
            "CREATE STREAM mine WITH (kafka_topic='own') AS SELECT * FROM s;",
            "EXPLAIN SELECT * FROM s EMIT CHANGES;",
            "ALTER STREAM s ADD COLUMN m INT;",
        ):
            message = await told(statement)
            assert "on the topic of S" in message, message
            assert "secret" not in message, message
        # who names the topic himself is told of it, and not which stream there is over it
        message = await told("CREATE STREAM s2 (n INT) WITH (kafka_topic='secret', value_format='JSON');")
        assert "'secret'" in message
        assert " S" not in message.replace("User", "")

    asyncio.run(scene())


def test_a_push_query_is_seen_and_ended_by_who_asked_it() -> None:
    """ksqlDB's clients end push queries by TERMINATE, too."""

    class Push:
        id, owner, statement = "transient_7", "mallory", "SELECT * FROM s EMIT CHANGES;"

        def __init__(self) -> None:
            self.closed = False

        def close(self) -> None:
            self.closed = True

    class Bob(Mallory):
        name = "bob"

    async def scene() -> None:
        node, _, _ = _node()
        query = Push()
        node.row_queries.pushes["transient_7"] = cast("Any", query)
        (shown,) = await node.execute("SHOW QUERIES;", {}, {}, caller=Mallory())
        assert [(each["id"], each["queryType"]) for each in shown["queries"]] == [("transient_7", "PUSH")]
        (shown,) = await node.execute("SHOW QUERIES;", {}, {}, caller=Bob())
        assert shown["queries"] == []
        with pytest.raises(HttpError) as refused:
            await node.execute("TERMINATE transient_7;", {}, {}, caller=Bob())
        assert (refused.value.status, query.closed) == (403, False)
        (ended,) = await node.execute("TERMINATE transient_7;", {}, {}, caller=Mallory())
        assert (ended["@type"], ended["queryId"], ended["wasTerminated"]) == ("terminate_query", "transient_7", True)
        assert query.closed

    asyncio.run(scene())

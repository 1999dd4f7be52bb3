"""/ws/query: what is sent for which request, and how it closes; web pages of others get nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import parse
from headwater.sql.language.tree import Role
from headwater.sql.plan.catalog import Column
from headwater.sql.server.api import make_door
from headwater.sql.server.node import SqlNode
from headwater.sql.server.row_answers import Answer
from headwater.sql.server.ws_query import messages
from headwater.web.cluster_login import LoginRefused
from headwater.web.messages import Headers, HttpError, Request
from headwater.web.websocket import WebSocketClosed, WebSocketResponse


class Node:
    """Answers every query with two rows, or with `error` before or between them."""

    def __init__(self, error: Exception | None = None, *, between: bool = False) -> None:
        self.error, self.between = error, between
        self.asked: list[Any] = []
        self.closed = False
        self.row_queries = self
        self.engine = self
        self.session = self
        self.parse = lambda text, begins_at: parse(text, begins_at=begins_at)

    async def has_applied(self, number: int) -> bool:
        return number <= 3

    async def query(self, *asked: Any) -> Answer:
        self.asked.append(asked[:3])
        if self.error is not None and not self.between:
            raise self.error
        columns = (Column("ID", types.INTEGER, Role.KEY), Column("N", types.STRING))
        return Answer(None, columns, self._rows())

    async def _rows(self) -> AsyncIterator[list[Any]]:
        try:
            yield [1, "a"]
            if self.error is not None:
                raise self.error
            yield [2, None]
        finally:
            self.closed = True

    async def check_printable(self, statement: Any, _caller: Any) -> None:
        self.asked.append(statement.topic)

    async def printed(self, _statement: Any) -> AsyncIterator[str]:
        yield "key: 1\n"


def _ask(node: Node, given: object) -> tuple[list[Any], tuple[int, str]]:
    """The messages but the last, which tells why it is closed, and how it was."""

    async def collect() -> tuple[list[Any], tuple[int, str]]:
        found = []
        try:
            async for each in messages(cast("SqlNode", node), given if isinstance(given, str) else json.dumps(given)):
                found.append(json.loads(each))
        except WebSocketClosed as closed:
            end = closed.code, closed.reason
        else:
            end = 1000, "done"
        assert found.pop() == {"error": end[1]}
        return found, end

    return asyncio.run(collect())


def test_the_schema_and_then_the_rows() -> None:
    node = Node()
    request = {
        "ksql": "SELECT * FROM s EMIT CHANGES;",
        "streamsProperties": {"ksql.streams.auto.offset.reset": "earliest"},
        "sessionVariables": {"a": "b"},
    }
    found, closed = _ask(node, request)
    assert closed == (1000, "done")
    assert node.asked == [(request["ksql"], {"auto.offset.reset": "earliest"}, {"a": "b"})]
    assert found == [
        [
            {"name": "ID", "schema": {"type": "INTEGER", "fields": None, "memberSchema": None}, "type": "KEY"},
            {"name": "N", "schema": {"type": "STRING", "fields": None, "memberSchema": None}},
        ],
        {"row": {"columns": [1, "a"]}},
        {"row": {"columns": [2, None]}},
    ]
    assert node.closed


def test_a_login_that_the_brokers_take_no_more_ends_it_without_the_reason() -> None:
    node = Node(LoginRefused("the user was deleted"))
    assert _ask(node, {"ksql": "SELECT * FROM s EMIT CHANGES;"}) == ([], (1008, "Unauthorized"))


def test_print_gives_lines() -> None:
    node = Node()
    assert _ask(node, {"ksql": "print 'orders';"}) == (["key: 1"], (1000, "done"))
    assert node.asked == ["orders"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "must be a JSON object"),
        ("{", "must be a JSON object"),
        ("[" * 100_000, "must be a JSON object"),
        ([], 'has no "ksql"'),
        ({"ksql": " "}, 'has no "ksql"'),
        ({"ksql": "SELECT 1;", "streamsProperties": []}, ""),
        ({"ksql": "SELECT 1;", "streamsProperties": [1]}, '"streamsProperties" must be an object'),
        ({"ksql": "PRINT;"}, "line 1"),
        ({"ksql": "SELECT 'a"}, "line 1"),
    ],
)
def test_what_is_wrong_with_a_request_is_told_in_the_close(given: object, told: str) -> None:
    found, (code, reason) = _ask(Node(SqlError("")), given)
    assert (found, code) == ([], 1003)
    assert told in reason


@pytest.mark.parametrize(("number", "end"), [(3, (1000, "done")), (4, (1013, "")), ("x", (1003, ""))])
def test_a_query_waits_for_the_statement_that_it_comes_behind(number: object, end: tuple[int, str]) -> None:
    """Only those of /ksql and /query did."""
    node = Node()
    found, (code, reason) = _ask(node, {"ksql": "SELECT * FROM s;", "commandSequenceNumber": number})
    assert (code, len(found)) == (end[0], 3 if code == 1000 else 0)
    assert code != 1013 or reason.endswith("command sequence number: 4")


def test_errors_before_and_between_rows() -> None:
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody answers")
    assert _ask(Node(error), {"ksql": "SELECT 1;"}) == ([], (1003, str(error)))
    node = Node(error, between=True)
    found, closed = _ask(node, {"ksql": "SELECT 1;"})
    assert (len(found), closed, node.closed) == (2, (1011, str(error)), True)
    assert _ask(Node(TimeoutError(), between=True), {"ksql": "SELECT 1;"})[1] == (1011, "TimeoutError")


def test_a_client_that_goes_away_ends_the_query() -> None:
    node = Node()

    async def leave() -> None:
        found: Any = messages(cast("SqlNode", node), '{"ksql": "SELECT 1;"}')
        await anext(found)
        await anext(found)
        await found.aclose()

    asyncio.run(leave())
    assert node.closed


@pytest.mark.parametrize(
    ("origin", "status"), [(None, 101), ("http://a:8088", 101), ("http://evil.example", 403), ("null", 403)]
)
def test_only_pages_of_this_server_may_ask(origin: str | None, status: int) -> None:
    fields = {
        "host": "a:8088",
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    } | ({} if origin is None else {"origin": origin})
    request = Request("GET", "/ws/query", ("ws", "query"), "request=x", Headers(tuple(fields.items())))
    node = Node()
    try:
        answer = asyncio.run(make_door(cast("SqlNode", node)).handle(request))
        assert isinstance(answer, WebSocketResponse)
        found = answer.status
    except HttpError as error:
        found = error.status
    assert (found, node.asked) == (status, [])

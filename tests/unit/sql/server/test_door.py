"""What the SQL door takes from whom: web pages of others get nothing, clients of ksqlDB what they always got."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater._version import VERSION
from headwater.base.errors import ErrorCode, KafkaError
from headwater.sql.language import types
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.session import Session
from headwater.sql.server import accepting
from headwater.sql.server.api import KSQLDB_VERSION, make_door
from headwater.sql.server.command_log import Command
from headwater.sql.server.engine import Engine
from headwater.sql.server.node import SqlNode
from headwater.sql.server.row_answers import Answer
from headwater.web.callers import EVERYBODY
from headwater.web.messages import Headers, HttpError, Request

_OURS = "http://127.0.0.1:8088"


class Node:
    """It only counts what reaches it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def execute(self, text: str, _settings: Any, _variables: Any, *, caller: Any, done: Any) -> list[Any]:
        assert caller is EVERYBODY
        self.texts.append(text)
        return []


_DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_KSQL = "application/vnd.ksql.v1+json"


@pytest.mark.parametrize(
    ("accept", "rows", "document"),
    [
        (None, _DELIMITED, True),
        ("", _DELIMITED, True),
        ("*/*", _DELIMITED, True),
        ("application/*", _DELIMITED, True),
        ("application/json", "application/json", True),
        ("APPLICATION/JSON; charset=utf-8", "application/json", True),
        (_KSQL, _KSQL, True),
        (_DELIMITED, _DELIMITED, False),
        ("application/json, text/plain, */*", "application/json", True),  # axios
        (f"application/json;q=0.5, {_DELIMITED}", _DELIMITED, True),
        (f"{_DELIMITED};q=0.1, application/json;q=0.2", "application/json", True),
        ("text/html, application/xml;q=0.9, */*;q=0.8", _DELIMITED, True),  # a browser
        ("*/*, application/vnd.ksqlapi.delimited.v1;q=0", "application/json", True),
        ("text/html", None, False),
        ("text/*, application/xml", None, False),
        ("application/json;q=0", None, False),
        ("application/json;q=nothing", None, False),
    ],
)
def test_what_a_request_accepts_decides_what_it_gets(accept: str | None, rows: str | None, document: bool) -> None:
    headers = Headers(() if accept is None else (("accept", accept),))
    request = Request("POST", "/query-stream", ("query-stream",), headers=headers)
    assert accepting.accepted(request, accepting.ROWS) == rows
    assert (accepting.accepted(request, accepting.DOCUMENTS) is not None) == document


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/ksql", 406),
        ("POST", "/query", 406),
        ("POST", "/query-stream", 406),
        ("POST", "/inserts-stream", 406),
        ("POST", "/ksql/terminate", 406),
        ("GET", "/info", 406),
        ("GET", "/healthcheck", 406),
        ("GET", "/clusterStatus", 406),
        ("GET", "/status", 406),
        ("GET", "/status/stream/S/create", 406),
        ("GET", "/is_valid_property/auto.offset.reset", 406),
        ("GET", "/v1/metadata", 406),
        ("GET", "/v1/metadata/id", 406),
        ("POST", "/close-query", 400),  # it gives no body
        ("GET", "/nothing", 404),
        ("GET", "/ksql", 405),
    ],
)
def test_whoever_takes_nothing_that_an_endpoint_gives_is_told_so_and_nothing_is_done(
    method: str, path: str, status: int
) -> None:
    """Rows were sent to clients that asked for a page."""
    node = Node()
    headers = Headers((("accept", "text/html"), ("content-type", "application/json")))
    request = Request(method, path, tuple(path.strip("/").split("/")), headers=headers, body=b"{}")
    with pytest.raises(HttpError) as refused:
        asyncio.run(make_door(cast("SqlNode", node)).handle(request))
    assert refused.value.status == status
    assert node.texts == []


class RowNode:
    """It answers every query with one row, and notes who asked for tombstones."""

    def __init__(self) -> None:
        self.row_queries = self
        self.tombstones: list[bool] = []

    async def query(self, _text: str, _settings: Any, _variables: Any, _caller: Any, *, tombstones: bool) -> Answer:
        self.tombstones.append(tombstones)

        async def rows() -> AsyncIterator[list[Any]]:
            yield [1]

        return Answer("q", (Column("K", types.INTEGER),), rows(), goes_by=True)


@pytest.mark.parametrize(
    ("path", "accept", "given", "older"),
    [
        ("/query", None, _KSQL, True),
        ("/query", "*/*", _DELIMITED, False),
        ("/query", "application/json", _KSQL, True),
        ("/query", "application/json, text/plain, */*", _KSQL, True),
        ("/query", _DELIMITED, _DELIMITED, False),
        ("/query-stream", "*/*", _DELIMITED, False),
        ("/query-stream", "application/json", "application/json", False),
        ("/query-stream", _KSQL, _KSQL, True),
        ("/query-stream", accepting.PROTOBUF, accepting.PROTOBUF, True),
    ],
)
def test_rows_have_the_form_that_was_asked_for(path: str, accept: str | None, given: str, older: bool) -> None:
    """ksqlDB's older form was given as the plain array by /query-stream."""
    node = RowNode()
    asked = () if accept is None else (("accept", accept),)
    headers = Headers((*asked, ("content-type", "application/json")))
    body = b'{"ksql": "SELECT * FROM t;", "sql": "SELECT * FROM t;"}'
    request = Request("POST", path, (path.strip("/"),), headers=headers, body=body)

    async def ask() -> tuple[str, bytes]:
        answer = await make_door(cast("SqlNode", node)).handle(request)
        assert not isinstance(answer.body, bytes)
        return answer.headers["Content-Type"], b"".join([each async for each in answer.body])

    kind, sent = asyncio.run(ask())
    assert (kind, node.tombstones, b"finalMessage" in sent) == (given, [older], older)


class Printing:
    """It prints one line."""

    def __init__(self) -> None:
        self.row_queries = self
        self.engine = SimpleNamespace(session=Session())

    async def check_printable(self, *_: Any) -> None: ...

    async def printed(self, _statement: Any) -> AsyncIterator[str]:
        yield "a line\n"


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        ("/query", "*/*", 200),
        ("/query-stream", "*/*", 200),
        ("/query-stream", _DELIMITED, 200),
        ("/query-stream", "application/json", 406),
    ],
)
def test_print_gives_its_lines_at_both_endpoints(path: str, accept: str, status: int) -> None:
    """/query-stream said that it is no SELECT."""
    headers = Headers((("accept", accept), ("content-type", "application/json")))
    body = b'{"ksql": "PRINT t;", "sql": "PRINT t;"}'
    request = Request("POST", path, (path.strip("/"),), headers=headers, body=body)

    async def ask() -> bytes:
        answer = await make_door(cast("SqlNode", Printing())).handle(request)
        assert not isinstance(answer.body, bytes)
        return b"".join([each async for each in answer.body])

    if status == 200:
        assert asyncio.run(ask()) == b"a line\n"
    else:
        with pytest.raises(HttpError) as refused:
            asyncio.run(ask())
        assert refused.value.status == status


@pytest.mark.parametrize(
    ("accept", "given"), [("*/*", _KSQL), (_KSQL, _KSQL), ("application/json", "application/json")]
)
def test_a_document_is_called_what_was_asked_for(accept: str, given: str) -> None:
    """Who accepts nothing but application/json was sent another type."""
    headers = Headers((("accept", accept), ("content-type", "application/json")))
    request = Request("POST", "/ksql", ("ksql",), headers=headers, body=b'{"ksql": "SHOW TOPICS;"}')
    answer = asyncio.run(make_door(cast("SqlNode", Node())).handle(request))
    assert (answer.status, answer.headers["Content-Type"]) == (200, given)


def test_the_root_leads_to_what_the_server_is() -> None:
    answer = asyncio.run(make_door(cast("SqlNode", Node())).handle(Request("GET", "/", ())))
    assert (answer.status, answer.headers["Location"]) == (307, "/info")


def test_metadata_of_the_server_have_its_version_and_its_cluster() -> None:
    """They were those of the cluster alone, which ksqlDB's clients cannot read; and its command line talks to no server
    that says that it is 0.1.
    """
    assert tuple(map(int, KSQLDB_VERSION.split("."))) >= (0, 14, 0)
    node = SimpleNamespace(cluster_id="kafka", config=SimpleNamespace(service_id="sql"))
    scope = {"path": [], "clusters": {"kafka-cluster": "kafka", "ksql-cluster": "sql"}}
    for path, wanted in (
        ("v1/metadata", {"version": KSQLDB_VERSION, "clusterId": {"scope": scope, "id": ""}}),
        ("v1/metadata/id", {"scope": scope, "id": ""}),
        (
            "info",
            {
                "KsqlServerInfo": {
                    "version": KSQLDB_VERSION,
                    "headwaterVersion": VERSION,
                    "kafkaClusterId": "kafka",
                    "ksqlServiceId": "sql",
                    "serverStatus": "RUNNING",
                }
            },
        ),
    ):
        request = Request("GET", f"/{path}", tuple(path.split("/")))
        answer = asyncio.run(make_door(cast("SqlNode", node)).handle(request))
        assert isinstance(answer.body, bytes)
        assert json.loads(answer.body) == wanted


class Brokerless:
    """Its brokers do not know the topic of a stream."""

    def __init__(self) -> None:
        self.row_queries = self

    async def query(self, *_: Any, **__: Any) -> Answer:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic orders")


@pytest.mark.parametrize("path", ["/query", "/query-stream"])
def test_what_the_brokers_say_of_a_query_is_told(path: str) -> None:
    """It was an Internal Server Error, and the reason was in the server's log alone."""
    body = b'{"ksql": "SELECT * FROM t;", "sql": "SELECT * FROM t;"}'
    request = Request(
        "POST", path, (path.strip("/"),), headers=Headers((("content-type", "application/json"),)), body=body
    )
    with pytest.raises(HttpError, match="UNKNOWN_TOPIC_OR_PARTITION: there is no topic orders") as told:
        asyncio.run(make_door(cast("SqlNode", Brokerless())).handle(request))
    assert (told.value.status, told.value.code) == (500, 50000)


def _ask(**headers: str) -> tuple[int, list[str]]:
    node = Node()
    fields = tuple((name.replace("_", "-"), value) for name, value in ({"host": "127.0.0.1:8088"} | headers).items())
    request = Request("POST", "/ksql", ("ksql",), headers=Headers(fields), body=b'{"ksql": "SHOW TOPICS;"}')
    try:
        status = asyncio.run(make_door(cast("SqlNode", node)).handle(request)).status
    except HttpError as error:
        status = error.status
    return status, node.texts


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json"},
        {"content_type": "application/json; charset=utf-8", "origin": _OURS},
        {"content_type": "application/vnd.ksql.v1+json"},
        {"content_type": "application/vnd.ksqlapi.delimited.v1"},
        {"content_type": "application/x-www-form-urlencoded"},
        {},
    ],
)
def test_clients_are_served(headers: dict[str, str]) -> None:
    assert _ask(**headers) == (200, ["SHOW TOPICS;"])


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/xml"])
def test_a_body_that_is_something_else_is_refused(kind: str) -> None:
    assert _ask(content_type=kind) == (415, [])


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "", "text/plain"])
def test_a_page_of_ours_must_say_that_it_sends_json(kind: str) -> None:
    assert _ask(content_type=kind, origin=_OURS) == (415, [])


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://[", ""])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_page_of_another_origin_gets_nothing(origin: str, kind: str) -> None:
    assert _ask(content_type=kind, origin=origin) == (403, [])


def test_no_origin_is_ours_where_no_host_is_named() -> None:
    assert _ask(content_type="application/json", origin="null", host="") == (403, [])


class Terminated(Node):
    """Three streams over topics of others, and what queries make of each."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine("default_", "nowhere:1")
        for name in ("orders", "orders-old", "other"):
            given = f"CREATE STREAM `{name}` (n INT) WITH (kafka_topic='{name}', value_format='JSON');"
            made = f"CREATE STREAM `{name}-made` AS SELECT * FROM `{name}`;"
            for text in (given, made):
                assert self.engine.apply(self.engine.applied, Command(text).encode()).error is None

    async def execute(self, text: str, _settings: Any, _variables: Any, *, caller: Any = None) -> list[Any]:
        self.texts.append(text)
        return []

    async def drop_as_seen(self, seen: SourceInfo, *, delete_topic: bool) -> None:
        self.texts.append(f"DROP `{seen.name}`{' DELETE TOPIC' if delete_topic else ''};")


def _terminate(body: str) -> tuple[int, list[str]]:
    node = Terminated()
    headers = Headers((("host", "127.0.0.1:8088"),))
    request = Request("POST", "/ksql/terminate", ("ksql", "terminate"), headers=headers, body=body.encode())
    try:
        status = asyncio.run(make_door(cast("SqlNode", node)).handle(request)).status
    except HttpError as error:
        status = error.status
    return status, node.texts


@pytest.mark.parametrize(
    ("body", "deleted"),
    [
        ("", set()),
        ('{"deleteTopicList": ["orders-made", "other"]}', {"orders-made"}),
        ('{"deleteTopicList": ["orders.*"]}', {"orders-made", "orders-old-made"}),
        ('{"deleteTopicList": ["orders-mad", "o"]}', set()),
    ],
)
def test_terminate_drops_all_and_deletes_the_topics_that_are_named_or_match(body: str, deleted: set[str]) -> None:
    """Only those that queries have made: it deleted those of other applications, too, which a stream was over."""
    status, texts = _terminate(body)
    assert (status, texts[0], len(texts)) == (200, "TERMINATE ALL;", 7)
    assert {each.split("`")[1] for each in texts[1:] if each.endswith(" DELETE TOPIC;")} == deleted


@pytest.mark.parametrize(
    "body", ['{"deleteTopicList": "orders"}', '{"deleteTopicList": ["("]}', '{"deleteTopicList": [5]}']
)
def test_a_list_of_topics_that_is_none_ends_nothing(body: str) -> None:
    assert _terminate(body) == (400, [])

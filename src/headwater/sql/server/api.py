"""ksqlDB's REST API: paths, bodies, content types and errors. Handlers ask the node; nothing is decided here.

A request that a page of another origin sent is refused, and so is a body that does not say that it is JSON: otherwise
any web page could run statements on a developer's machine. A body that says nothing, or what curl says by itself, is
taken from clients that are no pages, as ksqlDB takes it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import re2

from headwater._version import VERSION
from headwater.base.acls import Operation
from headwater.base.errors import KafkaError, UserError
from headwater.sql.functions.patterns import pattern
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.insertion import check_insertable
from headwater.sql.server import answers, inserting, rights, row_answers, ws_query
from headwater.sql.server.accepting import (
    ACKS,
    ANY_ROWS,
    ANYTHING,
    DELIMITED,
    DOCUMENTS,
    JSON,
    KSQL_JSON,
    OLDER_ROWS,
    PROTOBUF,
    ROWS,
    accepted,
    producing,
    wants_array,
)
from headwater.sql.server.health import Health, cluster_status
from headwater.sql.server.node import SqlNode
from headwater.sql.server.refusals import BAD_REQUEST, BAD_STATEMENT, GENERIC, SERVER_ERROR, code_of
from headwater.sql.server.settable import check_settable
from headwater.sql.server.source_topics import is_deletable
from headwater.sql.values import EvaluationError
from headwater.web import websocket
from headwater.web.callers import cluster, topic
from headwater.web.content import json_body, json_response
from headwater.web.door import Door
from headwater.web.messages import HttpError, Request, Response
from headwater.web.origin import check_origin, media_type
from headwater.web.rights import require
from headwater.web.router import Router

_TOPIC_NAME: Final = "[a-zA-Z0-9._-]+"
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
KSQLDB_VERSION: Final = "0.29.0"  # whose API this is: its command line and migrations talk to none before 0.10
NOT_FOUND: Final = 40400
NOT_CAUGHT_UP: Final = 50301


def make_door(node: SqlNode) -> Door:
    api = Api(node)
    router = Router()
    for method, path, offered, handler in (
        ("POST", "/ksql", DOCUMENTS, api.ksql),
        ("POST", "/query", OLDER_ROWS, api.query),
        ("POST", "/query-stream", ROWS, api.query_stream),
        ("POST", "/inserts-stream", ACKS, api.inserts_stream),
        ("POST", "/close-query", ANYTHING, api.close_query),
        ("POST", "/ksql/terminate", DOCUMENTS, api.terminate),
        ("GET", "/", ANYTHING, api.root),
        ("GET", "/info", DOCUMENTS, api.info),
        ("GET", "/healthcheck", DOCUMENTS, api.healthcheck),
        ("GET", "/clusterStatus", DOCUMENTS, api.cluster_status),
        ("GET", "/status", DOCUMENTS, api.statuses),
        ("GET", "/status/{type}/{entity}/{action}", DOCUMENTS, api.status),
        ("GET", "/is_valid_property/{name}", DOCUMENTS, api.is_valid_property),
        ("GET", "/v1/metadata", DOCUMENTS, api.metadata),
        ("GET", "/v1/metadata/id", DOCUMENTS, api.metadata_id),
        ("GET", "/ws/query", DOCUMENTS, api.ws_query),
    ):
        router.add(method, path, producing(offered, handler))
    return SqlDoor(router, error_body)


class SqlDoor(Door):
    async def handle(self, request: Request) -> Response:
        """What brokers refuse, or do not do in time, is told with its reason."""
        check_origin(request)
        if request.method == "POST":
            _check_media_type(request)
        try:
            return await super().handle(request)
        except (KafkaError, UserError) as error:
            raise _failure(error) from None


def is_streamed(request: Request) -> bool:
    """Rows are acknowledged while the body still comes."""
    return request.method == "POST" and request.segments == ("inserts-stream",)


def _check_media_type(request: Request) -> None:
    kind = media_type(request)
    if kind == "application/json" or kind.startswith(("application/vnd.ksql.", "application/vnd.ksqlapi.")):
        return
    if kind in ("", _CURLS_OWN) and request.headers.get("origin") is None:
        return
    raise HttpError(415, "The body of a request must be JSON, and say so: Content-Type: application/json")


def error_body(error: HttpError, _request: Request | None) -> Response:
    return json_response(_told(error), error.status, headers=error.headers)


def _told(error: HttpError) -> dict[str, Any]:
    code = error.code if error.code is not None and error.code >= 10_000 else error.status * 100
    return {"@type": "generic_error", "error_code": code, "message": error.message}


def _failure(error: KafkaError | UserError | HttpError) -> HttpError:
    """What is no fault of a statement."""
    return error if isinstance(error, HttpError) else HttpError(500, str(error), SERVER_ERROR)


def statement_error(error: SqlError, text: str, done: Sequence[answers.Entity] = ()) -> Response:
    """`done`: what statements before it were answered."""
    code = code_of(error)
    told: dict[str, Any] = {"@type": "generic_error", "error_code": code, "message": str(error)}
    if code not in GENERIC:
        told |= _of_statements(text, done)
    return json_response(told, code // 100, KSQL_JSON)


def _ended_halfway(error: HttpError, text: str, done: Sequence[answers.Entity]) -> Response:
    return json_response(_told(error) | _of_statements(text, done), error.status, KSQL_JSON, headers=error.headers)


def _of_statements(text: str, done: Sequence[answers.Entity]) -> dict[str, Any]:
    return {"@type": "statement_error", "statementText": text, "entities": list(done)}


class Api:
    def __init__(self, node: SqlNode) -> None:
        self._node = node
        self._health = Health(node)

    # -- statements ----------------------------------------------------------------------------------------------------

    async def ksql(self, request: Request) -> Response:
        body = _object(request)
        text, settings = _text(body, "ksql"), _properties(body, "streamsProperties")
        variables, found = _strings(body, "sessionVariables"), list[answers.Entity]()
        await self._catch_up(body)
        try:
            await self._node.execute(text, settings, variables, caller=request.caller, done=found)
        except SqlError as error:
            return statement_error(error, text, found)
        except (KafkaError, UserError, HttpError) as error:
            if not found:
                raise
            return _ended_halfway(_failure(error), text, found)
        return json_response(found, 200, KSQL_JSON)

    async def _catch_up(self, body: Mapping[str, Any]) -> None:
        """Waits for the statement that a request comes behind. Whoever asks several servers names the last that he
        sent.
        """
        number = body.get("commandSequenceNumber")
        if number is None:
            return
        if not isinstance(number, int) or isinstance(number, bool):
            raise HttpError(400, '"commandSequenceNumber" must be a whole number.', BAD_REQUEST)
        if not await self._node.has_applied(number):
            raise HttpError(503, ws_query.not_caught_up(number), NOT_CAUGHT_UP)

    async def terminate(self, request: Request) -> Response:
        """/ksql/terminate: every query ends, and what was made is dropped, with the topics that `deleteTopicList` names
        or matches: of those that queries have made, as in ksqlDB. What is over other topics is dropped first, so that
        nothing is left over one that is to be deleted.
        """
        body = _object(request) if request.body else {}
        given = body.get("deleteTopicList")
        is_deleted = _matching(given)
        sources = reversed(list(self._node.engine.session.catalog))
        dropped = [(each, is_deletable(each) and is_deleted(each.topic)) for each in sources]
        dropped.sort(key=lambda each: each[1])
        named = [topic(Operation.DELETE, each) for each in given or () if re2.fullmatch(_TOPIC_NAME, each)]
        await require(request.caller, cluster(Operation.ALTER), *named)
        for source, with_topic in dropped:
            if with_topic:
                await rights.require_source(request.caller, Operation.DELETE, source)
        try:
            await self._node.execute("TERMINATE ALL;", {}, {})
            for source, with_topic in dropped:
                await self._node.drop_as_seen(source, delete_topic=with_topic)
        except SqlError as error:
            return statement_error(error, "TERMINATE ALL;")
        return json_response([], 200, KSQL_JSON)

    # -- rows ----------------------------------------------------------------------------------------------------------

    async def query_stream(self, request: Request) -> Response:
        body = _object(request)
        text = _text(body, "sql")
        settings = _properties(body, "properties") | _properties(body, "streamsProperties")
        form = accepted(request, ROWS) or DELIMITED
        printed = await self._printed(request, text, takes_lines=form == DELIMITED)
        if printed is not None:
            return printed
        return await self._rows(request, text, settings, _strings(body, "sessionVariables"), form)

    async def _rows(
        self, request: Request, text: str, settings: Mapping[str, str], variables: Mapping[str, str], form: str
    ) -> Response:
        """`form`: the content type of the answer."""
        is_older = form in (KSQL_JSON, PROTOBUF)
        try:
            answer = await self._node.row_queries.query(text, settings, variables, request.caller, tombstones=is_older)
        except SqlError as error:
            return statement_error(error, text)
        try:
            body = row_answers.sent(answer, form)
        except SqlError as error:
            self._node.row_queries.give_up(answer)
            return statement_error(error, text)
        return Response(200, body, {"Content-Type": form})

    async def query(self, request: Request) -> Response:
        """As /query-stream, in the older form unless another is asked for."""
        body = _object(request)
        text, settings = _text(body, "ksql"), _properties(body, "streamsProperties")
        await self._catch_up(body)
        printed = await self._printed(request, text, takes_lines=True)
        if printed is not None:
            return printed
        form = accepted(request, OLDER_ROWS if request.headers.get("accept") is None else ANY_ROWS) or KSQL_JSON
        variables = _strings(body, "sessionVariables")
        return await self._rows(request, text, settings, variables, KSQL_JSON if form == JSON else form)

    async def _printed(self, request: Request, text: str, *, takes_lines: bool) -> Response | None:
        """The answer to PRINT, which is lines; None: it is another statement."""
        try:
            statement = ws_query.print_in(self._node, text)
            if statement is None:
                return None
            if not takes_lines:
                raise HttpError(406, f"Not Acceptable: PRINT gives {DELIMITED}")
            await self._node.row_queries.check_printable(statement, request.caller)
        except SqlError as error:
            return statement_error(error, text)
        lines = self._node.row_queries.printed(statement)
        return Response(200, _encoded(lines), {"Content-Type": "text/plain"})

    async def ws_query(self, request: Request) -> Response:
        return websocket.accept(request, ws_query.messages(self._node, request.query.get("request"), request.caller))

    async def close_query(self, request: Request) -> Response:
        query_id = _text(_object(request), "queryId")
        found = self._node.row_queries.pushes.get(query_id)
        if found is None:
            raise HttpError(400, f"No query with id {query_id}", BAD_REQUEST)
        await self._node.row_queries.end_push(found, request.caller)
        return Response(200, b"", {"Content-Type": "application/json"})

    async def inserts_stream(self, request: Request) -> Response:
        """Lines of JSON: the target, then a row each. Each row is answered, in order, while others still come."""
        lines = inserting.lines_of(request)
        name = inserting.parsed(await anext(lines, b"{}")).get("target")
        if not isinstance(name, str):
            raise HttpError(400, 'The first line of the body has no "target".', BAD_REQUEST)
        await rights.require_source(request.caller, Operation.WRITE, self._target(name))

        async def begin(row: Mapping[str, Any]) -> Awaitable[object]:
            target = self._target(name)  # of now: the body may come for hours
            await rights.require_source(request.caller, Operation.WRITE, target)
            key, value = inserting.row_of(target, row)
            return await self._node.begin_send(target, key, value, None)

        acks = inserting.acks(lines, begin)
        if wants_array(request):
            return Response(200, _as_array(acks), {"Content-Type": "application/json"})
        return Response(200, acks, {"Content-Type": DELIMITED})

    def _target(self, name: str) -> SourceInfo:
        try:
            target = self._node.engine.session.catalog.find(inserting.identifier(name))
            check_insertable(target)
            return target
        except SqlError as error:
            raise HttpError(400, f"Cannot insert: {error}", BAD_STATEMENT) from None

    # -- what the server is --------------------------------------------------------------------------------------------

    async def root(self, _request: Request) -> Response:
        return Response(307, b"", {"Location": "/info"})

    async def info(self, _request: Request) -> Response:
        return json_response(
            {
                "KsqlServerInfo": {
                    "version": KSQLDB_VERSION,
                    "headwaterVersion": VERSION,
                    "kafkaClusterId": self._node.cluster_id,
                    "ksqlServiceId": self._node.config.service_id,
                    "serverStatus": "RUNNING",
                }
            },
            200,
            KSQL_JSON,
        )

    async def healthcheck(self, _request: Request) -> Response:
        return json_response(await self._health.look(), 200, KSQL_JSON)

    async def cluster_status(self, request: Request) -> Response:
        await require(request.caller, cluster(Operation.DESCRIBE))
        return json_response({"clusterStatus": await cluster_status(self._node)}, 200, KSQL_JSON)

    async def statuses(self, request: Request) -> Response:
        await require(request.caller, cluster(Operation.DESCRIBE))
        await self._node.ask_states()
        known = {
            each.command_id: answers.command_status(each, self._node.is_executed(number))["status"]
            for number, each in self._node.engine.outcomes.items()
            if not each.overtaken
        }
        return json_response({"commandStatuses": known}, 200, KSQL_JSON)

    async def status(self, request: Request) -> Response:
        wanted = "/".join(request.parameters[each] for each in ("type", "entity", "action"))
        for number, each in reversed(self._node.engine.outcomes.items()):
            if each.command_id.replace("`", "") == wanted.replace("`", ""):
                await self._node.ask_states()
                return json_response(answers.command_status(each, self._node.is_executed(number)), 200, KSQL_JSON)
        raise HttpError(404, "Command not found", NOT_FOUND)

    async def is_valid_property(self, request: Request) -> Response:
        name = request.parameters["name"]
        try:
            check_settable(name)
        except SqlError as error:
            raise HttpError(400, error.what, BAD_REQUEST) from None
        return json_response(True, 200, KSQL_JSON)

    async def metadata(self, _request: Request) -> Response:
        return json_response({"version": KSQLDB_VERSION, "clusterId": self._cluster_id()}, 200)

    async def metadata_id(self, _request: Request) -> Response:
        return json_response(self._cluster_id(), 200)

    def _cluster_id(self) -> dict[str, Any]:
        clusters = {"kafka-cluster": self._node.cluster_id, "ksql-cluster": self._node.config.service_id}
        return {"scope": {"path": [], "clusters": clusters}, "id": ""}


def _matching(given: Any) -> Callable[[str], bool]:
    """Whether a topic is in `deleteTopicList`: names and regular expressions, as in ksqlDB. Raises HttpError."""
    if given is not None and not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
        raise HttpError(400, '"deleteTopicList" must be a list of names or regular expressions.', BAD_REQUEST)
    patterns = []
    for each in given or ():
        try:
            patterns.append(pattern(each))
        except EvaluationError as error:
            raise HttpError(400, str(error), BAD_REQUEST) from None
    return lambda name: name in (given or ()) or any(each.fullmatch(name) for each in patterns)


async def _as_array(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    before = b"["
    async for line in lines:
        yield before + line.rstrip(b"\n")
        before = b",\n"
    yield b"[]" if before == b"[" else b"]"


async def _encoded(lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line.encode()


def _object(request: Request) -> dict[str, Any]:
    found = json_body(request)
    if not isinstance(found, dict):
        raise HttpError(400, "The body of the request must be a JSON object.", BAD_REQUEST)
    return found


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not found.strip():
        raise HttpError(400, f'The body of the request has no "{name}".', BAD_REQUEST)
    return found


def _strings(body: Mapping[str, Any], name: str) -> dict[str, str]:
    found = body.get(name) or {}
    if not isinstance(found, dict):
        raise HttpError(400, f'"{name}" must be an object.', BAD_REQUEST)
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _properties(body: Mapping[str, Any], name: str) -> dict[str, str]:
    """Properties, also under the names that ksqlDB's clients give those of Kafka Streams."""
    return {key.removeprefix("ksql.streams."): value for key, value in _strings(body, name).items()}

"""The client side of the server: statements and queries over HTTP, and what they answer as tables for people.

`SqlClient` is what the command line uses; it needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headwater.base.errors import UserError
from headwater.sql.answered_rows import row_reader
from headwater.sql.language import tree
from headwater.sql.language.parser import NO_LITERALS, parse, split, substitute
from headwater.sql.language.tokens import Kind, tokenize
from headwater.web.presented import basic_header

Rows = tuple[list[str], Iterator[list[Any]]]
TypedRows = tuple[list[str], list[str], Iterator[list[Any]]]


class ServerAwayError(UserError):
    """Nobody answers, or no SQL server does, or its answer has no end."""


class RefusedError(UserError):
    """What the server says of a statement that it did not carry out.
    `code`: ksqlDB's error code, 40001 and the like.
    """

    def __init__(self, what: str, why: str = "", *, code: int) -> None:
        super().__init__(what, why)
        self.code = code


class SqlClient:
    """Statements to a server. Settings and variables live here, as in ksqlDB's command line, and go with each
    request.
    """

    def __init__(self, url: str, authorization: str = "", tls: ssl.SSLContext | None = None) -> None:
        """`authorization`: the header of that name; a login in the address will do, too. `tls`: whom to trust behind
        https://.
        """
        place = urlsplit(url if "://" in url else f"http://{url}")
        if place.scheme not in ("http", "https") or not place.hostname:
            raise UserError(f"{url.rpartition('@')[2]!r} is no server", "", "Write it as http://localhost:8088")
        self._host, self._port = place.hostname, place.port or 8088
        self._tls = (tls or ssl.create_default_context()) if place.scheme == "https" else None
        if not authorization and place.username:
            authorization = basic_header(f"{unquote(place.username)}:{unquote(place.password or '')}")
        self._headers = {"Content-Type": "application/json"} | (
            {"Authorization": authorization} if authorization else {}
        )
        self.settings: dict[str, str] = {}
        self.variables: dict[str, str] = {}

    def statements(self, text: str, literals: Mapping[str, str] = NO_LITERALS) -> Iterator[str]:
        """The statements of a text that are for the server; those that set something here are carried out. `literals`:
        see `substitute`.
        """
        for piece in split(text):
            shown = substitute(piece, self.variables, literals)
            local = self._local(shown)
            if not local:
                yield shown

    def _local(self, text: str) -> bool:
        first = text.split(None, 1)[0].upper() if text.split() else ""
        if first not in ("SET", "UNSET", "DEFINE", "UNDEFINE"):
            return False
        for statement in parse(text):
            match statement:
                case tree.SetProperty():
                    self.settings[statement.name] = statement.value
                case tree.UnsetProperty(name=None):
                    self.settings.clear()
                case tree.UnsetProperty(name=str(name)):
                    self.settings.pop(name, None)
                case tree.Define():
                    self.variables[statement.name] = statement.value
                case tree.Undefine():
                    self.variables.pop(statement.name, None)
        return True

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls is not None else 'http'}://{host}:{self._port}"

    def info(self) -> dict[str, Any]:
        """What /info says: version, cluster and service. Raises UserError."""
        with self._call("GET", "/info", None) as answer:
            found: dict[str, Any] = self._document(_all_of(answer)).get("KsqlServerInfo", {})
            return found

    def run(self, text: str) -> list[dict[str, Any]]:
        """The entities that /ksql answers with. Raises UserError with the server's message."""
        document: dict[str, Any] = {"ksql": text, "streamsProperties": self.settings}
        if [each.upper() for each in text.rstrip("; \n").split()] in (["SHOW", "VARIABLES"], ["LIST", "VARIABLES"]):
            document["sessionVariables"] = self.variables  # elsewhere they have been put in already
        with self._post("/ksql", document) as answer:
            found: list[dict[str, Any]] = self._document(_all_of(answer))
            return found

    @contextlib.contextmanager
    def query(self, text: str) -> Iterator[Rows]:
        """The names of the columns, and the rows as they come."""
        with self.typed_query(text) as (names, _, rows):
            yield names, rows

    @contextlib.contextmanager
    def typed_query(self, text: str) -> Iterator[TypedRows]:
        """With the types of the columns, as SQL writes them."""
        with self._post("/query-stream", {"sql": text, "properties": self.settings}) as answer:
            header = self._document(next(_lines(answer), b"{}"))
            column_types = header.get("columnTypes", [])
            yield header.get("columnNames", []), column_types, _rows(answer, row_reader(column_types))

    @contextlib.contextmanager
    def printed(self, text: str) -> Iterator[Iterator[str]]:
        """The lines of PRINT."""
        with self._post("/query", {"ksql": text, "streamsProperties": self.settings}) as answer:
            yield (line.decode("utf-8", "replace") for line in _lines(answer))

    def _post(
        self, path: str, document: Mapping[str, Any]
    ) -> contextlib.AbstractContextManager[http.client.HTTPResponse]:
        return self._call("POST", path, json.dumps(document))

    @contextlib.contextmanager
    def _call(self, method: str, path: str, body: str | None) -> Iterator[http.client.HTTPResponse]:
        connection = (
            http.client.HTTPConnection(self._host, self._port)
            if self._tls is None
            else http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        )
        link: socket.socket | None = None
        try:
            try:
                connection.request(method, path, body, self._headers)
                link = connection.sock
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise ServerAwayError(
                    f"The SQL server at {self._host}:{self._port} does not answer",
                    str(error),
                    "Start one with `headwater sql server`, or name another with --server",
                ) from None
            if answer.status == http.HTTPStatus.NOT_FOUND:
                raise self._is_another(f"it has no {path}")
            if answer.status != 200:
                raise _told(answer)
            yield answer
        finally:
            # Another thread may wait for rows: it does not let go of what it reads before they end.
            if link is not None:
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(AttributeError):  # of an answer that the other thread closes at the same moment
                connection.close()

    def _is_another(self, why: str) -> ServerAwayError:
        return ServerAwayError(
            f"What answers at {self._host}:{self._port} is no SQL server", why, "Name another with --server"
        )

    def _document(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise self._is_another("its answer is no JSON") from None


def _told(answer: http.client.HTTPResponse) -> UserError:
    body = _all_of(answer)
    code = answer.status * 100
    try:
        found = json.loads(body)
        return RefusedError(str(found["message"]), code=int(found.get("error_code") or code))
    except (ValueError, KeyError, TypeError, AttributeError):
        return RefusedError(f"The server answered {answer.status}", body[:500].decode("utf-8", "replace"), code=code)


def _cut_off(why: str = "") -> ServerAwayError:
    return ServerAwayError("The answer of the server was cut off", why, hint="Look at its log")


def _all_of(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise _cut_off(str(error)) from None


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Lines until the end that the server gave; an answer that was cut off is an error, not an end."""
    try:
        yield from iter(answer.readline, b"")
    except (OSError, http.client.HTTPException) as error:
        raise _cut_off(str(error)) from None
    if not answer.isclosed():
        raise _cut_off()


def _rows(answer: http.client.HTTPResponse, read: Callable[[bytes], Any]) -> Iterator[list[Any]]:
    for line in _lines(answer):
        if not line.strip():
            continue
        row = read(line)
        if isinstance(row, dict):
            raise RefusedError(str(row.get("message", row)), code=int(row.get("error_code") or 50000))
        yield row


# What a list in an entity is called, and which of its fields people want to see.
_LISTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "streams": ("streams", ("name", "topic", "keyFormat", "valueFormat", "isWindowed")),
    "tables": ("tables", ("name", "topic", "keyFormat", "valueFormat", "isWindowed")),
    "queries": ("queries", ("id", "queryType", "state", "sinks", "queryString")),
    "kafka_topics": ("topics", ("name", "replicaInfo")),
    "kafka_topics_extended": ("topics", ("name", "replicaInfo", "consumerCount", "consumerGroupCount")),
    "function_names": ("functions", ("name", "type", "category")),
    "properties": ("properties", ("name", "scope", "level", "value")),
    "variables": ("variables", ("name", "value")),
}


Table = tuple[list[str], list[list[Any]]]


def is_push(text: str) -> bool:
    """Whether a query has no end: EMIT, without a LIMIT."""
    words = [each.text for each in tokenize(text) if each.kind is Kind.NAME]
    return "EMIT" in words and "LIMIT" not in words


def as_tables(found: Mapping[str, Any]) -> list[Table | str]:
    """An entity for people: heads and rows of tables, and sentences."""
    return [*_shown(found), *(f"WARNING: {each['message']}" for each in found.get("warnings", ()))]


def as_table(found: Mapping[str, Any]) -> Table | None:
    """An entity for programs: one table with all that it lists, or None where it lists nothing."""
    match str(found.get("@type")):
        case "source_descriptions":
            heads = ["NAME", "FIELD", "TYPE", "ROLE", *(field for field in _FACTS)]
            rows = [
                [each["name"], *column, *(each.get(field) for field in _FACTS.values())]
                for each in found["sourceDescriptions"]
                for column in _fields(each)
            ]
            return [each.upper() for each in heads], rows
        case "queryDescription" | "query_descriptions" as kind:
            listed = [found[kind]] if kind == "queryDescription" else found["queryDescriptions"]
            return ["ID", "STATE", "STATEMENT", "ERRORS", "TOPOLOGY"], [
                [each["id"], each["state"], each["statementText"], "\n".join(_errors(each)), each["topology"]]
                for each in listed
            ]
        case "describe_function":
            return ["NAME", "TYPE", "SIGNATURE", "RETURNS", "DESCRIPTION"], [
                [found["name"], found["type"], each["signature"], each["returnType"], each["description"]]
                for each in found["functions"]
            ]
        case _:
            return next((each for each in _shown(found) if not isinstance(each, str)), None)


def _shown(found: Mapping[str, Any]) -> list[Table | str]:
    kind = str(found.get("@type"))
    if kind in _LISTS:
        name, fields = _LISTS[kind]
        rows = [[_cell(each.get(field)) for field in fields] for each in found[name]]
        return [([each.upper() for each in fields], rows)]
    if kind == "type_list":
        return [(["NAME", "TYPE"], [[name, _type(schema)] for name, schema in found["types"].items()])]
    if kind == "sourceDescription":
        return _source(found["sourceDescription"])
    if kind == "source_descriptions":
        return [piece for each in found["sourceDescriptions"] for piece in (f"{each['name']}:", *_source(each))]
    if kind == "queryDescription":
        return [_query(found["queryDescription"])]
    if kind == "query_descriptions":
        return [_query(each) for each in found["queryDescriptions"]]
    if kind == "describe_function":
        forms = "\n".join(
            f"  {found['name']}{each['signature']} -> {each['returnType']}" for each in found["functions"]
        )
        return [f"{found['name']} ({found['type']}): {found['description']}\n{forms}"]
    if kind == "terminate_query":
        return ["Query terminated."]
    return [str(found.get("message") or found.get("commandStatus", {}).get("message") or "done")]


# Of a stream or table: what people call it, and the field that has it.
_FACTS: Final = {
    "kind": "type",
    "topic": "topic",
    "key format": "keyFormat",
    "value format": "valueFormat",
    "partitions": "partitions",
    "replication": "replication",
    "statement": "statement",
}


def _fields(shown: Mapping[str, Any]) -> list[list[Any]]:
    return [[each["name"], _type(each["schema"]), each.get("type", "")] for each in shown["fields"]]


def _source(shown: Mapping[str, Any]) -> list[Table | str]:
    tables: list[Table | str] = [(["FIELD", "TYPE", "ROLE"], _fields(shown))]
    if not shown.get("extended"):
        return tables
    tables.append("\n".join(f"{name}: {shown.get(field)}" for name, field in _FACTS.items()))
    queries = [
        [way, each["id"], each["state"], each["queryString"]]
        for way, name in (("reads", "readQueries"), ("writes", "writeQueries"))
        for each in shown[name]
    ]
    if queries:
        tables.append((["WAY", "QUERY", "STATE", "STATEMENT"], queries))
    offsets = [
        [topic["kafkaTopic"], each["partition"], each["logStartOffset"], each["logEndOffset"], each["consumerOffset"]]
        for group in shown["queryOffsetSummaries"]
        for topic in group["topicSummaries"]
        for each in topic["offsets"]
    ]
    if offsets:
        tables.append((["READS", "PARTITION", "START", "END", "OFFSET"], offsets))
    return tables


def _query(shown: Mapping[str, Any]) -> str:
    errors = "".join(f"\n{each}" for each in _errors(shown))
    state = f" ({shown['state']})" if shown["state"] else ""  # a query that does not run has none
    return f"{shown['id']}{state}{errors}\n{shown['statementText']}\n\n{shown['topology']}"


def _errors(shown: Mapping[str, Any]) -> list[str]:
    rows = [f"some rows: {each}" for each in dict.fromkeys(shown.get("rowErrors", ()))]
    return [*(each["errorMessage"] for each in shown.get("queryErrors", ())), *rows]


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _type(schema: Mapping[str, Any]) -> str:
    base = str(schema["type"])
    if schema.get("memberSchema"):
        key = "STRING, " if base == "MAP" else ""  # a map's schema tells of its values only: keys in JSON are text
        return f"{base}<{key}{_type(schema['memberSchema'])}>"
    if schema.get("fields"):
        return f"{base}<{', '.join(each['name'] + ' ' + _type(each['schema']) for each in schema['fields'])}>"
    if schema.get("parameters"):
        return f"{base}({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return base

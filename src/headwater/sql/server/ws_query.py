"""/ws/query: a query over a WebSocket, as ksqlDB's pages ask. `?request={"ksql": ..., "streamsProperties": ...}` names
it; the first message is the schema, then each row is one. PRINT gives its lines, without a schema. What is wrong with
the request is told in the close (1003), as ksqlDB tells it, and an error between rows as 1011; the last message before
the close is the whole of it, `{"error": ...}`, which is "done" at the end of the rows. Closing the WebSocket ends the
query.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

from headwater.base.errors import KafkaError, UserError
from headwater.sql.json_text import dump
from headwater.sql.language import tree
from headwater.sql.language.parser import pieces_of
from headwater.sql.server import answers
from headwater.web.callers import EVERYBODY, Caller
from headwater.web.cluster_login import LoginRefused
from headwater.web.messages import HttpError
from headwater.web.websocket import Code, WebSocketClosed

if TYPE_CHECKING:
    from headwater.sql.server.node import SqlNode


async def messages(node: SqlNode, given: str | None, caller: Caller = EVERYBODY) -> AsyncIterator[str]:
    """`given`: the parameter `request`. Raises WebSocketClosed."""
    async with contextlib.aclosing(_rows(node, given, caller)) as found:
        try:
            async for each in found:
                yield each
        except WebSocketClosed as closed:
            yield dump({"error": closed.reason})
            raise
    yield dump({"error": "done"})


async def _rows(node: SqlNode, given: str | None, caller: Caller) -> AsyncGenerator[str]:
    rows: Any = None
    try:
        try:
            text, properties, variables, number = _request(given)
            if number is not None and not await node.has_applied(number):
                raise WebSocketClosed(Code.TRY_AGAIN_LATER, not_caught_up(number))
            statement = print_in(node, text)
            if statement is not None:
                await node.row_queries.check_printable(statement, caller)
                rows = node.row_queries.printed(statement)
            else:
                answer = await node.row_queries.query(text, properties, variables, caller)
                columns, rows = answer.columns, answer.rows
        except LoginRefused:
            raise WebSocketClosed(Code.POLICY, "Unauthorized") from None
        except HttpError as error:
            raise WebSocketClosed(Code.UNSUPPORTED, error.message) from None
        except (UserError, KafkaError) as error:
            raise WebSocketClosed(Code.UNSUPPORTED, str(error)) from None
        if statement is not None:
            async for line in rows:
                yield dump(line.rstrip("\n"))
            return
        yield dump([answers.field_of(each) for each in columns])
        write = answers.row_writers(columns)
        async for row in rows:
            yield dump({"row": {"columns": write(row)}})
    except WebSocketClosed:
        raise
    except Exception as error:
        raise WebSocketClosed(Code.SERVER_ERROR, str(error) or type(error).__name__) from error
    finally:
        close = getattr(rows, "aclose", None)
        if close is not None:
            await close()


def not_caught_up(number: int) -> str:
    return f"Timed out while waiting for a previous command to execute. command sequence number: {number}"


def _request(given: str | None) -> tuple[str, dict[str, str], dict[str, str], int | None]:
    try:
        found = json.loads(given or "")
    except (ValueError, RecursionError):
        raise UserError('The parameter "request" must be a JSON object') from None
    text = found.get("ksql") if isinstance(found, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise UserError('The parameter "request" has no "ksql"')
    properties = {key.removeprefix("ksql.streams."): value for key, value in _strings(found, "streamsProperties")}
    number = found.get("commandSequenceNumber")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise UserError('"commandSequenceNumber" must be a whole number')
    return text, properties, dict(_strings(found, "sessionVariables")), number


def _strings(found: dict[str, Any], name: str) -> list[tuple[str, str]]:
    given = found.get(name) or {}
    if not isinstance(given, dict):
        raise UserError(f'"{name}" must be an object')
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in given.items()]


def print_in(node: SqlNode, text: str) -> tree.Print | None:
    """The text, if it is a PRINT. Raises SqlError."""
    pieces = pieces_of(text)
    if len(pieces) == 1 and re.match(r"PRINT\b", pieces[0].text, re.IGNORECASE):
        (statement,) = node.engine.session.parse(*pieces[0])
        assert isinstance(statement, tree.Print)
        return statement
    return None

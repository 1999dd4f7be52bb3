"""Rows that were asked for, and the forms in which they are sent.

A line for each row, or one array of rows, behind a header of names and types; or ksqlDB's older form, an array of
`{"header"}`, `{"row"}` and, behind rows that went by in a log, `{"finalMessage"}`, with rows as JSON or as messages of
Protobuf. Only the older form tells of keys that a table has no more. What fails between rows is the last thing told.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.formats.registry.proto_text import proto_text
from headwater.sql.json_text import dump
from headwater.sql.plan.catalog import Column
from headwater.sql.server import answers
from headwater.sql.server.accepting import DELIMITED, JSON, PROTOBUF
from headwater.sql.server.push import Tombstone
from headwater.sql.server.refusals import SERVER_ERROR

_numbers: Final = itertools.count(1)  # of pull queries, which nobody can name: their ids are for who reads answers
_NOT_FRAMED: Final = "PROTOBUF_NOSR"


@dataclass(frozen=True, slots=True)
class Answer:
    """`query_id`: of a push query; None: a pull query. `goes_by`: the rows are those of a log, of a push query or of a
    pull query on a stream, whose end is told; `limit`: how many of them were asked for.
    """

    query_id: str | None
    columns: tuple[Column, ...]
    rows: AsyncIterator[list[Any]]
    goes_by: bool = False
    limit: int | None = None


def sent(answer: Answer, form: str) -> AsyncIterator[bytes]:
    """The body, in the form of this content type. Raises SqlError where the columns have no such form."""
    query_id = answer.query_id or f"query_{next(_numbers)}"
    if form in (DELIMITED, JSON):
        rows = _or_error(_plain(answer, query_id), lambda error: error)
        return _lines(rows) if form == DELIMITED else _array(rows)
    header, write = _protobuf(answer) if form == PROTOBUF else _json(answer)
    header = {"queryId": query_id, "schema": answers.schema_text(answer.columns), **header}
    rows = _or_error(_older(answer, header, write), lambda error: {"errorMessage": error})
    return _array_of_lines(rows) if answer.goes_by else _array(rows)


async def _or_error(documents: AsyncIterator[Any], shown: Callable[[dict[str, Any]], Any]) -> AsyncIterator[Any]:
    """The answer has begun: its last line is the only place to say what went wrong."""
    try:
        async for each in documents:
            yield each
    except Exception as error:  # noqa: BLE001
        yield shown({"@type": "generic_error", "error_code": SERVER_ERROR, "message": str(error)})


async def _lines(documents: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for each in documents:
        yield _bytes(each) + b"\n"


async def _array(documents: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    before = b"["
    async for each in documents:
        yield before + _bytes(each)
        before = b",\n"
    yield b"]\n"


async def _array_of_lines(documents: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Each line is whole as soon as there is something to tell: ksqlDB's clients take a row when its line has ended,
    and the next row may come in an hour. So a comma stands behind all but what ends the array, which is told, too.
    """
    before = b"["
    async for each in documents:
        is_last = "finalMessage" in each or "errorMessage" in each
        yield before + _bytes(each) + (b"]\n" if is_last else b",\n")
        before = b""


async def _plain(answer: Answer, query_id: str) -> AsyncIterator[Any]:
    yield {
        "queryId": query_id,
        "columnNames": [each.name for each in answer.columns],
        "columnTypes": [str(each.type) for each in answer.columns],
    }
    write = answers.row_writers(answer.columns)
    async for row in answer.rows:
        yield write(row)


WriteRow = Callable[[list[Any]], dict[str, Any]]


async def _older(answer: Answer, header: dict[str, Any], write: WriteRow) -> AsyncIterator[Any]:
    yield {"header": header}
    of_key, count = row_document(answer.columns), 0
    async for row in answer.rows:
        yield {"row": of_key(row) if isinstance(row, Tombstone) else write(row)}
        count += 1
    if answer.goes_by:
        is_full = answer.limit is not None and count >= answer.limit
        yield {"finalMessage": "Limit Reached" if is_full else "Query Completed"}


def row_document(columns: tuple[Column, ...]) -> WriteRow:
    """What `{"row"}` has: the columns, and whether the row tells of a key that is gone."""
    write = answers.row_writers(columns)

    def document(row: list[Any]) -> dict[str, Any]:
        shown = {"columns": write(row)}
        return {**shown, "tombstone": True} if isinstance(row, Tombstone) else shown

    return document


def _json(answer: Answer) -> tuple[dict[str, Any], WriteRow]:
    return {}, row_document(answer.columns)


def _protobuf(answer: Answer) -> tuple[dict[str, Any], WriteRow]:
    """Messages of one type, which the header has as the text of a .proto file. Raises SqlError."""
    fields, options = [Field(each.name, each.type) for each in answer.columns], FormatOptions()
    serde = format_named(_NOT_FRAMED).serde(fields, options)

    def document(row: list[Any]) -> dict[str, Any]:
        return {"protobufBytes": base64.b64encode(serde.serialize(row)).decode()}

    return {"protoSchema": proto_text(fields, options)}, document


def _bytes(document: Any) -> bytes:
    return dump(document).encode("utf-8", "replace")

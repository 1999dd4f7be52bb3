"""Rows that were asked for, and the forms in which they are sent.

A line for each row, or one array of rows, behind a header of names and types; or ksqlDB's older form, an array of
`{"header"}`, `{"row"}` and, behind rows that went by in a log, `{"finalMessage"}`, with rows as JSON or as messages of
Protobuf. Only the older form tells of keys that a table has no more.
"""

from __future__ import annotations

import base64
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

_PULLED: Final = "query"  # what a pull query is called in the older form
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
    if form == DELIMITED:
        return _delimited(answer)
    if form == JSON:
        return _array(_plain(answer))
    return _array(_older(answer, *(_protobuf(answer) if form == PROTOBUF else _json(answer))))


async def _delimited(answer: Answer) -> AsyncIterator[bytes]:
    async for each in _plain(answer):
        yield _bytes(each) + b"\n"


async def _array(documents: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    before = b"["
    async for each in documents:
        yield before + _bytes(each)
        before = b",\n"
    yield b"]\n"


async def _plain(answer: Answer) -> AsyncIterator[Any]:
    yield {
        "queryId": answer.query_id,
        "columnNames": [each.name for each in answer.columns],
        "columnTypes": [str(each.type) for each in answer.columns],
    }
    write = answers.row_writers(answer.columns)
    async for row in answer.rows:
        yield write(row)


WriteRow = Callable[[list[Any]], dict[str, Any]]


async def _older(answer: Answer, header: dict[str, Any], write: WriteRow) -> AsyncIterator[Any]:
    schema = answers.schema_text(answer.columns)
    yield {"header": {"queryId": answer.query_id or _PULLED, "schema": schema, **header}}
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

"""Rows of `/inserts-stream`: one to a line of the body, each acknowledged in its order when the brokers have it, while
the body still comes.

A task reads and sends, at most `IN_FLIGHT_MAX` rows ahead of what is acknowledged; the answer waits for the brokers.
The first row that fails is the last one of the answer: a row that is wrong by itself is found before any behind it is
sent, one that the brokers refuse may have others behind it in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from headwater.base.errors import KafkaError, UserError
from headwater.sql.formats.json_rows import loaded, reading
from headwater.sql.formats.port import RowError
from headwater.sql.json_text import dump
from headwater.sql.language.errors import SqlError, did_you_mean
from headwater.sql.language.types import quoted
from headwater.sql.plan import reading as source_rows
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.insertion import check_key
from headwater.sql.server.refusals import BAD_REQUEST, SERVER_ERROR
from headwater.sql.values import EvaluationError
from headwater.web.cluster_login import LoginRefused
from headwater.web.messages import HttpError, Request

IN_FLIGHT_MAX: Final = 1_000
_QUOTES: Final = ("`", '"')
ROW_BYTES_MAX: Final = 16 * 1024 * 1024

Begin: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Awaitable[object]]]
_TOLD: Final = (HttpError, SqlError, KafkaError, UserError, LoginRefused)


async def lines_of(request: Request) -> AsyncIterator[bytes]:
    """The lines of the body that have something in them, as they come."""
    if request.stream is None:
        for line in request.body.split(b"\n"):
            if line.strip():
                yield line
        return
    async for line in request.stream.lines(ROW_BYTES_MAX):
        if line.strip():
            yield line


def parsed(line: bytes) -> dict[str, Any]:
    try:
        found = loaded(line)
    except (ValueError, RecursionError):
        raise HttpError(400, "A line of the body is no JSON.", BAD_REQUEST) from None
    if not isinstance(found, dict):
        raise HttpError(400, "Each line of the body must be a JSON object.", BAD_REQUEST)
    return found


async def acks(rows: AsyncIterator[bytes], begin: Begin) -> AsyncIterator[bytes]:
    """A line for each row. `begin` sends a row, and gives what to wait for until the brokers have it."""
    begun: asyncio.Queue[Awaitable[object] | Exception | None] = asyncio.Queue(IN_FLIGHT_MAX)
    reading_rows = asyncio.create_task(_send_all(rows, begin, begun))
    number = 0
    try:
        while (sent := await begun.get()) is not None:
            try:
                if isinstance(sent, Exception):
                    raise sent
                await sent
            except _TOLD as error:
                shown = error.message if isinstance(error, HttpError) else str(error) or type(error).__name__
                code = BAD_REQUEST if isinstance(error, HttpError | SqlError) else SERVER_ERROR
                yield _line({"status": "error", "seq": number, "error_code": code, "message": shown})
                return
            yield _line({"status": "ok", "seq": number})
            number += 1
    finally:
        reading_rows.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await reading_rows


async def _send_all(
    rows: AsyncIterator[bytes], begin: Begin, begun: asyncio.Queue[Awaitable[object] | Exception | None]
) -> None:
    try:
        async for row in rows:
            await begun.put(await begin(parsed(row)))
    except Exception as error:  # noqa: BLE001  it is raised again where rows are acknowledged, behind those before it
        await begun.put(error)
    await begun.put(None)


def row_of(target: SourceInfo, given: Mapping[str, Any]) -> tuple[list[Any] | None, list[Any]]:
    """Key and value of a row, by the columns of its target. Raises SqlError for names and values that do not fit."""
    known = _by_column(target, given)

    def values(columns: Any) -> list[Any]:
        row = []
        for each in columns:
            value = known.get(each.name)
            try:
                row.append(None if value is None else reading(each.type, exact=True)(value))
            except (EvaluationError, ArithmeticError, ValueError, TypeError) as error:
                raise SqlError(f"Can't coerce a field of the row to {each.name} {each.type}: {error}") from None
        return row

    keys = values(target.key_columns)
    check_key(target, keys)
    return (None if not keys or all(each is None for each in keys) else keys), values(target.value_columns)


def record_of(target: SourceInfo, key: list[Any] | None, value: list[Any] | None) -> tuple[bytes | None, bytes | None]:
    """Key and value of a row as bytes. Raises SqlError where a schema of the registry does not take them: a field has
    to have a value, or is an enum without this word.
    """
    null = value is None or (source_rows.writes_null_alone(target) and value[:1] == [None])
    try:
        return (
            None if key is None else source_rows.key_serde(target).serialize(key),
            None if value is None or null else source_rows.value_serde(target).serialize(value),
        )
    except RowError as error:
        raise SqlError(f"Failed to insert values into '{target.name}'.", why=f"The row {error}") from None


def _by_column(target: SourceInfo, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row by its target's columns. A name between quotes is one in just these letters, as in SQL;
    another may also be the only one that is written so in other letters. Raises SqlError.
    """
    names = {each.name for each in (*target.key_columns, *target.value_columns)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        column = identifier(name)
        if column not in names and name[:1] not in _QUOTES:
            alike = [each for each in names if each.upper() == column]
            column = alike[0] if len(alike) == 1 else column
        if column not in names:
            raise SqlError(f"Column name {quoted(column)} does not exist.", hint=did_you_mean(column, names))
        if column in found:
            raise SqlError(f"Found duplicate column name: {quoted(column)}")
        found[column] = value
    return found


def identifier(given: str) -> str:
    """The name that JSON has as SQL writes it: in capital letters, or between quotes as it is. Raises SqlError."""
    quote = given[:1]
    if quote not in _QUOTES:
        return given.upper()
    inner = given[1:-1].replace(quote * 2, "")
    if len(given) < 2 or given[-1] != quote or quote in inner:
        raise SqlError(f"The name {given} is not between quotes.", hint="A quote within a name stands twice.")
    return given[1:-1].replace(quote * 2, quote)


def _line(document: Any) -> bytes:
    return dump(document).encode("utf-8", "replace") + b"\n"

"""Acknowledgements of /inserts-stream: in order, while rows still come, and none behind an error."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.schemas import SchemaType
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import Session
from headwater.sql.server import inserting
from headwater.sql.server.api import _as_array
from headwater.web.body_stream import BodyLost
from headwater.web.messages import Request


class Rows:
    """A body that a test sends row by row, and deliveries that it settles."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.deliveries: list[asyncio.Future[None]] = []
        self.begun = asyncio.Event()

    def send(self, **row: Any) -> None:
        self.coming.put_nowait(json.dumps(row).encode())

    async def come(self) -> AsyncIterator[bytes]:
        while (row := await self.coming.get()) is not None:
            if isinstance(row, Exception):
                raise row
            yield row

    async def begin(self, row: Mapping[str, Any]) -> Awaitable[object]:
        if "bad" in row:
            raise SqlError("Column name `BAD` does not exist.")
        self.deliveries.append(asyncio.get_running_loop().create_future())
        self.begun.set()
        return self.deliveries[-1]

    def acks(self) -> AsyncIterator[bytes]:
        return inserting.acks(self.come(), self.begin)


def test_rows_are_acknowledged_in_order_while_the_body_still_comes() -> None:
    async def run() -> None:
        rows = Rows()
        acks = rows.acks()
        rows.send(id=1)
        rows.send(id=2)
        first = asyncio.ensure_future(anext(acks))
        while len(rows.deliveries) < 2:
            await asyncio.sleep(0)
        rows.deliveries[1].set_result(None)  # the second is there before the first
        assert not first.done()
        rows.deliveries[0].set_result(None)
        assert json.loads(await first) == {"status": "ok", "seq": 0}
        assert json.loads(await anext(acks)) == {"status": "ok", "seq": 1}
        rows.coming.put_nowait(None)
        assert [each async for each in acks] == []

    asyncio.run(run())


def test_a_wrong_row_is_the_last_of_the_answer_and_nothing_behind_it_is_sent() -> None:
    async def run() -> None:
        rows = Rows()
        for row in ({"id": 1}, {"bad": 1}, {"id": 2}):
            rows.send(**row)
        acks = rows.acks()
        first = asyncio.ensure_future(anext(acks))
        await rows.begun.wait()
        rows.deliveries[0].set_result(None)
        assert json.loads(await first)["status"] == "ok"
        wrong = {"status": "error", "seq": 1, "error_code": 40000, "message": "Column name `BAD` does not exist"}
        assert [json.loads(each) async for each in acks] == [wrong]
        assert len(rows.deliveries) == 1

    asyncio.run(run())


def test_what_the_brokers_refuse_is_told_and_what_is_no_json_too() -> None:
    async def run() -> None:
        rows = Rows()
        rows.send(id=1)
        acks = rows.acks()
        first = asyncio.ensure_future(anext(acks))
        await rows.begun.wait()
        rows.deliveries[0].set_exception(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
        told = json.loads(await first)
        assert "too large" in told["message"]
        assert told["error_code"] == 50000  # the row was right
        assert [each async for each in acks] == []
        rows = Rows()
        rows.coming.put_nowait(b"[1]")
        assert [json.loads(each)["message"] async for each in rows.acks()] == [
            "Each line of the body must be a JSON object."
        ]

    asyncio.run(run())


def test_a_body_that_is_lost_cuts_the_answer() -> None:
    async def run() -> None:
        rows = Rows()
        rows.coming.put_nowait(BodyLost("gone"))
        with pytest.raises(BodyLost):
            await anext(rows.acks())

    asyncio.run(run())


def test_no_more_than_so_many_rows_are_on_their_way_and_an_answer_that_is_closed_reads_no_more() -> None:
    async def run() -> None:
        rows = Rows()
        for number in range(inserting.IN_FLIGHT_MAX + 100):
            rows.send(id=number)
        acks = rows.acks()
        first = asyncio.ensure_future(anext(acks))
        while len(rows.deliveries) < inserting.IN_FLIGHT_MAX:
            await asyncio.sleep(0)
        for _ in range(1_000):
            await asyncio.sleep(0)
        # the queue is full, one is waited for and one waits for room
        assert len(rows.deliveries) == inserting.IN_FLIGHT_MAX + 2
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [each async for each in acks] == []

    asyncio.run(run())


def test_lines_of_a_body_that_came_at_once() -> None:
    async def run() -> list[bytes]:
        request = Request("POST", "/inserts-stream", ("inserts-stream",), body=b'{"target":"S"}\n\n{"A":1}\n  \n')
        return [each async for each in inserting.lines_of(request)]

    assert asyncio.run(run()) == [b'{"target":"S"}', b'{"A":1}']


@pytest.mark.parametrize("count", [0, 1, 3])
def test_who_accepts_json_gets_one_array_of_acknowledgements(count: int) -> None:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(count):
            yield json.dumps({"seq": number}).encode() + b"\n"

    async def scene() -> bytes:
        return b"".join([each async for each in _as_array(lines())])

    assert json.loads(asyncio.run(scene())) == [{"seq": number} for number in range(count)]


def _columns() -> SourceInfo:
    session = Session()
    session.run(
        "CREATE STREAM s (i INT, b BIGINT, d DECIMAL(30, 2), f DOUBLE, a ARRAY<INT>, m MAP<STRING, DECIMAL(4, 2)>,"
        " s STRUCT<n BIGINT, at ARRAY<TIMESTAMP>>)"
        " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
    )
    return session.catalog.find("S")


@pytest.mark.parametrize(
    "row",
    [
        '{"i": 99999999999}',
        '{"i": 1.5}',
        '{"b": 9223372036854775808}',
        '{"b": 0.5}',
        '{"d": 1e28}',
        '{"d": "1e28"}',
        '{"f": 1e400}',
        '{"f": "1e400"}',
        '{"a": [1, 99999999999]}',
        '{"a": [1.5]}',
        '{"m": {"x": 123}}',
        '{"s": {"n": 9223372036854775808}}',
        '{"s": "{\\"n\\": 9223372036854775808}"}',
        '{"s": {"at": [1.5]}}',
    ],
)
def test_a_number_that_the_column_cannot_hold_is_refused_and_not_cut(row: str) -> None:
    with pytest.raises(SqlError, match="Can't coerce a field of the row"):
        inserting.row_of(_columns(), inserting.parsed(row.encode()))


def test_decimals_of_rows_are_rounded_half_up_as_ksqldb_does() -> None:
    row = inserting.parsed(b'{"d": 1.005, "m": {"x": "2.345", "y": 0.30000000000000004}}')
    _, values = inserting.row_of(_columns(), row)
    assert values[2] == Decimal("1.01")
    assert values[5] == {"x": Decimal("2.35"), "y": Decimal("0.30")}


def test_dates_and_times_of_rows_may_be_text() -> None:
    """As ksqlDB's Java client sends them."""
    session = Session()
    session.run(
        "CREATE STREAM s (d DATE, t TIME, ts TIMESTAMP, s STRUCT<at ARRAY<TIMESTAMP>>)"
        " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
    )
    text = (
        b'{"D": "1970-01-02", "T": "00:00:01", "TS": "1970-01-01T00:00:00.001", "S": {"AT": ["1970-01-01T00:00:00"]}}'
    )
    _, found = inserting.row_of(session.catalog.find("S"), inserting.parsed(text))
    begin = datetime(1970, 1, 1)  # noqa: DTZ001  a TIMESTAMP has no zone
    assert found == [date(1970, 1, 2), time(0, 0, 1), begin + timedelta(milliseconds=1), {"AT": [begin]}]
    with pytest.raises(SqlError, match="Can't coerce"):
        inserting.row_of(session.catalog.find("S"), {"D": "never"})


def test_decimals_of_rows_keep_their_digits() -> None:
    row = inserting.parsed(b'{"i": 5.0, "b": -9223372036854775808, "d": 12345678901234567890.10, "f": 1.5}')
    _, values = inserting.row_of(_columns(), row)
    assert values == [5, -(2**63), Decimal("12345678901234567890.10"), 1.5, None, None, None]
    row = inserting.parsed(b'{"a": [2.0, null, "7"], "m": {"x": 1}, "s": {"n": 3, "at": [0, null]}}')
    _, values = inserting.row_of(_columns(), row)
    struct = {"N": 3, "AT": [datetime(1970, 1, 1), None]}  # noqa: DTZ001  a TIMESTAMP has no zone
    assert values[4:] == [[2, None, 7], {"x": Decimal("1.00")}, struct]


def _cased(name: str) -> list[Any]:
    session = Session()
    session.run("CREATE STREAM s (A INT, `a` INT, `b c` INT, `x``y` INT) WITH (kafka_topic='s', value_format='JSON');")
    return inserting.row_of(session.catalog.find("S"), {name: 1})[1]


@pytest.mark.parametrize(
    ("name", "place"), [("a", 0), ("A", 0), ("`a`", 1), ('"a"', 1), ("b c", 2), ("`b c`", 2), ("`x``y`", 3)]
)
def test_names_of_columns_may_stand_between_quotes(name: str, place: int) -> None:
    """ksqlDB's Java client names such columns so; they were refused."""
    assert _cased(name) == [1 if at == place else None for at in range(4)]


@pytest.mark.parametrize("name", ["`B C`", "`a", "`", "`x`y`", "nothing"])
def test_names_of_no_columns_are_refused(name: str) -> None:
    with pytest.raises(SqlError):
        _cased(name)


def test_a_column_has_one_value() -> None:
    session = Session()
    session.run("CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON');")
    with pytest.raises(SqlError, match="Found duplicate column name: `A`"):
        inserting.row_of(session.catalog.find("S"), {"a": 1, "`A`": 2})


_WITH_HEADER = "CREATE STREAM s (k INT KEY, h BYTES HEADER('h'), v INT) WITH (kafka_topic='s', value_format='JSON');"


def test_rows_for_a_stream_with_columns_of_headers_have_the_others() -> None:
    """Nothing could be inserted into it."""
    session = Session()
    session.run(_WITH_HEADER)
    (row,) = session.run("INSERT INTO s (k, v) VALUES (1, 2);")
    assert isinstance(row, Insertion)
    assert (row.key, row.value) == ([1], [2])
    assert inserting.row_of(session.catalog.find("S"), {"k": 1, "v": 2}) == ([1], [2])
    for statement in ("INSERT INTO s VALUES (1, 2);", "INSERT INTO s (k, h) VALUES (1, 'aa');"):
        with pytest.raises(SqlError, match="Cannot insert into HEADER columns: H"):
            session.run(statement)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"K": "a", "E": "A"}, "N: "),
        ({"K": "a", "N": 1}, "E: "),
        ({"K": "a", "N": 1, "E": "B"}, "E: "),
    ],
)
def test_a_row_that_the_registered_schema_does_not_take_is_refused_with_the_reason(
    row: dict[str, Any], why: str
) -> None:
    """INSERT VALUES was an Internal Server Error, and the answer of /inserts-stream broke off."""
    schemas = MemorySchemas()
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [{"name": "N", "type": "int"}, {"name": "E", "type": enum}]
    schemas.add("s-value", SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": fields}))
    session = Session(schemas=schemas)
    session.run("CREATE STREAM s (k STRING KEY) WITH (kafka_topic='s', value_format='AVRO');")
    target = session.catalog.find("S")
    with pytest.raises(SqlError, match=f"Failed to insert values into 'S'. The row cannot be written as AVRO: {why}"):
        inserting.record_of(target, *inserting.row_of(target, row))
    assert inserting.record_of(target, *inserting.row_of(target, {**row, "N": 1, "E": "A"}))[0] == b"a"

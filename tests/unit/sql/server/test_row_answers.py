"""Rows as clients of ksqlDB read them: headers, forms, what ends them, and keys of tables that are gone."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headwater.schemas import SchemaType
from headwater.schemas import parse as parse_schema
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_reader
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import parse
from headwater.sql.language.tree import Role
from headwater.sql.plan.catalog import Column
from headwater.sql.plan.session import Session
from headwater.sql.server import pull, push
from headwater.sql.server.accepting import DELIMITED, JSON, KSQL_JSON, PROTOBUF
from headwater.sql.server.row_answers import Answer, sent

_COLUMNS = (Column("K", types.INTEGER, Role.KEY), Column("N", types.STRING))
_TABLE = "CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');"
_STREAM = "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"


def _answer(*rows: list[Any], **more: Any) -> Answer:
    async def each() -> AsyncIterator[list[Any]]:
        for row in rows:
            yield row

    return Answer(more.pop("query_id", None), _COLUMNS, each(), **more)


def _body(answer: Answer, form: str) -> bytes:
    async def read() -> bytes:
        return b"".join([each async for each in sent(answer, form)])

    return asyncio.run(read())


def _ends(answer: Answer) -> str | None:
    last: dict[str, str] = json.loads(_body(answer, KSQL_JSON))[-1]
    return last.get("finalMessage")


def test_each_form_has_the_header_and_the_rows() -> None:
    plain = [{"queryId": "q", "columnNames": ["K", "N"], "columnTypes": ["INTEGER", "STRING"]}, [1, "a"]]
    assert [json.loads(each) for each in _body(_answer([1, "a"], query_id="q"), DELIMITED).splitlines()] == plain
    assert json.loads(_body(_answer([1, "a"], query_id="q"), JSON)) == plain
    assert json.loads(_body(_answer([1, "a"], query_id="q"), KSQL_JSON)) == [
        {"header": {"queryId": "q", "schema": "`K` INTEGER KEY, `N` STRING"}},
        {"row": {"columns": [1, "a"]}},
    ]


def test_a_pull_query_has_an_id_too() -> None:
    """It was null where rows come line by line, and the same for all in the older form."""
    ids = [json.loads(_body(_answer(), DELIMITED))["queryId"] for _ in range(2)]
    ids += [json.loads(_body(_answer(), KSQL_JSON))[0]["header"]["queryId"] for _ in range(2)]
    assert [each[:6] for each in ids] == ["query_"] * 4
    assert len(set(ids)) == 4


def test_messages_of_protobuf_have_the_type_that_the_header_names() -> None:
    header, row = json.loads(_body(_answer([7, "a"]), PROTOBUF))
    schema = parse_schema(SchemaType.PROTOBUF, header["header"]["protoSchema"])
    assert isinstance(schema, ProtobufSchema)
    assert [(each.name, each.type) for each in schema.file.messages[0].fields] == [("K", "int32"), ("N", "string")]
    read = compile_message_reader(schema.file.messages[0])
    assert read(base64.b64decode(row["row"]["protobufBytes"])) == {"K": 7, "N": "a"}


def test_what_ends_rows_of_a_log_is_told() -> None:
    """The limit was named although the rows had ended before it, and the end of a stream was not told at all."""
    assert _ends(_answer([1, "a"], goes_by=True, limit=1)) == "Limit Reached"
    assert _ends(_answer([1, "a"], goes_by=True, limit=2)) == "Query Completed"
    assert _ends(_answer(goes_by=True, limit=0)) == "Limit Reached"
    assert _ends(_answer([1, "a"], goes_by=True)) == "Query Completed"
    assert _ends(_answer([1, "a"])) is None  # of a table


def _pieces(answer: Answer, form: str) -> list[bytes]:
    async def read() -> list[bytes]:
        return [each async for each in sent(answer, form)]

    return asyncio.run(read())


def test_each_row_that_goes_by_ends_its_line() -> None:
    """The end of a line came with the next row, so ksqlDB's clients, which read lines, were a row behind."""
    header, row, last = _pieces(_answer([1, "a"], query_id="q", goes_by=True), KSQL_JSON)
    assert (header[:1], header[-2:]) == (b"[", b",\n")
    assert row == b'{"row":{"columns":[1,"a"]}},\n'
    assert last == b'{"finalMessage":"Query Completed"}]\n'
    assert json.loads(header + row + last)[1] == {"row": {"columns": [1, "a"]}}


@pytest.mark.parametrize("goes_by", [False, True])
def test_what_fails_between_rows_is_the_last_thing_told(goes_by: bool) -> None:
    """In the older form it had no `errorMessage` around it, without which ksqlDB's clients cannot read it."""

    async def rows() -> AsyncIterator[list[Any]]:
        yield [1, "a"]
        raise SqlError("The disk is full.")

    told = {"@type": "generic_error", "error_code": 50000, "message": "The disk is full"}
    for form, shown in ((DELIMITED, told), (JSON, told), (KSQL_JSON, {"errorMessage": told})):
        body = _body(Answer("q", _COLUMNS, rows(), goes_by=goes_by), form)
        found = [json.loads(each) for each in body.splitlines()] if form == DELIMITED else json.loads(body)
        assert (len(found), found[-1]) == (3, shown)


def test_a_key_that_is_gone_is_told_in_the_older_form() -> None:
    found = json.loads(_body(_answer([1, "a"], push.Tombstone([1, None])), KSQL_JSON))
    assert found[1:] == [{"row": {"columns": [1, "a"]}}, {"row": {"columns": [1, None], "tombstone": True}}]


def _planned(statements: str, asked: str) -> push.Plan:
    session = Session()
    session.run(statements)
    (statement,) = parse(asked)
    assert isinstance(statement, tree.Select)
    return push.plan(statement.query, session.catalog, "nowhere:1", {})


def _pushed(planned: push.Plan, *records: tuple[str, int | None, Any]) -> list[tuple[list[Any], bool]]:
    """Rows, and whether they tell that a key is gone, for records of topics."""
    driver = planned.app.test()
    for at, (topic, key, value) in enumerate(records):
        raw = None if key is None else key.to_bytes(4, "big")
        driver.pipe(topic, raw, None if value is None else json.dumps(value).encode(), at)
    return [(list(each), isinstance(each, push.Tombstone)) for each in planned.finished(tombstones=True)]


@pytest.mark.parametrize(
    ("select", "there", "gone"),
    [("*", [1, 5], [1, None]), ("v", [5], [None]), ("IFNULL(v, 0) AS w, k", [5, 1], [None, 1])],
)
def test_a_push_query_on_a_table_tells_of_keys_that_are_gone(select: str, there: list[Any], gone: list[Any]) -> None:
    """They were left out. Only columns of the key have values in such a row, whatever NULL would make of others."""
    planned = _planned(_TABLE, f"SELECT {select} FROM t EMIT CHANGES;")
    assert _pushed(planned, ("t", 1, {"v": 5}), ("t", 1, None)) == [(there, False), (gone, True)]


def test_without_tombstones_only_rows_are_given() -> None:
    planned = _planned(_TABLE, "SELECT * FROM t EMIT CHANGES;")
    driver = planned.app.test()
    for value in (b'{"v": 5}', None, b'{"v": 6}'):
        driver.pipe("t", (1).to_bytes(4, "big"), value, 0)
    assert planned.finished() == [[1, 5], [1, 6]]


def test_a_row_of_a_table_that_no_longer_passes_is_gone() -> None:
    planned = _planned(_TABLE, "SELECT k, v FROM t WHERE v > 3 EMIT CHANGES;")
    changes = [("t", 2, {"v": 1}), ("t", 1, {"v": 5}), ("t", 1, {"v": 2}), ("t", 1, {"v": 1}), ("t", 2, None)]
    assert _pushed(planned, *changes) == [([1, 5], False), ([1, None], True)]  # nobody was told of 2


def test_a_gone_group_has_the_bounds_of_its_window() -> None:
    asked = (
        "SELECT k, WINDOWSTART, SUM(v) AS n, WINDOWEND FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k "
        "HAVING SUM(v) > 3 EMIT CHANGES;"
    )
    found = _pushed(_planned(_STREAM, asked), ("s", 1, {"v": 5}), ("s", 1, {"v": -4}))
    assert found == [([1, 0, 5, 10_000], False), ([1, 0, None, 10_000], True)]


_HAVING = "SELECT k, SUM(v) AS n FROM s WINDOW {window} GROUP BY k HAVING SUM(v) > 3 EMIT CHANGES;"  # by the key: no repartition


@pytest.mark.parametrize(
    ("window", "kept", "late", "in_time"),
    [
        ("TUMBLING (SIZE 1 SECOND, GRACE PERIOD 2 SECONDS)", 3, 46_999, 47_000),
        ("TUMBLING (SIZE 1 SECOND, RETENTION 5 SECONDS, GRACE PERIOD 2 SECONDS)", 5, 46_999, 47_000),
        ("HOPPING (SIZE 2 SECONDS, ADVANCE BY 1 SECOND, GRACE PERIOD 2 SECONDS)", 4, 45_999, 46_000),
        ("SESSION (500 MILLISECONDS, GRACE PERIOD 2500 MILLISECONDS)", 3, 45_999, 46_500),
    ],
)
def test_a_push_query_forgets_windows_that_cannot_change(window: str, kept: int, late: int, in_time: int) -> None:
    """Each window that had passed HAVING was remembered for as long as the query ran."""
    planned = _planned(_STREAM, _HAVING.format(window=window))
    driver = planned.app.test()

    def seen(at: int, value: int) -> list[tuple[int | None, bool]]:
        driver.pipe("s", (1).to_bytes(4, "big"), json.dumps({"v": value}).encode(), at)
        return [(row[1], isinstance(row, push.Tombstone)) for row in planned.finished(tombstones=True)]

    for second in range(50):
        assert (5, False) in seen(second * 1000, 5)
        assert len(planned.told) == min(second + 1, kept)
    assert seen(late, -40) == []
    assert (None, True) in seen(in_time, -40), "it passes no more"
    assert len(planned.told) < kept


def test_a_window_of_a_task_that_is_behind_can_still_change() -> None:
    """Each task of a query has a time of its own."""
    window = "TUMBLING (SIZE 1 SECOND, GRACE PERIOD 2 SECONDS)"
    planned = _planned(_STREAM, _HAVING.format(window=window))
    driver = planned.app.test(partitions=2)
    for partition, at, value in ((0, 0, 5), (1, 100_000, 5), (1, 200_000, 5), (0, 500, -4)):
        driver.pipe("s", partition.to_bytes(4, "big"), json.dumps({"v": value}).encode(), at, partition=partition)
        told = planned.finished(tombstones=True)
    assert [(list(each), isinstance(each, push.Tombstone)) for each in told] == [([0, None], True)]


def test_a_push_query_gathers_all_rows_without_group_by() -> None:
    """It was refused, as in persistent queries, which need a key."""
    planned = _planned(_STREAM, "SELECT COUNT(*) AS n, SUM(v) AS sum FROM s EMIT CHANGES;")
    assert [each.name for each in planned.columns] == ["N", "SUM"]
    found = _pushed(planned, ("s", 1, {"v": 5}), ("s", None, {"v": 2}))
    assert found == [([1, 5], False), ([2, 7], False)]


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ("SELECT * FROM a JOIN b ON a.v = b.k EMIT CHANGES;", "not supported on windowed tables"),
        (
            "SELECT k, COUNT(*) FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k HAVING MIN(WINDOWSTART) > 5 EMIT CHANGES;",
            "Window bounds column WINDOWSTART can only be used in the SELECT clause",
        ),
        ("SELECT k, COUNT(*) FROM s EMIT CHANGES;", "not part of GROUP BY: K"),
    ],
)
def test_a_push_query_that_has_no_meaning_is_refused(asked: str, refusal: str) -> None:
    window = "window_type='TUMBLING', window_size='1 SECOND'"
    tables = "".join(
        f"CREATE TABLE {name} (k INT PRIMARY KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', {window});"
        for name in ("a", "b")
    )
    with pytest.raises(SqlError, match=refusal):
        _planned(_STREAM + tables, asked)


@pytest.mark.parametrize(
    ("select", "schema"),
    [
        ("*", "`K` INTEGER KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `V` INTEGER"),
        ("v, k, ROWTIME", "`V` INTEGER, `K` INTEGER KEY, `ROWTIME` BIGINT"),
        ("k + 1 AS k", "`K` INTEGER"),
        ("COUNT(*) AS n", "`N` BIGINT"),
    ],
)
def test_a_pull_query_on_a_table_says_which_columns_are_its_key(select: str, schema: str) -> None:
    session = Session()
    session.run(_TABLE.replace("'JSON'", "'JSON', window_type='TUMBLING', window_size='1 SECOND'"))
    (statement,) = parse(f"SELECT {select} FROM t;")
    assert isinstance(statement, tree.Select)
    planned = pull.plan(statement.query, session.catalog.sources["T"], "T")
    assert ", ".join(map(str, planned.columns)) == schema

"""A snapshot that does not end goes on with the table that it was at, as long as its slot is where it was."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.connect.connectors.postgres_cdc.catalog import Moment, Slot
from headwater.connect.connectors.postgres_cdc.column_types import TypeInfo
from headwater.connect.connectors.postgres_cdc.connector import PostgresCdcTask
from headwater.connect.connectors.postgres_cdc.table_model import Column, Table
from headwater.connect.data.record import SourceRecord
from unit.connect.postgres_cdc.test_begin_anew import Postgres

ROWS = {"a": 3, "b": 0, "c": 2, "d": 1}
ALL = [(name, number) for name, count in ROWS.items() for number in range(count)]


class Tables(Postgres):
    """Each with some rows of one column."""

    def tables(self) -> list[Any]:
        return [(number, "public", name) for number, name in enumerate(ROWS)]

    def types(self) -> dict[int, Any]:
        return {1: TypeInfo(1, "int4")}

    def table(self, _oid: int, schema: str, name: str) -> Table:
        return Table(schema, name, (Column("id", 1),), ("id",))

    @contextlib.contextmanager
    def snapshot(self, _exported: str | None) -> Iterator[Any]:
        def rows(table: Table, _override: str | None) -> Iterator[tuple[str]]:
            return ((str(number),) for number in range(ROWS[table.name]))

        yield SimpleNamespace(moment=lambda: Moment(120, 1, 1), rows=rows)


def given(task: PostgresCdcTask, count: int) -> list[SourceRecord]:
    found: list[SourceRecord] = []
    while len(found) < count:
        polled = task.poll()
        if polled is None:
            break
        found += polled
    return found[:count]


def shown(records: list[SourceRecord]) -> list[tuple[str, int]]:
    assert {each.value.get("op") for each in records} <= {"r"}
    return [(each.topic.rpartition(".")[2], int(each.value.get("after").get("id"))) for each in records]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Tables:
    made = Tables(monkeypatch)
    made.stored = None
    return made


@pytest.mark.parametrize("count", range(1, len(ALL)))
def test_tables_that_were_read_are_not_read_again(server: Tables, count: int) -> None:
    first = given(server.task("initial"), count)
    assert shown(first) == ALL[:count]
    server.stored = first[-1].source_offset
    rest = shown(given(server.task("initial"), len(ALL)))
    table = ALL[count][0]  # the next row's: its own come again, if some of them were there
    assert rest == [row for row in ALL if row[0] >= table]
    assert set(shown(first)) | set(rest) == set(ALL)


def test_the_end_is_the_end_however_often_it_was_interrupted(server: Tables) -> None:
    seen = []
    for _ in range(len(ALL)):
        found = given(server.task("initial"), 3)
        seen += shown(found)
        server.stored = found[-1].source_offset
        if server.stored is not None and "lsn_unit" in server.stored:
            break
    assert server.stored is not None
    assert "snapshot" not in server.stored
    assert "headwater_tables_read" not in server.stored
    assert set(seen) == set(ALL)


def test_a_slot_that_has_moved_or_is_gone_makes_all_tables_come_again(server: Tables) -> None:
    first = given(server.task("initial"), 4)
    server.stored = first[-1].source_offset
    server.the_slot = Slot("pgoutput", False, 101, False)
    assert shown(given(server.task("initial"), len(ALL))) == ALL
    server.the_slot = None
    assert shown(given(server.task("initial"), len(ALL))) == ALL


def test_the_offset_holds_plain_values_alone(server: Tables) -> None:
    for record in given(server.task("initial"), len(ALL)):
        assert record.source_offset is not None
        assert all(value is None or isinstance(value, str | int | bool) for value in record.source_offset.values())


def test_the_rows_of_a_table_share_the_text_that_names_the_tables_before(
    server: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of tables, a text of its own for each row would be most of what a snapshot costs."""
    monkeypatch.setitem(ROWS, "c", 5)
    offsets = [each.source_offset or {} for each in given(server.task("initial"), 9)]
    texts = [each.get("headwater_tables_read") for each in offsets]
    assert texts == [None] * 2 + ['["public.a"]'] * 5 + ['["public.a", "public.c"]', None]
    assert len({id(text) for text in texts[3:7]}) == 1

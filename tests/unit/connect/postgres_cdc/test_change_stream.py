"""From messages of the log to records: what is given again after a crash, and what is not."""

from typing import Any

import pytest

from headwater.connect.config.definition import ConfigValue
from headwater.connect.connectors.postgres_cdc import options
from headwater.connect.connectors.postgres_cdc.catalog import Moment
from headwater.connect.connectors.postgres_cdc.change_stream import ChangeStream, Position, Settings, position_of
from headwater.connect.connectors.postgres_cdc.column_rules import ColumnRules
from headwater.connect.connectors.postgres_cdc.column_types import Modes, TypeInfo
from headwater.connect.connectors.postgres_cdc.envelope import SOURCE_SCHEMA, TRANSACTION_SCHEMA, Envelopes, Names
from headwater.connect.connectors.postgres_cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from headwater.connect.connectors.postgres_cdc.snapshot import snapshot_offset
from headwater.connect.connectors.postgres_cdc.table_model import Column, Naming, Table, TableModel
from headwater.connect.data import schema as s
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import DataError

CONFIG = {"topic.prefix": "srv", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
TYPES = {1: TypeInfo(1, "int4"), 2: TypeInfo(2, "text")}
RELATION = Relation(3, "public", "t", "d", (RelationColumn("id", 1, -1, True), RelationColumn("v", 2, -1, False)))
TABLE = Table("public", "t", (Column("id", 1, required=True), Column("v", 2)), ("id",))


def describe(_relation: Relation) -> TableModel:
    rules = ColumnRules(options.CONFIG_DEF.parse(CONFIG), {})
    return TableModel(TABLE, TYPES, Modes(), rules, Naming("srv"), SOURCE_SCHEMA, TRANSACTION_SCHEMA)


class Log:
    """A log, of which each stream is given all."""

    def __init__(self) -> None:
        self.messages: list[tuple[Any, int]] = [(RELATION, 0)]

    def transaction(self, final: int, *changes: tuple[Any, int], xid: int = 0) -> None:
        self.messages += [
            (Begin(final, 1000, xid or final), changes[0][1]),
            *changes,
            (Commit(final, final + 8, 1000), final),
        ]

    def read(self, offset: dict[str, Any] | None = None, **settings: Any) -> list[SourceRecord]:
        envelopes = Envelopes(Names("srv", "d", "srv.transaction", "beat", "srv.message", (), s.BYTES))
        done = position_of(offset) if offset is not None else Position()
        stream = ChangeStream(envelopes, describe, Settings(**settings), done, offset)
        return [record for message, lsn in self.messages for record in stream.on(message, lsn, 5_000_000)]


@pytest.fixture
def log() -> Log:
    made = Log()
    made.transaction(
        100, (Insert(3, ("1", "a")), 10), (Insert(3, ("2", "b")), 10), (Update(3, None, False, ("1", UNCHANGED)), 20)
    )
    made.messages.append((LogicalMessage(False, 110, "alone", b"x"), 110))
    made.transaction(200, (Delete(3, ("1", None), False), 30), (Update(3, ("2", None), False, ("4", "d")), 150))
    return made


def shown(records: list[SourceRecord]) -> list[Any]:
    return [
        (each.key and each.key.as_dict().get("id"), each.value and each.value["op"])
        for each in records
        if each.topic == "srv.public.t"
    ]


def test_changes_in_the_order_of_commits(log: Log) -> None:
    records = log.read()
    assert shown(records) == [(1, "c"), (2, "c"), (1, "u"), (1, "d"), (1, None), (2, "d"), (2, None), (4, "c")]
    assert records[2].value["after"]["v"] == "__debezium_unavailable_value"
    assert [header.key for each in records[-3:] for header in each.headers] == [
        "__debezium.newkey",
        "__debezium.newkey",
        "__debezium.oldkey",
    ]


def test_after_a_crash_at_any_record_the_rest_comes_and_nothing_twice_but_parts_of_one_change(log: Log) -> None:
    whole = log.read(transactions=True)
    for number, record in enumerate(whole):
        offset = record.source_offset
        rest = log.read(None if offset is None else dict(offset), transactions=True)
        again = number + 1 - (len(whole) - len(rest))
        assert 0 <= again <= 3, (
            number
        )  # a deletion and its tombstone before the last record of a change; a transaction's beginning
        assert [(each.topic, each.key, each.value) for each in rest] == [
            (each.topic, each.key, each.value) for each in whole[len(whole) - len(rest) :]
        ]


def test_the_offset_of_debezium_is_taken_over(log: Log) -> None:
    offset = {"lsn_proc": 10, "messageType": "INSERT", "lsn_commit": 50, "lsn": 10, "txId": 100, "ts_usec": 1}
    assert shown(log.read(offset))[0] == (1, "u")


def test_transactions_are_counted_and_begin_and_end_in_a_topic_of_their_own(log: Log) -> None:
    records = log.read(transactions=True)
    told = [each.value.as_dict() for each in records if each.topic == "srv.transaction"]
    assert [(each["status"], each["event_count"]) for each in told] == [
        ("BEGIN", None),
        ("END", 3),
        ("BEGIN", None),
        ("END", 3),
    ]
    blocks = [each.value["transaction"] for each in records if each.topic == "srv.public.t" and each.value is not None]
    assert [each["total_order"] for each in blocks] == [1, 2, 3, 1, 2, 3]


def test_operations_that_are_not_wanted_are_left_out_and_truncations_by_default() -> None:
    log = Log()
    log.transaction(100, (Insert(3, ("1", "a")), 10), (Truncate((3,)), 20))
    assert shown(log.read()) == [(1, "c")]
    assert shown(log.read(skipped=frozenset({"c"}))) == [(None, "t")]


def test_a_row_that_cannot_be_read_fails_the_task_or_is_left_out() -> None:
    log, left_out = Log(), []
    log.transaction(100, (Insert(3, ("one", "a")), 10), (Insert(3, ("2", "b")), 20))
    with pytest.raises(DataError, match=r"public\.t cannot be read"):
        log.read()
    assert shown(log.read(on_failure=left_out.append)) == [(2, "c")]
    assert len(left_out) == 1


def errors(**props: str) -> list[str]:
    given = {**CONFIG, **{name.replace("_", "."): value for name, value in props.items()}}
    found: dict[str, ConfigValue] = options.CONFIG_DEF.validate(given)
    options.check(given, found)
    return [error for each in found.values() for error in each.errors]


def test_an_update_of_no_wanted_column_is_left_out_if_that_is_wanted() -> None:
    log = Log()
    before = [Update(3, ("1", "a"), True, ("1", each)) for each in "ab"]
    log.transaction(100, (before[0], 10), (before[1], 20), (Update(3, None, False, ("1", "b")), 30))
    assert [each.value["op"] for each in log.read()] == ["u", "u", "u"]
    found = log.read(skips_unchanged=True, transactions=True)[1:-1]
    assert [each.value["after"]["v"] for each in found] == ["b", "b"]
    assert [each.value["transaction"]["total_order"] for each in found] == [1, 2]


def test_each_property_that_debezium_documents_is_known_or_refused_by_name() -> None:
    assert errors() == []
    for name in ("signal.data.collection", "converters", "snapshot.max.threads", "lsn.flush.mode", "openlineage.x"):
        assert errors(**{name: "2"}) == [f"{name} is not supported here; remove it"]
    assert "decoderbufs" in errors(plugin_name="decoderbufs")[0]
    assert "not both" in errors(table_include_list="a", table_exclude_list="b")[0]
    assert "lower case" in errors(slot_name="My-Slot")[0]
    assert "v2" in errors(**{"column.mask.hash.SHA-256.with.salt.x": "a.b.c"})[0]
    assert "table:column" in errors(message_key_columns="nothing")[0]
    assert "is missing" in errors(**{"snapshot.select.statement.overrides": "public.t"})[0]


def test_the_transaction_that_ends_where_the_stream_begins_comes_after_the_snapshot() -> None:
    """Its commit record stands at the slot's consistent point, its changes before it."""
    log = Log()
    log.transaction(100, (Insert(3, ("1", "a")), 80), (Insert(3, ("2", "b")), 90))
    assert shown(log.read(snapshot_offset(Moment(100, 7, 1000), 100, finished=True))) == [(1, "c"), (2, "c")]

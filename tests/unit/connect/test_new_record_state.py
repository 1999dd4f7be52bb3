"""What becomes of Debezium's changes, by ExtractNewRecordState."""

from typing import Any

import pytest

from headwater.connect.connector_config.validation import validate
from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord, Header
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.plugins import Catalog, Kind

ROW = s.struct([("id", s.INT32), ("v", s.OPTIONAL_STRING.changed(default="none"))], name="p.public.t.Value")
SOURCE = s.struct([("table", s.STRING), ("lsn", s.OPTIONAL_INT64)], name="Source")
TRANSACTION = s.struct([("id", s.STRING), ("total_order", s.INT64)], optional=True)
ENVELOPE = s.struct(
    [
        ("before", ROW.as_optional()),
        ("after", ROW.as_optional()),
        ("source", SOURCE),
        ("op", s.STRING),
        ("ts_ms", s.OPTIONAL_INT64),
        ("transaction", TRANSACTION),
    ],
    name="p.public.t.Envelope",
)


def row(number: int, text: str | None = "x") -> Struct:
    return Struct(ROW.as_optional(), {"id": number, "v": text})


def change(op: str, before: Struct | None = None, after: Struct | None = None, **more: Any) -> ConnectRecord:
    given = {"source": Struct(SOURCE, {"table": "t", "lsn": 5}), "op": op, "ts_ms": 7, "before": before, "after": after}
    value = Struct(ENVELOPE, {name: each for name, each in given.items() if each is not None})
    return ConnectRecord(topic="p.public.t", key_schema=s.INT32, key=1, value_schema=ENVELOPE, value=value, **more)


def of(record: ConnectRecord, **config: str) -> ConnectRecord | None:
    made = Catalog().find("ExtractNewRecordState", Kind.TRANSFORMATION).make()
    made.configure({name.replace("_", "."): value for name, value in config.items()})
    found = made.apply(record)
    assert found is None or isinstance(found, ConnectRecord)
    return found


TOMBSTONE = ConnectRecord(topic="p.public.t", key_schema=s.INT32, key=1)


def test_a_row_is_what_it_is_now() -> None:
    for op in "cru":
        found = of(change(op, None if op != "u" else row(1, "old"), row(1, None)))
        assert found is not None
        assert found.value_schema == ROW
        assert found.value.values_without_defaults() == [1, None]
        assert (found.topic, found.key) == ("p.public.t", 1)


@pytest.mark.parametrize(
    ("mode", "deleted", "schema", "tombstone"),
    [
        ("tombstone", None, ROW.as_optional(), False),
        ("Delete-To-Tombstone", None, None, False),
        ("drop", False, None, False),
        ("rewrite", {"id": 1, "v": "x", "__deleted": "true"}, True, False),
        ("rewrite-with-tombstone", {"id": 1, "v": "x", "__deleted": "true"}, True, True),
    ],
)
def test_deletions(mode: str, deleted: Any, schema: Any, tombstone: bool) -> None:
    found = of(change("d", row(1)), delete_tombstone_handling_mode=mode)
    if deleted is False:
        assert found is None
    else:
        assert found is not None
        assert (found.value and found.value.as_dict()) == deleted
        assert schema is True or found.value_schema == schema
    assert (of(TOMBSTONE, delete_tombstone_handling_mode=mode) is not None) == tombstone
    kept = of(change("c", None, row(2)), delete_tombstone_handling_mode=mode)
    assert kept is not None
    assert ("__deleted" in kept.value.as_dict()) == mode.startswith("rewrite")


def test_nulls_become_defaults_where_rows_are_rewritten() -> None:
    for flag, expected in (("true", "none"), ("false", None)):
        found = of(change("c", None, row(1, None)), delete_tombstone_handling_mode="rewrite", replace_null_with_default=flag)  # fmt: skip
        assert found is not None
        assert found.value.values_without_defaults() == [1, expected, "false"]


def test_what_is_no_change_of_a_row() -> None:
    heartbeat = ConnectRecord(topic="h", value_schema=SOURCE, value=Struct(SOURCE, {"table": "t"}))
    assert of(heartbeat, add_headers="op") is heartbeat
    assert of(ConnectRecord(topic="j", value={"op": "c"})) == ConnectRecord(topic="j", value={"op": "c"})
    assert of(change("t")) is None  # a truncation


def test_what_is_said_of_a_change_is_added() -> None:
    fields = "op,table,source.lsn,ts_ms:at,transaction.total_order,nonesuch"
    found = of(change("c", None, row(1)), add_fields=fields, add_fields_prefix="_", add_headers="op,source.table")
    assert found is not None
    assert found.value.as_dict() == {"id": 1, "v": "x", "_op": "c", "_table": "t", "_source_lsn": 5, "_at": 7, "_transaction_total_order": None}  # fmt: skip
    added = found.value.schema.field("_op")
    assert added is not None
    assert (added.schema.type, added.schema.optional) == (Type.STRING, True)
    assert [(each.key, each.value) for each in found.headers] == [("__op", "c"), ("__source_table", "t")]
    gone = of(TOMBSTONE, add_headers="op,table", delete_tombstone_handling_mode="rewrite-with-tombstone")
    assert gone is not None
    assert gone.headers == (Header("__op", s.STRING, "d"),)
    with pytest.raises(DataError, match="no struct 'sauce' in the change: it has before"):
        of(change("c", None, row(1)), add_fields="sauce.lsn")


def test_a_field_is_the_topic() -> None:
    for record in (change("c", None, row(1, "there")), change("d", row(1, "there"))):
        found = of(record, route_by_field="v")
        assert found is not None
        assert found.topic == "there"
    with pytest.raises(DataError, match="'id' is no text"):
        of(change("c", None, row(1)), route_by_field="id")


def test_fields_that_a_header_names_are_taken_out() -> None:
    names: Schema = s.array(s.STRING)
    record = change("c", None, row(1), headers=(Header("drop", names, ["v", "id"]),))
    for compatible, expected in (("true", {"id": 1}), ("false", {})):
        found = of(record, drop_fields_header_name="drop", drop_fields_keep_schema_compatible=compatible)
        assert found is not None
        assert found.value.as_dict() == expected


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"add.fields": "a.b.c"}, "'a.b.c' is not field, struct.field or field:name"),
        ({"add.headers": "op:x:y"}, "'op:x:y' is not field"),
        ({"drop.tombstones": "false"}, r"drop.tombstones has no effect any more: delete.tombstone.handling.mode"),
        ({"delete.tombstone.handling.mode": "none"}, "String must be one of"),
    ],
)
def test_wrong_configs_are_told(config: dict[str, str], told: str) -> None:
    made = Catalog().find("io.debezium.transforms.ExtractNewRecordState", Kind.TRANSFORMATION).make()
    with pytest.raises(ConfigError, match=told):
        made.configure(config)
    given = {f"transforms.u.{name}": value for name, value in config.items()}
    checked = validate(Catalog(), {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "file": "f", "transforms": "u", "transforms.u.type": "ExtractNewRecordState", **given})  # fmt: skip
    assert len(checked.errors) == 1

"""Rows of an outbox table as events, by EventRouter."""

from typing import Any

import pytest

from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord, Header
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError, DataError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.transforms.json_payload import expanded

MICROS = Schema(Type.INT64, name="io.debezium.time.MicroTimestamp", version=1)
ROW = s.struct(
    [
        ("id", s.STRING), ("aggregatetype", s.STRING), ("aggregateid", s.STRING), ("type", s.STRING),
        ("payload", s.OPTIONAL_STRING), ("at", MICROS), ("part", s.OPTIONAL_INT32), ("v", s.OPTIONAL_INT32),
    ],
    name="p.public.outbox.Value", optional=True,
)  # fmt: skip
ENVELOPE = s.struct([("before", ROW), ("after", ROW), ("op", s.STRING), ("ts_ms", s.OPTIONAL_INT64)], name="p.public.outbox.Envelope")  # fmt: skip


def change(op: str = "c", payload: str | None = '{"a": 1}') -> ConnectRecord:
    row = Struct(ROW, {"id": "e1", "aggregatetype": "order", "aggregateid": "7", "type": "made", "payload": payload, "at": 9_000_123, "part": 3, "v": 2})  # fmt: skip
    value = Struct(ENVELOPE, {"after": row, "op": op, "ts_ms": 5})
    return ConnectRecord(topic="p.public.outbox", partition=0, value_schema=ENVELOPE, value=value, headers=(Header("h", s.STRING, "x"),))  # fmt: skip


def of(record: ConnectRecord, **config: str) -> ConnectRecord | None:
    made = Catalog().find("io.debezium.transforms.outbox.EventRouter", Kind.TRANSFORMATION).make()
    made.configure({name.replace("_", "."): value for name, value in config.items()})
    found = made.apply(record)
    assert found is None or isinstance(found, ConnectRecord)
    return found


def event(record: ConnectRecord, **config: str) -> ConnectRecord:
    found = of(record, **config)
    assert found is not None
    return found


def test_a_row_becomes_its_event() -> None:
    found = event(change())
    assert (found.topic, found.key, found.key_schema) == ("outbox.event.order", "7", s.STRING)
    assert (found.value, found.value_schema, found.timestamp_ms, found.partition) == ('{"a": 1}', s.OPTIONAL_STRING, 5, None)  # fmt: skip
    assert [(each.key, each.value) for each in found.headers] == [("h", "x"), ("id", "e1")]
    routed = event(change("r"), route_by_field="type", route_topic_replacement="events.$1", table_field_event_key="id")
    assert (routed.topic, routed.key) == ("events.made", "e1")
    assert event(change(), table_field_event_timestamp="at").timestamp_ms == 9_000


def test_other_columns_have_their_places() -> None:
    places = "type:header:kind, type:envelope, part:partition,v:envelope:number"
    found = event(change(), table_fields_additional_placement=places, table_field_event_schema_version="v")
    assert found.partition == 3
    assert found.headers[-1] == Header("kind", s.STRING, "made")
    assert found.value.as_dict() == {"payload": '{"a": 1}', "type": "made", "number": 2}
    assert found.value_schema is not None
    assert (found.value_schema.name, found.value_schema.version) == ("p.public.outbox.order.Value", 2)
    with pytest.raises(DataError, match="Unable to find field nonesuch in event"):
        of(change(), table_fields_additional_placement="nonesuch:header")
    kept = event(change(), table_fields_additional_placement="nonesuch:envelope", table_field_additional_missing="ignore")  # fmt: skip
    assert kept.value.as_dict() == {"payload": '{"a": 1}'}


def test_what_is_no_new_row_is_no_event(caplog: pytest.LogCaptureFixture) -> None:
    assert of(ConnectRecord(topic="t")) is None
    assert of(change("d")) is None
    assert of(change("u")) is None
    assert "event=outbox-row-updated" in caplog.text
    with pytest.raises(ConnectError, match="was updated"):
        of(change("u"), table_op_invalid_behavior="fatal")
    other = ConnectRecord(topic="h", value_schema=s.STRING, value="x")
    assert of(other) is other


def test_an_empty_payload_may_be_a_tombstone() -> None:
    for payload in (None, " "):
        assert event(change(payload=payload)).value == payload
        found = event(change(payload=payload), route_tombstone_on_empty_payload="true")
        assert (found.value, found.value_schema) == (None, None)


def test_a_payload_of_json_may_become_a_struct(caplog: pytest.LogCaptureFixture) -> None:
    given = {"table_expand_json_payload": "true"}
    found = event(change(payload='{"a": {"b": [1, null]}, "n": null, "e": []}'), **given)
    assert found.value_schema is not None
    assert (found.value_schema.name, [each.name for each in found.value_schema.fields]) == ("payload", ["a"])
    assert found.value.get("a").as_dict() == {"b": [1, None]}
    for payload in ("no json", "[1]", '{"a": [1, "x"]}', '{"a": 99999999999999999999}'):
        assert event(change(payload=payload), **given).value == payload
    assert caplog.text.count("event=payload-not-expanded") == 4


def _both(name: str) -> Schema:
    return s.struct([("x", s.OPTIONAL_INT32), ("y", s.OPTIONAL_INT32)], name=name, optional=True)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"a": 1, "b": 3000000000, "c": 1.5, "d": true, "e": "x"}', [s.OPTIONAL_INT32, s.OPTIONAL_INT64, s.OPTIONAL_FLOAT64, s.OPTIONAL_BOOLEAN, s.OPTIONAL_STRING]),
        ('{"n": null, "e": []}', [s.OPTIONAL_BYTES, s.array(s.OPTIONAL_STRING, optional=True)]),
        ('{"o": [{"a": {"x": 1}, "b": [{"x": 1}]}, {"a": {"y": 2}, "b": [{"y": 2}]}]}', [s.array(s.struct([("a", _both("p.o.a")), ("b", s.array(_both("p.o.b"), optional=True))], name="p.o", optional=True), optional=True)]),
        ('{"o": [{"a": null}, {"a": 1, "b": 2}]}', [s.array(s.struct([("a", s.OPTIONAL_INT32), ("b", s.OPTIONAL_INT32)], name="p.o", optional=True), optional=True)]),
    ],
)  # fmt: skip
def test_types_are_those_of_the_values(text: str, kinds: list[Any]) -> None:
    schema, value = expanded(text, "p", nulls_as_bytes=True, empty_as_texts=True)
    assert schema is not None
    assert [each.schema for each in schema.fields] == kinds
    assert isinstance(value, Struct)


@pytest.mark.parametrize("given", ["type", "type:body", "type:header:a:b"])
def test_a_wrong_place_is_told(given: str) -> None:
    with pytest.raises(ConfigError, match=r"table\.fields\.additional\.placement: .* is not field:header"):
        of(change(), table_fields_additional_placement=given)

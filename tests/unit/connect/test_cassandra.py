"""CassandraSink without a cluster: mappings, values, rows, properties."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from headwater.connect.config.validation import validate
from headwater.connect.connectors.cassandra.mapping import NOW, Source, parse, value_of
from headwater.connect.connectors.cassandra.options import TableOptions, tables_of, unsupported
from headwater.connect.connectors.cassandra.rows import UNSET, RowPlan, TableShape, Write, time_to_live, write_time
from headwater.connect.connectors.cassandra.values import to_cql
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError, DataError
from headwater.connect.plugins import Catalog


def record(value: Any, **more: Any) -> SinkRecord:
    return SinkRecord(**{"topic": "t", "partition": 0, "offset": 2007, "timestamp_ms": 5, "value": value, **more})


def test_a_mapping_is_read() -> None:
    assert parse('id=key , "My col" = value."odd.name".deep, h=header.x,at=now(), __ttl=value.ttl') == {
        "id": Source("key"),
        "My col": Source("value", ("odd.name", "deep")),
        "h": Source("header", ("x",)),
        "at": Source(NOW),
        "__ttl": Source("value", ("ttl",)),
    }


@pytest.mark.parametrize(
    "text", ["", "id", "id=", "id=body.x", "id=key id2=key", "id=key, id=value", "id=header", "id=header.a.b", "=key"]
)
def test_a_mapping_that_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="mapping"):
        parse(text)


def test_values_come_out_of_structs_maps_json_and_headers() -> None:
    schema = s.struct([("a", s.INT32)])
    for value in (Struct(schema, {"a": 1}), {"a": 1}, '{"a": 1}'):
        assert value_of(record(value), Source("value", ("a",))) == 1
    assert value_of(record(None), Source("value", ("a",))) is None
    assert value_of(record({}), Source("value", ("a",))) is None
    assert value_of(record("plain"), Source("value")) == "plain"
    headers = (Header("h", None, 1), Header("h", None, 2))
    assert value_of(record(None, headers=headers), Source("header", ("h",))) == 2
    with pytest.raises(DataError, match=r"no field value\.b"):
        value_of(record(Struct(schema, {"a": 1})), Source("value", ("b",)))
    with pytest.raises(DataError, match="has none"):
        value_of(record("plain"), Source("value", ("a",)))


MOMENT = datetime(2020, 2, 29, 1, 2, 3, tzinfo=UTC)
KNOWN = UUID("0e37df36-f698-11e6-8dd4-cb9ced3df976")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", "7", 7), ("tinyint", 127, 127), ("bigint", 3.0, 3), ("bigint", MOMENT, 1582938123000), ("varint", 2**70, 2**70),
        ("double", "0.5", 0.5), ("decimal", 0.1, Decimal("0.1")), ("boolean", "TRUE", True), ("boolean", 0, False),
        ("text", 5, "5"), ("text", True, "true"), ("text", {"a": [1]}, '{"a": [1]}'), ("ascii", "a", "a"),
        ("timestamp", 1582938123000, MOMENT), ("timestamp", "2020-02-29T01:02:03Z", MOMENT), ("timestamp", "1582938123000", MOMENT),
        ("date", "2020-02-29", date(2020, 2, 29)), ("date", MOMENT, date(2020, 2, 29)), ("time", "01:02:03", time(1, 2, 3)),
        ("uuid", str(KNOWN), KNOWN), ("blob", b"\x00", b"\x00"), ("blob", "0x00ff", b"\x00\xff"), ("blob", "AP8=", b"\x00\xff"),
        ("list<int>", ["1", 2], [1, 2]), ("set<text>", "[1, 2]", {"1", "2"}), ("map<text, frozen<list<int>>>", {"a": [1]}, {"a": [1]}),
        ("int", None, None),
    ],
)  # fmt: skip
def test_values_become_those_of_the_column(kind: str, value: Any, expected: Any) -> None:
    assert to_cql(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**31), ("tinyint", -129), ("int", 1.5), ("int", True), ("int", "x"), ("double", "x"), ("double", True),
        ("decimal", float("nan")), ("boolean", 2), ("boolean", "yes"), ("timestamp", "soon"), ("date", "x"), ("uuid", "x"),
        ("blob", "%"), ("blob", 3), ("ascii", "é"), ("list<int>", 5), ("list<int>", ["x"]), ("map<text, int>", [1]),
        ("duration", "1h"), ("vector<float, 3>", [1, 2, 3]),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_column_is_told(kind: str, value: Any) -> None:
    with pytest.raises(DataError):
        to_cql(kind, value)


SHAPE = TableShape({"id": "int", "name": "text", "n": "bigint"}, ["id"])


def plan(mapping: str = "id=key, name=value.name, n=value.n", **more: Any) -> RowPlan:
    return RowPlan(TableOptions("t", "ks", "tab", parse(mapping), **more), SHAPE)


def test_a_record_is_a_row_with_its_own_time() -> None:
    made = plan()
    assert made.insert == 'INSERT INTO "ks"."tab" ("id", "name", "n") VALUES (?, ?, ?) USING TIMESTAMP ?'
    assert made.delete == 'DELETE FROM "ks"."tab" USING TIMESTAMP ? WHERE "id" = ?'
    assert made.write(record({"name": "a", "n": 1}, key=7)) == Write(False, [7, "a", 1, 5007])
    assert made.write(record({"name": "a"}, key=7)) == Write(False, [7, "a", UNSET, 5007])
    assert plan(null_to_unset=False).write(record({"name": "a"}, key=7)).values == [7, "a", None, 5007]


def test_a_tombstone_or_a_row_of_nulls_deletes() -> None:
    for value in (None, {"name": None}):
        assert plan().write(record(value, key=7)) == Write(True, [5007, 7])
        assert not plan(deletes=False).write(record(value, key=7)).delete
    partly = plan("id=key, name=value.name")
    assert partly.write(record(None, key=7)).delete
    assert not partly.write(record({}, key=7)).delete  # another column may have a value
    with pytest.raises(DataError, match="primary key"):
        plan("id=value.id, name=value.name").write(record(None, key=7))


def test_times_and_lives_have_units() -> None:
    made = plan(
        "id=key, name=value.name, __ttl=value.ttl, __timestamp=value.at",
        ttl_unit="MILLISECONDS",
        timestamp_unit="SECONDS",
    )
    assert made.insert.endswith("USING TIMESTAMP ? AND TTL ?")
    assert made.write(record({"name": "a", "ttl": 2500, "at": 3}, key=1)).values == [1, "a", 3_000_000, 2]
    assert made.write(record({"name": "a"}, key=1)).values == [1, "a", UNSET, UNSET]
    assert time_to_live(TableOptions("t", "k", "t", {}, ttl=2, ttl_unit="HOURS"), record({})) == 7200
    assert write_time(TableOptions("t", "k", "t", {}), record({}, timestamp_ms=None)) is UNSET
    with pytest.raises(DataError, match="cannot be a int"):
        time_to_live(TableOptions("t", "k", "t", {}, ttl=2**31), record({}))


def test_a_mapping_that_does_not_go_with_the_table_is_told() -> None:
    assert plan("ID=key, name=now()").insert.startswith('INSERT INTO "ks"."tab" ("id", "name") VALUES (?, now())')
    for mapping, sentence in (("id=key, x=value", "no column 'x'"), ("name=value", "'id' of the primary key")):
        with pytest.raises(ConnectError, match=sentence):
            plan(mapping)
    with pytest.raises(ConnectError, match=r"no table ks\.tab"):
        RowPlan(TableOptions("t", "ks", "tab", {}), TableShape({}, ()))
    with pytest.raises(ConnectError, match="counter, which is not supported"):
        RowPlan(
            TableOptions("t", "ks", "tab", parse("id=key, c=value")), TableShape({"id": "int", "c": "counter"}, ["id"])
        )


def test_properties_of_tables_are_read() -> None:
    found = tables_of(
        {
            'topic.my.topic."Ks".tab.mapping': "id=key",
            'topic.my.topic."Ks".tab.ttl': "60",
            'topic.my.topic."Ks".tab.consistencyLevel': "quorum",
            'topic.my.topic."Ks".tab.deletesEnabled': "false",
            "topic.creation.default.partitions": "1",
        }
    )
    assert found == [TableOptions("my.topic", "Ks", "tab", {"id": Source("key")}, "QUORUM", 60, deletes=False)]
    assert unsupported({"topic.t.codec.locale": "x", "topic.t.ks.tab.mapping": "id=key", "datastax-java-driver.a": "1", "jmx": "true"}) == [
        "datastax-java-driver.a", "jmx", "topic.t.codec.locale"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "wrong", "sentence"),
    [
        ({"topic.t.ks.tab.consistencyLevel": "MOST"}, "contactPoints", "topic.t.ks.tab.consistencyLevel is one of"),
        ({"topic.t.ks.tab.ttl": "x"}, "contactPoints", "topic.t.ks.tab.ttl"),
        ({"topic.t.ks.tab.mapping": "id"}, "contactPoints", "topic.t.ks.tab.mapping: expected"),
        ({"topic.t.ks.tab.query": "INSERT"}, "contactPoints", "deletesEnabled=false"),
        ({"topics": "t,u"}, "contactPoints", "topic.u.<keyspace>.<table>.mapping is missing"),
        ({"cloud.secureConnectBundle": "/x.zip"}, "contactPoints", "cloud.secureConnectBundle is not supported"),
        ({"contactPoints": "a,b"}, "loadBalancing.localDc", "data center"),
        ({"auth.provider": "GSSAPI"}, "auth.provider", "GSSAPI"),
        ({"auth.provider": "PLAIN"}, "auth.username", "needs it"),
        ({"ssl.provider": "JDK", "ssl.truststore.path": "/nowhere"}, "ssl.provider", "/nowhere"),
    ],
)
def test_wrong_configs_are_told_at_their_property(config: dict[str, str], wrong: str, sentence: str) -> None:
    given = {"name": "c", "connector.class": "com.datastax.oss.kafka.sink.CassandraSinkConnector", "topics": "t"}
    checked = validate(Catalog(installed=False), {**given, "topic.t.ks.tab.mapping": "id=key", **config})
    errors = {name: each.errors for name, each in checked.values.items() if each.errors}
    assert list(errors) == [wrong]
    assert sentence in errors[wrong][0]

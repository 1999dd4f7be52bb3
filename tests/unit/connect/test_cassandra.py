"""CassandraSink without a cluster: mappings, values, rows, properties."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from cassandra import InvalidRequest, Unauthorized

from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.cassandra.mapping import NOW, Source, parse, value_of
from headwater.connect.connectors.cassandra.options import TableOptions, tables_of, unsupported
from headwater.connect.connectors.cassandra.rows import (
    UNSET,
    RowPlan,
    TableShape,
    Write,
    WriteTimes,
    located,
    time_to_live,
    write_time,
)
from headwater.connect.connectors.cassandra.sink import CassandraSinkConnector
from headwater.connect.connectors.cassandra.values import to_cql
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from headwater.connect.plugins import Catalog
from headwater.testing.connect import SinkKit


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
    assert write_time(TableOptions("t", "k", "t", {}), record({}, timestamp_ms=None), WriteTimes()) is UNSET
    with pytest.raises(DataError, match="cannot be a int"):
        time_to_live(TableOptions("t", "k", "t", {}, ttl=2**31), record({}))


def times_of(times: WriteTimes, *records: tuple[int, int]) -> list[int]:
    """Of offsets and milliseconds."""
    return [times.of(("t", 0), offset, timestamp_ms) for offset, timestamp_ms in records]


def test_the_later_record_counts_though_the_offset_passes_a_thousand() -> None:
    times = WriteTimes()
    assert times_of(times, (999, 5), (1000, 5), (1003, 5)) == [5999, 6000, 6003]
    assert times_of(times, (1004, 6), (1500, 7)) == [6004, 7500]
    assert times.of(("t", 1), 1000, 5) == 5000  # another partition
    plans = plan()
    first, second = (plans.write(record({"name": "a"}, key=7, offset=offset)) for offset in (999, 1000))
    assert (first.values[-1], second.values[-1]) == (5999, 6000)


def test_times_that_ran_ahead_are_waited_for() -> None:
    times = WriteTimes()
    assert times_of(times, (0, 5), (2500, 5), (2501, 6), (2502, 6)) == [5000, 7500, 7501, 7502]


def test_a_record_that_comes_again_has_the_time_that_it_had() -> None:
    times = WriteTimes()
    records = [(offset, 5) for offset in range(990, 2010)]
    first = times_of(times, *records)
    assert first == sorted(set(first))
    assert times_of(times, *records[500:]) == first[500:]
    assert times_of(times, *records) == first
    assert times_of(times, (989, 4), *records) == [4989, *first]  # from before them


def test_a_record_that_is_late_has_its_own_time() -> None:
    assert times_of(WriteTimes(), (999, 5), (1000, 3), (1001, 5)) == [5999, 3000, 5001]


def keyspaces(*columns: str, keyspace: str = "ks", table: str = "tab") -> dict[str, Any]:
    made = SimpleNamespace(
        columns={name: SimpleNamespace(cql_type="int") for name in columns}, primary_key=[SimpleNamespace(name="id")]
    )
    return {keyspace: SimpleNamespace(tables={table: made})}


def test_names_are_quoted_as_the_database_has_them() -> None:
    options = TableOptions("t", "KS", "Tab", parse("ID=key"))
    found, shape = located(options, keyspaces("id"))
    assert RowPlan(found, shape).insert.startswith('INSERT INTO "ks"."tab" ("id")')
    exact, _ = located(options, keyspaces("id", keyspace="KS", table="Tab"))
    assert (exact.keyspace, exact.table) == ("KS", "Tab")
    for nowhere in ({}, keyspaces("id", table="other")):
        assert located(options, nowhere) == (options, TableShape({}, ()))


class FakeCluster:
    """All rows are refused. `afterwards`: the tables once the driver has asked for them again."""

    def __init__(self, afterwards: dict[str, Any]) -> None:
        self.metadata = SimpleNamespace(keyspaces=keyspaces("id"))
        self.afterwards, self.cluster = afterwards, self

    def prepare(self, cql: str) -> Any:
        return SimpleNamespace(bind=lambda values: (cql, values))

    def refresh_table_metadata(self, keyspace: str, table: str) -> None:
        assert (keyspace, table) == ("ks", "tab")
        self.metadata.keyspaces = self.afterwards

    def shutdown(self) -> None: ...


def refusing(monkeypatch: pytest.MonkeyPatch, afterwards: dict[str, Any], *errors: Exception) -> SinkKit:
    kit = SinkKit(CassandraSinkConnector, {"topic.t.ks.tab.mapping": "id=key"})
    fake = FakeCluster(afterwards)
    monkeypatch.setattr(kit.task, "_cluster", fake)
    monkeypatch.setattr(kit.task, "_session", fake)
    monkeypatch.setattr(
        "cassandra.concurrent.execute_concurrent", lambda *_args, **_options: [(False, each) for each in errors]
    )
    return kit


def test_a_row_that_is_refused_is_reported_while_its_table_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = refusing(monkeypatch, keyspaces("id"), InvalidRequest("too long"))
    kit.put(kit.record({}, key=1))
    assert [str(error) for _, error in kit.reported] == ["Cassandra refused the row: too long"]
    kit.close()


def test_rows_of_a_table_that_is_gone_or_changed_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for afterwards, error, sentence in (
        ({}, ConnectError, r"no table ks\.tab any more"),
        (keyspaces("id", "more"), RetriableError, r"ks\.tab has changed"),
    ):
        kit = refusing(monkeypatch, afterwards, InvalidRequest("unconfigured table"))
        with pytest.raises(error, match=sentence):
            kit.put(kit.record({}, key=1))
        assert kit.reported == []
        kit.close()


def test_no_row_is_reported_when_the_batch_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for trouble, error in ((Unauthorized("no right"), ConnectError), (OSError("away"), RetriableError)):
        kit = refusing(monkeypatch, keyspaces("id"), InvalidRequest("too long"), trouble)
        with pytest.raises(error, match="Cassandra said"):
            kit.put(kit.record({}, key=1), kit.record({}, key=2))
        assert kit.reported == []
        kit.close()


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

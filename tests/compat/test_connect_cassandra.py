"""CassandraSink on a real Cassandra: collected only under `make soak`, for its jars and its size (see conftest.py)."""

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from compat.support.cassandra import CassandraNode, running_cassandra
from headwater.client import Producer
from headwater.connect.connectors.cassandra.sink import CassandraSinkConnector
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import ConnectWorker, SinkKit

pytestmark = [pytest.mark.soak(only=True), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def node() -> Iterator[CassandraNode]:
    with running_cassandra() as made:
        made("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        yield made


def login(node: CassandraNode) -> dict[str, str]:
    return {
        "contactPoints": "127.0.0.1",
        "port": str(node.port),
        "loadBalancing.localDc": "datacenter1",
        "auth.provider": "PLAIN",
        "auth.username": "cassandra",
        "auth.password": "cassandra",
    }


def sink(node: CassandraNode, table: str, mapping: str, **more: str) -> SinkKit:
    settings = {f"topic.t.shop.{table}.{name}": value for name, value in {"mapping": mapping, **more}.items()}
    return SinkKit(CassandraSinkConnector, {**login(node), **settings})


def record(kit: SinkKit, value: Any, key: Any, timestamp_ms: int = 1000) -> SinkRecord:
    made: SinkRecord = kit.record(value, key=key).replaced(timestamp_ms=timestamp_ms)
    return made


def test_rows_deletions_and_types(node: CassandraNode) -> None:
    node("""CREATE TABLE shop.types (id int PRIMARY KEY, t text, b boolean, d double, n decimal, ts timestamp, da date, ti time, u uuid,
        bl blob, l list<int>, s set<text>, m map<text, frozen<list<int>>>, i inet, at timeuuid)""")  # fmt: skip
    names = ("t", "b", "d", "n", "ts", "da", "ti", "u", "bl", "l", "s", "m", "i")
    kit = sink(node, "types", ", ".join(["id=key", *(f"{name}=value.{name}" for name in names), "at=now()"]))
    row = {
        "t": "é", "b": True, "d": 0.5, "n": "1.50", "ts": 1582938123004, "da": "2020-02-29", "ti": "01:02:03", "bl": b"\x00\xff",
        "u": "0e37df36-f698-11e6-8dd4-cb9ced3df976", "l": [1, 2], "s": ["a"], "m": {"k": [3]}, "i": "127.0.0.1",
    }  # fmt: skip
    kit.put(record(kit, row, 1), record(kit, row, 2), record(kit, None, 2))
    found = node(f"SELECT id, {', '.join(names)} FROM shop.types")
    assert len(found) == 1
    assert found[0][:6] == (1, "é", True, 0.5, Decimal("1.50"), datetime(2020, 2, 29, 1, 2, 3, 4000))  # noqa: DTZ001
    assert (found[0][6].date(), found[0][7].time(), found[0][8]) == (date(2020, 2, 29), time(1, 2, 3), UUID(row["u"]))
    assert (found[0][9], list(found[0][10]), set(found[0][11]), found[0][13]) == (
        b"\x00\xff",
        [1, 2],
        {"a"},
        "127.0.0.1",
    )
    assert {name: list(each) for name, each in found[0][12].items()} == {"k": [3]}
    assert node("SELECT writetime(t) FROM shop.types") == [(1_000_000,)]
    kit.close()


def test_the_last_record_of_a_key_counts_though_its_records_come_twice(node: CassandraNode) -> None:
    node("CREATE TABLE shop.last (id int PRIMARY KEY, n int)")
    kit = sink(node, "last", "id=key, n=value.n")
    records = [
        record(kit, None if n % 10 == 3 else {"n": 500 - n}, n % 10) for n in range(500)
    ]  # all of one millisecond
    kit.put(*records)
    kit.put(*records[:250])  # as after a crash
    kit.close()
    assert sorted(node("SELECT id, n FROM shop.last")) == [(each, 10 - each) for each in range(10) if each != 3]


def test_a_life_and_a_query_of_ones_own(node: CassandraNode) -> None:
    node("CREATE TABLE shop.lives (id int PRIMARY KEY, n int)")
    kit = sink(node, "lives", "id=key, n=value.n, __ttl=value.ttl", ttlTimeUnit="HOURS", consistencyLevel="ALL")
    kit.put(record(kit, {"n": 1, "ttl": 1}, 1), record(kit, {"n": 2}, 2))
    kit.close()
    lives = dict(node("SELECT id, ttl(n) FROM shop.lives"))
    assert 3000 < lives[1] <= 3600
    assert lives[2] is None
    query = "UPDATE shop.lives SET n = :amount WHERE id = :which"
    kit = sink(node, "lives", "which=key, amount=value.n", query=query, deletesEnabled="false")
    kit.put(*(record(kit, {"n": number}, 1) for number in range(20)))
    kit.close()
    assert dict(node("SELECT id, n FROM shop.lives")) == {1: 19, 2: 2}


def test_records_that_do_not_fit_are_reported(node: CassandraNode) -> None:
    node("CREATE TABLE shop.fits (id text PRIMARY KEY, n int)")
    kit = sink(node, "fits", "id=key, n=value.n")
    kit.put(record(kit, {"n": "x"}, "a"), record(kit, {"n": 1}, ""), record(kit, {"n": 2}, "b"))
    assert [(each.offset, str(error)) for each, error in kit.reported] == [
        (0, "Column 'n': The value 'x' cannot be a int"),
        (1, 'Cassandra refused the row: Error from server: code=2200 [Invalid query] message="Key may not be empty"'),
    ]
    kit.close()
    assert node("SELECT id, n FROM shop.fits") == [("b", 2)]
    kit = SinkKit(
        CassandraSinkConnector, {**login(node), "topic.t.shop.fits.mapping": "id=key, n=value.n", "ignoreErrors": "All"}
    )
    kit.put(record(kit, {"n": "x"}, "a"))
    assert kit.reported == []
    kit.close()
    missing = sink(node, "nowhere", "id=key")
    with pytest.raises(ConnectError, match=r"no table shop\.nowhere"):
        missing.put(record(missing, {}, "a"))
    missing.close()


def test_a_wrong_password_and_a_cluster_that_is_not_there(node: CassandraNode) -> None:
    wrong = SinkKit(
        CassandraSinkConnector, {**login(node), "auth.password": "wr0ng-one", "topic.t.shop.x.mapping": "id=key"}
    )
    with pytest.raises(ConnectError, match=r"credentials|username") as caught:
        wrong.put(record(wrong, {}, 1))
    assert "wr0ng-one" not in str(caught.value)
    away = SinkKit(CassandraSinkConnector, {**login(node), "port": "1", "topic.t.shop.x.mapping": "id=key"})
    with pytest.raises(RetriableError, match="Cannot connect"):
        away.put(record(away, {}, 1))


def test_records_of_a_topic_are_rows_though_the_node_goes_away(
    node: CassandraNode, broker_address: str, topic: str
) -> None:
    node("CREATE TABLE shop.goods (id text PRIMARY KEY, n int)")
    config = {
        **login(node),
        "connector.class": "com.datastax.oss.kafka.sink.CassandraSinkConnector",
        "topics": topic,
        f"topic.{topic}.shop.goods.mapping": "id=key, n=value.n",
        "queryExecutionTimeout": "5",
    }
    converters = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}

    def send(numbers: range) -> None:
        with Producer({"bootstrap.servers": broker_address}) as producer:
            for number in numbers:
                producer.send(topic, key=f"k{number}".encode(), value=f'{{"n": {number}}}'.encode())

    def count() -> int:
        return len(node("SELECT id FROM shop.goods"))

    send(range(300))
    with ConnectWorker(broker_address, settings=converters) as worker:
        worker.create(f"{topic}-sink", config)
        worker.until(lambda: count() == 300, 300)
        node.stop()
        send(range(200, 400))
        node.start()
        worker.until(lambda: count() == 400, 300)
        assert "cassandra'" not in str(worker.herder.info(f"{topic}-sink").get("auth.password", ""))

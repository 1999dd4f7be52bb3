"""Several SQL servers of one service id: one runs the queries, and when it is killed another goes on with them."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.quick import quick
from compat.support.sql_server import SqlServer
from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.client.types import ConfigResource, ResourceType
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.command_log import Command

_SOURCE = "CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='{}', value_format='JSON', partitions=2);"
_TOTALS = "CREATE TABLE totals WITH (kafka_topic='{}-totals') AS SELECT n, COUNT(*) AS c FROM s GROUP BY n;"
_QUERIES = ("CTAS_TOTALS_1", "CSAS_BIG_2")
_PATIENCE_S = 300


def test_a_server_that_is_killed_is_taken_over_from_and_nothing_counts_twice(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    """The group of servers keeps the place of a dead one for 45 seconds; the others find out before."""
    with (
        SqlServer(broker_address, tmp_path / "one", topic) as one,
        SqlServer(broker_address, tmp_path / "two", topic) as two,
    ):
        one.run(_SOURCE.format(topic))
        one.run(_TOTALS.format(topic))
        _insert(two, 0, 10)
        _until_counted(two, 10)
        leader, other = _leader_and_other(one, two)
        until(lambda: _running(other, leader) == ["CTAS_TOTALS_1"], "the other does not see it run", _PATIENCE_S)
        both = {one.url.rpartition("/")[2]: True, two.url.rpartition("/")[2]: True}
        until(lambda: _alive(other) == both, "the servers do not see each other", _PATIENCE_S)
        assert json.loads(other.call("GET", "/healthcheck")[1])["isHealthy"]
        _insert(other, 10, 15)
        gone = leader.url.rpartition("/")[2]
        leader.kill()  # in the middle of counting
        _insert(other, 15, 25)
        _until_counted(other, 25)
        assert "event=servers_gone" in other.log  # not because a session has ended
        until(lambda: _alive(other)[gone] is False and _leads(other, other), "nobody has taken over", _PATIENCE_S)
        (shown,) = other.run("SHOW QUERIES;")
        assert [(each["id"], each["state"]) for each in shown["queries"]] == [("CTAS_TOTALS_1", "RUNNING")]
        survivor = {other.url.rpartition("/")[2]}
        until(lambda: _reporting(broker_address, topic) == survivor, "reports of the killed stay", _PATIENCE_S)
        # the next life of the one that was killed is a server like any other
        leader.start()
        _insert(leader, 25, 30)
        _until_counted(leader, 30)
        assert other.stop() == 0  # it leaves, and the other has the queries at once
        _insert(leader, 30, 35)
        _until_counted(leader, 35)
        assert leader.ask("SELECT COUNT(*) AS n FROM totals WHERE c = 35;") == [[1]]


def test_servers_that_take_statements_at_once_agree_and_each_statement_knows_those_before_it(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    """Both tried theirs over the same log: what was written second was carried out over what it had not been tried
    with.
    """
    text = f"CREATE STREAM {{}} (n INT) WITH (kafka_topic='{topic}-{{}}', value_format='JSON', partitions=1);"
    with (
        SqlServer(broker_address, tmp_path / "one", topic) as one,
        SqlServer(broker_address, tmp_path / "two", topic) as two,
        ThreadPoolExecutor(2) as pool,
    ):

        def write(server: SqlServer, own: str, barrier: Barrier) -> list[int]:
            codes = []
            for number in range(12):
                barrier.wait(_PATIENCE_S)
                for name in (f"{own}{number}", f"both{number}"):
                    codes.append(server.call("POST", "/ksql", {"ksql": text.format(name, name)})[0])
            return codes

        barrier = Barrier(2)
        ones, twos = pool.map(write, (one, two), ("a", "b"), (barrier, barrier))
        assert ones[::2] == twos[::2] == [200] * 12
        assert [sorted(codes) for codes in zip(ones[1::2], twos[1::2], strict=True)] == [[200, 400]] * 12
        wanted = sorted(f"{kind}{number}".upper() for kind in ("a", "b", "both") for number in range(12))
        for server in (one, two):
            (shown,) = server.run("SHOW STREAMS;")
            assert sorted(each["name"] for each in shown["streams"]) == wanted


def test_every_server_tells_the_true_states_of_queries_and_the_lags_of_their_stores(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    patient = {"ksql_query_retry_backoff_initial_ms": "600000", "ksql_query_retry_backoff_max_ms": "600000"}
    with (
        SqlServer(broker_address, tmp_path / "one", topic, **patient) as one,
        SqlServer(broker_address, tmp_path / "two", topic, **patient) as two,
    ):
        one.run(_SOURCE.format(topic))
        one.run(_TOTALS.format(topic))
        one.run(f"CREATE STREAM big WITH (kafka_topic='{topic}-big') AS SELECT id, LPAD(n, 2000, '-') AS n FROM s;")
        _insert(one, 0, 10)
        _until_counted(two, 10)
        leader, other = _leader_and_other(one, two)
        host = leader.url.rpartition("/")[2]
        for server in (leader, other):
            until(lambda of=server: _states(of) == dict.fromkeys(_QUERIES, ("RUNNING", host)), "another state", 300)
            lags = _status(server)[host]["hostStoreLags"]
            assert isinstance(lags, dict)
            (store,) = lags["stateStoreLags"]
            assert store.startswith(f"_confluent-ksql-{topic}query_CTAS_TOTALS_1#")
            partitions = lags["stateStoreLags"][store]["lagByPartition"]
            assert {each["offsetLag"] for each in partitions.values()} == {0}
            assert sorted(partitions) == ["0", "1"]
            assert max(each["endOffsetPosition"] for each in partitions.values()) > 0
        # a query that died says so, and why, wherever one asks
        other.run("PAUSE CTAS_TOTALS_1;")
        with Admin(bootstrap_servers=broker_address) as admin:
            wanted = {"max.message.bytes": "1000"}  # it cannot write any more
            admin.alter_configs({ConfigResource(ResourceType.TOPIC, f"{topic}-big"): wanted})
        _insert(one, 10, 11)
        expected = {"CTAS_TOTALS_1": ("PAUSED", None), "CSAS_BIG_2": ("ERROR", host)}
        for server in (other, leader):
            until(lambda of=server: _states(of)["CSAS_BIG_2"] == expected["CSAS_BIG_2"], "it does not say so", 300)
            assert _states(server)["CTAS_TOTALS_1"][0] == "PAUSED"
            (shown,) = server.run("SHOW QUERIES;")
            counts = {each["id"]: each["statusCount"] for each in shown["queries"]}
            assert counts == {"CTAS_TOTALS_1": {"PAUSED": 1}, "CSAS_BIG_2": {"ERROR": 1}}
            (described,) = server.run("EXPLAIN CSAS_BIG_2;")
            assert described["queryDescription"]["queryErrors"][0]["errorMessage"]
            assert not json.loads(server.call("GET", "/healthcheck")[1])["details"]["queries"]["isHealthy"]


def test_a_server_whose_process_stands_still_is_unresponsive_and_taken_over_from(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    """Its kernel goes on taking connections, so only that it does nothing tells; the group would wait 45 seconds."""
    impatient = {"ksql_heartbeat_silent_max_ms": "3000", "ksql_heartbeat_check_interval_ms": "100"}
    with (
        SqlServer(broker_address, tmp_path / "one", topic, **impatient) as one,
        SqlServer(broker_address, tmp_path / "two", topic, **impatient) as two,
    ):
        one.run(_SOURCE.format(topic))
        one.run(_TOTALS.format(topic))
        _insert(two, 0, 10)
        _until_counted(two, 10)
        leader, other = _leader_and_other(one, two)
        until(lambda: _alive(other) == dict.fromkeys(_alive(other), True), "the servers do not see each other", 300)
        os.kill(leader.pid, signal.SIGSTOP)
        _insert(other, 10, 15)
        until(lambda: _running(other, other) == ["CTAS_TOTALS_1"], "nobody has taken over", _PATIENCE_S)
        assert "event=servers_gone" in other.log
        _until_counted(other, 15)
        os.kill(leader.pid, signal.SIGCONT)  # it goes on as if nothing had been, and is told otherwise
        _insert(leader, 15, 20)
        _until_counted(leader, 20)
        _until_counted(other, 20)
        told = ("RUNNING", other.url.rpartition("/")[2])
        until(lambda: _states(leader)["CTAS_TOTALS_1"] == told, "it does not see what the other runs", _PATIENCE_S)


def _leader_and_other(one: SqlServer, two: SqlServer) -> tuple[SqlServer, SqlServer]:
    until(lambda: _leads(one, one) or _leads(two, two), "none of the servers leads", _PATIENCE_S)
    leader, other = (one, two) if _leads(one, one) else (two, one)
    until(lambda: bool(_running(other, leader)), "the other does not see it run", _PATIENCE_S)
    return leader, other


def _states(server: SqlServer) -> dict[str, tuple[str, str | None]]:
    """Of each query: its state, and the host that runs it."""
    (shown,) = server.run("SHOW QUERIES EXTENDED;")
    return {
        each["id"]: (each["state"], next(iter(each["ksqlHostQueryStatus"]), None))
        for each in shown["queryDescriptions"]
    }


def test_a_server_whose_brokers_are_dead_ends_within_seconds(
    broker_factory: Callable[..., BrokerProcess], topic: str, tmp_path: Path
) -> None:
    """It took a minute or two: half a minute to leave its group, and the rest for the last states of its queries."""
    broker = broker_factory(tmp_path / "broker", **quick())
    with SqlServer(broker.bootstrap, tmp_path / "state", topic) as server:
        server.run(_SOURCE.format(topic))
        server.run(_TOTALS.format(topic))
        _insert(server, 0, 5)
        _until_counted(server, 5)
        broker.kill()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 10 * LAST_WORDS_S


def test_a_query_id_that_is_used_again_begins_anew_though_nobody_cleaned_up(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    """The leader died between the statement that ended the query and the deletion of its group: the next query of the
    same id went on at the old offsets, and nobody deleted what was left.
    """
    log, client = f"_confluent-ksql-{topic}_command_topic", {"bootstrap.servers": broker_address}
    group = f"_confluent-ksql-{topic}query_MINE"
    copied = "INSERT INTO t WITH (QUERY_ID='mine') SELECT id, v FROM s;"
    with SqlServer(broker_address, tmp_path / "one", topic) as one:
        one.run(_SOURCE.format(topic))
        one.run(
            f"CREATE STREAM t (id INT KEY, v INT) WITH (kafka_topic='{topic}-t', value_format='JSON', partitions=1);"
        )
        one.run(copied)
        _insert(one, 0, 3)
        until(lambda: len(one.ask("SELECT id FROM t;")) == 3, "the rows do not come", _PATIENCE_S)
        until(lambda: group in _groups(broker_address), "it has no group", _PATIENCE_S)
        assert one.stop() == 0  # the next one leads at once; a clean end deletes nothing either
    with Producer(client) as producer:  # what a server has written that died before it carried it out
        for statement in ("TERMINATE MINE;", copied):
            producer.send(log, Command(statement).encode(), partition=0).result()
    with SqlServer(broker_address, tmp_path / "one", topic) as two:
        until(lambda: len(two.ask("SELECT id FROM t;")) == 6, "it does not begin anew", _PATIENCE_S)
        until(lambda: group not in _groups(broker_address), "what was left is still there", _PATIENCE_S)
        assert f"{group}_r4" in _groups(broker_address)
        assert not (tmp_path / "one" / group).exists()


def _groups(broker_address: str) -> list[str]:
    with Admin({"bootstrap.servers": broker_address}) as admin:
        return [each.group_id for each in admin.list_groups()]


def _reporting(broker_address: str, service: str) -> set[str]:
    """The addresses of the servers that have records in the topic of states."""
    place = TopicPartition(f"_confluent-ksql-{service}_query_states", 0)
    latest: dict[bytes | None, bytes | None] = {}
    with Consumer({"bootstrap.servers": broker_address, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            latest |= {record.key: record.value for record in consumer.poll(1.0)}
    return {json.loads(value)["server"].partition("@")[0] for value in latest.values() if value is not None}


def _insert(server: SqlServer, first: int, end: int) -> None:
    server.run(" ".join(f"INSERT INTO s VALUES ({number}, 'n', 1);" for number in range(first, end)))


def _until_counted(server: SqlServer, count: int) -> None:
    until(lambda: server.ask("SELECT c FROM totals;") == [[count]], "the total is another", _PATIENCE_S)


def _status(server: SqlServer) -> dict[str, dict[str, object]]:
    status, body = server.call("GET", "/clusterStatus")
    assert status == 200, body
    found: dict[str, dict[str, object]] = json.loads(body)["clusterStatus"]
    return found


def _running(asked: SqlServer, of: SqlServer) -> list[str]:
    status = _status(asked).get(of.url.rpartition("/")[2], {})
    shown = status.get("activeStandbyPerQuery", {})
    assert isinstance(shown, dict)
    return list(shown)


def _leads(asked: SqlServer, of: SqlServer) -> bool:
    return bool(_running(asked, of))


def _alive(server: SqlServer) -> dict[str, object]:
    return {name: each["hostAlive"] for name, each in _status(server).items()}

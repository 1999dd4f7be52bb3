"""Several SQL servers of one service id: one runs the queries, and when it is killed another goes on with them."""

import json
from pathlib import Path

from compat.support.members import until
from compat.support.sql_server import SqlServer

_SOURCE = "CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='{}', value_format='JSON', partitions=2);"
_TOTALS = "CREATE TABLE totals WITH (kafka_topic='{}-totals') AS SELECT n, COUNT(*) AS c FROM s GROUP BY n;"
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
        until(lambda: _leads(one, one) or _leads(two, two), "none of the servers leads", _PATIENCE_S)
        leader, other = (one, two) if _leads(one, one) else (two, one)
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
        # the next life of the one that was killed is a server like any other
        leader.start()
        _insert(leader, 25, 30)
        _until_counted(leader, 30)
        assert other.stop() == 0  # it leaves, and the other has the queries at once
        _insert(leader, 30, 35)
        _until_counted(leader, 35)
        assert leader.ask("SELECT COUNT(*) AS n FROM totals WHERE c = 35;") == [[1]]


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

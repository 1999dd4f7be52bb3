"""/healthcheck says what is so: brokers that do not answer, statements that are not carried out, queries that died."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.sql.language.errors import SqlError
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import Engine
from headwater.sql.server.health import Health, cluster_status
from headwater.sql.server.peers import Member, ProbeResult, ServerName, Watch
from headwater.sql.server.query_host import StoreProgress
from headwater.sql.server.query_states import QueryState

_STREAM = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"
_TABLE = "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
_APPLICATION = "_confluent-ksql-default_query_CTAS_T_1"
_STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000002"
_CHANGELOG = f"{_APPLICATION}-{_STORE}-changelog"


class Topic:
    def __init__(self, name: str, count: int) -> None:
        self.name, self.partitions = name, [None] * count


class Node:
    """A server that is well, until the test says otherwise."""

    def __init__(self, interval_ms: int = 0) -> None:
        self.config, _ = SqlServerConfig.of({"ksql.healthcheck.interval.ms": str(interval_ms)})
        self.engine = Engine("default_", "nowhere:1")
        for offset, statement in enumerate((_STREAM, _TABLE)):
            self.engine.apply(offset, Command(statement).encode())
        self.follows = True
        self.watch: Watch | None = None
        self.answer: Any = "described"
        self.behind: Any = 0
        self.states: dict[str, str] = {}
        self.restored: list[StoreProgress] = []
        self.asked = 0

    @property
    def admin(self) -> "Node":
        return self

    async def describe_topics(self, names: list[str]) -> dict[str, Any]:
        self.asked += 1
        if isinstance(self.answer, OSError):
            raise self.answer
        return dict.fromkeys(names, self.answer)

    async def list_topics(self) -> list[Topic]:
        return [
            Topic("in", 2),
            Topic("_confluent-ksql-default_query_CTAS_T_1-x-repartition", 1),
            Topic(_CHANGELOG, 2),
            Topic("other", 9),
        ]

    async def statements_behind(self) -> int:
        if isinstance(self.behind, KafkaError):
            raise self.behind
        return int(self.behind)

    async def ask_states(self) -> None:
        pass

    def state(self, query_id: str) -> QueryState:
        return QueryState(self.states.get(query_id, "RUNNING"))

    def restoring(self, _query_id: str) -> list[StoreProgress]:
        return self.restored

    async def list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {each: SimpleNamespace(offset=100 + each.partition) for each in wanted}


def _look(node: Node) -> dict[str, Any]:
    return asyncio.run(Health(cast("Any", node)).look())


def test_a_server_that_is_well() -> None:
    found = _look(Node())
    assert found["isHealthy"]
    assert found["serverState"] == "READY"
    assert {name: each["isHealthy"] for name, each in found["details"].items()} == {
        "metastore": True,
        "kafka": True,
        "commandRunner": True,
        "queries": True,
    }


@pytest.mark.parametrize(
    ("change", "unwell", "state"),
    [
        ({"answer": OSError("no route")}, {"kafka"}, "READY"),
        ({"answer": KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")}, {"kafka"}, "READY"),
        ({"behind": KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late")}, {"metastore"}, "READY"),
        ({"follows": False}, {"metastore", "commandRunner"}, "ERROR"),
        ({"catalog.withheld": {"F": SqlError("not here")}}, {"commandRunner"}, "READY"),
    ],
)
def test_what_is_wrong_is_told(change: dict[str, Any], unwell: set[str], state: str) -> None:
    node = Node()
    for name, value in change.items():
        setattr(node.engine.session.catalog if "." in name else node, name.rpartition(".")[2], value)
    found = _look(node)
    assert not found["isHealthy"]
    assert {name for name, each in found["details"].items() if not each["isHealthy"]} == unwell
    assert found["serverState"] == state


def test_a_query_that_died_is_told_and_the_server_is_well() -> None:
    node = Node()
    node.states["CTAS_T_1"] = "ERROR"
    found = _look(node)
    assert (found["isHealthy"], found["details"]["queries"]["isHealthy"]) == (True, False)


def test_many_who_ask_get_one_look() -> None:
    node = Node(interval_ms=3_600_000)

    async def scene() -> None:
        health = Health(cast("Any", node))
        await asyncio.gather(*(health.look() for _ in range(10)))

    asyncio.run(scene())
    assert node.asked == 1


def test_the_status_of_the_servers() -> None:
    node = Node()
    assert asyncio.run(cluster_status(cast("Any", node))) == {}
    one, two = ServerName("one", 8088, "m", "a"), ServerName("two", 8088, "m", "b")
    node.watch = Watch(one, 1)
    node.watch.on_look([Member(one, True), Member(two, False)], {two: ProbeResult.REFUSED}, 7)
    found = asyncio.run(cluster_status(cast("Any", node)))
    assert {name: (each["hostAlive"], each["lastStatusUpdateMs"]) for name, each in found.items()} == {
        "one:8088": (True, 7),
        "two:8088": (False, 7),
    }
    assert found["two:8088"]["activeStandbyPerQuery"] == {}
    query = found["one:8088"]["activeStandbyPerQuery"]["CTAS_T_1"]
    assert query["activeStores"]
    places = [(each["topic"], each["partition"]) for each in query["activePartitions"]]
    assert places == [("in", 0), ("in", 1), ("_confluent-ksql-default_query_CTAS_T_1-x-repartition", 0)]


def _lags(node: Node) -> Any:
    one = ServerName("one", 8088, "m", "a")
    node.watch = Watch(one, 1)
    node.watch.on_look([Member(one, True)], {}, 7)
    return asyncio.run(cluster_status(cast("Any", node)))["one:8088"]["hostStoreLags"]["stateStoreLags"]


def test_a_store_that_is_restored_is_nowhere_behind() -> None:
    node = Node()
    (name,) = node.engine.session.queries["CTAS_T_1"].app.topology().stores
    assert name == _STORE
    assert _lags(node) == {
        f"{_APPLICATION}#{_STORE}": {
            "lagByPartition": {
                "0": {"currentOffsetPosition": 100, "endOffsetPosition": 100, "offsetLag": 0},
                "1": {"currentOffsetPosition": 101, "endOffsetPosition": 101, "offsetLag": 0},
            }
        }
    }


def test_a_store_that_is_being_restored_says_how_far_it_is() -> None:
    node = Node()
    node.restored = [StoreProgress(_STORE, 1, 41, 90), StoreProgress("another", 0, 1, 2)]
    (found,) = _lags(node).values()
    assert found["lagByPartition"]["0"]["offsetLag"] == 0
    assert found["lagByPartition"]["1"] == {"currentOffsetPosition": 41, "endOffsetPosition": 101, "offsetLag": 60}


def test_a_query_that_died_has_no_stores() -> None:
    node = Node()
    node.states["CTAS_T_1"] = "ERROR"
    assert _lags(node) == {}

"""What the options of `headwater up` come to."""

from pathlib import Path

import pytest

from headwater.cli.plans import Plan, PlanError, cluster_settings, plan_one, plan_several, with_registry

HERE = Path("/data")


def _settings(plan: Plan, at: int) -> dict[str, str]:
    return dict(each.split("=", 1) for each in plan.brokers[at].overrides)


def _several(given: dict[str, str], sets: dict[str, str], count: int = 3, port: int | None = None) -> Plan:
    return plan_several(HERE, None, {**given, **sets}, sets, count=count, port=port, zookeeper_port=2182, detach=True)


def test_one_broker_has_no_zookeeper_and_the_usual_port() -> None:
    plan = plan_one(HERE, None, {}, [], None, True)
    assert plan.zookeeper is None
    assert _settings(plan, 0) == {
        "log.dirs": "/data/broker-0",
        "listeners": "PLAINTEXT://localhost:9092",
        "metrics.port": "0",
        "group.initial.rebalance.delay.ms": "0",
    }
    own = plan_one(HERE, None, {"group.initial.rebalance.delay.ms": "7"}, [], None, True)
    assert "group.initial.rebalance.delay.ms" not in _settings(own, 0)
    assert plan.log_file == HERE / "logs" / "broker-0.log"
    assert plan.brokers[0].log_file is None  # in the same file


def test_one_broker_keeps_what_the_file_says() -> None:
    given = {"log.dirs": "/a,/b", "listeners": "PLAINTEXT://h:1", "metrics.port": "7"}
    plan = plan_one(HERE, "/f", given, ["x=1"], None, False)
    assert plan.brokers[0].overrides == ["x=1"]
    assert plan.brokers[0].log_dirs == ["/a", "/b"]
    assert (
        plan_one(HERE, "/f", {"log.dirs": "/a", "metrics.port": "7", "port": "7"}, [], None, False).brokers[0].overrides
        == []
    )
    assert plan_one(HERE, "/f", given, [], 5, False).brokers[0].overrides == ["listeners=PLAINTEXT://localhost:5"]


def test_several_brokers_share_a_zookeeper_and_have_the_rest_for_themselves() -> None:
    plan = _several({}, {})
    assert plan.zookeeper is not None
    assert plan.zookeeper.data_dir == HERE / "zookeeper"
    assert [broker.id for broker in plan.brokers] == [1, 2, 3]
    assert _settings(plan, 1) == {
        "node.id": "2",
        "listeners": "PLAINTEXT://localhost:9093",
        "log.dirs": "/data/broker-2",
        "metrics.port": "0",
        "zookeeper.connect": "127.0.0.1:2182",
        "zookeeper.session.timeout.ms": "1500",
        "zookeeper.connection.timeout.ms": "30000",
        **cluster_settings(3),
    }
    assert plan.brokers[1].log_file == HERE / "logs" / "broker-2.log"
    assert plan.log_file == HERE / "logs" / "up.log"


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_as_many_replicas_as_there_are_brokers_up_to_three(count: int, replicas: str, in_sync: str) -> None:
    settings = cluster_settings(count)
    assert settings.pop("transaction.state.log.min.isr") == in_sync
    assert set(settings.values()) == {replicas}


def test_what_is_set_for_all_counts_over_what_suits_a_cluster() -> None:
    plan = _several({"default.replication.factor": "1"}, {"offsets.topic.replication.factor": "2", "x": "y"})
    for at in range(3):
        assert "default.replication.factor" not in _settings(plan, at)  # the file says it
        assert _settings(plan, at)["offsets.topic.replication.factor"] == "2"
        assert _settings(plan, at)["x"] == "y"


def test_a_file_for_one_broker_serves_several() -> None:
    """Its id, its listeners and its directories are those of one of them."""
    given = {
        "broker.id": "0",
        "listeners": "PLAINTEXT://h:1",
        "log.dirs": "/x",
        "advertised.listeners": "PLAINTEXT://h:1",
    }
    plan = _several({**given, "metrics.port": "9404"}, {})
    assert _settings(plan, 2)["broker.id"] == _settings(plan, 2)["node.id"] == "3"
    assert _settings(plan, 2)["advertised.listeners"] == "PLAINTEXT://localhost:9094"
    assert _settings(plan, 2)["log.dirs"] == "/data/broker-3"
    assert _settings(plan, 2)["metrics.port"] == "9406"


def test_a_file_that_tells_an_address_cannot_be_used_with_any_port() -> None:
    with pytest.raises(PlanError, match=r"advertised\.listeners"):
        _several({"advertised.listeners": "PLAINTEXT://h:1"}, {}, port=0)


def test_a_zookeeper_that_is_named_is_used() -> None:
    plan = _several({}, {"zookeeper.connect": "z1:2181,z2:2181/headwater"})
    assert plan.zookeeper is None
    assert _settings(plan, 0)["zookeeper.connect"] == "z1:2181,z2:2181/headwater"
    assert "zookeeper.session.timeout.ms" not in _settings(plan, 0)


def test_any_port_is_any_port_for_each() -> None:
    plan = _several({}, {}, port=0)
    assert {_settings(plan, at)["listeners"] for at in range(3)} == {"PLAINTEXT://localhost:0"}


@pytest.mark.parametrize("name", ["node.id", "broker.id", "listeners", "log.dirs", "port"])
def test_what_each_has_for_itself_cannot_be_set_for_all(name: str) -> None:
    with pytest.raises(PlanError, match=f"{name} cannot be set for several brokers at once"):
        _several({}, {name: "1"})


def test_the_ports_have_to_be_there() -> None:
    assert _settings(_several({}, {}, port=65533), 2)["listeners"].endswith(":65535")
    with pytest.raises(PlanError, match="65535 is the last"):
        _several({}, {}, port=65534)


@pytest.mark.parametrize(
    ("registry_port", "broker_port", "expected"),
    [(None, None, 8081), (None, 9999, 8081), (None, 0, 0), (7, 0, 7), (0, None, 0)],
)
def test_the_registry_beside_brokers_on_any_port_is_on_any_port_too(
    registry_port: int | None, broker_port: int | None, expected: int
) -> None:
    plan = with_registry(plan_one(HERE, None, {}, [], broker_port, True), registry_port, broker_port, {})
    assert plan.registry is not None
    assert plan.registry.port == expected
    assert plan.registry.log_file == HERE / "logs" / "registry.log"
    assert with_registry(plan_one(HERE, None, {}, [], None, False), None, None, {}).registry.log_file is None  # type: ignore[union-attr]


def test_brokers_know_the_registry_beside_them_unless_they_were_given_another() -> None:
    plain = plan_one(HERE, None, {}, [], None, True)
    assert (
        _settings(with_registry(plain, None, None, {}), 0)["headwater.schema.registry.url"] == "http://127.0.0.1:8081"
    )
    asked: list[int] = []
    taken = with_registry(plain, None, None, {}, lambda port: bool(asked.append(port)))
    assert (asked, taken.registry is not None) == ([8081], True)
    assert "headwater.schema.registry.url" not in _settings(taken, 0), "somebody else answers there"
    other = {"confluent.schema.registry.url": "http://elsewhere"}
    assert "headwater.schema.registry.url" not in _settings(with_registry(plain, None, None, other), 0)
    assert "headwater.schema.registry.url" not in _settings(with_registry(plain, 0, None, {}), 0)

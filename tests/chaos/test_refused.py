"""A broker's process is gone and its host is not: others take over at once, however long its session lasts."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

from chaos.support import asking
from chaos.support.cluster import Cluster, running
from chaos.support.processes import WAIT_S
from compat.support.members import until

SESSION_MS = 60_000  # as long as ZooKeeper allows: all of the test is over before it ends, also on a busy machine
PARTITIONS = 3  # each broker leads one


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Without a proxy between the brokers: that would accept connections for one that is gone. Whoever is killed stays
    away: it would wait for the end of its session (test_kills.py has short ones).
    """
    directory = tmp_path_factory.mktemp("refused")
    session = {"zookeeper_session_timeout_ms": str(SESSION_MS), "inter_broker_listener_name": "PLAINTEXT"}
    with running(directory, **session) as cluster:
        yield cluster


def test_a_leader_is_killed_and_another_acknowledges_the_next_write_while_the_session_lasts(
    cluster: Cluster, topic: str
) -> None:
    cluster.make_topic(topic, PARTITIONS, min_insync_replicas="2")
    controller = cluster.controller()
    leaders = {state[0]: partition for partition, state in cluster.describe(topic).items()}
    leader = next(number for number in leaders if number != controller)
    watched = f"event=broker-watched broker={leader} "
    until(lambda: watched in cluster.members[controller].log, cluster.logs, WAIT_S)

    cluster.kill(leader)
    write(cluster, topic, leaders[leader])
    assert leader in registered(cluster, controller), f"its session has ended\n{cluster.logs()}"
    assert leader not in cluster.describe(topic, controller)[leaders[leader]][2]


def write(cluster: Cluster, topic: str, partition: int) -> None:
    """With acks=all; returns when it is acknowledged."""
    errors: list[KafkaError | None] = []

    def told(error: KafkaError | None, _message: Message) -> None:
        errors.append(error)

    settings = {"bootstrap.servers": cluster.bootstrap, "delivery.timeout.ms": WAIT_S * 1000, "log_level": 0}
    producer = Producer(settings | {"retry.backoff.ms": 50, "topic.metadata.refresh.interval.ms": 500})
    producer.produce(topic, b"after", partition=partition, on_delivery=told)
    assert producer.flush(WAIT_S) == 0
    assert errors == [None], cluster.logs()


def registered(cluster: Cluster, through: int) -> list[int]:
    return [broker.node_id for broker in asking.metadata(cluster.members[through].port).brokers]

"""Apache Kafka's `kafka-consumer-groups` on the group of an application: its member, its offsets and its lag, as for
any other consumer.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.java import Java
from headwater.client import Admin, NewTopic, Producer
from headwater.streams import App
from headwater.testing import Broker

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
REPARTITION = "words-app-by-word-repartition"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def tool(broker: Broker, group_java: Java) -> Callable[..., list[dict[str, str]]]:
    """What it prints as rows by the names of the columns."""

    def describe(*arguments: str) -> list[dict[str, str]]:
        asked = ["--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "words-app", *arguments]
        answer = group_java.tool(TOOL, *asked)
        assert answer.status == 0, answer
        lines = [line.split() for line in answer.stdout.splitlines() if line.strip()]
        begin = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
        return [dict(zip(lines[begin], line, strict=False)) for line in lines[begin + 1 :]]

    return describe


def _send(broker: Broker, **of_partitions: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, count in of_partitions.items():
            for number in range(count):
                producer.send("words", f"word-{number}".encode(), key=b"k", partition=int(partition[1:]))


def _offsets(rows: list[dict[str, str]], topic: str) -> dict[str, tuple[str, str, str]]:
    """Partition -> committed offset, end of the log, lag."""
    wanted = [row for row in rows if row["TOPIC"] == topic]
    return {row["PARTITION"]: (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in wanted}


def test_the_group_of_an_application_is_described(
    broker: Broker, tool: Callable[..., list[dict[str, str]]], tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("words", 2, 1), NewTopic("counts", 2, 1)])
    app = App("words-app", brokers=broker.bootstrap_servers, key="text", value="text")
    words = app.stream("words").group_by(lambda _, word: word, name="by-word")
    words.count(store="counts").to_stream().to("counts", value="long")
    _send(broker, p0=10, p1=4)
    with app.run_here(state_dir=tmp_path):
        rows = tool()
        while _offsets(rows, "words") != {"0": ("10", "10", "0"), "1": ("4", "4", "0")} or {
            lag for _, _, lag in _offsets(rows, REPARTITION).values()
        } != {"0"}:
            rows = tool()
        assert {row["TOPIC"] for row in rows} == {"words", REPARTITION}
        assert _offsets(rows, REPARTITION).keys() == {"0", "1"}
        owners = {(row["CONSUMER-ID"], row["HOST"]) for row in rows}
        ((member, host),) = owners
        assert member != "-"
        assert host.startswith("/127.0.0.1")
        (described,) = tool("--members", "--verbose")
        assert described["CONSUMER-ID"] == member
        assert described["#PARTITIONS"] == "4"
        (state,) = tool("--state")
        assert state["STATE"] == "Stable"
        assert state["#MEMBERS"] == "1"
    _send(broker, p0=1, p1=2)
    rows = tool()
    assert _offsets(rows, "words") == {"0": ("10", "11", "1"), "1": ("4", "6", "2")}
    assert {row["CONSUMER-ID"] for row in rows} == {"-"}
    with app.run_here(state_dir=tmp_path):
        while _offsets(rows, "words") != {"0": ("11", "11", "0"), "1": ("6", "6", "0")}:
            rows = tool()

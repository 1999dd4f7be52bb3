"""The internal topics are Kafka's: its tools read what we wrote, and we go on with what Apache Kafka wrote."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.support.broker import ApacheBroker, BrokerProcess, HeadwaterBroker
from compat.support.java import Java
from compat.support.members import Joining, places, until, until_shared
from compat.support.members.confluent import ConfluentMember
from compat.support.members.javamember import JavaMember
from compat.support.quick import QUICK, lasting
from compat.support.records import read_all
from compat.support.topics import fill, make_topic
from compat.support.transactional import PRODUCERS, committed_offset, read

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer."
ENDS = {"commit": "CompleteCommit", "abort": "CompleteAbort", "open": "Ongoing"}
INTERNAL_PARTITIONS = int(QUICK["offsets.topic.num.partitions"])  # of both topics


@pytest.fixture
def written(
    group_broker: BrokerProcess,
    group_topic: Callable[..., str],
    join: Callable[..., Any],
    transactional: Callable[..., Any],
) -> str:
    """A topic, and a classic group, a consumer group and a transactional id that begin with its name."""
    topic = group_topic(1)
    fill(group_broker.bootstrap, topic, 1, 10)
    for protocol in ("classic", "consumer"):
        member = join("confluent", group=f"{topic}.{protocol}", topics=(topic,), protocol=protocol)
        until(lambda member=member: len(member.received) == 10, lambda member=member: member.errors)
        member.commit()
    producer = transactional("confluent", f"{topic}.id")
    producer.begin()
    producer.send((topic, 0), "v")
    producer.offsets(f"{topic}.moved", {(topic, 0): 3})
    producer.commit()
    assert read(group_broker.bootstrap, topic)[-1] == "v"
    return topic


def test_kafka_dump_log_reads_groups_and_transactions(
    group_broker: BrokerProcess, written: str, group_java: Java
) -> None:
    offsets = _dump(group_broker, group_java, "__consumer_offsets", "--offsets-decoder")
    for kind in ("classic", "consumer", "moved"):
        assert f'"group":"{written}.{kind}"' in offsets or f'"groupId":"{written}.{kind}"' in offsets, kind
    assert "isTransactional: true" in offsets
    assert "endTxnMarker: COMMIT" in offsets
    states = _dump(group_broker, group_java, "__transaction_state", "--transaction-log-decoder")
    mine = [line for line in states.splitlines() if f"{written}.id" in line]
    found = [re.search(r'"?(?:transactionStatus|state)"?[:=]"?(\w+)', line) for line in mine]
    assert len(found) >= 4, mine
    assert all(found), mine


def _dump(broker: BrokerProcess, java: Java, topic: str, decoder: str) -> str:
    files = sorted(str(path) for path in broker.log_dir.glob(f"{topic}-*/*.log") if path.stat().st_size)
    answer = java.tool("DumpLogSegments", decoder, "--files", ",".join(files))
    assert answer.status == 0, answer
    assert "Exception" not in answer.stderr, answer.stderr
    return answer.stdout


def test_the_formatters_of_the_console_consumer(group_broker: BrokerProcess, written: str, group_java: Java) -> None:
    def consume(topic: str, formatter: str) -> list[dict[str, Any]]:
        """Partition by partition, and as many records as there are: to wait for no more of them would be to guess how
        long.
        """
        found: list[dict[str, Any]] = []
        for partition in range(INTERNAL_PARTITIONS):
            count = len(read_all(group_broker.bootstrap, topic, partition))
            if count:
                answer = group_java.tool(
                    CONSOLE_CONSUMER,
                    *("--bootstrap-server", group_broker.bootstrap, "--topic", topic, "--partition", str(partition)),
                    *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "60000"),
                    *("--formatter", FORMATTERS + formatter, "--isolation-level", "read_committed"),
                )
                assert f"Processed a total of {count} messages" in answer.stderr, answer
                found += _objects(answer.stdout)
        return found

    commits = [
        one
        for one in consume("__consumer_offsets", "OffsetsMessageFormatter")
        if one["key"]["data"].get("topic") == written
    ]
    offsets = {one["key"]["data"]["group"]: one["value"]["data"]["offset"] for one in commits}
    assert offsets == {f"{written}.classic": 10, f"{written}.consumer": 10, f"{written}.moved": 3}
    groups = consume("__consumer_offsets", "GroupMetadataMessageFormatter")
    mine = [
        one["value"]["data"] for one in groups if one["key"]["data"]["group"] == f"{written}.classic" and one["value"]
    ]
    assert (mine[-1]["protocolType"], mine[-1]["protocol"], len(mine[-1]["members"])) == ("consumer", "range", 1)
    states = [
        one["value"]["data"]
        for one in consume("__transaction_state", "TransactionLogMessageFormatter")
        if one["key"]["data"]["transactionalId"] == f"{written}.id"
    ]
    found = [state["transactionStatus"] for state in states]
    assert sorted(set(found)) == [0, 1, 2, 4]  # empty, ongoing, prepare-commit, complete-commit
    assert found == sorted(found)


def _objects(text: str) -> list[dict[str, Any]]:
    """The formatters write one object after the other, without anything in between."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        one, at = decoder.raw_decode(text, at)
        found.append(one)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


@pytest.fixture(scope="module", params=lasting(["kill"], ["stop", "kill"]))
def adopted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, group_java: Java, apache: bool
) -> Iterator[BrokerProcess]:
    """Apache Kafka coordinates groups and transactions, and ends; the broker under test starts on its directory."""
    directory = tmp_path_factory.mktemp("coordinated")
    author = ApacheBroker(directory, QUICK)
    author.start()
    try:
        _coordinate(author, group_java)
        getattr(author, request.param)()
    finally:
        author.kill()
    broker = (ApacheBroker if apache else HeadwaterBroker)(directory, QUICK)
    broker.start()
    yield broker
    alive = broker.alive
    broker.kill()
    assert alive


def _coordinate(author: BrokerProcess, java: Java) -> None:
    make_topic(author.bootstrap, "source", 2)
    make_topic(author.bootstrap, "target", 1)
    fill(author.bootstrap, "source", 2, 10)
    for kind, protocol in [(ConfluentMember, "classic"), (JavaMember, "classic"), (JavaMember, "consumer")]:
        group = f"{kind.name} {protocol}"
        member = kind(author.bootstrap, Joining(group, ("source",), protocol=protocol), java)
        member.open()
        until(lambda member=member: len(member.received) == 20, lambda member=member: member.errors)
        member.commit({("source", 0): 10, ("source", 1): 4})
        member.close()
    for end in ("commit", "abort", "open"):
        producer = PRODUCERS["java"](author.bootstrap, end, java=java, timeout_ms=120_000)
        producer.init()
        producer.begin()
        producer.send(("target", 0), end)
        producer.offsets(f"by {end}", {("source", 0): 7})
        if end != "open":
            getattr(producer, end)()
            producer.close()
    # The producer of the open transaction stays as it is:
    # its broker goes first, when the ends of the others are written down.
    until(lambda: _transactions(author, java) == ENDS, lambda: _transactions(author, java))


def _transactions(broker: BrokerProcess, java: Java) -> dict[str, str]:
    listed = java.group_admin(broker.bootstrap, "listTransactions")
    return {name: str(one["state"]) for name, one in listed.items()}


@pytest.mark.soak
@pytest.mark.parametrize("group", ["confluent classic", "java classic", "java consumer"])
def test_offsets_of_apache_groups_go_on(adopted: BrokerProcess, group_java: Java, group: str) -> None:
    offsets = {place: committed_offset(adopted.bootstrap, group, place) for place in places("source", 2)}
    assert offsets == {("source", 0): 10, ("source", 1): 4}
    described = group_java.group_admin(adopted.bootstrap, "describeGroup", group=group)
    assert (described["state"], described["type"].lower()) == ("Empty", group.split()[1])
    kind = ConfluentMember if "confluent" in group else JavaMember
    member = kind(adopted.bootstrap, Joining(group, ("source",), protocol=group.split()[1]), group_java)
    member.open()
    try:
        until_shared([member], places("source", 2))
        until(lambda: len(member.received) >= 6, lambda: (member.received, member.errors))
        assert sorted(member.values) == [b"1/%d" % number for number in range(4, 10)]
    finally:
        member.close()


@pytest.mark.soak
def test_transactions_of_apache_go_on(adopted: BrokerProcess, group_java: Java) -> None:
    assert committed_offset(adopted.bootstrap, "by commit", ("source", 0)) == 7
    assert committed_offset(adopted.bootstrap, "by abort", ("source", 0)) is None
    assert _transactions(adopted, group_java) == ENDS
    assert read(adopted.bootstrap, "target") == ["commit"]
    heir = PRODUCERS["java"](adopted.bootstrap, "open", java=group_java)
    heir.init()
    try:
        assert committed_offset(adopted.bootstrap, "by open", ("source", 0)) is None
        heir.begin()
        heir.send(("target", 0), "of the heir")
        heir.commit()
    finally:
        heir.close()
    assert read(adopted.bootstrap, "target") == ["commit", "of the heir"]
    assert read(adopted.bootstrap, "target", committed=False) == ["commit", "abort", "open", "of the heir"]

"""Apache Kafka's console tools, run as their users run them (in one JVM, because a start costs a second)."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import Java, Tool

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ConsoleTool = Callable[..., Tool]


@pytest.fixture
def tool(java: Java, broker_address: str) -> ConsoleTool:
    def run(main: str, *arguments: str, stdin: str = "", status: int = 0) -> Tool:
        answer = java.tool(main, "--bootstrap-server", broker_address, *arguments, stdin=stdin)
        assert answer.status == status, answer
        return answer

    return run


def test_kafka_topics(tool: ConsoleTool, topic: str) -> None:
    created = tool("TopicCommand", "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000")
    assert f"Created topic {topic}." in created.stdout
    tool("TopicCommand", "--create", "--topic", topic, "--if-not-exists")
    again = tool("TopicCommand", "--create", "--topic", topic, status=1)
    assert f"Topic '{topic}' already exists." in again.stdout

    assert topic in tool("TopicCommand", "--list").stdout.split()
    described = tool("TopicCommand", "--describe", "--topic", topic).stdout
    assert re.search(
        rf"Topic: {re.escape(topic)}\tTopicId: \S{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*retention.ms=5000",
        described,
    ), described
    assert re.search(r"Partition: 1\tLeader: 0\tReplicas: 0\tIsr: 0", described), described

    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in tool("TopicCommand", "--describe", "--topic", topic).stdout
    assert tool("TopicCommand", "--describe", "--under-replicated-partitions", "--topic", topic).stdout.strip() == ""
    tool("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", "--list").stdout.split()
    missing = tool("TopicCommand", "--describe", "--topic", topic, status=1)
    assert "does not exist" in missing.stdout + missing.stderr


def test_kafka_configs(tool: ConsoleTool, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    entity = ["--entity-type", "topics", "--entity-name", topic]
    command = "kafka.admin.ConfigCommand"
    added = tool(command, "--alter", *entity, "--add-config", "retention.ms=7000,cleanup.policy=[delete,compact]")
    assert f"Completed updating config for topic {topic}." in added.stdout
    described = tool(command, "--describe", *entity).stdout
    assert "retention.ms=7000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7000" in described
    assert "cleanup.policy=delete,compact" in described
    tool(command, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in tool(command, "--describe", *entity).stdout
    everything = tool(command, "--describe", "--all", *entity).stdout
    assert "retention.ms=604800000" in everything
    assert "min.insync.replicas=1" in everything
    broker = tool(command, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "0").stdout
    assert re.search(r"num.partitions=1 sensitive=false synonyms={DEFAULT_CONFIG:num.partitions=1}", broker), broker


def test_kafka_console_producer_and_consumer(tool: ConsoleTool, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    parse = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    parse += ["--reader-property", "null.marker=NULL"]
    lines = "h1:v1,h2:v2\tkey one\tvalue one\nNULL\tkey two\tNULL\nNULL\tkey three\tvalue three\n"
    tool("ConsoleProducer", "--topic", topic, "--compression-codec", "zstd", *parse, stdin=lines)
    show = []
    for name in ("key", "headers", "offset", "partition", "timestamp"):
        show += ["--formatter-property", f"print.{name}=true"]
    read = ["--topic", topic, "--partition", "0", "--timeout-ms", "60000", *show]
    consumed = tool(CONSUMER, *read, "--offset", "0", "--max-messages", "3")
    assert "Processed a total of 3 messages" in consumed.stderr
    first, second, third = consumed.stdout.splitlines()
    assert re.fullmatch(r"CreateTime:\d+\tPartition:0\tOffset:0\th1:v1,h2:v2\tkey one\tvalue one", first), first
    assert second.endswith("Offset:1\tNO_HEADERS\tkey two\tnull")
    assert third.endswith("Offset:2\tNO_HEADERS\tkey three\tvalue three")
    later = tool(CONSUMER, *read, "--offset", "2", "--max-messages", "1")
    assert later.stdout.splitlines() == [third]
    earliest = tool(CONSUMER, *read, "--offset", "earliest", "--max-messages", "1")
    assert earliest.stdout.splitlines() == [first]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_kafka_console_producer_acks(tool: ConsoleTool, topic: str, acks: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    options = ["--request-required-acks", acks, "--command-property", "enable.idempotence=false"]
    tool("ConsoleProducer", "--topic", topic, *options, stdin="one\ntwo\n")
    consumed = tool(
        CONSUMER,
        *("--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "2", "--timeout-ms", "60000"),
    )
    assert consumed.stdout.splitlines() == ["one", "two"]


def test_kafka_get_offsets(tool: ConsoleTool, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    for when, offset in [("earliest", 0), ("latest", 3), ("max-timestamp", None), ("0", 0)]:
        line = tool("GetOffsetShell", "--topic", topic, "--time", when).stdout.strip()
        assert re.fullmatch(rf"{re.escape(topic)}:0:{r'[012]' if offset is None else offset}", line), (when, line)


def test_kafka_delete_records(tool: ConsoleTool, topic: str, tmp_path: Path) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    tool("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    deleted = tool("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 2" in deleted.stdout
    assert tool("GetOffsetShell", "--topic", topic, "--time", "earliest").stdout.strip() == f"{topic}:0:2"


def test_kafka_log_dirs(tool: ConsoleTool, headwater_process: BrokerProcess, topic: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    tool("ConsoleProducer", "--topic", topic, stdin="a\n")
    printed = tool("LogDirsCommand", "--describe", "--topic-list", topic).stdout
    answer = json.loads(printed.splitlines()[-1])
    (broker,) = answer["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["error"], directory["logDir"]) == (0, None, str(headwater_process.log_dir))
    (partition,) = directory["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 60
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_producer_perf_test(java: Java, tool: ConsoleTool, broker_address: str, topic: str, codec: str) -> None:
    tool("TopicCommand", "--create", "--topic", topic)
    options = ["--topic", topic, "--num-records", "2000", "--record-size", "500", "--throughput", "-1"]
    properties = ["--bootstrap-server", broker_address, "--command-property", f"compression.type={codec}"]
    answer = java.tool("ProducerPerformance", *options, *properties)
    assert "2000 records sent" in answer.stdout, answer
    assert tool("GetOffsetShell", "--topic", topic, "--time", "latest").stdout.strip() == f"{topic}:0:2000"


def test_kafka_broker_api_versions(tool: ConsoleTool, broker_address: str) -> None:
    printed = tool("BrokerApiVersionsCommand").stdout
    assert f"{broker_address} (id: 0 rack: null isFenced: false) -> (" in printed, printed
    for name, newest in [
        ("Produce(0): 0 to 13", 13),
        ("Fetch(1): 4 to 18", 18),
        ("ListOffsets(2): 1 to 11", 11),
        ("Metadata(3): 0 to 13", 13),
        ("ApiVersions(18): 0 to 4", 4),
        ("CreateTopics(19): 2 to 7", 7),
        ("DeleteTopics(20): 1 to 6", 6),
        ("DeleteRecords(21): 0 to 2", 2),
        ("InitProducerId(22): 0 to 5", 5),
        ("OffsetForLeaderEpoch(23): 2 to 4", 4),
        ("DescribeConfigs(32): 1 to 4", 4),
        ("AlterConfigs(33): 0 to 2", 2),
        ("DescribeLogDirs(35): 1 to 5", 5),
        ("CreatePartitions(37): 0 to 3", 3),
        ("IncrementalAlterConfigs(44): 0 to 1", 1),
        ("DescribeCluster(60): 0 to 2", 2),
        ("DescribeTopicPartitions(75): 0 [usable: 0]", 0),
        ("FindCoordinator(10): 0 to 6", 6),
    ]:
        expected = name if "usable" in name else f"{name} [usable: {newest}]"
        assert expected in printed, (expected, printed)


def test_cluster_id(tool: ConsoleTool, java: Java, broker_address: str) -> None:
    answer = java.tool("ClusterTool", "cluster-id", "--bootstrap-server", broker_address)
    assert re.search(r"Cluster ID: \S{22}", answer.stdout), answer

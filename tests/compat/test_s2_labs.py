"""A well-known tutorial of Kafka's command line, typed as it stands: ZooKeeper's address, old names, slips and all.

Lines are quoted with their breaks; `#` was the author's prompt. Where a line has a slip (a topic's name, a full stop
behind a file's name, a space), what it says is what it would say anywhere, and the line as it was meant comes after it.
The author's machine, abeta42.localdomain:6667, is the broker's address here.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support.lab import ROOT, Lab
from compat.support.local_cluster import PATIENCE_S, until
from compat.support.secured_zookeeper import KAFKA, PROVIDER, jaas_file, server_jaas

pytestmark = pytest.mark.timeout(400)
SOON = f"--timeout-ms {PATIENCE_S * 1000}"


def as_typed(lines: str) -> str:
    """Without the prompt and the breaks of the page."""
    joined = " ".join(line.strip() for line in lines.strip().splitlines())
    return joined.removeprefix("#").replace("abeta42.localdomain:6667", "localhost:9092")


@pytest.fixture
def empty_lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """With ZooKeeper and one broker."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        lab.start()
        yield lab
    finally:
        lab.close()


# Kafka-Command-Line

SHELL = "#bin/zookeeper-shell.sh localhost:2181"
SERVER_START = """#bin/kafka-server-start.sh

config/server.properties"""
LIST_WITHOUT_ENDING = """#bin/kafka-topics --list --zookeeper
localhost:2181"""


def test_a_checkout_has_kafkas_directories() -> None:
    assert (ROOT / "bin").readlink() == Path(".venv/bin")
    for name in ("server", "zookeeper", "consumer"):
        assert (ROOT / "config" / f"{name}.properties").is_file()


def test_zookeeper_and_a_server_are_started_looked_at_and_stopped(empty_lab: Lab) -> None:
    lab = empty_lab
    assert "USAGE: zookeeper-server-start" in lab.type("bin/zookeeper-server-start.sh", code=1).stderr
    assert "USAGE: kafka-server-start" in lab.type("bin/kafka-server-start.sh", code=1).stderr
    lab.type("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    nobody = lab.type(as_typed(LIST_WITHOUT_ENDING), code=1).stderr
    assert f"No broker is registered in ZooKeeper at {lab.here('localhost:2181')}" in nobody
    with lab.leave_running(as_typed(SERVER_START)) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready broker=0 ")
        assert lab.type(as_typed(SHELL), stdin="ls /brokers/ids\nquit\n").stdout == "[0]\n"
        listed = lab.type(as_typed(LIST_WITHOUT_ENDING))
        assert listed.stdout == "\n"
        assert f"--bootstrap-server {lab.here('localhost:9092')}" in listed.stderr
        lab.type("bin/kafka-server-stop.sh")
        assert server.wait(PATIENCE_S) == 0
    assert lab.type("bin/kafka-server-stop.sh", code=1).stdout == "No kafka server to stop\n"
    lab.type("bin/zookeeper-server-stop.sh")


# Running multiple brokers on a single machine

COPIES = (
    """#cp config/server.properties
config/server-1.properties""",
    """#cp config/server.properties
config/server-2.properties""",
)
DESCRIBE_REPLICATED = """#bin/kafka-topics.sh --describe --zookeeper
localhost:2181 --topic the-replicated-topic"""


def test_running_multiple_brokers_on_a_single_machine(empty_lab: Lab, tmp_path: Path) -> None:
    lab = empty_lab
    lab.start()
    for number, line in enumerate(COPIES, 1):
        lab.type(as_typed(line))
        lab.edit(
            f"server-{number}.properties",
            broker_id=str(number),
            listeners=f"PLAINTEXT://localhost:{9092 + number}",
            log_dirs=str(tmp_path / f"kafka-logs-{number}"),
        )
        lab.type(f"bin/kafka-server-start.sh -daemon config/server-{number}.properties")
    missing = lab.type(as_typed(DESCRIBE_REPLICATED), code=1).stdout
    assert "Topic 'the-replicated-topic' does not exist as expected" in missing
    created = lab.type(
        "bin/kafka-topics.sh --create --zookeeper localhost:2181 --replication-factor 3 --partitions 1 "
        "--topic the-replicated-topic"
    )
    assert created.stdout == "Created topic the-replicated-topic.\n"
    until(lambda: "Leader: " in lab.type(as_typed(DESCRIBE_REPLICATED), code=None).stdout, "whoever is asked knows it")
    described = lab.type(as_typed(DESCRIBE_REPLICATED)).stdout
    assert "PartitionCount: 1\tReplicationFactor: 3" in described
    replicas = re.search(r"Replicas: (\S+)\t", described)
    assert replicas is not None
    assert sorted(replicas[1].split(",")) == ["0", "1", "2"]


# Kafka topics

CREATE = (
    """bin/kafka-topics.sh --create --zookeeper
localhost:2181 --replication-factor 1""",
    "--partitions 1 --topic mytest",
)
LIST = """#bin/kafka-topics.sh --list --zookeeper
localhost:2181"""
MORE_PARTITIONS = """#bin/kafka-topics.sh --zookeeper
localhost:2181 --alter --topic my_topic
--partition 8"""
ADD_CONFIG = """#bin/kafka-topics.sh --zookeeper
localhost:2181 --alter--topic my_topic
--config retention.ms=142800000"""
REMOVE_CONFIG = """#bin/kafka-topics.sh --zookeeper
localhost:2181 --alter--topic myh_topic
--deleteConfig retention.ms"""
DELETE = """#bin/kafka-topics.sh --zookeeper
localhost:2181 --delete --topic my_topic"""


def test_topics_are_created_listed_altered_and_deleted(lab: Lab) -> None:
    assert lab.type(as_typed(" ".join(CREATE))).stdout == "Created topic mytest.\n"
    assert "mytest" in lab.type(as_typed(LIST)).lines
    describe = "bin/kafka-topics.sh --describe --zookeeper localhost:2181 --topic my_topic"

    lab.type("bin/kafka-topics.sh --create --zookeeper localhost:2181 --topic my_topic")
    said = lab.type(as_typed(MORE_PARTITIONS)).stderr
    assert "--partition is the old name of --partitions" in said
    assert "PartitionCount: 8" in lab.type(describe).stdout

    altered = lab.type(as_typed(ADD_CONFIG))
    assert "--alter--topic is taken as --alter --topic" in altered.stderr
    assert altered.stdout.endswith("please use kafka-configs.\nUpdated config for topic my_topic.\n")
    assert "retention.ms=142800000" in lab.type(describe).stdout

    assert "Topic 'myh_topic' does not exist as expected" in lab.type(as_typed(REMOVE_CONFIG), code=1).stdout
    removed = lab.type(as_typed(REMOVE_CONFIG.replace("myh_topic", "my_topic")))
    assert "--deleteConfig is the old name of --delete-config" in removed.stderr
    assert "retention.ms=142800000" not in lab.type(describe).stdout

    lab.type(as_typed(DELETE))
    assert "my_topic" not in lab.type(as_typed(LIST)).lines


# Console producer and consumer, consumer groups

PRODUCE = """#bin/kafka-console-producer.sh --broker-list
localhost:9092 --topic mytopic"""
CONSUME = """#bin/kafka-console-consumer.sh --zookeeper
localhost:2181 --topic mytopic
--from-beginning"""
OFFSETS = """#./kafka-consumer-groups.sh --zookeeper
localhost:2181 --describe --group
test-consumer-group"""
COLUMNS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"


def test_console_producer_and_consumer(lab: Lab) -> None:
    """The topic is made by the first message that is sent to it."""
    assert "--broker-list is the old name of --bootstrap-server" in lab.type(as_typed(PRODUCE), stdin="a\nb\n").stderr
    with lab.leave_running(as_typed(CONSUME)) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
        lab.type(as_typed(PRODUCE), stdin="c\n")
        assert consumer.stdout.readline() == "c\n"
    assert consumer.returncode == 130  # Ctrl-C


# LAB2

LAB2_LIST = """#bin/kafka-topics.sh --list --zookeeper
localhost:2181"""
LAB2_CREATE = """#bin/kafka-topics.sh --create --zookeeper
localhost:2181 --replication-factor 1
--partitions 1 --topic test_topic"""
LAB2_CREATE_WITH_CONFIG = """#bin/kafka-topics.sh --create --zookeeper
localhost:2181 --replication-factor 1
--partitions 1 --config
max.message.bytes=64000 --topic
new_delete_this_topic"""
LAB2_DELETE_CONFIG = """#bin/kafka-topics.sh --alter --zookeeper
localhost:2181 --topic delete_this_topic
-delete-config max.message.bytes"""
LAB2_PRODUCE = """#bin/kafka-console-producer.sh --broker-list
abeta42.localdomain:6667 --topic test_topic"""
LAB2_MESSAGES = """This is message 1
This is message 2
"""
LAB2_CONSUME = """#bin/kafka-console-consumer.sh --zookeeper
localhost:2181 --topic test_topic
--from-beginning"""
LAB2_DESCRIBE = """#bin /kafka-topics.sh --describe --zookeeper
localhost:2181 --topic tst_topic"""
LAB2_CONSUME_IN_GROUP = """#bin/kafka-console-consumer.sh --zookeeper
localhost:2181 -topic test_to_topic
--from-beginning --consumer.config
config/consumer.properties."""
LAB2_OFFSETS = """#bin/kafka-consumer-groups.sh --describe
--zookeeper localhost:2181 --group
test-consumer-group"""
LATER_MESSAGES = "This is a test 1\n"


def test_lab_2(lab: Lab) -> None:
    lab.type("ls")
    assert "test_topic" not in lab.type(as_typed(LAB2_LIST)).lines
    assert lab.type(as_typed(LAB2_CREATE)).stdout.endswith("Created topic test_topic.\n")
    assert "test_topic" in lab.type(as_typed(LAB2_LIST)).lines

    created = lab.type(as_typed(LAB2_CREATE_WITH_CONFIG)).stdout
    assert created.endswith("Created topic new_delete_this_topic.\n")
    described = "bin/kafka-topics.sh --describe --zookeeper localhost:2181 --topic new_delete_this_topic"
    assert "max.message.bytes=64000" in lab.type(described).stdout
    slip = lab.type(as_typed(LAB2_DELETE_CONFIG), code=1).stdout
    assert "Topic 'delete_this_topic' does not exist as expected" in slip
    lab.type(as_typed(LAB2_DELETE_CONFIG.replace("delete_this", "new_delete_this")))
    assert "max.message.bytes=64000" not in lab.type(described).stdout

    lab.type(as_typed(LAB2_PRODUCE), stdin=LAB2_MESSAGES)
    with lab.leave_running(as_typed(LAB2_CONSUME)) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() + consumer.stdout.readline() == LAB2_MESSAGES
    lab.type(as_typed(LAB2_DESCRIBE), code=127)  # no such command: bin
    describe = LAB2_DESCRIBE.replace("bin /", "bin/")
    assert "Topic 'tst_topic' does not exist" in lab.type(as_typed(describe), code=1).stdout
    meant = lab.type(as_typed(describe.replace("tst_topic", "test_topic"))).stdout
    assert "Topic: test_topic\tPartition: 0\tLeader: 0\tReplicas: 0\tIsr: 0" in meant

    assert "group.id=test-consumer-group\n" in lab.type("cat consumer.properties", within="config").stdout
    slip = lab.type(as_typed(LAB2_CONSUME_IN_GROUP), code=1).stderr
    assert "config/consumer.properties. (No such file or directory)" in slip
    in_group = as_typed(
        LAB2_CONSUME_IN_GROUP.replace("properties.", "properties").replace("test_to_topic", "test_topic")
    )
    assert lab.type(f"{in_group} --max-messages 2 {SOON}").stdout.endswith(LAB2_MESSAGES)

    lab.type(as_typed(LAB2_PRODUCE), stdin=LATER_MESSAGES)
    for line, within in ((LAB2_OFFSETS, "."), (OFFSETS, "bin")):
        rows = [row.split() for row in lab.type(as_typed(line), within=within).lines if row]
        assert " ".join(rows[-2]) == COLUMNS
        assert rows[-1][:6] == ["test-consumer-group", "test_topic", "0", "2", "3", "1"]
    assert lab.type(f"{in_group} --max-messages 1 {SOON}").stdout.endswith(LATER_MESSAGES)


# Kafka Connect StandAlone Example

CONNECT = """#bin/connect-standalone.sh
config/connect-standalone.properties
config/connect-file-source.properties"""


def test_kafka_connect_standalone(lab: Lab) -> None:
    """Kafka's samples read test.txt into the topic connect-test."""
    lab.edit(
        "connect-standalone.properties", listeners="http://127.0.0.1:0", offset_storage_file_filename="connect.offsets"
    )
    lab.edit("connect-standalone.properties", bootstrap_servers="localhost:9092")
    (lab.directory / "test.txt").write_text("foo\nbar\n")
    read = "bin/kafka-console-consumer.sh --zookeeper localhost:2181 --topic connect-test --from-beginning"
    with lab.leave_running(as_typed(CONNECT)):
        lines = lab.type(f"{read} --max-messages 2 {SOON}").lines
    envelope = '{"schema":{"type":"string","optional":false},"payload":"%s"}'
    assert lines == [envelope % "foo", envelope % "bar"]


# ZooKeeper's nodes

MIGRATION = "bin/zookeeper-security-migration.sh --zookeeper.acl=secure --zookeeper.connect=localhost:2181"


def test_zookeeper_security_migration(empty_lab: Lab, tmp_path: Path) -> None:
    """Where ZooKeeper knows users, and KAFKA_OPTS says who one is: without that, it says what is missing, as Apache's
    does.
    """
    lab = empty_lab
    properties = lab.directory / "config" / "zookeeper.properties"
    properties.write_text(f"{properties.read_text()}authProvider.1={PROVIDER}\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(server_jaas(tmp_path).read_text() + jaas_file(KAFKA))
    assert "No JAAS configuration file has been specified" in lab.type(MIGRATION, code=1).stderr
    lab.export(KAFKA_OPTS=f"-Djava.security.auth.login.config={jaas}")
    lab.start()
    lab.type(MIGRATION)
    assert lab.type(f"{as_typed(SHELL)} getAcl /brokers/topics").lines == [
        "'sasl,'kafka",
        ": cdrwa",
        "'world,'anyone",
        ": r",
    ]
    lab.type(
        "bin/kafka-topics.sh --create --zookeeper localhost:2181 --replication-factor 1 --partitions 1 --topic mine"
    )
    lab.export(KAFKA_OPTS="")
    refused = lab.type(f"{as_typed(SHELL)} create /brokers/topics/forged x", code=1).stderr
    assert "Insufficient permission : /brokers/topics/forged" in refused

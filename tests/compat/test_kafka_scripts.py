"""Our scripts beside Apache Kafka's tools, against the same broker: the same words, the same columns, the same exit
codes.

Where Kafka's tool keeps no order (it prints hash maps), lines are compared sorted. Its tracebacks are not expected of
ours: of stderr only the first line counts, and only where that is a message.
"""

import contextlib
import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.support.broker import BrokerProcess
from compat.support.java import Java
from compat.support.offsets import when_loaded
from headwater.client import Admin
from headwater.client.outcomes import all_or_raise

MAINS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "consumer_groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "configs": "kafka.admin.ConfigCommand",
    "get_offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete_records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "dump_log": "org.apache.kafka.tools.DumpLogSegments",
    "log_dirs": "org.apache.kafka.tools.LogDirsCommand",
    "console_consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console_producer": "org.apache.kafka.tools.ConsoleProducer",
}

PATIENCE_S = 60


class Ran(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def message(self) -> str:
        """The first line of what was complained about."""
        return self.stderr.split("\n", 1)[0]


def ours(script: str, *arguments: str, stdin: str = "") -> Ran:
    """In a process of its own where stdin and stdout are read and written as bytes; else here, which is quicker."""
    if not script.startswith("console"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = import_module(f"headwater.cli.kafka.{script}").script(list(arguments))
        return Ran(status, out.getvalue(), err.getvalue())
    code = f"from headwater.cli.kafka.{script} import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)


Both = Callable[..., tuple[Ran, Ran]]


@pytest.fixture
def both(java: Java, broker_address: str) -> Both:
    """Ours and theirs, with the same arguments; `server=False` leaves the address out."""

    def run(script: str, *arguments: str, stdin: str = "", server: bool = True) -> tuple[Ran, Ran]:
        given = [*(["--bootstrap-server", broker_address] if server else []), *arguments]
        answer = java.tool(MAINS[script], *given, stdin=stdin)
        return ours(script, *given, stdin=stdin), Ran(answer.status, answer.stdout, answer.stderr)

    return run


@pytest.fixture
def same(both: Both) -> Callable[..., Ran]:
    """Asserts that stdout and status are those of Kafka's tool, and gives ours."""

    def run(script: str, *arguments: str, lines_sorted: bool = False, **more: Any) -> Ran:
        mine, theirs = both(script, *arguments, **more)
        if lines_sorted:
            assert sorted(mine.stdout.splitlines()) == sorted(theirs.stdout.splitlines())
        else:
            assert mine.stdout == theirs.stdout
        assert mine.status == theirs.status, (mine, theirs)
        return mine

    return run


@pytest.fixture
def refused(both: Both) -> Callable[..., None]:
    """Asserts that both refuse, with the same first line and the same status."""

    def run(script: str, *arguments: str, **more: Any) -> None:
        mine, theirs = both(script, *arguments, **more)
        assert mine.status == theirs.status == 1, (mine, theirs)
        assert mine.stdout == theirs.stdout == ""
        thrown = re.match(r"joptsimple\.\w+: (.*)", theirs.message)
        assert words(mine.message) == words(thrown[1] if thrown else theirs.message)

    return run


def words(message: str) -> list[str]:
    """Sorted: Kafka's tools name the options that would be right in the order of a hash set."""
    return sorted(re.findall(r"[^\s,\[\]\"]+", message))


@pytest.fixture
def filled(create_topic: Callable[..., None], broker_address: str, topic: str) -> str:
    """A topic with five records in each of two partitions, 0 with keys."""
    create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker_address})
    for number in range(10):
        producer.produce(topic, f"v{number}", f"k{number}" if number % 2 == 0 else None, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    return topic


@pytest.fixture
def group(broker_address: str, filled: str) -> str:
    """A group without members that has committed 2 and 3."""
    name = f"group.{filled}"
    commit(broker_address, name, filled, 2, 3)
    return name


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    partitions = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    when_loaded(lambda: consumer.commit(offsets=partitions, asynchronous=False))
    consumer.close()


@contextlib.contextmanager
def member(bootstrap: str, group: str, topic: str, **config: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "me", "auto.offset.reset": "earliest"}
    consumer = Consumer(
        {**settings, "enable.auto.commit": False, **{k.replace("_", "."): v for k, v in config.items()}}
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        yield consumer
    finally:
        consumer.close()


# kafka-topics


def test_topics(same: Callable[..., Ran], broker_address: str, topic: str) -> None:
    other = f"{topic}.other"
    assert same("topics", "--list", "--topic", f"{topic}.*").stdout == "\n"
    server = ["--bootstrap-server", broker_address]
    create = ["--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=5000"]
    assert ours("topics", *server, *create).stdout.endswith(f"\nCreated topic {topic}.\n")  # after a warning
    for arguments in (
        ["--create", "--topic", topic],
        ["--create", "--topic", topic, "--if-not-exists"],
        ["--create", "--topic", "no spaces"],
        ["--create", "--topic", other, "--config", "no.such=1"],
        ["--create", "--topic", other, "--partitions", "0"],
        ["--create", "--topic", other, "--replica-assignment", "0:0"],
        ["--create", "--topic", other, "--partitions", "many"],
        ["--describe", "--topic", topic],
        ["--describe", "--topic", topic, "--topics-with-overrides"],
        ["--describe", "--topic", topic, "--at-min-isr-partitions"],
        ["--describe", "--topic", topic, "--under-min-isr-partitions"],
        ["--describe", "--topic", topic, "--unavailable-partitions"],
        ["--describe", "--topic", topic, "--under-replicated-partitions"],
        ["--describe", "--topic", other],
        ["--describe", "--topic", other, "--if-exists"],
        ["--list", "--topic", f"{topic}.*"],
        ["--alter", "--topic", topic, "--partitions", "2"],
        ["--alter", "--topic", other, "--partitions", "4", "--if-exists"],
        ["--alter", "--topic", other, "--partitions", "4"],
        ["--delete", "--topic", other],
        ["--delete", "--topic", other, "--if-exists"],
    ):
        same("topics", *arguments)
    assert ours("topics", *server, "--alter", "--topic", topic, "--partitions", "4") == (0, "", "")
    assert "PartitionCount: 4" in same("topics", "--describe", "--topic", topic).stdout
    assert ours("topics", *server, "--delete", "--topic", topic) == (0, "", "")
    same("topics", "--describe", "--topic", topic)


def test_topics_refuses(refused: Callable[..., None]) -> None:
    for arguments in (
        [],
        ["--list", "--create"],
        ["--create"],
        ["--delete"],
        ["--alter", "--topic", "t"],
        ["--list", "--partitions", "2"],
        ["--alter", "--topic", "t", "--config", "a=b"],
        ["--describe", "--under-replicated-partitions", "--topics-with-overrides"],
    ):
        refused("topics", *arguments)
    refused("topics", "--list", server=False)


# kafka-consumer-groups


def test_groups_are_listed(same: Callable[..., Ran], group: str) -> None:
    for arguments in ([], ["--state"], ["--type"], ["--state", "--type"], ["--state", "Empty"], ["--type", "consumer"]):
        mine = same("consumer_groups", "--list", *arguments, lines_sorted=True)
        if arguments != ["--type", "consumer"]:
            assert group in mine.stdout


@pytest.mark.parametrize("what", [[], ["--offsets"], ["--members"], ["--state"]])
@pytest.mark.parametrize("verbose", [[], ["--verbose"]])
def test_an_empty_group_is_described(both: Both, group: str, what: list[str], verbose: list[str]) -> None:
    mine, theirs = both("consumer_groups", "--describe", "--group", group, *what, *verbose)
    assert mine == theirs


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_described(
    both: Both, same: Callable[..., Ran], broker_address: str, filled: str, protocol: str
) -> None:
    name = f"live.{filled}"
    with member(broker_address, name, filled, group_protocol=protocol, group_instance_id="static") as consumer:
        consumer.commit(offsets=[TopicPartition(filled, 0, 4)], asynchronous=False)
        for what in ([], ["--members"], ["--state"]):
            for verbose in ([], ["--verbose"]):
                mine, theirs = both("consumer_groups", "--describe", "--group", name, *what, *verbose)
                assert mine.stdout.splitlines() == theirs.stdout.splitlines()
                assert mine == theirs
                assert name in mine.stdout
        same("consumer_groups", "--delete", "--group", name)
        same("consumer_groups", "--delete-offsets", "--group", name, "--topic", filled)
        same("consumer_groups", "--reset-offsets", "--group", name, "--topic", filled, "--to-earliest", "--dry-run")
        same("consumer_groups", "--list", "--state", "stable", lines_sorted=True)
    # One that is static does not leave: its session would end between the two lists of another test.
    with Admin(bootstrap_servers=broker_address) as admin:
        all_or_raise(admin.remove_members(name))
        assert admin.describe_group(name).state == "Empty"


def test_a_group_that_is_not_there(same: Callable[..., Ran], filled: str) -> None:
    for what in ([], ["--members"], ["--state"]):
        same("consumer_groups", "--describe", "--group", f"no.{filled}", *what)
    same("consumer_groups", "--delete", "--group", f"no.{filled}")
    same("consumer_groups", "--delete-offsets", "--group", f"no.{filled}", "--topic", filled)


def exported(both: Both, *arguments: str) -> None:
    """The same rows: Kafka's tool quotes long fields, which CSV leaves to the writer."""
    mine, theirs = both("consumer_groups", *arguments, "--export")
    assert mine.status == theirs.status == 0
    assert sorted(csv.reader(mine.stdout.splitlines())) == sorted(csv.reader(theirs.stdout.splitlines()))


@pytest.mark.parametrize(
    "scenario",
    [
        ["--to-earliest"],
        ["--to-latest"],
        ["--to-current"],
        ["--to-offset", "1"],
        ["--to-offset", "100"],
        ["--shift-by", "-1"],
        ["--shift-by", "100"],
        ["--shift-by", "-100"],
        ["--to-datetime", "2020-01-01T00:00:00.000"],
        ["--to-datetime", "2020-01-01T00:00:00.000Z"],
        ["--to-datetime", "2099-01-01T00:00:00.000+02:00"],
        ["--to-datetime", "2020-01-01"],
        ["--by-duration", "PT1H"],
        ["--by-duration", "P1DT2H3M4.5S"],
        ["--by-duration", "an hour"],
    ],
)
def test_resets_are_planned(same: Callable[..., Ran], both: Both, group: str, filled: str, scenario: list[str]) -> None:
    for scope in (["--topic", filled], ["--all-topics"], ["--topic", f"{filled}:1"]):
        arguments = ["--reset-offsets", "--group", group, *scope, *scenario, "--dry-run"]
        same("consumer_groups", *arguments, lines_sorted=True)
        exported(both, *arguments)


def test_a_reset_is_done_when_told_so(both: Both, same: Callable[..., Ran], group: str, filled: str) -> None:
    base = ["--reset-offsets", "--group", group, "--topic", f"{filled}:0,1"]
    mine, theirs = both("consumer_groups", *base, "--to-offset", "4")
    assert mine.stderr == theirs.stderr  # that nothing will be done
    assert "--execute option is missing" in mine.stderr
    described = same("consumer_groups", "--describe", "--group", group).stdout
    assert [line.split()[3] for line in described.splitlines()[2:]] == ["2", "3"]
    same("consumer_groups", *base, "--to-offset", "4", "--execute", lines_sorted=True)
    described = same("consumer_groups", "--describe", "--group", group).stdout
    assert [line.split()[3] for line in described.splitlines()[2:]] == ["4", "4"]


def test_a_reset_from_a_file(
    same: Callable[..., Ran], both: Both, broker_address: str, group: str, filled: str, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{filled},0,4\n{filled},1,99\n")
    same(
        "consumer_groups", "--reset-offsets", "--group", group, "--from-file", str(plan), "--dry-run", lines_sorted=True
    )
    second = f"{group}.second"
    commit(broker_address, second, filled, 1, 1)
    plan.write_text(f"{group},{filled},0,4\n{second},{filled},1,2\n")
    for groups in (["--group", group], ["--group", group, "--group", second]):
        arguments = ["--reset-offsets", *groups, "--from-file", str(plan), "--dry-run"]
        same("consumer_groups", *arguments, lines_sorted=True)
        exported(both, *arguments)
    missing = ["--reset-offsets", "--group", group, "--from-file", str(tmp_path / "none.csv"), "--dry-run"]
    same("consumer_groups", *missing)


def test_what_ours_exports_theirs_reads(
    both: Both, java: Java, broker_address: str, group: str, filled: str, tmp_path: Path
) -> None:
    server = ["--bootstrap-server", broker_address]
    arguments = ["--reset-offsets", "--group", group, "--topic", filled, "--to-latest", "--dry-run", "--export"]
    plan = tmp_path / "plan.csv"
    plan.write_text(ours("consumer_groups", *server, *arguments).stdout.rstrip("\n") + "\n")
    done = ["--reset-offsets", "--group", group, "--from-file", str(plan), "--execute"]
    answer = java.tool(MAINS["consumer_groups"], *server, *done)
    assert answer.status == 0, answer
    described = ours("consumer_groups", *server, "--describe", "--group", group).stdout
    assert [line.split()[5] for line in described.splitlines()[2:]] == ["0", "0"]


def test_resets_of_what_is_not_there(same: Callable[..., Ran], group: str, filled: str) -> None:
    base = ["--reset-offsets", "--group", group, "--to-earliest", "--dry-run"]
    same("consumer_groups", *base, "--topic", f"{filled}:7")
    same("consumer_groups", *base, "--topic", f"no.{filled}")
    fresh = ["--reset-offsets", "--group", f"fresh.{filled}", "--topic", filled, "--dry-run"]
    same("consumer_groups", *fresh, "--to-earliest", lines_sorted=True)
    same("consumer_groups", *fresh, "--to-current", lines_sorted=True)


def test_offsets_and_groups_are_deleted(same: Callable[..., Ran], broker_address: str, group: str, filled: str) -> None:
    same("consumer_groups", "--delete-offsets", "--group", group, "--topic", f"{filled}:1")
    same("consumer_groups", "--delete-offsets", "--group", group, "--topic", f"no.{filled}")
    described = same("consumer_groups", "--describe", "--group", group).stdout
    assert len(described.splitlines()) == 3
    server = ["--bootstrap-server", broker_address]
    gone = ours("consumer_groups", *server, "--delete", "--group", group, "--group", f"no.{group}")
    assert gone.stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        f"* Group 'no.{group}' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.\n"
        f"\nThese consumer groups were deleted successfully: '{group}'\n"
    )
    same("consumer_groups", "--describe", "--group", group)
    commit(broker_address, group, filled, 1)
    gone = ours("consumer_groups", *server, "--delete", "--group", group)
    assert gone.stdout == f"Deletion of requested consumer groups ('{group}') was successful.\n"


def test_consumer_groups_refuses(refused: Callable[..., None], group: str, filled: str) -> None:
    for arguments in (
        [],
        ["--describe"],
        ["--describe", "--group", group, "--members", "--offsets"],
        ["--describe", "--group", group, "--state", "Stable"],
        ["--list", "--describe", "--group", group],
        ["--list", "--state", "Sleepy"],
        ["--delete"],
        ["--delete", "--group", group, "--topic", filled],
        ["--delete-offsets", "--group", group],
        ["--reset-offsets", "--topic", filled, "--to-earliest", "--dry-run"],
        ["--reset-offsets", "--group", group, "--topic", filled, "--to-earliest", "--dry-run", "--execute"],
        ["--reset-offsets", "--group", group, "--topic", filled, "--to-earliest", "--to-latest", "--dry-run"],
        ["--reset-offsets", "--group", f"no.{group}", "--topic", f"{filled}:0", "--shift-by", "1", "--dry-run"],
        ["--nonsense"],
        ["--group"],
    ):
        refused("consumer_groups", *arguments)
    refused("consumer_groups", "--list", server=False)


# kafka-configs


def test_configs(same: Callable[..., Ran], filled: str) -> None:
    entity = ["--entity-type", "topics", "--entity-name", filled]
    for arguments in (
        ["--describe", *entity],
        ["--alter", *entity, "--add-config", "retention.ms=70000,cleanup.policy=[delete,compact]"],
        ["--describe", *entity],
        ["--describe", "--topic", filled],
        ["--describe", *entity, "--all"],
        ["--alter", *entity, "--delete-config", "retention.ms"],
        ["--describe", *entity],
        ["--describe", "--topic", f"no.{filled}"],
        ["--describe", "--broker", "0"],
        ["--describe", "--entity-type", "brokers", "--entity-default"],
        ["--describe", "--entity-type", "brokers"],
        ["--describe", "--broker", "77"],
    ):
        same("configs", *arguments)


def test_quotas_by_kafka_configs(same: Callable[..., Ran], broker_address: str, filled: str) -> None:
    user = ["--entity-type", "users", "--entity-name", filled]
    client = ["--entity-type", "clients", "--entity-name", "some client"]
    address = ["--entity-type", "ips", "--entity-name", "192.0.2.7"]
    for arguments in (
        ["--alter", *user, "--add-config", "producer_byte_rate=1024,request_percentage=12.5"],
        ["--describe", *user],
        ["--alter", *user, *client, "--add-config", "consumer_byte_rate=2048"],
        ["--describe", *user, *client],
        ["--describe", "--user", filled, "--client", "some client"],
        [
            "--alter",
            *user,
            "--entity-type",
            "clients",
            "--entity-default",
            "--add-config",
            "controller_mutation_rate=5",
        ],
        ["--describe", *user, "--entity-type", "clients", "--entity-default"],
        ["--describe", *user, "--entity-type", "clients"],
        ["--describe", "--user", filled, "--client-defaults"],
        ["--alter", "--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=1e9"],
        ["--describe", "--entity-type", "clients", "--entity-default"],
        ["--describe", "--client-defaults"],
        ["--describe", "--entity-type", "clients"],
        ["--alter", *address, "--add-config", "connection_creation_rate=7"],
        ["--describe", *address],
        ["--describe", "--entity-type", "ips"],
        ["--describe", "--ip", "192.0.2.7"],
    ):
        same("configs", *arguments, lines_sorted=True)
    server = ["--bootstrap-server", broker_address]
    for arguments in (
        ["--client-defaults", "--delete-config", "producer_byte_rate"],
        [*address, "--delete-config", "connection_creation_rate"],
        [*user, "--delete-config", "producer_byte_rate,request_percentage"],
        [*user, *client, "--delete-config", "consumer_byte_rate"],
        [*user, "--entity-type", "clients", "--entity-default", "--delete-config", "controller_mutation_rate"],
    ):
        assert ours("configs", *server, "--alter", *arguments).status == 0
        again = ours("configs", *server, "--alter", *arguments)
        assert (again.status, "Invalid config(s): " in again.stderr) == (1, True), again
    for kind in ("users", "clients", "ips"):
        same("configs", "--describe", "--entity-type", kind)


def test_configs_refuses(refused: Callable[..., None], filled: str) -> None:
    entity = ["--entity-type", "topics", "--entity-name", filled]
    for arguments in (
        ["--describe", "--alter", *entity],
        ["--describe"],
        ["--describe", "--entity-type", "nope"],
        ["--describe", "--broker", "x"],
        ["--alter", *entity],
        ["--alter", *entity, "--add-config", "retention.ms"],
        ["--alter", "--entity-type", "topics", "--add-config", "a=b"],
    ):
        refused("configs", *arguments)
    refused("configs", "--describe", *entity, server=False)


def test_configs_that_the_broker_refuses(both: Both, filled: str) -> None:
    mine, theirs = both("configs", "--alter", "--topic", filled, "--add-config", "retention.ms=soon")
    assert mine.status == theirs.status == 1
    said = "InvalidConfigurationException: Invalid value soon for configuration retention.ms: Not a number of type LONG"
    assert said in mine.stderr
    assert said in theirs.stderr


# kafka-get-offsets, kafka-delete-records, kafka-log-dirs


def test_get_offsets(same: Callable[..., Ran], filled: str) -> None:
    for arguments in (
        ["--topic", filled],
        *(["--topic", filled, "--time", when] for when in ("earliest", "-1", "max-timestamp", "latest-tiered", "0")),
        ["--topic", filled, "--time", "99999999999999"],
        ["--topic", filled, "--partitions", "1"],
        *(["--topic-partitions", f"{filled}:{which}"] for which in ("0", "0-1", "1-", "-1")),
        ["--topic-partitions", filled],
    ):
        same("get_offsets", *arguments)


def test_get_offsets_refuses(refused: Callable[..., None], filled: str) -> None:
    for arguments in (
        ["--topic", f"no.{filled}"],
        ["--topic", filled, "--partitions", "7"],
        ["--topic", filled, "--partitions", "x"],
        ["--topic", filled, "--time", "yesterday"],
        ["--topic", filled, "--topic-partitions", filled],
    ):
        refused("get_offsets", *arguments)
    refused("get_offsets", server=False)


def test_delete_records(same: Callable[..., Ran], refused: Callable[..., None], filled: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"

    def write(*offsets: int, **more: Any) -> list[str]:
        partitions = [{"topic": filled, "partition": at, "offset": offset} for at, offset in enumerate(offsets)]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions, **more}))
        return ["--offset-json-file", str(plan)]

    same("delete_records", *write(2, 99), lines_sorted=True)
    assert same("get_offsets", "--topic", filled, "--time", "earliest").stdout == f"{filled}:0:2\n{filled}:1:0\n"
    same("delete_records", *write(-1))
    refused("delete_records", *write(version=2))
    plan.write_text("{bad")
    refused("delete_records", "--offset-json-file", str(plan))
    refused("delete_records", "--offset-json-file", str(tmp_path / "none"))
    refused("delete_records")


def test_log_dirs(both: Both, refused: Callable[..., None], filled: str) -> None:
    def lines(ran: Ran) -> Any:
        assert ran.status == 0, ran
        first, second, text = ran.stdout.splitlines()
        document = json.loads(text)
        for broker in document["brokers"]:
            for directory in broker["logDirs"]:
                directory["partitions"].sort(key=lambda each: each["partition"])
        return first, second, document

    for arguments in (
        ["--topic-list", filled],
        ["--topic-list", f"{filled},none"],
        ["--broker-list", "0", "--topic-list", filled],
    ):
        mine, theirs = both("log_dirs", "--describe", *arguments)
        assert lines(mine) == lines(theirs)
    refused("log_dirs", "--describe", "--broker-list", "77")
    refused("log_dirs")


# kafka-transactions


def test_transactions(same: Callable[..., Ran], java: Java, broker_address: str, filled: str) -> None:
    name = f"tx.{filled}"
    patient = {"transaction.timeout.ms": 600_000}  # many commands are run while it is open
    producer = Producer({"bootstrap.servers": broker_address, "transactional.id": name, **patient})
    producer.init_transactions(PATIENCE_S)
    same("transactions", "list", "--transactional-id-pattern", f"tx.{filled}")
    same("transactions", "describe", "--transactional-id", name)
    producer.begin_transaction()
    producer.produce(filled, "open", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    listed = same("transactions", "list", lines_sorted=True).stdout
    assert re.search(rf"{re.escape(name)} *\t0 +\t\d+ *\tOngoing", listed), listed
    described = same_but_duration(same, java, broker_address, name)
    assert f"{filled}-1" in described
    producers = same("transactions", "describe-producers", "--topic", filled, "--partition", "1").stdout
    assert re.search(r"\t5 +\t\n", producers), producers  # where the transaction begins
    same("transactions", "describe-producers", "--topic", filled, "--partition", "1", "--broker-id", "0")
    same("transactions", "find-hanging", "--topic", filled)
    hanging = same("transactions", "find-hanging", "--topic", filled, "--max-transaction-timeout", "-1")
    assert filled not in hanging.stdout  # its coordinator knows it
    producer.abort_transaction(PATIENCE_S)
    same("transactions", "list", "--duration-filter", "100000000", lines_sorted=True)


def same_but_duration(same: Callable[..., Ran], java: Java, bootstrap: str, name: str) -> str:
    """How long a transaction has been open changes from one call to the next."""
    arguments = ["--bootstrap-server", bootstrap, "describe", "--transactional-id", name]
    mine, theirs = ours("transactions", *arguments).stdout, java.tool(MAINS["transactions"], *arguments).stdout
    assert [line.split("\t")[:7] for line in mine.splitlines()] == [
        line.split("\t")[:7] for line in theirs.splitlines()
    ]
    return mine


def test_transactions_refuses(both: Both, refused: Callable[..., None], filled: str) -> None:
    for arguments in (
        ["find-hanging"],
        ["abort", "--topic", filled, "--partition", "0"],
        ["abort", "--topic", filled, "--partition", "0", "--start-offset", "0"],
    ):
        refused("transactions", *arguments)
    mine, theirs = both("transactions", "describe", "--transactional-id", f"no.{filled}")
    assert mine.status == theirs.status == 1
    assert theirs.message.startswith(mine.message)
    for arguments in (["describe"], ["nonsense"], []):
        mine, theirs = both("transactions", *arguments)
        assert mine.status == theirs.status == 1


# kafka-console-producer, kafka-console-consumer


def test_console(
    same: Callable[..., Ran], both: Both, broker_address: str, create_topic: Callable[..., None], topic: str
) -> None:
    create_topic(topic)
    server = ["--bootstrap-server", broker_address]
    produce = [*server, "--topic", topic, "--compression-codec", "lz4"]
    for name in ("parse.key=true", "parse.headers=true", "null.marker=NULL"):
        produce += ["--reader-property", name]
    lines = "h1:v1,h2:v2\tkey one\tvalue öne\nNULL\tkey two\tNULL\nNULL\tNULL\tvalue three"
    assert ours("console_producer", *produce, stdin=lines) == (0, "", "")
    assert ours("console_producer", *server, "--topic", topic, stdin="plain\n") == (0, "", "")
    read = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "4"]
    shown = []
    for name in ("key", "headers", "offset", "partition", "timestamp", "epoch", "delivery"):
        shown += ["--formatter-property", f"print.{name}=true"]
    for more in (
        [],
        shown,
        [*shown, "--formatter-property", "key.separator=|", "--formatter-property", "null.literal=NIL"],
        ["--formatter-property", "print.value=false", "--formatter-property", "line.separator=;"],
    ):
        mine, theirs = both("console_consumer", *read, *more)
        assert mine == theirs
        assert mine.stderr == "Processed a total of 4 messages\n"
    assert (
        ours("console_consumer", *server, "--topic", topic, "--from-beginning", "--max-messages", "1").stdout
        == "value öne\n"
    )
    everything = ["--include", f"{topic}.*", "--from-beginning", "--max-messages", "4", "--timeout-ms", "60000"]
    found = ours("console_consumer", *server, *everything)
    assert found.stdout == "value öne\nnull\nvalue three\nplain\n"


def test_the_console_consumer_goes_on_where_its_group_is(
    broker_address: str, same: Callable[..., Ran], filled: str
) -> None:
    name = f"console.{filled}"
    arguments = ["--bootstrap-server", broker_address, "--topic", filled, "--group", name, "--from-beginning"]
    first = ours("console_consumer", *arguments, "--max-messages", "4")
    assert first.status == 0, first
    rest = ours("console_consumer", *arguments, "--max-messages", "6", "--timeout-ms", "60000")
    assert ours("console_consumer", *arguments, "--timeout-ms", "900").stdout == ""  # and no more
    assert sorted([*first.stdout.split(), *rest.stdout.split()]) == [f"v{number}" for number in range(10)]
    described = same("consumer_groups", "--describe", "--group", name).stdout
    assert [line.split()[5] for line in described.splitlines()[2:]] == ["0", "0"]


def test_console_refuses(refused: Callable[..., None], both: Both, filled: str) -> None:
    for arguments in (
        [],
        ["--topic", filled, "--include", filled],
        ["--topic", filled, "--offset", "1"],
        ["--topic", filled, "--partition", "0", "--offset", "-1"],
        ["--topic", filled, "--partition", "0", "--offset", "1", "--from-beginning"],
        ["--topic", filled, "--group", "a", "--command-property", "group.id=b"],
        ["--topic", filled, "--formatter", "no.such"],
    ):
        refused("console_consumer", *arguments)
    refused("console_producer")
    arguments = ["--topic", filled, "--reader-property", "parse.key=true"]
    mine, theirs = both("console_producer", *arguments, stdin="no key here\n")
    assert mine.status == theirs.status == 1
    assert mine.message == theirs.message


# kafka-dump-log


def test_dump_log(
    same: Callable[..., Ran],
    headwater_process: BrokerProcess,
    broker_address: str,
    topic: str,
    create_topic: Callable[..., None],
) -> None:
    create_topic(topic)
    producer = Producer(
        {"bootstrap.servers": broker_address, "transactional.id": f"tx.{topic}", "compression.type": "gzip"}
    )
    producer.init_transactions(PATIENCE_S)
    for commits in (True, False):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"v{number}", f"k{number}", headers={"h": "1"})
        (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_S)
    segment = headwater_process.log_dir / f"{topic}-0" / f"{0:020}.log"
    for more in ([], ["--print-data-log"], ["--deep-iteration"], ["--print-data-log", "--skip-record-metadata"]):
        printed = same("dump_log", "--files", str(segment), *more, server=False).stdout
        assert "isTransactional: true" in printed


@pytest.mark.parametrize(
    ("internal", "decoder"),
    [("__consumer_offsets", "--offsets-decoder"), ("__transaction_state", "--transaction-log-decoder")],
)
def test_dump_log_of_coordinators(
    same: Callable[..., Ran],
    headwater_process: BrokerProcess,
    broker_address: str,
    group: str,
    filled: str,
    internal: str,
    decoder: str,
    tmp_path: Path,
) -> None:
    with (
        member(broker_address, f"classic.{filled}", filled),
        member(broker_address, f"new.{filled}", filled, group_protocol="consumer"),
    ):
        pass
    producer = Producer({"bootstrap.servers": broker_address, "transactional.id": f"tx.{filled}"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(filled, "v")
    producer.commit_transaction(PATIENCE_S)
    printed = ""
    for path in headwater_process.log_dir.glob(f"{internal}-*/*.log"):
        copy = tmp_path / path.parent.name / path.name  # the broker writes on, and both must see the same
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
        if copy.stat().st_size:
            printed += same("dump_log", "--files", str(copy), decoder, server=False).stdout
    assert (f'"transactionalId":"tx.{filled}"' if internal == "__transaction_state" else group) in printed


# Options of older tools


def test_zookeeper_and_broker_list_are_explained(broker_address: str, filled: str) -> None:
    with socket.socket() as bound:  # and never listens
        bound.bind(("127.0.0.1", 0))
        gone = ours("topics", "--zookeeper", f"127.0.0.1:{bound.getsockname()[1]}", "--list")
    assert gone.status == 1
    assert "Cannot reach ZooKeeper at 127.0.0.1" in gone.stderr
    assert "--bootstrap-server" in gone.stderr
    for script in ("topics", "console_consumer"):
        more = ["--list"] if script == "topics" else ["--topic", filled, "--from-beginning", "--max-messages", "1"]
        old = ours(script, "--broker-list", broker_address, *more)
        assert old.status == 0
        assert "--broker-list is the old name" in old.stderr

"""`kafka-console-consumer --group`, twice: two terminals share a topic, which is how groups are shown to people."""

import subprocess
import sys
import time
from collections.abc import Callable

from confluent_kafka import Producer

from headwater.client import Admin
from headwater.client.admin import GroupDescription

PATIENCE_S = 60
CODE = "from headwater.cli.kafka.console_consumer import main; main()"


def test_two_console_consumers_of_a_group_share_its_partitions(
    broker_address: str, topic: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic, partitions=2)
    arguments = ["--bootstrap-server", broker_address, "--topic", topic, "--group", topic, "--max-messages", "5"]
    show = ["--from-beginning", "--formatter-property", "print.partition=true"]
    command = [sys.executable, "-c", CODE, *arguments, *show]
    consoles = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        wait_for_shares(broker_address, topic, [1, 1])
        producer = Producer({"bootstrap.servers": broker_address})
        for number in range(10):
            producer.produce(topic, f"v{number}", partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0
        ended = [console.communicate(timeout=PATIENCE_S) for console in consoles]
    finally:
        for console in consoles:
            console.kill()
            console.wait()
    shares = [[f"Partition:{part}\tv{number}" for number in range(part, 10, 2)] for part in range(2)]
    assert sorted(out.splitlines() for out, _ in ended) == shares, ended
    assert [err for _, err in ended] == ["Processed a total of 5 messages\n"] * 2
    with Admin(bootstrap_servers=broker_address) as admin:
        assert sorted(each.offset for each in admin.list_group_offsets(topic).values()) == [5, 5]


def test_a_console_consumer_that_is_told_to_stop_leaves_its_group(
    broker_address: str, topic: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic)
    producer = Producer({"bootstrap.servers": broker_address})
    producer.produce(topic, "v")
    assert producer.flush(PATIENCE_S) == 0
    arguments = ["--bootstrap-server", broker_address, "--topic", topic, "--group", topic, "--from-beginning"]
    console = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert console.stdout is not None
        assert console.stdout.readline() == "v\n"
        console.terminate()
        assert console.communicate(timeout=PATIENCE_S) == ("", "Processed a total of 1 messages\n")
    finally:
        console.kill()
        console.wait()
    assert console.returncode == 143
    with Admin(bootstrap_servers=broker_address) as admin:
        assert admin.describe_group(topic).state == "Empty"
        assert [each.offset for each in admin.list_group_offsets(topic).values()] == [1]


def wait_for_shares(broker_address: str, group: str, shares: list[int]) -> None:
    """Until the members have so many partitions."""
    deadline = time.monotonic() + PATIENCE_S
    with Admin(bootstrap_servers=broker_address) as admin:
        while True:
            described = admin.describe_groups([group])[group]
            if isinstance(described, GroupDescription) and is_shared(described, shares):
                return
            assert time.monotonic() < deadline, described
            time.sleep(0.1)


def is_shared(group: GroupDescription, shares: list[int]) -> bool:
    return group.state == "Stable" and [len(member.assignment) for member in group.members] == shares

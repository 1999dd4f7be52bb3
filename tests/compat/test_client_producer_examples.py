"""The examples of examples/ that write: as a reader would run them."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.everything import read_all
from compat.support.members import until
from compat.support.topics import fill, make_topic
from compat.support.transactional import read

EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(name: str, *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_banana_has_the_last_partition_to_itself(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 4)
    customers = ["Banana", "Apple", "Banana", *(f"Customer {number}" for number in range(50))]
    lines = _run("banana_partitioner.py", broker_address, topic, stdin="\n".join(customers)).splitlines()
    placed = [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in lines]
    assert [customer for customer, _ in placed] == customers
    assert {partition for customer, partition in placed if customer == "Banana"} == {3}
    assert {partition for customer, partition in placed if customer != "Banana"} == {0, 1, 2}
    found = {(message.key() or b"").decode(): message.partition() for message in read_all(broker_address, topic, 53)}
    assert found == dict(placed)


def test_banana_shares_a_partition_if_there_is_only_one(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 1)
    assert _run("banana_partitioner.py", broker_address, topic, stdin="Banana\nApple\n") == "Banana 0\nApple 0\n"


def test_three_ways_to_send(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    printed = _run("send_and_be_told.py", broker_address, topic).splitlines()
    assert printed == [
        f"Sent to {topic}, partition 0, offset 1",
        *(f"Offset of sent record: {offset}" for offset in (2, 3, 4)),
    ]
    values = [message.value() for message in read_all(broker_address, topic, 5)]
    assert values == [b"fire and forget", b"wait for it", b"be told 0", b"be told 1", b"be told 2"]


@pytest.mark.timeout(300)
def test_read_process_write_is_exact_though_it_dies(
    group_broker: BrokerProcess, group_topic: Callable[..., str]
) -> None:
    source, target = group_topic(2, ".source"), group_topic(1, ".target")
    command = [sys.executable, str(EXAMPLES / "read_process_write.py"), source, target, group_broker.bootstrap]
    expected: list[str] = []
    for round_ in range(3):  # the last one may finish
        expected += [value.decode() for value in fill(group_broker.bootstrap, source, 2, 500, start=round_ * 500)]
        before = len(read(group_broker.bootstrap, target))
        script = subprocess.Popen(command)
        try:
            until(
                lambda before=before: len(read(group_broker.bootstrap, target)) > before, "the script does nothing", 90
            )
            if round_ == 2:
                until(lambda: len(read(group_broker.bootstrap, target)) >= 3000, "the script does not finish", 90)
                time.sleep(0.3)  # more would be one too many
        finally:
            script.kill()
            script.wait()
    assert sorted(read(group_broker.bootstrap, target)) == sorted(expected)


@pytest.mark.timeout(300)
def test_the_asyncio_one_hands_over_to_another_of_its_group(
    group_broker: BrokerProcess, group_topic: Callable[..., str]
) -> None:
    source, target = group_topic(2, ".source"), group_topic(1, ".target")
    script = str(EXAMPLES / "async_read_process_write.py")
    running: list[subprocess.Popen[bytes]] = []
    expected: list[str] = []
    try:
        for round_ in range(2):
            command = [sys.executable, script, source, target, f"{source}.{round_}", group_broker.bootstrap]
            running.append(subprocess.Popen(command))
            expected += [value.decode() for value in fill(group_broker.bootstrap, source, 2, 300, start=round_ * 300)]
            until(lambda: len(read(group_broker.bootstrap, target)) > 0, "the script does nothing", 90)
        running[0].kill()
        expected += [value.decode() for value in fill(group_broker.bootstrap, source, 2, 300, start=600)]
        # Nobody reads past what the dead one had begun: it is open until its transaction.timeout.ms, a minute, is over.
        until(lambda: len(read(group_broker.bootstrap, target)) >= 1800, "the other does not take over", 150)
        running[1].terminate()
        assert running[1].wait(60) == 0
    finally:
        for each in running:
            each.kill()
            each.wait()
    assert sorted(read(group_broker.bootstrap, target)) == sorted(expected)

"""Our client for a long time: producers, a group whose members come and go, a reader of columns, a broker that dies now
and then.

Nothing acknowledged is missing, nothing comes out of order, and the memory of the process stays where it was. Seconds
in `make test`, an hour in `make soak`.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.quick import lasting
from headwater.client import Consumer, NewTopic, Producer, TopicPartition
from headwater.client.admin import Admin

PARTITIONS = 4
SECONDS = lasting(6, 3600)
KILL_EVERY_S = lasting(2, 60)
REPLACE_EVERY_S = lasting(1.5, 20)
GROWTH_BYTES_MAX = 60_000_000
PAUSE_S = lasting(0.002, 0.02)  # so that an hour of it needs little of the machine

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 5400))]


class Load:
    """Threads that produce and consume until told to stop, and what they saw. An error of any of them is kept."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.settings = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}
        self.topic = topic
        self.stop = threading.Event()
        self.acknowledged: dict[int, int] = defaultdict(int)  # partition -> how many, numbered from 0
        self.reached: dict[int, int] = defaultdict(int)  # partition -> up to where the group has seen every record
        self.columns = 0
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 (the test raises it)
                self.errors.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        self._threads.append(thread)
        return thread

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a thread of the load hangs"

    def produce(self) -> None:
        number = 0
        with Producer(self.settings, linger_ms=1) as producer:
            while not self.stop.is_set():
                sent = [
                    producer.send(self.topic, str(number + at).encode(), partition=partition)
                    for at in range(20)
                    for partition in range(PARTITIONS)
                ]
                for delivery in sent:
                    delivery.result(60)
                number += 20
                for partition in range(PARTITIONS):
                    self.acknowledged[partition] = number
                time.sleep(PAUSE_S)

    def consume(self, leave: threading.Event) -> None:
        """As a member of the group, which commits what it has seen; what it reads again after a rebalance it knows
        already.
        """
        last: dict[TopicPartition, int] = {}
        with Consumer(
            self.settings, group_id="soak", auto_offset_reset="earliest", session_timeout_ms=6000
        ) as consumer:
            # What it is given, it reads from where the group is: also what it had a moment before.
            consumer.subscribe([self.topic], on_assigned=lambda given: [last.pop(each, None) for each in given])
            while not leave.is_set() and not self._all_seen():
                for record in consumer.poll(0.1):
                    assert record.offset == last.get(record.topic_partition, record.offset), "a gap, or a step back"
                    last[record.topic_partition] = record.offset + 1
                    assert int(record.value) == record.offset, "a record lost or doubled"
                    assert record.offset <= self.reached[record.partition], "begun behind what nobody has seen"
                    self.reached[record.partition] = max(self.reached[record.partition], record.offset + 1)

    def read_columns(self) -> None:
        with Consumer(self.settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(self.topic, partition) for partition in range(PARTITIONS)])
            while not self.stop.is_set():
                self.columns += consumer.poll_arrow(0.1).num_rows

    def _all_seen(self) -> bool:
        return self.stop.is_set() and all(
            self.reached[partition] >= self.acknowledged[partition] for partition in range(PARTITIONS)
        )


def test_nothing_is_lost_and_memory_stays_flat(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = broker_factory(tmp_path, group_initial_rebalance_delay_ms=0)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    load = Load(broker.bootstrap, topic)
    process = psutil.Process()
    first_half_bytes = kills = 0
    longest_start_s = 0.0
    leave = threading.Event()
    try:
        load.start(load.produce)
        load.start(load.read_columns)
        load.start(lambda: load.consume(threading.Event()))
        member = load.start(lambda: load.consume(leave))
        until(lambda: load.errors or (load.columns and any(load.reached.values())), "all are at work")
        killed_at = replaced_at = began = time.monotonic()
        while (elapsed := time.monotonic() - began) < SECONDS and not load.errors:
            time.sleep(0.1)
            if elapsed < SECONDS / 2:
                first_half_bytes = max(first_half_bytes, process.memory_info().rss)
            if time.monotonic() - killed_at > KILL_EVERY_S:
                broker.kill()
                killed_at = time.monotonic()
                broker.start()
                longest_start_s = max(longest_start_s, time.monotonic() - killed_at)
                killed_at = time.monotonic()
                kills += 1
            if time.monotonic() - replaced_at > REPLACE_EVERY_S:
                leave.set()
                member.join(60)
                leave = threading.Event()
                member = load.start(lambda leave=leave: load.consume(leave))
                replaced_at = time.monotonic()
    finally:
        load.end()
    assert not load.errors, load.errors
    for partition in range(PARTITIONS):
        assert load.acknowledged[partition] > 0
        assert load.reached[partition] >= load.acknowledged[partition]
    assert load.columns > 0
    end_bytes = process.memory_info().rss
    print(
        f"{sum(load.acknowledged.values()):,} records, {load.columns:,} read as columns, {kills} kills, "
        f"longest start {longest_start_s:.1f} s, memory {first_half_bytes / 1e6:.0f} MB in the first half, "
        f"{end_bytes / 1e6:.0f} MB at the end"
    )
    assert end_bytes - first_half_bytes < GROWTH_BYTES_MAX

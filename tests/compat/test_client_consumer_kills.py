"""Our producer and our consumer, in a group, while the broker is killed and started again: every record comes, in
order.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.quick import lasting, quick
from compat.support.topics import make_topic
from headwater.client import Consumer, Producer

KILLS = lasting(1, 20)
BETWEEN_S = lasting(1.5, 10.0)
PARTITIONS = 3

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]


class Writing(threading.Thread):
    """Writes numbers to partitions in turn until it is told to stop, one lot after the other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.sent = 0
        self.failures: list[BaseException] = []
        self._address = bootstrap
        self._topic = topic
        self._told = threading.Event()

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._address, delivery_timeout_ms=100_000) as producer:
                while not self._told.wait(0.01):
                    lot = [
                        producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
                        for number in range(self.sent, self.sent + 60)
                    ]
                    for delivery in lot:
                        delivery.result(100)
                    self.sent += len(lot)
        except BaseException as error:  # noqa: BLE001 (the test tells it)
            self.failures.append(error)

    def stop(self) -> None:
        self._told.set()
        self.join()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_lost_when_the_broker_dies(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, protocol: str
) -> None:
    broker = broker_factory(tmp_path / "broker", **quick())
    make_topic(broker.bootstrap, topic, PARTITIONS)
    writing = Writing(broker.bootstrap, topic)
    writing.start()
    seen: list[dict[int, None]] = [{} for _ in range(PARTITIONS)]  # in order; what comes again counts once
    kills, began = 0, time.monotonic()
    try:
        with Consumer(
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
        ) as consumer:
            consumer.subscribe([topic])

            def read() -> None:
                for record in consumer.poll(0.1):
                    seen[record.partition].setdefault(int(record.value))

            while kills < KILLS or time.monotonic() < began + (kills + 1) * BETWEEN_S:
                read()
                if kills < KILLS and time.monotonic() > began + (kills + 1) * BETWEEN_S and any(seen):
                    broker.kill()
                    broker.start()
                    kills += 1
            writing.stop()
            deadline = time.monotonic() + 60
            while sum(len(each) for each in seen) < writing.sent and time.monotonic() < deadline:
                read()
    finally:
        writing.stop()
    assert writing.failures == []
    for partition, numbers in enumerate(seen):
        expected = list(range(partition, writing.sent, PARTITIONS))
        assert list(numbers) == expected

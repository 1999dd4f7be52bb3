"""How long a record takes from the producer through a keyed count to a reader of committed records, beside Kafka
Streams, at 500 records/s.

Both run the same topology in a process of their own, exactly once, cache off, over the same broker, one after the
other; load and reader are the same. Each record has a key of its own, by which its result is known. It begins with the
first result, and the first seconds, in which interpreters and the JVM grow warm, do not count.
"""

import threading
import time
from collections.abc import Callable

from bench.report import LESS, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario
from bench.streams import PARTITIONS, TOPIC_CONFIGS, commands, running
from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer import Consumer
from headwater.client.producer.producer import Producer

RECORDS_S = 500
WARM_UP_S = 8.0
MEASURED_S = 20.0
COMMIT_MS = (100, 20)
PATIENCE_S = 60.0
FIRST = b"first"


class Sender(threading.Thread):
    """Sends at its pace, and knows when it has sent which record."""

    def __init__(self, brokers: str, topic: str, count: int) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self._brokers, self._count = brokers, count
        self.sent_at: list[float] = [0.0] * count
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._brokers, linger_ms=0) as producer:
                began = time.perf_counter()
                for number in range(self._count):
                    pause = began + number / RECORDS_S - time.perf_counter()
                    if pause > 0:
                        time.sleep(pause)
                    self.sent_at[number] = time.perf_counter()
                    producer.send(self.topic, b"x", key=b"%d" % number)
        except Exception as error:  # noqa: BLE001 - told by whoever waits
            self.error = error


def latencies(bench: Bench, who: str, commit_ms: int) -> list[float]:
    """In milliseconds, of those records that were sent after the first seconds."""
    bench._used += 1
    application = f"bench-latency-{bench._used}"
    brokers = f"127.0.0.1:{bench.port()}"
    topics = [f"{application}.in", f"{application}.out"]
    warm = int(bench.seconds(WARM_UP_S) * RECORDS_S)
    count = warm + int(bench.seconds(MEASURED_S) * RECORDS_S)
    with Calls(bench.port()) as calls:
        for topic in topics:
            calls.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
    command = commands(who, "count", bench.port(), application, bench.folder / application, commit_ms)
    try:
        with running(command, bench.folder / f"{application}.said"):
            sender = Sender(brokers, topics[0], count)
            found = _receive(brokers, topics[1], sender)
    finally:
        with Calls(bench.port()) as calls:
            for topic in topics:
                calls.delete_topic(topic)
    return sorted((found[number] - sender.sent_at[number]) * 1e3 for number in range(warm, count))


def _receive(brokers: str, topic: str, sender: Sender) -> dict[int, float]:
    """When the result of each record was there."""
    found: dict[int, float] = {}
    with Consumer(
        bootstrap_servers=brokers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        _await_first(brokers, sender.topic, consumer)
        sender.start()
        heard = time.perf_counter()
        while len(found) < len(sender.sent_at):
            records = consumer.poll(0.5)
            now = time.perf_counter()
            found |= {int(record.key): now for record in records if record.key != FIRST}
            heard = now if records else heard
            if sender.error is not None or now - heard > PATIENCE_S:
                raise Broken(f"{topic}: {len(found)} of {len(sender.sent_at)} results: {sender.error}")
    return found


def _await_first(brokers: str, topic: str, consumer: Consumer) -> None:
    """Until the application shows that it processes: Kafka Streams says that it has started before it has its tasks."""
    deadline = time.perf_counter() + 2 * PATIENCE_S
    with Producer(bootstrap_servers=brokers, linger_ms=0) as producer:
        while time.perf_counter() < deadline:
            producer.send(topic, b"x", key=FIRST)
            if consumer.poll(0.5):
                return
    raise Broken(f"no result of {topic} within {2 * PATIENCE_S:.0f} s")


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def beside_kafka_streams(commit_ms: int) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        theirs = latencies(bench, "Kafka Streams", commit_ms)
        ours = latencies(bench, "headwater", commit_ms)
        return {
            f"streams-latency-{commit_ms}ms-{name}": Figure(
                quantile(ours, share), quantile(theirs, share), f"{len(ours):,} records, at most {ours[-1]:,.0f} ms"
            )
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }

    return measure


def latency_scenarios() -> list[Scenario]:
    return [
        Scenario(
            tuple(
                Kind(
                    f"streams-latency-{commit_ms}ms-{name}",
                    f"Streams: {name} at {RECORDS_S} records/s, commit every {commit_ms} ms",
                    "ms",
                    LESS,
                    "Kafka Streams",
                    1.0,
                    of_limit=True,
                )
                for name in ("p50", "p99")
            ),
            beside_kafka_streams(commit_ms),
            2,
            about_broker=False,
        )
        for commit_ms in COMMIT_MS
    ]

"""What a client that is over its quota does to others: p99 of small requests beside librdkafka, which writes all that
it can and is allowed a megabyte a second.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.counting_process import counting
from bench.replay import replay
from bench.report import LESS, Figure, Kind
from bench.requests import Broken
from bench.rows import PARTITIONS, Bench, Figures, Scenario, check, small_frames

CLIENT_ID, BYTES_PER_SECOND = "over-its-quota", 1 << 20
SECONDS = 3.0
VALUE_BYTES = 1000
HELD_BACK_AFTER_BYTES = 11 * BYTES_PER_SECOND  # quotas count over eleven seconds, so the first ten are allowed at once

_WRITER = """
import sys, threading
from confluent_kafka import Producer
port, topic, client_id = sys.argv[1:]
producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "client.id": client_id, "linger.ms": 5, "acks": 1,
                     "queue.buffering.max.messages": 20000, "message.timeout.ms": 300000})
written = [0]
def told(error, message):
    written[0] += error is None
def run():
    while True:
        try:
            producer.produce(topic, bytes(1000), on_delivery=told)
        except BufferError:
            producer.poll(0.05)
threading.Thread(target=run, daemon=True).start()
for _ in sys.stdin:
    print(written[0], flush=True)
"""


def neighbour(bench: Bench) -> Figures:
    with bench.start(bench.directory()) as broker:
        bench.broker, outer = broker, bench.broker
        try:
            return _beside(bench, broker.port)
        finally:
            bench.broker = outer


def _beside(bench: Bench, port: int) -> Figures:
    _limit(port)
    with bench.topic() as topic, bench.topic() as other:
        small = small_frames(bench, topic)
        alone = replay(port, small, connections=1, depth=1, seconds=bench.seconds(SECONDS))
        with _over_its_quota(port, other) as count:
            before = count()
            beside = replay(port, small, connections=1, depth=1, seconds=bench.seconds(SECONDS))
            written = count() - before
        check("records in the log", bench.produced(topic, PARTITIONS), alone.requests + beside.requests)
    per_second = written * VALUE_BYTES / bench.seconds(SECONDS)
    also = f"beside {per_second / 1e6:,.1f} MB/s of 1; p50 {beside.p50_us / 1e3:.2f} ms"
    return {"quota-neighbour-p99": Figure(beside.p99_us / 1e3, alone.p99_us / 1e3, also)}


def _limit(port: int) -> None:
    from headwater.client import Admin
    from headwater.client.admin.quotas import quota_entity

    entity = quota_entity(client_id=CLIENT_ID)
    with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
        changed = admin.alter_client_quotas({entity: {"producer_byte_rate": float(BYTES_PER_SECOND)}})
    if set(changed.values()) != {None}:
        raise Broken(f"the quota was refused: {changed}")


@contextmanager
def _over_its_quota(port: int, topic: str) -> Iterator[Callable[[], int]]:
    """Yields when it has written what its quota allows for some seconds, and so is held back; the function tells how
    many records it has written.
    """
    with counting(_WRITER, port, topic, CLIENT_ID) as count:
        while count() * VALUE_BYTES < HELD_BACK_AFTER_BYTES:
            time.sleep(0.01)
        yield count


def quota_scenarios() -> list[Scenario]:
    row = "quota-neighbour-p99"
    kind = Kind(row, "p99 of small requests beside a client over its quota", "ms", LESS, "alone")
    return [Scenario((kind,), neighbour, 2, False)]

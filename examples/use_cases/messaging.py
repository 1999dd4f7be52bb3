"""Messaging: a queue of jobs. Workers of one group share the partitions, so each job goes to one of them.

The offset is committed after the work: a job that a worker died over is given to another.
"""

import os
import sys
import time
from collections.abc import Sequence

from common import BOOTSTRAP, ensure_topic, until_told

from headwater.client import Consumer, ConsumerRecord, Producer

TOPIC = "jobs"


def send(jobs: Sequence[str]) -> None:
    with Producer(bootstrap_servers=BOOTSTRAP, acks="all") as producer:
        # A partition for each in turn: without a key, the producer would fill a batch for one of them first.
        placed = [producer.send(TOPIC, job, partition=number % 6) for number, job in enumerate(jobs)]
        for job, delivery in zip(jobs, placed, strict=True):
            where = delivery.result()
            print(f"{job!r} waits in partition {where.partition} at offset {where.offset}")


def work() -> None:
    consumer = Consumer(
        bootstrap_servers=BOOTSTRAP,
        group_id="workers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,  # silent for so long, and its partitions go to the others
        heartbeat_interval_ms=1000,
    )
    consumer.subscribe([TOPIC])

    def handle(records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            time.sleep(0.05)  # the work
            print(f"worker {os.getpid()} did {record.value.decode()!r}", flush=True)
        consumer.commit(records)

    until_told(consumer, handle)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", *jobs] if jobs:
            ensure_topic(TOPIC, partitions=6)
            send(jobs)
        case ["work"]:
            ensure_topic(TOPIC, partitions=6)
            work()
        case _:
            sys.exit("messaging.py send JOB... | messaging.py work")

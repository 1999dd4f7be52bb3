"""Whether things happen when they are due: punctuators while there are records to process, the partitions of a slot
that is killed, and those of the others meanwhile.

Slots are processes, as in `streams_large_state`; Spark supplies them elsewhere, and the lead does the same with them.
An application counts records that come every 10 ms in each partition, with a commit every 20 ms, so a result is known
to be of a record that was sent after the kill.
"""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, Final

from bench.report import LESS, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario
from bench.streams import FIRST_MS, PARTITIONS, TOPIC_CONFIGS, commands, fill, key_numbers, pace, running
from bench.streams_apps import make
from bench.streams_large_state import STATE, Slots, slots_below
from bench.streams_latency import quantile
from bench.streams_state import on_own_broker
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.consumer import Consumer
from headwater.client.producer.producer import Producer
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.slot.program import prepare
from headwater.streams.slot.settings import RunSettings

RECORDS: Final = 1_000_000
KEYS: Final = 100_000
EVERY_S: Final = 0.01
COMMIT_MS: Final = 20
PATIENCE_S: Final = 120.0
FIRST_TICKS: Final = 20  # of each task: a second in which the interpreter still imports


@contextmanager
def topics_of(bench: Bench, name: str, *endings: str) -> Iterator[str]:
    """-> where the broker is. They, and the changelog, are gone afterwards."""
    with Calls(bench.port()) as calls:
        for ending in endings:
            calls.create_topic(f"{name}.{ending}", PARTITIONS, TOPIC_CONFIGS)
    try:
        yield f"127.0.0.1:{bench.port()}"
    finally:
        with Calls(bench.port()) as calls:
            for ending in endings:
                calls.delete_topic(f"{name}.{ending}")
            with suppress(Broken):  # one that failed before it began has none
                calls.delete_topic(f"{name}-counts-changelog")


def punctuators(bench: Bench) -> Figures:
    bench._used += 1
    name = f"bench-punctuators-{bench._used}"
    with topics_of(bench, name, "in", "out", "late") as brokers:
        fill(brokers, f"{name}.in", key_numbers(bench.count(RECORDS), KEYS), FIRST_MS)
        command = commands("headwater", "punctuators", bench.port(), name, bench.folder / name)
        partitions = [TopicPartition(f"{name}.in", partition) for partition in range(PARTITIONS)]
        with running(command, bench.folder / f"{name}.said") as process, Admin(bootstrap_servers=brokers) as admin:
            records_s = pace(admin, process, name, partitions)
        late = _late_ms(brokers, f"{name}.late")
    also = f"{len(late):,} calls beside {records_s:,.0f} records/s, at most {late[-1]:.0f} ms, p50 {quantile(late, 0.5):.1f}"
    return {"streams-punctuator-p99": Figure(quantile(late, 0.99), None, also)}


def _late_ms(brokers: str, topic: str) -> list[float]:
    """Of each call, in order of size."""
    by_task: dict[bytes, list[float]] = {}
    with Consumer(
        bootstrap_servers=brokers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(places)
        while any(consumer.current_lag(each) != 0 for each in places):
            for record in consumer.poll(1.0):
                by_task.setdefault(record.key or b"", []).append(float(record.value or b"0"))
    late = sorted(each for calls in by_task.values() for each in calls[FIRST_TICKS:])
    if not late:
        raise Broken("too few records: no punctuator was called often enough")
    return late


class Beats(threading.Thread):
    """Sends a record to each partition every 10 ms, and knows when. The key is the partition's number."""

    def __init__(self, brokers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._brokers, self._topic = brokers, topic
        self.sent_at: list[float] = []  # of the record of this number, in all partitions
        self.stopping = threading.Event()

    def run(self) -> None:
        with Producer(bootstrap_servers=self._brokers, linger_ms=0) as producer:
            while not self.stopping.wait(EVERY_S):
                self.sent_at.append(time.perf_counter())
                for partition in range(PARTITIONS):
                    producer.send(self._topic, b"x", key=b"%d" % partition, partition=partition)


class Results:
    """When which count of which partition was there."""

    def __init__(self, brokers: str, topic: str, beats: Beats, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._consumer = Consumer(
            bootstrap_servers=brokers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        )
        self._consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        self._beats = beats
        self.came: dict[int, list[tuple[float, float]]] = {partition: [] for partition in range(PARTITIONS)}

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        give_up_at = time.perf_counter() + self._patience_s
        while not is_so():
            if time.perf_counter() > give_up_at:
                raise Broken(what)
            for record in self._consumer.poll(0.02):
                number = struct.unpack(">q", record.value or b"")[0] - 1
                self.came[int(record.key or b"")].append((time.perf_counter(), self._beats.sent_at[number]))

    def first_sent_after(self, moment: float, partition: int) -> float | None:
        """When the first result came of a record that was sent after that."""
        return next((came for came, sent in self.came[partition] if sent > moment), None)

    def longest_pause(self, partition: int, begin: float, end: float) -> float:
        times = [came for came, _ in self.came[partition] if begin - 1 <= came <= end + 1]
        return max((later - sooner for sooner, later in pairwise(times)), default=0.0)

    def close(self) -> None:
        self._consumer.close()


def lost_slot(bench: Bench) -> Figures:
    from headwater.streams.on_spark import pickled_program  # imports PySpark, which no other row needs

    bench._used += 1
    name = f"bench-lost-slot-{bench._used}"
    with topics_of(bench, name, "in", "out") as brokers, slots_below(bench.folder / name) as slots:
        program = prepare(make("count", brokers, name), RunSettings(brokers, STATE, commit_interval_ms=COMMIT_MS))
        application = slots.runtime.run(program, pickled_program(program))
        application.wait_started()
        beats = Beats(brokers, f"{name}.in")
        results = Results(brokers, f"{name}.out", beats)
        beats.start()
        try:
            found = _kill_and_replace(slots, application, results)
        finally:
            beats.stopping.set()
            beats.join()
            results.close()
        application.ask_to_stop()
        application.wait()
    return found


def _kill_and_replace(slots: Slots, application: ApplicationLead, results: Results) -> Figures:
    results.until(lambda: all(len(came) >= 300 for came in results.came.values()), "the application gives no results")
    lost = _partitions_of(application, 0)
    others = sorted(set(range(PARTITIONS)) - set(lost))
    if not lost or not others:
        raise Broken(f"the slot that is to be killed has partitions {lost} of {PARTITIONS}")
    slots.processes[0].kill()
    killed = time.perf_counter()
    results.until(
        lambda: all(results.first_sent_after(killed, each) is not None for each in lost),
        "partitions of a slot that was killed did not go on",
    )
    back = max(results.first_sent_after(killed, each) or 0.0 for each in lost)
    results.until(lambda: time.perf_counter() > back + 1, "time stands still")
    paused = max(results.longest_pause(each, killed, back) for each in others)
    slots.processes.append(slots.start(0))
    started = time.perf_counter()
    results.until(lambda: bool(_partitions_of(application, 0)), "a slot that came got no tasks")
    mine, owned = _partitions_of(application, 0), time.perf_counter()
    results.until(
        lambda: all(results.first_sent_after(owned, each) is not None for each in mine),
        "tasks that moved did not go on",
    )
    joined = max(results.first_sent_after(owned, each) or 0.0 for each in mine)
    also = f"{len(lost)} of {PARTITIONS} partitions, commit every {COMMIT_MS} ms"
    return {
        "streams-lost-slot": Figure((back - killed) * 1e3, None, also),
        "streams-lost-slot-others": Figure(
            paused * 1e3, None, f"{len(others)} partitions, commit every {COMMIT_MS} ms"
        ),
        "streams-new-slot": Figure((joined - started) * 1e3, None, f"{len(mine)} partitions, with its interpreter"),
    }


def _partitions_of(application: ApplicationLead, slot: int) -> list[int]:
    tasks: list[dict[str, Any]] = application.status["tasks"]
    return [
        int(each["task"].rpartition("_")[2]) for each in tasks if each["slot"] == slot and each["state"] == "running"
    ]


def in_time_scenarios() -> list[Scenario]:
    return [
        Scenario(
            (Kind("streams-punctuator-p99", "Streams: a punctuator is late under load, p99", "ms", LESS, "", 50),),
            on_own_broker(punctuators),
            1,
            needs_broker=False,
            about_broker=False,
        ),
        Scenario(
            (
                Kind("streams-lost-slot", "Streams: partitions of a killed slot go on", "ms", LESS, "", 3_000),
                Kind("streams-lost-slot-others", "Streams: the others pause meanwhile", "ms", LESS, "", 200),
                Kind("streams-new-slot", "Streams: a new slot has tasks", "ms", LESS, "", 15_000),
            ),
            on_own_broker(lost_slot),
            1,
            needs_broker=False,
            about_broker=False,
        ),
    ]

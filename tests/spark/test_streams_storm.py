"""Exactly once in a storm: slots, executors, the driver and the brokers of a streams application on Spark are killed
and stopped at random. Results, `.df`, changelogs and stores are compared with those of the test driver.

Of `make soak` alone: 300 kills and stops. `HEADWATER_SOAK=1 HEADWATER_KILLS=300 HEADWATER_CHAOS_SEED=... pytest -s
tests/spark/test_streams_storm.py` prints how many of each kind there were, and the seed.
"""

import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from chaos.support.cluster import Cluster, running
from chaos.support.dice import chosen_seed
from headwater.client import READ_COMMITTED, Admin, Consumer, NewTopic, Producer, RangeReader, TopicPartition
from headwater.client.types import LATEST
from headwater.streams.stores.lmdb import LmdbState
from spark.support import executors
from spark.support.streams_process import make_app
from spark.support.streams_storm import Storm

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(6 * 3600)]

KILLS: Final = int(os.environ.get("HEADWATER_KILLS", "300"))
CHECK_EVERY: Final = 10
PARTITIONS: Final = 4
PATIENCE_S: Final = 1200
NAME: Final = "storm"
FRAME: Final = "counted"
KEYS: Final = [f"k{number}" for number in range(9)]
LOGGED: Final = ("counts", "seen", "windows")  # what `suppress` holds back is logged once per commit, whenever that is
KEPT: Final = {"retention.ms": "-1"}

Rows = dict[int, list[tuple[str, str]]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {"default_replication_factor": "3", "min_insync_replicas": "2", "log_cleaner_enable": "false"}
    with running(tmp_path / "cluster", **settings) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            topics = ["in", f"{NAME}-out", FRAME]
            admin.create_topics([NewTopic(topic, PARTITIONS, 3, configs=KEPT) for topic in topics])
        yield cluster


class Expected:
    """What goes in, and what the test driver makes of it."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._begin_ms = int(time.time()) * 1000  # younger than any retention
        self.count = 0
        self.driver = make_app(NAME).test(partitions=PARTITIONS)
        self.rows: Rows = {partition: [] for partition in range(PARTITIONS)}

    def send(self, count: int) -> None:
        """Time goes on, with some that are late."""
        with Producer(bootstrap_servers=self._servers, delivery_timeout_ms=PATIENCE_S * 1000) as producer:
            for n in range(self.count, self.count + count):
                key, timestamp = KEYS[(n * 7 + n // 9) % 9], self._begin_ms + n - (n % 7) * 3
                producer.send("in", b"x", key=key.encode(), timestamp_ms=timestamp)
                self.driver.pipe("in", key, "x", timestamp=timestamp)
        self.count += count
        for row in self.driver.read(f"{NAME}-out"):
            self.rows[row.partition].append((row.key, row.value))

    @property
    def framed(self) -> dict[str, list[str]]:
        """The counts alone, of each key: what goes through the frame."""
        found: dict[str, list[str]] = {}
        for rows in self.rows.values():
            for key, value in rows:
                if value.startswith("n"):
                    found.setdefault(key, []).append(value)
        return found


class Found:
    """What readers of committed records have seen of a topic."""

    def __init__(self, servers: str, topic: str) -> None:
        self.rows: Rows = {partition: [] for partition in range(PARTITIONS)}
        self._topic = topic
        self._consumer = Consumer(
            bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition(topic, partition) for partition in self.rows])

    def until(self, count: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while sum(map(len, self.rows.values())) < count:
            assert time.monotonic() < give_up_at, f"{self._topic}: {sum(map(len, self.rows.values()))} of {count}"
            if not self._take(1.0):
                meanwhile()

    def until_quiet(self) -> None:
        while self._take(5.0):
            pass

    def _take(self, patience_s: float) -> bool:
        records = self._consumer.poll(patience_s)
        for record in records:
            self.rows[record.partition].append((record.key.decode(), record.value.decode()))
        return bool(records)

    @property
    def by_key(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for rows in self.rows.values():
            for key, value in rows:
                found.setdefault(key, []).append(value)
        return found

    def close(self) -> None:
        self._consumer.close()


def test_everything_is_there_once_though_300_processes_die_or_stand_still(
    cluster: Cluster, tmp_path: Path, archived_classes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", executors.spark_home())
    dice, began = random.Random(chosen_seed()), time.monotonic()
    expected, state = Expected(cluster.bootstrap), tmp_path / "state"
    results, framed = Found(cluster.bootstrap, f"{NAME}-out"), Found(cluster.bootstrap, FRAME)
    settings = executors.settings(archived_classes) | {"spark.deploy.maxExecutorRetries": "-1"}
    storm = Storm(
        cluster, dice, tmp_path, settings, expected.send,
        run=NAME, servers=cluster.bootstrap, state=str(state), store="lmdb", lease=60.0, frame=FRAME,
    )  # fmt: skip
    try:
        while storm.blows < KILLS:
            storm.blow()
            time.sleep(dice.uniform(0, 1))
            if storm.blows % CHECK_EVERY == 0:
                check(expected, results, framed, storm)
                taken_s = time.monotonic() - began
                print(
                    f"{storm.blows} of {KILLS} in {taken_s:.0f} s, {expected.count} records: {dict(storm.counts)}",
                    flush=True,
                )
        check(expected, results, framed, storm)
        results.until_quiet()
        framed.until_quiet()
        check(expected, results, framed, storm)
        storm.driver.ask(stop=NAME)
        check_stopped(cluster.bootstrap)
        check_changelogs(cluster.bootstrap, expected)
        check_stores(state, expected)
        print(f"{storm.blows} kills and stops, nothing lost or doubled: {dict(storm.counts)}", flush=True)
    finally:
        storm.close()
        results.close()
        framed.close()


def check(expected: Expected, results: Found, framed: Found, storm: Storm) -> None:
    results.until(sum(map(len, expected.rows.values())))
    assert results.rows == expected.rows
    framed.until(sum(map(len, expected.framed.values())), meanwhile=lambda: storm.driver.slots(NAME))
    assert framed.by_key == expected.framed


def check_stopped(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.describe_group(NAME).members == []
        mine = [each for each in admin.list_transactions() if each.transactional_id.startswith(NAME)]
        assert mine
        assert {each.state for each in mine} <= {"CompleteCommit", "CompleteAbort", "Empty"}


def check_changelogs(servers: str, expected: Expected) -> None:
    with Admin(bootstrap_servers=servers) as admin, RangeReader(bootstrap_servers=servers) as reader:
        for store in LOGGED:
            topic = f"{NAME}-{store}-changelog"
            places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            ends: Any = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
            for place in places:
                found = [(each.key, each.value) for each in reader.records(place, 0, ends[place].offset)]
                told = [each for each in expected.driver.changelog[topic] if each.partition == place.partition]
                assert found == [(each.key, each.value) for each in told], place


def check_stores(state: Path, expected: Expected) -> None:
    """Several directories where a process had to make way; the owner's is the newest."""
    for store in ("counts", "seen"):
        found: dict[str, int] = {}
        for opened in sorted(state.glob(f"{NAME}/*/**/opened")):
            stored = LmdbState(opened.parent)
            for key, value in stored.map(store).scan():
                found[key.decode()] = max(found.get(key.decode(), 0), struct.unpack(">q", value[-8:])[0])
            stored.close()
        assert found == {key: len(counts) for key, counts in expected.framed.items()}

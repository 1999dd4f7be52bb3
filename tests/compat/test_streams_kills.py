"""Exactly once, though processes of an application are killed and stopped: results, stores and changelog.

Compaction is off: it would take away the changelog records that are counted here. Two kills in `make test`, many in
`make soak`.
"""

import random
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support.quick import lasting
from compat.support.streams_results import PARTITIONS, Results, send_words
from headwater.client import READ_COMMITTED, Admin, NewTopic, RangeReader, TopicPartition
from headwater.client.types import LATEST
from headwater.streams.stores.combined_state import ROCKSDB
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.rocksdb import RocksState
from headwater.testing import Broker

WORKER = Path(__file__).parent / "support" / "streams_counter.py"
WORDS = [f"word-{i}" for i in range(7)]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"log.cleaner.enable": False, "group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)])
        yield broker


class Workers:
    def __init__(self, broker: Broker, state: Path, stores: str) -> None:
        self._command = [sys.executable, str(WORKER), broker.bootstrap_servers, str(state), *stores.split()]
        self.all: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self.all.append(worker)
        assert worker.stdout is not None
        line = worker.stdout.readline()
        assert line == "open\n", line
        return worker

    def end(self, worker: subprocess.Popen[str]) -> str:
        """How it ended, once it has."""
        output, _ = worker.communicate()
        self.all.remove(worker)
        return output

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.kill()
        self.end(worker)


@pytest.fixture
def workers(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workers]:
    workers = Workers(broker, tmp_path / "state", getattr(request, "param", "lmdb"))
    yield workers
    for worker in list(workers.all):
        workers.kill(worker)


def _committed(broker: Broker, topic: str) -> list[tuple[bytes, bytes, int]]:
    found = []
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        ends = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
    with RangeReader(bootstrap_servers=broker.bootstrap_servers) as reader:
        for place in places:
            found += [(r.key, r.value, r.partition) for r in reader.records(place, 0, ends[place].offset)]
    return found


def _states(state: Path) -> dict[str, int]:
    """The counts in all states that were closed; several directories where a process had to make way."""
    counts: dict[str, int] = {}
    for opened in sorted(state.glob("counter/*/**/opened")):
        stored = RocksState(opened.parent) if opened.parent.name == ROCKSDB else LmdbState(opened.parent)
        for key, value in stored.map("counts").scan():
            counts[key.decode()] = max(counts.get(key.decode(), 0), struct.unpack(">qq", value)[1])
        stored.close()
    return counts


def _check(broker: Broker, workers: Workers, results: Results, words: list[str], state: Path) -> None:
    assert results.counts == {word: list(range(1, n + 1)) for word, n in Counter(words).items()}
    _check_end(broker, workers, results, words, state)


def _check_end(broker: Broker, workers: Workers, results: Results, words: list[str], state: Path) -> None:
    expected = Counter(words)
    last = workers.all[-1]
    last.send_signal(signal.SIGTERM)
    assert workers.end(last) == "stopped\n"
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {each.state for each in admin.list_transactions()} <= {"CompleteCommit", "CompleteAbort", "Empty"}
        assert admin.describe_group("counter").members == []
    changelog: dict[str, list[int]] = {}
    for key, value, _ in _committed(broker, "counter-counts-changelog"):
        changelog.setdefault(key.decode(), []).append(struct.unpack(">q", value)[0])
    assert changelog == results.counts
    assert _states(state) == dict(expected)


@pytest.mark.parametrize("workers", ["lmdb", "rocksDB"], indirect=True)
def test_counts_are_exact_though_processes_are_killed(broker: Broker, workers: Workers, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32) if lasting(0, 1) else 7
    print(f"seed {seed}")
    chance = random.Random(seed)
    words: list[str] = []
    results = Results(broker)
    try:
        for _ in range(lasting(2, 40)):
            worker = workers.start()
            more = chance.choices(WORDS, k=400)
            send_words(broker, more)
            results.until(len(words) + chance.randrange(1, 400))
            words += more
            workers.kill(worker)
        workers.start()
        results.until(len(words))
        _check(broker, workers, results, words, tmp_path / "state")
    finally:
        results.close()


@pytest.mark.parametrize("workers", [f"lmdb {10 << 20}", *lasting([], ["lmdb 300"])], indirect=True)
def test_counts_are_exact_with_a_record_cache_though_processes_are_killed(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    """Each word's counts grow, none comes twice, and the last is right; changelog and results tell the same."""
    chance = random.Random(11)
    words: list[str] = []
    results = Results(broker)
    try:
        for _ in range(lasting(1, 20)):
            worker = workers.start()
            more = chance.choices(WORDS, k=2_000)
            words += more
            send_words(broker, more)
            results.until(results.total + chance.randrange(1, len(WORDS)))
            workers.kill(worker)
        workers.start()
        results.until_counted(Counter(words))
        assert all(counts == sorted(set(counts)) for counts in results.counts.values()), results.counts
        assert results.total < len(words)
        _check_end(broker, workers, results, words, tmp_path / "state")
    finally:
        results.close()


def test_a_process_that_was_stopped_and_replaced_writes_nothing_any_more(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    words = WORDS * 40
    results = Results(broker)
    try:
        stopped = workers.start()
        send_words(broker, words)
        results.until(30)
        stopped.send_signal(signal.SIGSTOP)
        workers.start()
        results.until(len(words))
        send_words(broker, WORDS)
        words += WORDS
        stopped.send_signal(signal.SIGCONT)
        assert workers.end(stopped).startswith("Replaced")
        results.until(len(words))
        _check(broker, workers, results, words, tmp_path / "state")
    finally:
        results.close()


def test_counts_are_exact_though_the_broker_is_killed(broker: Broker, workers: Workers, tmp_path: Path) -> None:
    words: list[str] = []
    results = Results(broker)
    try:
        workers.start()
        for number in range(lasting(1, 10)):
            more = WORDS * 30
            send_words(broker, more)
            results.until(len(words) + 10 + 15 * number)
            broker.kill()
            broker.start()
            words += more
            results.until(len(words))
        _check(broker, workers, results, words, tmp_path / "state")
    finally:
        results.close()

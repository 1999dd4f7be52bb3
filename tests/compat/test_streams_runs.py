"""`app.run_here()` against a broker: what happens beside the ordinary course, and interactive queries."""

import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.streams import App, ErrorPolicy, Processor, Record, key_value_store
from headwater.streams.lead.local_run import LocalRun
from headwater.streams.query import connect
from headwater.streams.slot import commit_writer, partition_counts
from headwater.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}) as broker:
        yield broker


class Bench:
    """Topics of one test, and what was committed to its output."""

    def __init__(self, broker: Broker, name: str, stores: str) -> None:
        self.brokers = broker.bootstrap_servers
        self.input, self.output, self.side = f"{name}-in", f"{name}-out", f"{name}-side"
        with Admin(bootstrap_servers=self.brokers) as admin:
            admin.create_topics([NewTopic(topic, 2, 1) for topic in (self.input, self.output, self.side)])
        self._producer = Producer(bootstrap_servers=self.brokers)
        self._consumer = Consumer(
            bootstrap_servers=self.brokers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition(self.output, index) for index in range(2)])
        config = {"default.dsl.store": stores}
        self.app = App(f"{name}-app", brokers=self.brokers, key="text", value="text", config=config)

    def send(self, key: str, value: str, timestamp: int = 0, topic: str | None = None) -> None:
        sent = self._producer.send(topic or self.input, value.encode(), key=key.encode(), timestamp_ms=timestamp)
        sent.result()

    def poll(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in self._consumer.poll(0.2)]

    def read(self, count: int) -> list[tuple[bytes, bytes]]:
        found: list[Any] = []
        while len(found) < count:
            found += self._consumer.poll(1.0)
        return sorted((record.key, record.value) for record in found)

    def read_from_the_beginning(self) -> None:
        self._consumer.seek_to_beginning()

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


@pytest.fixture
def bench(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Bench]:
    name = request.node.name.replace("[", "-").replace("]", "")
    bench = Bench(broker, name, getattr(request, "param", "lmdb"))
    yield bench
    bench.close()


EVERYWHERE = pytest.mark.parametrize("bench", ["lmdb", "rocksDB", "in_memory"], indirect=True)


class Lookup(Processor):
    def process(self, record: Record) -> None:
        found, _ = self.context.store("names").get(record.value)
        self.forward(record.with_value(record.value + found))


def _long(number: int) -> bytes:
    return struct.pack(">q", number)


def _count(bench: Bench) -> App:
    bench.app.stream(bench.input).group_by_key().count(store="counts").to_stream().to(bench.output)
    return bench.app


@EVERYWHERE
def test_a_slot_whose_producer_id_was_taken_begins_its_commit_anew(bench: Bench, tmp_path: Path) -> None:
    with _count(bench).run_here(state_dir=tmp_path):
        bench.send("a", "x")
        assert bench.read(1) == [(b"a", _long(1))]
        with Admin(bootstrap_servers=bench.brokers) as admin:
            admin.fence_producers([f"{bench.app.name}-slot-0"])
        bench.send("a", "x")
        bench.send("b", "x")
        assert bench.read(2) == [(b"a", _long(2)), (b"b", _long(1))]


@EVERYWHERE
def test_state_that_is_lost_is_restored_from_the_changelog(bench: Bench, tmp_path: Path) -> None:
    app = _count(bench)
    for expected in (1, 2):
        with app.run_here(state_dir=tmp_path):
            bench.send("a", "x")
            assert bench.read(1) == [(b"a", _long(expected))]
        shutil.rmtree(tmp_path)


@EVERYWHERE
def test_state_of_a_changelog_that_was_made_anew_is_not_believed(bench: Bench, tmp_path: Path) -> None:
    app = _count(bench)
    with app.run_here(state_dir=tmp_path / "one"):
        bench.send("a", "x")
        bench.read(1)
    with Admin(bootstrap_servers=bench.brokers) as admin:
        admin.delete_topics([f"{app.name}-counts-changelog"])
    with app.run_here(state_dir=tmp_path / "another"):
        bench.send("b", "x")
        bench.send("b", "x")
        bench.read(2)  # the new changelog is as long as the old one
    with app.run_here(state_dir=tmp_path / "one"):
        bench.send("a", "x")
        bench.send("b", "x")
        assert bench.read(2) == [(b"a", _long(1)), (b"b", _long(3))]


def test_a_topology_that_would_lose_state_is_refused_until_it_is_told(bench: Bench, tmp_path: Path) -> None:
    name, store = bench.app.name, "KSTREAM-AGGREGATE-STATE-STORE-0000000001"

    def counting(kept: str | None, steps: int) -> App:
        app = App(name, brokers=bench.brokers, key="text", value="text")
        stream = app.stream(bench.input)
        for _ in range(steps):
            stream = stream.filter(lambda value: bool(value))
        stream.group_by_key().count(store=kept).to_stream().to(bench.output)
        return app

    with counting(None, 0).run_here(state_dir=tmp_path):
        bench.send("a", "x")
        assert bench.read(1) == [(b"a", _long(1))]
    with pytest.raises(UserError, match="would be lost"):
        counting(None, 1).run_here(state_dir=tmp_path)
    with counting(store, 1).run_here(state_dir=tmp_path):  # as the error says
        bench.send("a", "x")
        assert bench.read(1) == [(b"a", _long(2))]
    with counting(None, 1).run_here(state_dir=tmp_path, allow_state_loss=True):
        bench.send("a", "x")
        assert bench.read(1) == [(b"a", _long(1))]
    counting(None, 1).run_here(state_dir=tmp_path).stop()


def test_a_pattern_reads_the_topics_that_match_at_the_start(bench: Bench, tmp_path: Path) -> None:
    name = bench.app.name
    app = App(name, brokers=bench.brokers, key="text", value="text")
    app.stream(pattern=f"{name}-src-.*").group_by_key().count(store="counts").to_stream().to(bench.output)
    with Admin(bootstrap_servers=bench.brokers) as admin:
        with pytest.raises(UserError, match="No topic matches"):
            app.run_here(state_dir=tmp_path)
        for number, countries in enumerate((["de", "fr"], ["de", "fr", "it"])):
            admin.create_topics([NewTopic(f"{name}-src-{countries[-1]}", 1, 1)])
            if not number:
                admin.create_topics([NewTopic(f"{name}-src-de", 1, 1)])
            with app.run_here(state_dir=tmp_path), Producer(bootstrap_servers=bench.brokers) as producer:
                for country in countries:
                    producer.send(f"{name}-src-{country}", b"x", key=country.encode())
                producer.flush()
                assert sorted(bench.read(len(countries))) == sorted(
                    (country.encode(), _long(1 if country == countries[-1] and number else number + 1))
                    for country in countries
                )


def test_at_least_once(bench: Bench, tmp_path: Path) -> None:
    app = _count(bench)
    for expected in (1, 2):
        with app.run_here(state_dir=tmp_path, processing_guarantee="at_least_once"):
            bench.send("a", "x")
            assert bench.read(1) == [(b"a", _long(expected))]


@EVERYWHERE
def test_what_a_function_raises_ends_the_run_and_nothing_of_the_commit_is_seen(bench: Bench, tmp_path: Path) -> None:
    fails = [True]

    def check(value: str) -> str:
        if value == "bad" and fails[0]:
            raise ValueError("no good")
        return value

    bench.app.stream(bench.input).map_values(check).to(bench.output)
    bench.send("a", "good")
    bench.send("a", "bad")
    with pytest.raises(Exception, match="no good"):
        bench.app.run_here(state_dir=tmp_path, commit_interval_ms=60_000).wait()
    fails[0] = False
    with bench.app.run_here(state_dir=tmp_path):
        assert bench.read(2) == [(b"a", b"bad"), (b"a", b"good")]


def test_a_global_table_is_complete_before_the_first_record(bench: Bench, tmp_path: Path) -> None:
    for key in "abcd":
        bench.send(key, key.upper(), topic=bench.side)
    bench.send("x", "c")
    bench.app.global_table(bench.side, store="names")
    bench.app.stream(bench.input).process(Lookup).to(bench.output)
    with bench.app.run_here(state_dir=tmp_path):
        assert bench.read(1) == [(b"x", b"cC")]


class Longest(Processor):
    def process(self, record: Record) -> None:
        names = self.context.store("names")
        if len(record.value) > len((names.get(record.key) or ("", 0))[0]):
            names.put(record.key, record.value, record.timestamp)


def test_a_global_store_is_made_anew_by_its_processor_at_each_start(bench: Bench, tmp_path: Path) -> None:
    bench.app.add_global_store(key_value_store("names", timestamped=True), bench.side, Longest)
    bench.app.stream(bench.input).process(Lookup).to(bench.output)
    for number, name in enumerate(["-one", "-three", "-two"]):
        bench.send("1", name, number, bench.side)
    with bench.app.run_here(state_dir=tmp_path):
        bench.send("a", "1")
        assert bench.read(1) == [(b"a", b"1-three")]
        bench.send("1", "-thirteen", 3, bench.side)
    bench.send("1", "-x", 4, bench.side)
    with bench.app.run_here(state_dir=tmp_path):
        bench.send("b", "1")
        assert bench.read(1) == [(b"b", b"1-thirteen")]
    with Admin(bootstrap_servers=bench.brokers) as admin:
        assert not [topic.name for topic in admin.list_topics() if topic.name.startswith(f"{bench.app.name}-")]


def test_topics_that_are_not_there_are_named(bench: Bench, tmp_path: Path) -> None:
    bench.app.stream("nobody-has-this").to(bench.output)
    with pytest.raises(UserError, match="nobody-has-this"):
        bench.app.run_here(state_dir=tmp_path)


def test_a_run_whose_output_is_deleted_ends_and_says_so(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_writer, "_MISSING_S", 0.5)
    bench.app.stream(bench.input).to(bench.output)
    ended = threading.Event()
    run = bench.app.run_here(state_dir=tmp_path, commit_interval_ms=50)
    run.on_end(ended.set)
    bench.send("k", "1")
    assert bench.read(1) == [(b"k", b"1")]
    with Admin(bootstrap_servers=bench.brokers) as admin:
        admin.delete_topics([bench.output])
        bench.send("k", "2")
        assert ended.wait(120)
        with pytest.raises(UserError, match=f"The topic {bench.output}, to which the application writes, is not there"):
            run.stop()
        admin.create_topics([NewTopic(bench.output, 2, 1)])
    bench.read_from_the_beginning()
    with bench.app.run_here(state_dir=tmp_path, commit_interval_ms=50):
        assert bench.read(1) == [(b"k", b"2")]


def test_a_run_whose_input_is_deleted_ends_and_says_so(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It idled for ever, as if there were nothing to read."""
    monkeypatch.setattr(partition_counts, "REFRESH_S", 0.2)
    bench.app.stream(bench.input).to(bench.output)
    ended = threading.Event()
    run = bench.app.run_here(state_dir=tmp_path, commit_interval_ms=50)
    run.on_end(ended.set)
    bench.send("k", "1")
    assert bench.read(1) == [(b"k", b"1")]
    with Admin(bootstrap_servers=bench.brokers) as admin:
        admin.delete_topics([bench.input])
        assert ended.wait(120)
        with pytest.raises(UserError, match=f"The topic {bench.input}, which the application reads, is not there"):
            run.stop()
        admin.create_topics([NewTopic(bench.input, 2, 1)])
    bench.send("k", "2")
    with bench.app.run_here(state_dir=tmp_path, commit_interval_ms=50):
        assert bench.read(1) == [(b"k", b"2")]


@EVERYWHERE
def test_stores_are_asked_while_the_application_runs(bench: Bench, tmp_path: Path) -> None:
    with _count(bench).run_here(state_dir=tmp_path) as run:
        for key in ("apple", "apricot", "banana", "apple"):
            bench.send(key, "x", timestamp=5)
        bench.read(4)
        bench.send("zucchini", "x")
        bench.read(1)  # of a later commit: the ones before are saved
        counts = bench.app.store("counts")
        assert counts.get("apple") == (2, 5)
        assert counts.get("cherry") is None
        assert sorted(counts.range("a", "c")) == [("apple", (2, 5)), ("apricot", (1, 5)), ("banana", (1, 5))]
        assert sorted(key for key, _ in counts.prefix("ap")) == ["apple", "apricot"]
        assert [key for key, _ in counts.range("b", "c")] == ["banana"]
        assert len(counts.all()) in (3, 4)
        with pytest.raises(UserError, match="counts"):
            run.store("other")
        with pytest.raises(AttributeError):
            counts.put("apple", 3)


@EVERYWHERE
def test_stores_are_asked_over_http_while_the_application_runs(bench: Bench, tmp_path: Path) -> None:
    with _count(bench).run_here(state_dir=tmp_path, queries=0) as run:
        assert run.queries is not None
        for key in ("apple", "apricot", "apple"):
            bench.send(key, "x", timestamp=5)
        bench.read(3)
        bench.send("zucchini", "x")
        bench.read(1)  # of a later commit: the ones before are saved
        with connect(run.queries.url, run.queries.token) as application:
            counts = application.store("counts")
            assert counts.get("apple") == counts.get("apple", local=True)
            assert {row["key"]: row["value"] for row in counts.prefix("ap")} == {"apple": 2, "apricot": 1}
            assert application.metadata["hosts"][0]["stores"] == {"counts": [0, 1]}
            run.stop()
            with pytest.raises(UserError, match="does not answer"):
                counts.get("apple")


@pytest.mark.parametrize("many", [1, 300])  # one by one, and as a table
def test_a_result_that_the_topic_refuses_becomes_a_dead_letter_and_the_others_are_written_once(
    bench: Bench, tmp_path: Path, many: int
) -> None:
    with Admin(bootstrap_servers=bench.brokers) as admin:
        admin.create_topics([NewTopic(f"{bench.output}-small", 2, 1, configs={"max.message.bytes": "2000"})])
    app = App(
        f"{bench.input}-app",
        brokers=bench.brokers,
        key="text",
        value="text",
        on_error=ErrorPolicy(production="dead_letter", dead_letter_topic=bench.output),
    )
    app.stream(bench.input).map_values(lambda v: v * 5000 if v == "x" else v).to(f"{bench.output}-small")
    for number in range(many):
        bench.send(str(number), "small")
    bench.send("large", "x")
    bench.send("last", "small")
    with app.run_here(state_dir=tmp_path, commit_interval_ms=1000):
        assert bench.read(1) == [(b"large", None)]
    small = [TopicPartition(f"{bench.output}-small", index) for index in range(2)]
    with Consumer(
        bootstrap_servers=bench.brokers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(small)
        found: list[Any] = []
        while len(found) <= many:
            found += consumer.poll(1.0)
    assert sorted(record.key for record in found) == sorted([b"last", *(str(n).encode() for n in range(many))])


def _until_read(run: LocalRun, records: int, state: str) -> None:
    """So many, processed or not."""
    while (status := run.status())["records"] < records or status["state"] != state:
        assert run.running
        run.wait(0.02)


def test_a_run_that_is_paused_reads_on_and_processes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.app.stream(bench.input).group_by_key().count(store="counts").to_stream().to(bench.output)
    with bench.app.run_here(state_dir=tmp_path, commit_interval_ms=20) as run:
        bench.send("a", "x")
        assert bench.read(1) == [(b"a", _long(1))]
        run.pause()
        assert run.paused
        bench.send("a", "x")
        _until_read(run, 2, "paused")
        run.resume()
        assert not run.paused
        assert bench.read(1) == [(b"a", _long(2))]
        _until_read(run, 2, "running")
        run.pause()
        bench.send("a", "x")
        _until_read(run, 3, "paused")
    with Admin(bootstrap_servers=bench.brokers) as admin:
        inputs = [TopicPartition(bench.input, index) for index in range(2)]
        assert [each.offset for each in admin.list_group_offsets(bench.app.name, inputs).values()] == [2]
    bench.read_from_the_beginning()
    with bench.app.run_here(state_dir=tmp_path, commit_interval_ms=20):
        assert bench.read(3) == [(b"a", _long(number)) for number in (1, 2, 3)]


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_the_reset_decides_where_retention_overtakes_a_running_application(
    broker: Broker, reset: str, tmp_path: Path
) -> None:
    """It went on with the first record that was left, whatever was said: with `none` nobody heard that records are
    lost.
    """
    bench = Bench(broker, f"overtaken-{reset}", "lmdb")
    begun, go_on = threading.Event(), threading.Event()

    def slow(value: str) -> str:
        begun.set()
        go_on.wait(60)
        return value

    app = App(bench.app.name, brokers=bench.brokers, key="text", value="text")
    app.stream(bench.input, reset=reset).map_values(slow).to(bench.output)
    partition = TopicPartition(bench.input, 0)
    fetch_little = {"max.partition.fetch.bytes": 1024, "fetch.max.bytes": 1024}
    with (
        Producer(bootstrap_servers=bench.brokers, batch_size=200) as producer,
        Admin(bootstrap_servers=bench.brokers) as admin,
    ):
        for result in [producer.send(bench.input, b"old-%d" % number, partition=0) for number in range(3000)]:
            result.result()
        admin.alter_group_offsets(app.name, {partition: 0, TopicPartition(bench.input, 1): 0})
        run = app.run_here(state_dir=tmp_path, client=fetch_little)
        ended = threading.Event()
        run.on_end(ended.set)
        try:
            assert begun.wait(60)
            admin.delete_records({partition: 2990})
            go_on.set()
            if reset == "latest":
                found: set[bytes | None] = set()
                while b"new" not in found:
                    producer.send(bench.input, b"new", partition=0).result()
                    found |= {value for _, value in bench.poll()}
                assert not found & {b"old-%d" % number for number in range(2990, 3000)}
            else:
                assert ended.wait(60)
        finally:
            go_on.set()
            bench.close()
            if reset == "latest":
                run.stop()
    if reset == "none":
        with pytest.raises(UserError, match=f"{bench.input}-0 holds no offset .* its reset is none"):
            run.stop()

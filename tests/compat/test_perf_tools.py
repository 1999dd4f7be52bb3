"""kafka-producer-perf-test and kafka-consumer-perf-test beside Apache Kafka's own, against the same broker: the same
lines but for the figures, the same exit codes, and each reads what the other has written.
"""

import contextlib
import io
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import Java
from headwater.cli.kafka import consumer_perf_test
from headwater.client import Consumer, Producer, TopicPartition

MAINS = {"producer_perf_test": "ProducerPerformance", "consumer_perf_test": "ConsumerPerformance"}
WAIT_MS = "60000"
# No lines but the last, however long it takes;
# and it does take some milliseconds, so that no figure is divided by nothing.
QUIETLY = ["--throughput", "500", "--reporting-interval", "3600000"]


class Ran(NamedTuple):
    status: int
    stdout: str
    stderr: str

    @property
    def shape(self) -> list[str]:
        """The lines of stdout without their figures: only how many decimals each has."""
        figures = re.sub(r"NaN|Infinity", "9.9999", self.stdout)  # something took no time at all
        masked = re.sub(r"-?\d+(\.\d+)?", lambda found: "9" + re.sub(r"\d", "9", found[1] or ""), figures)
        return masked.splitlines()

    @property
    def error(self) -> str:
        """Behind `error:`, without the spaces: Kafka's tool stretches and breaks its lines with them."""
        return "".join(self.stderr.partition(" error:")[2].split("Did you mean")[0].split())


def ours(script: str, *arguments: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = import_module(f"headwater.cli.kafka.{script}").script(list(arguments))
    return Ran(status, out.getvalue(), err.getvalue())


Both = Callable[..., tuple[Ran, Ran]]


@pytest.fixture
def both(java: Java, group_broker: BrokerProcess) -> Both:
    def run(script: str, *arguments: str) -> tuple[Ran, Ran]:
        given = ["--bootstrap-server", group_broker.bootstrap, *arguments]
        answer = java.tool(MAINS[script], *given)
        return ours(script, *given), Ran(answer.status, answer.stdout, answer.stderr)

    return run


@pytest.fixture
def read(group_broker: BrokerProcess) -> Callable[..., list[bytes]]:
    """The values of the first partition of a topic."""

    def values(topic: str, count: int, **settings: str) -> list[bytes]:
        found: list[bytes] = []
        with Consumer(bootstrap_servers=group_broker.bootstrap, auto_offset_reset="earliest", **settings) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(found) < count:
                records = consumer.poll(60)
                assert records, f"only {len(found)} of {count} came"
                found += [record.value for record in records]
        return found

    return values


# The producer


def test_records_of_a_size(both: Both, group_topic: Callable[..., str], read: Callable[..., list[bytes]]) -> None:
    topic = group_topic()
    mine, theirs = both(
        *("producer_perf_test", "--topic", topic, "--num-records", "100", "--record-size", "20"), *QUIETLY
    )
    assert mine.shape == theirs.shape
    assert (mine.status, mine.stderr) == (theirs.status, "") == (0, "")
    assert mine.stdout.startswith("100 records sent, ")
    values = read(topic, 200)
    assert len(values) == 200
    assert all(re.fullmatch(rb"[A-Z]{20}", value) for value in values)


def test_a_limit_and_progress(both: Both, group_topic: Callable[..., str]) -> None:
    """A record every 100 ms, and a line every millisecond: each record but those of the same batch has its own."""
    arguments = ["--topic", group_topic(), "--num-records", "5", "--record-size", "9", "--throughput", "10"]
    mine, theirs = both("producer_perf_test", *arguments, "--reporting-interval", "1")
    assert {*mine.shape} == {*theirs.shape}
    assert mine.shape[-1] == theirs.shape[-1]
    assert len(mine.shape) > 1


def test_a_warm_up(both: Both, group_topic: Callable[..., str]) -> None:
    arguments = ["--topic", group_topic(), "--num-records", "50", "--payload-monotonic", *QUIETLY]
    mine, theirs = both("producer_perf_test", *arguments, "--warmup-records", "20")
    assert mine.shape == theirs.shape
    assert mine.stdout.splitlines()[0] == theirs.stdout.splitlines()[0]
    assert mine.stdout.splitlines()[2].startswith("30 steady state records sent, ")


def test_payloads_of_a_file(
    both: Both, group_topic: Callable[..., str], read: Callable[..., list[bytes]], tmp_path: Path
) -> None:
    file, topic = tmp_path / "payloads", group_topic()
    file.write_text("one,two,thrée")
    mine, theirs = both(
        *("producer_perf_test", "--topic", topic, "--num-records", "40", *QUIETLY),
        *("--payload-file", str(file), "--payload-delimiter", ",", "--producer-props", "acks=1", "linger.ms=1"),
    )
    assert mine.shape == theirs.shape
    assert mine.stdout.splitlines()[:3] == theirs.stdout.splitlines()[:3]
    assert set(read(topic, 80)) == {b"one", b"two", "thrée".encode()}


def test_transactions(
    both: Both, group_broker: BrokerProcess, group_topic: Callable[..., str], read: Callable[..., list[bytes]]
) -> None:
    """Records go out over 145 ms at least, so that there is more than one transaction of 40 ms,
    each with its marker.
    """
    topic = group_topic()
    mine, theirs = both(
        *("producer_perf_test", "--topic", topic, "--num-records", "30", "--payload-monotonic", "--throughput", "200"),
        *("--transaction-duration-ms", "40"),
    )
    assert mine.shape[-1:] == theirs.shape[-1:]
    assert mine.status == theirs.status == 0
    written = read(topic, 60, isolation_level="read_committed")
    assert written == [str(number).encode() for number in range(30)] * 2
    with Consumer(bootstrap_servers=group_broker.bootstrap) as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] >= 60 + 2 + 2


def test_a_record_that_is_too_large_does_not_end_it(both: Both, group_topic: Callable[..., str]) -> None:
    arguments = ["--topic", group_topic(), "--num-records", "2", "--record-size", "2000000", *QUIETLY]
    mine, theirs = both("producer_perf_test", *arguments)
    assert mine.shape == theirs.shape
    assert mine.status == theirs.status == 0
    for ran in (mine, theirs):
        assert ran.stderr.count("org.apache.kafka.common.errors.RecordTooLargeException: ") == 2


def test_metrics_at_the_end(both: Both, group_topic: Callable[..., str]) -> None:
    """Under Kafka's names, and fewer of them."""
    arguments = ["--topic", group_topic(), "--num-records", "10", "--record-size", "9", *QUIETLY]
    mine, theirs = both("producer_perf_test", *arguments, "--print-metrics")
    assert mine.shape[:2] == theirs.shape[:2]
    for ran in (mine, theirs):
        assert re.search(
            r"\nMetric Name +Value\n(.*\n)*producer-metrics:record-send-total:{client-id=perf-producer-client} +: 10.000\n",
            ran.stdout,
        ), ran.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "--topic t --num-records 1 --record-size 1",
        "--topic t --num-records x --record-size 1 --throughput 1",
        "--topic t --num-records 1 --record-size 1 --throughput x",
        "--topic t --num-records 1 --record-size 1 --throughput 1 --payload-monotonic",
        "--topic t --num-records 1 --throughput 1",
        "--topic t --num-records 1 --record-size 1 --throughput 1 --nope",
        "--topic t --num-records 1 --record-size 0 --throughput 1",
        "--topic t --num-records 0 --record-size 1 --throughput 1",
        "--topic t --num-records 1 --record-size 1 --throughput 1 --warmup-records 1",
        "--topic t --num-records 1 --record-size 1 --throughput 1 --command-property a=1 --producer-props b=1",
    ],
)
def test_what_the_producer_refuses(both: Both, arguments: str) -> None:
    mine, theirs = both("producer_perf_test", *arguments.split())
    assert mine.status == theirs.status == 1
    assert mine.error == theirs.error
    assert mine.error


# The consumer


@pytest.fixture
def filled(both: Both, group_topic: Callable[..., str]) -> str:
    topic = group_topic(3)
    arguments = ["--topic", topic, "--num-records", "600", "--record-size", "20", "--throughput", "-1"]
    for ran in both("producer_perf_test", *arguments):
        assert ran.status == 0
    return topic


def test_reading_a_topic(both: Both, filled: str) -> None:
    arguments = ["--num-records", "1200", "--timeout", WAIT_MS]
    for topics in (["--topic", filled], ["--include", f"{filled}|nothing"]):
        mine, theirs = both("consumer_perf_test", *topics, *arguments)
        assert mine.shape == theirs.shape
        assert (mine.status, mine.stderr) == (theirs.status, "") == (0, "")
        assert mine.stdout.splitlines()[0] == theirs.stdout.splitlines()[0]
        for ran in (mine, theirs):
            columns = ran.stdout.splitlines()[1].split(", ")
            assert (columns[2], columns[4]) == ("0.0229", "1200")


def test_old_names_and_no_header(both: Both, filled: str) -> None:
    arguments = [
        "--topic",
        filled,
        "--messages",
        "1200",
        "--timeout",
        WAIT_MS,
        "--hide-header",
        "--date-format",
        "yyyy",
    ]
    mine, theirs = both("consumer_perf_test", *arguments)
    assert mine.shape == theirs.shape
    assert mine.stdout.splitlines()[0] == theirs.stdout.splitlines()[0]


def test_each_interval_has_a_line(both: Both, filled: str) -> None:
    arguments = ["--topic", filled, "--num-records", "1200", "--timeout", WAIT_MS]
    mine, theirs = both("consumer_perf_test", *arguments, "--show-detailed-stats", "--reporting-interval", "1")
    assert {*mine.shape} == {*theirs.shape}
    assert len(mine.shape) > 1


def test_nothing_comes(both: Both, filled: str) -> None:
    arguments = ["--topic", filled, "--num-records", "5", "--from-latest", "--timeout", "500"]
    mine, theirs = both("consumer_perf_test", *arguments)
    assert mine.shape == theirs.shape
    assert mine.stdout.splitlines()[1] == theirs.stdout.splitlines()[1]
    assert mine.stdout.splitlines()[1].startswith("WARNING: Exiting before consuming the expected number of records")
    assert mine.status == theirs.status == 0


@pytest.mark.parametrize(
    "arguments", ["--topic t", "--num-records 1", "--num-records 1 --messages 1 --topic t", "--num-records 1 --nope"]
)
def test_what_the_consumer_refuses(both: Both, arguments: str) -> None:
    mine, theirs = both("consumer_perf_test", *arguments.split())
    assert mine.status == theirs.status == 1
    assert mine.stderr.split("\n", 1)[0] == theirs.stderr.split("\n", 1)[0]


def test_columns_and_records_are_counted_alike(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    topic = group_topic(3)
    with Producer(bootstrap_servers=group_broker.bootstrap) as producer:
        for key, value in ((b"four", b"five!"), (None, b"three"), (b"gone", None)) * 100:
            producer.send(topic, value, key=key)
    counts = []
    for take in (consumer_perf_test.taker(), consumer_perf_test.take_records):
        with Consumer(bootstrap_servers=group_broker.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(3)])
            count = size_bytes = 0
            while count < 300:
                more, more_bytes = take(consumer, 300 - count)
                count, size_bytes = count + more, size_bytes + more_bytes
        counts.append((count, size_bytes))
    assert counts == [(300, 1800)] * 2

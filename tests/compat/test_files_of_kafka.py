"""The files we write, read by Apache Kafka's own DumpLogSegments, and their text formats line by line."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import ApacheBroker, BrokerProcess, HeadwaterBroker
from compat.support.clients import CODECS, Client, Message
from compat.support.clients.javaclient import JavaClient
from compat.support.java import Java

TOPIC = "written"
RECORDS = 50  # per codec and producer
BASE = int(time.time() * 1000) - 10_000


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, java: Java, apache: bool
) -> Iterator[BrokerProcess]:
    """A stopped broker, with a topic in every codec, by plain and idempotent producers, over several segments."""
    broker = (ApacheBroker if apache else HeadwaterBroker)(tmp_path_factory.mktemp("written"), {})
    broker.start()
    try:
        config = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
        java.admin(broker.bootstrap, "createTopic", topic=TOPIC, partitions=1, replication=1, configs=config)
        client = JavaClient(java)
        number = 0
        for codec in CODECS:
            for idempotent in (False, True):
                for _ in range(RECORDS // 5):
                    messages = [_message(n) for n in range(number, number + 5)]
                    client.produce(broker.bootstrap, TOPIC, messages, codec=codec, idempotent=idempotent)
                    number += 5
        broker.stop()
        yield broker
    finally:
        broker.kill()


def _message(number: int) -> Message:
    """Half of it compresses badly, so that segments roll."""
    noise = b"".join(b"%08x" % ((number * 2654435761 + n * 40503) & 0xFFFFFFFF) for n in range(900))
    return Message(value=b"value %d " % number + noise, key=b"key %d" % number, timestamp=BASE + number)


@pytest.fixture(scope="module")
def directory(written: BrokerProcess) -> Path:
    return Path(written.log_dir, f"{TOPIC}-0")


@pytest.fixture(scope="module")
def dump(java: Java) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        answer = java.tool("DumpLogSegments", *arguments)
        assert answer.status == 0, answer
        for complaint in ("rror", "ismatch", "orrupt", "Non consecutive", "Non-consecutive", "failed", "not been"):
            assert complaint not in answer.stdout.replace("isvalid", ""), answer.stdout[:3000]
        # the tool says so of every first offset that is not 0
        assert re.sub(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n", "", answer.stderr) == "", answer
        return answer.stdout

    return run


def test_several_segments_were_written(directory: Path) -> None:
    names = sorted(path.name for path in directory.iterdir())
    segments = [name.removesuffix(".log") for name in names if name.endswith(".log")]
    assert len(segments) >= 3
    assert segments[0] == "0" * 20
    for segment in segments:
        assert f"{segment}.index" in names
        assert f"{segment}.timeindex" in names


def test_dump_log_segments_reads_every_record(directory: Path, dump: Callable[..., str]) -> None:
    logs = ",".join(str(path) for path in sorted(directory.glob("*.log")))
    printed = dump("--files", logs, "--deep-iteration", "--print-data-log")
    found = re.findall(
        r"\| offset: (\d+) CreateTime: (\d+) keySize: (\d+) valueSize: (\d+) sequence: (-?\d+) headerKeys: \[\]"
        r" key: (key \d+) payload: (value \d+) ",
        printed,
    )
    count = len(CODECS) * 2 * RECORDS
    assert [int(offset) for offset, *_ in found] == list(range(count))
    assert [int(timestamp) for _, timestamp, *_ in found] == [BASE + n for n in range(count)]
    assert [key for *_, key, _ in found] == [f"key {n}" for n in range(count)]
    assert [value for *_, value in found] == [f"value {n}" for n in range(count)]
    batches = re.findall(
        r"baseOffset: \d+ .*? producerId: (-?\d+) .*? compresscodec: (\w+) crc: \d+ isvalid: (\w+)", printed
    )
    assert {codec for _, codec, _ in batches} == set(CODECS)
    assert {valid for *_, valid in batches} == {"true"}
    assert len({producer for producer, *_ in batches}) > 1
    assert "partitionLeaderEpoch: 0" in printed


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_dump_log_segments_agrees_with_the_indexes(directory: Path, dump: Callable[..., str], kind: str) -> None:
    files = ",".join(str(path) for path in sorted(directory.glob(f"*.{kind}")))
    printed = dump("--files", files)
    entries = re.findall(r"offset: (\d+) position: (\d+)|timestamp: (\d+) offset: (\d+)", printed)
    assert len(entries) > 10
    dump("--files", files, "--verify-index-only")
    dump("--files", files, "--index-sanity-check")


def test_dump_log_segments_reads_the_producer_snapshot(directory: Path, dump: Callable[..., str]) -> None:
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots
    end = len(CODECS) * 2 * RECORDS
    assert snapshots[-1].name == f"{end:020d}.snapshot"
    printed = dump("--files", str(snapshots[-1]))
    producers = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: -1 currentTxnFirstOffset: \w+.* "
        r"lastTimestamp: \d+ firstSequence: (\d+) lastSequence: (\d+) lastOffset: (\d+)",
        printed,
    )
    assert producers, printed
    assert max(int(last) for *_, last in producers) == end - 1


def test_text_files(written: BrokerProcess, directory: Path, java: Java) -> None:
    end = len(CODECS) * 2 * RECORDS
    root = Path(written.log_dir)
    assert re.fullmatch(r"version: 0\ntopic_id: [\w-]{22}\n?", (directory / "partition.metadata").read_text())
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    lines = (root / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert lines[0] == "0"
    assert int(lines[1]) == len(lines) - 2
    assert f"{TOPIC} 0 {end}" in lines
    assert f"{TOPIC} 0 {end}" in (root / "replication-offset-checkpoint").read_text().splitlines()
    assert (root / "log-start-offset-checkpoint").read_text().startswith("0\n")
    properties = dict(
        line.split("=", 1) for line in (root / "meta.properties").read_text().splitlines() if not line.startswith("#")
    )
    assert properties["version"] in ("0", "1")
    assert properties.get("broker.id", properties.get("node.id")) == "0"
    assert len(properties["cluster.id"]) == 22
    assert (root / ".kafka_cleanshutdown").exists()


def test_the_same_records_after_a_clean_start(
    written: BrokerProcess, client_named: Callable[[str], Client], directory: Path
) -> None:
    written.start()
    try:
        end = len(CODECS) * 2 * RECORDS
        received = client_named("confluent").consume(written.bootstrap, TOPIC, end)
        assert [record.offset for record in received] == list(range(end))
        assert received[77].key == b"key 77"
    finally:
        written.stop()

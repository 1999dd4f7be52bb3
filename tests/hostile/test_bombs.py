"""F26: batches of a few kilobytes that are a gigabyte when they are opened. Whoever must open them takes no more than
its limit, and says so.

The broker opens a batch on a compacted topic, where it changes the codec, to find a time, and to compact; our consumer
and the tools open all of them. Peak memory is the kernel's own figure (VmHWM), of real processes.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.raw import Raw, batch, message, metadata, produce, produced
from headwater.records.batch import HEADER_BYTES
from hostile.support.bombs import BOMBS, zstd_bomb
from hostile.support.process import WAIT_S, wait_for

MEGABYTE = 1 << 20
TOO_LARGE = 10
OPENED = {"compacted": {"cleanup.policy": "compact"}, "recompressed": {"compression.type": "uncompressed"}}
BROKER_BYTES_MAX = 400 * MEGABYTE  # its limit is 128 MiB for a batch; the requests themselves are pooled
READER_BYTES_MAX = 700 * MEGABYTE  # its limit is 256 MiB, which a buffer that grows may have twice for a moment

pytestmark = pytest.mark.timeout(300)
every_bomb = pytest.mark.parametrize("codec", BOMBS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a topic of each kind, and one for each bomb that is kept: behind it, something that can be read."""
    properties = {
        "message.max.bytes": str(32 * MEGABYTE),
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
    }
    broker = HeadwaterBroker(tmp_path_factory.mktemp("bombs"), properties)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = [NewTopic(name, 1, 1, config=config) for name, config in OPENED.items()]
        topics += [NewTopic(kept(codec), 1, 1, config={"segment.ms": "86400000"}) for codec in BOMBS]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_S)
        for codec in BOMBS:
            assert send(broker, kept(codec), BOMBS[codec]()) == (0, 0)
            assert send(broker, kept(codec), batch(b"behind it", key=b"k")) == (0, 1)
        yield broker
        assert broker.alive
        assert peak_bytes(broker.pid) < BROKER_BYTES_MAX
    finally:
        broker.kill()


def kept(codec: str) -> str:
    return f"kept.{codec.replace(' ', '-')}"


def send(broker: BrokerProcess, topic: str, records: bytes) -> tuple[int, int]:
    with Raw(broker.bootstrap) as connection:
        connection.socket.settimeout(WAIT_S)
        return produced(connection.call(produce(topic, records)))


def peak_bytes(pid: int | str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def test_a_bomb_of_32_gib_is_a_megabyte() -> None:
    """libzstd opens it; of the rest it is enough to count the runs."""
    bomb = BOMBS["zstd of 32 GiB"]()
    assert len(bomb) < 1.01 * MEGABYTE
    assert bomb.count(bomb[-7:-3]) * (128 << 10) >= 32 << 30
    opened = zstandard.ZstdDecompressor().stream_reader(bomb[HEADER_BYTES:])
    assert len(opened.read(16 * MEGABYTE)) == 16 * MEGABYTE


@every_bomb
@pytest.mark.parametrize("topic", OPENED)
def test_a_bomb_is_refused_where_the_broker_must_open_it(broker: BrokerProcess, topic: str, codec: str) -> None:
    assert send(broker, topic, BOMBS[codec]())[0] == TOO_LARGE
    assert send(broker, topic, batch(b"good", key=b"k"))[0] == 0
    assert peak_bytes(broker.pid) < BROKER_BYTES_MAX


@every_bomb
def test_a_time_inside_a_bomb_is_an_error_of_its_partition(broker: BrokerProcess, codec: str) -> None:
    wanted = message("list_offsets", 5, "ListOffsetsPartition")(partition_index=0, current_leader_epoch=-1, timestamp=1)
    named = message("list_offsets", 5, "ListOffsetsTopic")(name=kept(codec), partitions=(wanted,))
    request = message("list_offsets", 5, "ListOffsetsRequest")(replica_id=-1, isolation_level=0, topics=(named,))
    with Raw(broker.bootstrap) as connection:
        connection.socket.settimeout(WAIT_S)
        assert connection.call(request).topics[0].partitions[0].error_code == TOO_LARGE
        assert connection.call(metadata(kept(codec))).topics[0].error_code == 0
    assert peak_bytes(broker.pid) < BROKER_BYTES_MAX


def run(script: str, *arguments: str) -> tuple[str, int]:
    """What a process of its own prints, and the most memory it had."""
    ending = "\nprint('VmHWM', [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script) + ending, *arguments],
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    output, _, peak_kilobytes = done.stdout.rpartition("VmHWM ")
    return output, int(peak_kilobytes) * 1024


CONSUMER = """
    import sys
    from headwater.client import Consumer, RecordDeserializationError, TopicPartition
    from headwater.base.errors import ErrorCode
    bootstrap, *topics = sys.argv[1:]
    for topic in topics:
        consumer = Consumer(bootstrap_servers=bootstrap, max_partition_fetch_bytes=50_000_000)
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        try:
            while not consumer.poll(1.0):
                pass
            raise SystemExit("the bomb was read")
        except RecordDeserializationError as error:
            assert error.code is ErrorCode.MESSAGE_TOO_LARGE, error
            print("refused", error.reason)
            consumer.seek(error.topic_partition, error.next_offset)
        found = []
        while not found:
            found = consumer.poll(1.0)
        assert found[0].value == b"behind it", found
        consumer.close(5)
"""


def test_our_consumer_says_that_it_is_too_large_and_goes_on_behind_it(broker: BrokerProcess) -> None:
    output, peak = run(CONSUMER, broker.bootstrap, *(kept(codec) for codec in BOMBS))
    assert output.count("(more than 268435456 bytes when decompressed)") == len(BOMBS), output
    assert peak < READER_BYTES_MAX


DUMP = """
    import sys
    from headwater.cli.kafka.dump_log import script
    for path in sys.argv[1:]:
        assert script(["--print-data-log", "--files", path]) == 0
"""


def test_dump_log_shows_the_batch_and_says_why_not_its_records(broker: BrokerProcess) -> None:
    paths = [str(broker.log_dir / f"{kept(codec)}-0" / f"{0:020}.log") for codec in BOMBS]
    output, peak = run(DUMP, *paths)
    assert output.count("| The records are not shown: more than 268435456 bytes when decompressed") == len(BOMBS)
    assert output.count("payload: behind it") == len(BOMBS)
    assert peak < READER_BYTES_MAX


def test_a_log_with_a_bomb_cannot_be_compacted_and_all_others_can(tmp_path: Path) -> None:
    """The bomb came while the topic was not compacted. The cleaner says which partition it leaves alone."""
    properties = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
    broker = HeadwaterBroker(tmp_path / "broker", properties)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "100"}
        topics = [NewTopic(name, 1, 1, config=config) for name in ("bomb", "good")]
        for future in admin.create_topics(topics).values():
            future.result(WAIT_S)
        began = 1_700_000_000_000
        assert send(broker, "bomb", zstd_bomb(timestamp=began))[0] == 0
        for name in ("bomb", "good"):
            for number in range(5):  # segments go by the time of the records
                records = batch(b"%d" % number, key=b"same", timestamp=began + number * 10_000)
                assert send(broker, name, records)[0] == 0
        change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change]) for name in ("bomb", "good")
        ]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(WAIT_S)
        wait_for(lambda: "event=compaction-failed partition=bomb-0" in broker.log, "the bomb was met")
        assert "more than 134217728 bytes when decompressed" in broker.log
        wait_for(lambda: "event=compacted partition=good-0" in broker.log, "the other one was compacted")
        assert "Traceback" not in broker.log
        assert send(broker, "bomb", batch(b"still served", key=b"k"))[0] == 0
        assert peak_bytes(broker.pid) < BROKER_BYTES_MAX
    finally:
        broker.kill()

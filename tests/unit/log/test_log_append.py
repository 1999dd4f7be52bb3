"""What the leader takes into its log and what it refuses, and what a follower takes from a leader."""

from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.config import LogConfig
from headwater.records.batch import HEADER, LOG_APPEND_TIME, crc_of, read_header
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_batches, read_records

if TYPE_CHECKING:
    from conftest import World

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def changed(batch: memoryview, *, crc: bool = True, **fields: int) -> memoryview:
    """The batch with other header fields, and a CRC that fits them."""
    header = read_header(batch)._replace(**fields)
    HEADER.pack_into(batch, 0, *header)
    if crc:
        HEADER.pack_into(batch, 0, *header._replace(crc=crc_of(batch)))
    return batch


def error_of(world: "World", log: Any, batch: memoryview) -> ErrorCode:
    """Asked on the short way through the log, which must see for itself that something is wrong."""
    log.begin_epoch(0)
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch, 0, world.clock.now_ms())
    assert log.log_end_offset == end
    assert log.active.size_bytes == log.active.open_file().size()
    return caught.value.code


def read_all(log: Any) -> bytes:
    piece = log.read(log.log_start_offset, 1 << 20, log.log_end_offset, min_one_batch=True)
    try:
        return bytes(piece.read())
    finally:
        piece.release()


def test_offsets_and_leader_epoch_are_put_in_and_the_rest_is_kept(world: "World") -> None:
    log = world.create()
    sent = world.batch(3)
    before = bytes(sent)
    first = log.append_as_leader(sent, 5, world.clock.now_ms())
    second = log.append_as_leader(world.batch(2), 5, world.clock.now_ms())
    assert (first.base_offset, first.last_offset, first.append_time_ms) == (0, 2, -1)
    assert (second.base_offset, second.last_offset) == (3, 4)
    headers = [header for _, header in read_batches(read_all(log))]
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers] == [(0, 5), (3, 5)]
    assert bytes(sent)[16:] == before[16:]
    assert log.epochs.entries == [(5, 0)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 7}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -1, "record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),  # a control batch
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),  # transactional, and by nobody
        ({"attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),  # no sequence
        ({"producer_id": 5, "base_sequence": 0}, ErrorCode.INVALID_RECORD),  # no epoch
        ({"batch_length": 1000}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 10}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": -1}, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_header_that_is_wrong(world: "World", fields: dict[str, int], code: ErrorCode) -> None:
    assert error_of(world, world.create(), changed(world.batch(), **fields)) == code


def test_a_wrong_crc(world: "World") -> None:
    batch = world.batch()
    batch[70] ^= 1
    assert error_of(world, world.create(), batch) == ErrorCode.CORRUPT_MESSAGE


def test_every_truncation_of_a_batch_is_refused(world: "World") -> None:
    log = world.create()
    log.begin_epoch(0)
    batch = world.batch()
    for length in range(len(batch)):
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(batch[:length], 0, world.clock.now_ms())
        assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert log.log_end_offset == 0


def test_two_batches_at_once_are_refused_as_kafka_does(world: "World") -> None:
    both = memoryview(bytearray(bytes(world.batch()) * 2))
    assert error_of(world, world.create(), both) == ErrorCode.INVALID_RECORD


def test_size_limits(world: "World") -> None:
    log = world.create(max_message_bytes=200, segment_bytes=300)
    assert error_of(world, log, world.batch(size=200)) == ErrorCode.MESSAGE_TOO_LARGE
    log.update_config(LogConfig(max_message_bytes=1000, segment_bytes=300))
    assert error_of(world, log, world.batch(size=400)) == ErrorCode.RECORD_LIST_TOO_LARGE
    assert world.append(log, size=100) == 0


def test_timestamps_outside_the_topics_window(world: "World") -> None:
    log = world.create(timestamp_before_max_ms=1000, timestamp_after_max_ms=500)
    now_ms = world.clock.now_ms()
    for delta_ms in (-1001, 501):
        assert error_of(world, log, world.batch(timestamp=now_ms + delta_ms)) == ErrorCode.INVALID_TIMESTAMP
    for delta_ms in (-1000, 500):
        world.append(log, timestamp=now_ms + delta_ms)
    world.append(log, timestamp=-1)  # no timestamp at all
    assert log.log_end_offset == 3


def test_log_append_time(world: "World") -> None:
    log = world.create(log_append_time=True)
    result = log.append_as_leader(world.batch(2, timestamp=5), 0, 1_234_567)
    assert result.append_time_ms == 1_234_567
    data = read_all(log)
    header = read_header(data)
    assert header.attributes & LOG_APPEND_TIME
    assert header.max_timestamp == 1_234_567
    assert header.base_timestamp == 5
    assert [record.timestamp for record in read_records(data, 1 << 20)] == [1_234_567] * 2  # checks the CRC too


@pytest.mark.parametrize("codec", CODECS.values())
def test_every_codec_is_kept_as_it_came(world: "World", codec: int) -> None:
    log = world.create()
    batch = world.batch(20, codec=codec)
    payload = bytes(batch[61:])
    log.append_as_leader(batch, 0, world.clock.now_ms())
    assert read_all(log)[61:] == payload


@pytest.mark.parametrize("target", [*CODECS.values(), 0])
@pytest.mark.parametrize("source", [0, 1, 4])
def test_a_topics_own_codec_recompresses_only_what_differs(world: "World", source: int, target: int) -> None:
    log = world.create(codec=target)
    batch = world.batch(20, codec=source, producer_id=7, producer_epoch=1, base_sequence=0)
    payload = bytes(batch[61:])
    log.append_as_leader(batch, 3, world.clock.now_ms())
    data = read_all(log)
    header = read_header(data)
    assert header.codec == target
    assert (header.base_offset, header.partition_leader_epoch) == (0, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 0)
    assert (data[61:] == payload) == (source == target)
    assert [record.offset for record in read_records(data, 1 << 20)] == list(range(20))


def test_a_decompression_bomb_is_refused_where_it_must_be_opened(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.log.validation.DECOMPRESSED_BYTES_MAX", 10_000)
    log = world.create(codec=0)
    assert error_of(world, log, world.batch(size=100_000, codec=4)) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("config", [{"codec": 4}, {"cleanup_compact": True}])
def test_records_whose_offsets_do_not_follow_one_another_are_refused_where_they_are_seen(
    world: "World", config: dict[str, Any]
) -> None:
    """A compacted log would hold several records of one offset; and a bomb of records is that small only if all are the
    same.
    """
    log = world.create(**config)
    records = [Record(0, world.clock.now_ms(), b"k", b"v"), Record(0, world.clock.now_ms(), b"l", b"v")]
    assert error_of(world, log, memoryview(build_batch(records, last_offset_delta=1))) == ErrorCode.INVALID_RECORD


def test_a_compacted_topic_needs_keys(world: "World") -> None:
    log = world.create(cleanup_compact=True)
    now_ms = world.clock.now_ms()
    keyless = memoryview(build_batch([Record(0, now_ms, b"k", b"v"), Record(1, now_ms, None, b"v")]))
    assert error_of(world, log, keyless) == ErrorCode.INVALID_RECORD
    assert world.append(log, 2) == 0
    marker = build_end_transaction_marker(
        EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp=now_ms
    )
    assert log.append_own(memoryview(marker), 0, now_ms).base_offset == 2


def test_a_full_disk_costs_that_batch_and_nothing_else(world: "World") -> None:
    log = world.create(segment_bytes=400)
    world.append(log, size=100)
    for size in (100, 260):  # the second would have to roll first
        world.disk.faults.free_bytes = 20
        assert error_of(world, log, world.batch(size=size)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert world.contents(log) == [0]
    world.disk.faults.free_bytes = 1 << 40
    assert world.append(log, size=100) == 1
    assert world.contents(log) == [0, 1]
    assert log.failed is None


def test_a_torn_write_is_taken_back_even_if_the_file_did_not(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.create()
    world.append(log)
    file = log.active.open_file()
    size = file.size()

    def tear(self: Any, data: Any) -> None:
        self._inode.write(size, bytes(data)[:30])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("headwater.sim.disk.SimFile.append", tear)
        assert error_of(world, log, world.batch()) == ErrorCode.KAFKA_STORAGE_ERROR
    assert file.size() == size
    assert world.append(log) == 1


def test_a_follower_takes_batches_as_they_are(world: "World") -> None:
    batches = [
        build_batch([Record(at, 1000 + at, b"k", b"v")], base_offset=at, partition_leader_epoch=epoch)
        for at, epoch in ((10, 1), (11, 1), (15, 4))
    ]
    log = world.create()
    log.truncate_fully(10)
    result = log.append_as_follower(memoryview(b"".join(batches)), 4)
    assert (result.base_offset, result.last_offset) == (10, 15)
    assert log.log_end_offset == 16
    assert log.epochs.entries == [(1, 10), (4, 15)]
    assert read_all(log) == b"".join(batches)


def test_a_follower_rolls_in_the_middle_of_what_it_is_sent(world: "World") -> None:
    batches = [build_batch([Record(at, 1000, b"k", bytes(100))], base_offset=at) for at in range(10)]
    log = world.create(segment_bytes=500)
    log.append_as_follower(memoryview(b"".join(batches)), 0)
    assert len(log.segments) > 2
    assert all(segment.size_bytes <= 500 for segment in log.segments)
    assert world.contents(log) == list(range(10))


def test_a_follower_refuses_offsets_that_go_back_and_bad_crcs(world: "World") -> None:
    log = world.create()
    good = build_batch([Record(5, 1000, b"k", b"v")], base_offset=5)
    log.append_as_follower(memoryview(good), 0)
    bad = bytearray(build_batch([Record(6, 1000, b"k", b"v")], base_offset=6))
    bad[-1] ^= 1
    for data in (good, bad, good[:40]):
        with pytest.raises(KafkaError) as caught:
            log.append_as_follower(memoryview(data), 0)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 6


def test_a_follower_builds_producer_state_too(world: "World") -> None:
    log = world.create()
    batch = world.batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_follower(memoryview(bytes(batch)), 0)
    log.begin_epoch(1)
    again = log.append_as_leader(batch, 1, world.clock.now_ms())
    assert again.duplicate
    assert again.base_offset == 0


def test_settings_by_their_topic_names() -> None:
    config = LogConfig.from_values(
        {
            "segment.bytes": 1000,
            "cleanup.policy": ["compact", "delete"],
            "compression.type": "gzip",
            "compression.gzip.level": 9,
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": -1,
        }
    )
    assert config.segment_bytes == 1000
    assert config.cleanup_compact
    assert config.cleanup_delete
    assert (config.codec, config.codec_level) == (1, 9)
    assert config.log_append_time
    assert config.retention_ms == -1
    assert LogConfig.from_values({}) == LogConfig()
    assert LogConfig.from_values({"cleanup.policy": "compact", "compression.type": "uncompressed"}).codec == 0
    assert not LogConfig.from_values({"cleanup.policy": "compact"}).cleanup_delete

"""What `broker dump-log` makes of the files of a log."""

import struct

import pytest

from headwater.base.checksum import crc32c
from headwater.cli.dump import (
    dump,
    dump_lines,
    dump_offset_index,
    dump_segment,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
    kind_of,
)
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

RECORDS = [Record(5, 100, b"k", b"v", (("h", None),)), Record(6, 101, None, b"\xff")]
BATCH = bytes(
    build_batch(
        RECORDS, base_offset=5, codec=4, partition_leader_epoch=3, producer_id=9, producer_epoch=1, base_sequence=0
    )
)


def test_a_segment_is_shown_batch_by_batch() -> None:
    marker = bytes(
        build_end_transaction_marker(
            EndTransactionMarker(committed=False, coordinator_epoch=2),
            producer_id=9,
            producer_epoch=1,
            timestamp=102,
            base_offset=7,
        )
    )
    first, second = dump_segment(memoryview(BATCH + marker), records=True)
    assert (first["base_offset"], first["last_offset"], first["count"], first["codec"]) == (5, 6, 2, "zstd")
    assert (first["position"], second["position"]) == (0, len(BATCH))
    assert first["valid"]
    assert first["partition_leader_epoch"] == 3
    assert first["records"] == [
        {"offset": 5, "timestamp": 100, "key": "k", "value": "v", "headers": [{"key": "h", "value": None}]},
        {"offset": 6, "timestamp": 101, "key": None, "value_base64": "/w=="},
    ]
    assert second["control"]
    assert second["records"] == [{"offset": 7, "timestamp": 102, "control": "abort"}]


def test_records_are_left_out_unless_asked_for() -> None:
    assert "records" not in next(dump_segment(memoryview(BATCH), records=False))


def test_a_flipped_bit_is_reported_and_the_rest_is_still_shown() -> None:
    damaged = bytearray(BATCH + BATCH)
    damaged[70] ^= 1
    first, second = dump_segment(memoryview(damaged), records=True)
    assert (first["valid"], second["valid"]) == (False, True)
    assert "CRC" in first["error"]
    assert "records" not in first


@pytest.mark.parametrize("kept", [1, 20, len(BATCH) - 1])
def test_a_torn_tail_is_reported_where_it_begins(kept: int) -> None:
    documents = list(dump_segment(memoryview(BATCH + BATCH[:kept]), records=False))
    assert documents[0]["valid"]
    assert documents[1]["position"] == len(BATCH)
    assert documents[1]["bytes_left"] == kept
    assert "error" in documents[1]


def test_indexes_are_relative_to_the_name_and_end_where_zeros_begin() -> None:
    offsets = struct.pack(">iiii", 2, 100, 9, 400) + bytes(80)
    assert list(dump_offset_index(memoryview(offsets), 1000)) == [
        {"offset": 1002, "position": 100},
        {"offset": 1009, "position": 400},
    ]
    times = struct.pack(">qiqi", 55, 2, 66, 9) + bytes(24) + b"\0"
    assert list(dump("time index", "00000000000000001000.timeindex", memoryview(times), records=False)) == [
        {"timestamp": 55, "offset": 1002},
        {"timestamp": 66, "offset": 1009},
    ]
    assert list(dump_time_index(memoryview(struct.pack(">qi", 0, 0)), 7)) == [{"timestamp": 0, "offset": 7}]


def test_transaction_index() -> None:
    entry = struct.pack(">hqqqq", 0, 9, 10, 20, 30)
    assert list(dump_transaction_index(memoryview(entry * 2))) == 2 * [
        {"version": 0, "producer_id": 9, "first_offset": 10, "last_offset": 20, "last_stable_offset": 30}
    ]


def _snapshot(*producers: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(producers)) + b"".join(struct.pack(">qhiqiqiq", *each) for each in producers)
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_producer_snapshots() -> None:
    (document,) = dump_snapshot(memoryview(_snapshot((9, 1, 41, 100, 5, 777, -1, -1))))
    assert document == {
        "producer_id": 9,
        "producer_epoch": 1,
        "last_sequence": 41,
        "last_offset": 100,
        "offset_delta": 5,
        "timestamp": 777,
        "coordinator_epoch": -1,
        "current_transaction_first_offset": -1,
    }


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:5], lambda data: data[:-1] + b"\x07"])
def test_a_damaged_snapshot_is_reported(damage: object) -> None:
    data = damage(_snapshot((9, 1, 41, 100, 5, 777, -1, -1)))  # type: ignore[operator]
    (document,) = dump_snapshot(memoryview(data))
    assert "error" in document


def test_checkpoints_are_shown_without_version_and_count() -> None:
    assert list(dump_lines(memoryview(b"0\n1\n0 5\n"), skip=2)) == [{"line": "0 5"}]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000000.log", "segment"),
        ("00000000000000000000.log.deleted", "segment"),
        ("00000000000000000000.index", "offset index"),
        ("00000000000000000000.timeindex", "time index"),
        ("00000000000000000000.txnindex", "transaction index"),
        ("00000000000000000010.snapshot", "producer snapshot"),
        ("leader-epoch-checkpoint", "checkpoint"),
        ("recovery-point-offset-checkpoint", "checkpoint"),
        ("partition.metadata", "properties"),
        ("meta.properties", "properties"),
        ("something.txt", ""),
    ],
)
def test_files_are_known_by_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind

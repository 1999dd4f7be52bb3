"""The lines of `kafka-dump-log`, file by file. Pure: bytes in, lines out; the formats are those of
`headwater.cli.dump`.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.cli.dump import dump_offset_index, dump_snapshot, dump_time_index, dump_transaction_index
from headwater.records.batch import DELETE_HORIZON, BatchHeader, crc_of, read_header
from headwater.records.compression import CODEC_NAMES
from headwater.records.control import control_type, read_end_transaction_marker
from headwater.records.reader import Record, read_batches, read_records

Decode = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]

_RECORDS_BYTES_MAX: Final = 256 * 1024 * 1024
_SEQUENCES: Final = 1 << 31


class TrailingBytes(Exception):
    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def segment(
    data: memoryview, base_offset: int, *, records: bool, contents: bool, metadata: bool, decode: Decode | None
) -> Iterator[str]:
    """A line a batch, and one a record if wanted. Raises TrailingBytes at the end if something else follows."""
    yield f"Log starting offset: {base_offset}"
    end = 0
    try:
        for position, header in read_batches(data):
            end = position + header.size_bytes
            batch = data[position:end]
            yield _batch(header, position, crc_of(batch) == header.crc)
            if records:
                try:
                    found = read_records(batch, _RECORDS_BYTES_MAX)
                except KafkaError as error:
                    if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                        raise
                    yield f"| The records are not shown: {error.message}"
                    continue
                for at, record in enumerate(found):
                    yield _record(header, record, at, contents=contents, metadata=metadata, decode=decode)
    except KafkaError:
        raise TrailingBytes(len(data) - end) from None


def _batch(header: BatchHeader, position: int, valid: bool) -> str:
    sequence = header.base_sequence
    last_sequence = -1 if sequence < 0 else (sequence + header.last_offset_delta) % _SEQUENCES
    has_horizon = header.attributes & DELETE_HORIZON
    horizon = f"OptionalLong[{header.base_timestamp}]" if has_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {sequence} lastSequence: {last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {_bool(header.is_transactional)} isControl: {_bool(header.is_control)} "
        f"deleteHorizonMs: {horizon} position: {position} {_time_name(header)}: {header.max_timestamp} "
        f"size: {header.size_bytes} magic: {header.magic} compresscodec: {CODEC_NAMES.get(header.codec, header.codec)} "
        f"crc: {header.crc} isvalid: {_bool(valid)}"
    )


def _record(
    header: BatchHeader, record: Record, at: int, *, contents: bool, metadata: bool, decode: Decode | None
) -> str:
    pieces = []
    if metadata:
        names = ",".join(key for key, _ in record.headers)
        sequence = -1 if header.base_sequence < 0 else (header.base_sequence + at) % _SEQUENCES
        pieces.append(
            f"offset: {record.offset} {_time_name(header)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}]"
        )
        if header.is_control:
            pieces.append(_control(record))
    if contents and not header.is_control:
        key, value = decode(record.key, record.value) if decode else (_text(record.key), _text(record.value))
        pieces += [f"key: {key}"] if key is not None else []
        pieces += [f"payload: {value}"] if value is not None else []
    return "| " + " ".join(pieces) if pieces else ""


def _control(record: Record) -> str:
    marker = read_end_transaction_marker(record)
    if marker is None:
        return f"controlType: UNKNOWN({control_type(record)})"
    kind = "COMMIT" if marker.committed else "ABORT"
    return f"endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"


def offset_index(path: Path, data: bytes, base_offset: int, log: bytes) -> Iterator[str]:
    """Entries; what does not agree with the log is told on stderr, as Kafka's tool does."""
    mismatches = []
    for entry in dump_offset_index(memoryview(data), base_offset):
        yield f"offset: {entry['offset']} position: {entry['position']}"
        if entry["position"] + 61 <= len(log):
            last = read_header(log, entry["position"]).last_offset
            if last != entry["offset"]:
                mismatches.append((entry["offset"], last))
    _tell(f"Mismatches in :{path}", "  Index offset: {}, log offset: {}", mismatches)


def time_index(path: Path, data: bytes, base_offset: int, log: bytes | None) -> Iterator[str]:
    """Entries; an entry names the last offset of a batch and the largest timestamp in it, and timestamps go up. What
    does not agree with the log, if there is one, is told on stderr, as Kafka's tool does.
    """
    mismatches, unordered, missing = [], [], []
    batches = _headers(b"" if log is None else log)
    batch: BatchHeader | None = None
    before = -1
    for entry in dump_time_index(memoryview(data), base_offset):
        timestamp, offset = entry["timestamp"], entry["offset"]
        yield f"timestamp: {timestamp} offset: {offset}"
        if log is None:
            continue
        while batch is None or batch.last_offset < offset:
            batch = next(batches, None)
            if batch is None:
                break
        if batch is None or batch.last_offset != offset:
            missing.append((offset, -1 if batch is None else batch.last_offset))
        else:
            mismatches += [(timestamp, batch.max_timestamp)] if batch.max_timestamp != timestamp else []
            unordered += [(timestamp, before)] if before >= timestamp else []
        before = timestamp
    _tell(f"Found timestamp mismatch in :{path}", "  Index timestamp: {}, log timestamp: {}", mismatches)
    _tell(
        f"Found out of order timestamp in :{path}", "  Index timestamp: {}, Previously indexed timestamp: {}", unordered
    )
    heading = "The following indexed offsets are not found in the log."
    _tell(heading, "Indexed offset: {}, found log offset: {}", missing)


def _headers(log: bytes) -> Iterator[BatchHeader]:
    """Up to what is no batch."""
    with suppress(KafkaError):
        for _, header in read_batches(memoryview(log)):
            yield header


def _tell(heading: str, line: str, pairs: list[tuple[int, int]]) -> None:
    if pairs:
        sys.stderr.write(f"{heading}\n" + "".join(f"{line.format(*pair)}\n" for pair in pairs))


def index_fault(kind: str, data: bytes, base_offset: int) -> str | None:
    """Why a broker would not trust an .index or a .timeindex, and rebuild it when it starts; None: it would."""
    entry_bytes = 8 if kind == ".index" else 12
    if len(data) % entry_bytes:
        return f"its size {len(data)} is no multiple of {entry_bytes}"
    view = memoryview(data)
    entries = dump_offset_index(view, base_offset) if kind == ".index" else dump_time_index(view, base_offset)
    first = next(entries, None)
    if first is None:
        return None
    last = next(iter(deque(entries, maxlen=1)), first)
    if last["offset"] < base_offset:
        return f"its last offset {last['offset']} is below the base offset {base_offset}"
    if kind == ".timeindex" and last["timestamp"] < first["timestamp"]:
        return f"its last timestamp {last['timestamp']} is below its first, {first['timestamp']}"
    return None


def transaction_index(data: bytes) -> Iterator[str]:
    for entry in dump_transaction_index(memoryview(data)):
        yield (
            f"version: {entry['version']} producerId: {entry['producer_id']} firstOffset: {entry['first_offset']} "
            f"lastOffset: {entry['last_offset']} lastStableOffset: {entry['last_stable_offset']}"
        )


def snapshot(data: bytes) -> Iterator[str]:
    for entry in dump_snapshot(memoryview(data)):
        if "error" in entry:
            sys.stderr.write(f"{entry['error']}\n")
            continue
        first = entry["current_transaction_first_offset"]
        last_sequence, delta = entry["last_sequence"], entry["offset_delta"]
        yield (
            f"producerId: {entry['producer_id']} producerEpoch: {entry['producer_epoch']} "
            f"coordinatorEpoch: {entry['coordinator_epoch']} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if first < 0 else f'OptionalLong[{first}]'} "
            f"lastTimestamp: {entry['timestamp']} "
            f"firstSequence: {max(last_sequence - delta, -1)} lastSequence: {last_sequence} "
            f"lastOffset: {entry['last_offset']} offsetDelta: {delta} timestamp: {entry['timestamp']}"
        )


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _bool(value: object) -> str:
    return "true" if value else "false"

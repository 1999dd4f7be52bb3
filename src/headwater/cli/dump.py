"""Reads the files of a log directory into documents, one per batch, entry or line. A reader of its own, on purpose:
what the broker wrote is shown as it is, damage included, and needs no broker.

    .log                segments: record batches, one after another
    .index              8 bytes an entry: int32 relative offset, int32 position
    .timeindex          12 bytes an entry: int64 timestamp, int32 relative offset
    .txnindex           34 bytes an entry: int16 version, int64 producer id, first, last and last stable offset
    .snapshot           int16 version, uint32 CRC-32C of the rest, int32 count, then 46 bytes a producer
    *checkpoint*        text: version, count, then one line an entry
    *.metadata, *.properties   text: name and value

Offsets in the indexes are relative to the number in the file's name. Index files end in zeros where they were set aside
and not used. Pure: bytes in, documents out; a document with "error" says where reading had to stop.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from headwater.base import checksum
from headwater.base.errors import KafkaError
from headwater.records.batch import BatchHeader, crc_of
from headwater.records.compression import CODEC_NAMES
from headwater.records.control import ABORT, COMMIT, control_type
from headwater.records.reader import read_batches, read_records

Document = dict[str, Any]

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TRANSACTION_ENTRY: Final = Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_FROM: Final = 6
_RECORDS_BYTES_MAX: Final = 256 * 1024 * 1024
_MARKERS: Final = {ABORT: "abort", COMMIT: "commit"}


def kind_of(name: str) -> str:
    """What a file is, by its name; '' if it is nothing of a log directory."""
    for ending, kind in (
        (".log", "segment"),
        (".index", "offset index"),
        (".timeindex", "time index"),
        (".txnindex", "transaction index"),
        (".snapshot", "producer snapshot"),
        (".metadata", "properties"),
        (".properties", "properties"),
    ):
        if name.removesuffix(".deleted").endswith(ending):
            return kind
    return "checkpoint" if "checkpoint" in name else ""


def dump(kind: str, name: str, data: memoryview, *, records: bool) -> Iterator[Document]:
    if kind == "segment":
        return dump_segment(data, records=records)
    base_offset = int(digits) if (digits := name.split(".")[0]).isdigit() else 0
    readers: dict[str, Callable[[], Iterator[Document]]] = {
        "offset index": lambda: dump_offset_index(data, base_offset),
        "time index": lambda: dump_time_index(data, base_offset),
        "transaction index": lambda: dump_transaction_index(data),
        "producer snapshot": lambda: dump_snapshot(data),
        "properties": lambda: dump_lines(data, skip=0),
        "checkpoint": lambda: dump_lines(data, skip=2),
    }
    return readers[kind]()


def dump_segment(data: memoryview, *, records: bool) -> Iterator[Document]:
    end = 0
    try:
        for position, header in read_batches(data):
            end = position + header.size_bytes
            yield _batch(data[position:end], position, header, records)
    except KafkaError as error:
        yield {"position": end, "error": error.message, "bytes_left": len(data) - end}


def _batch(batch: memoryview, position: int, header: BatchHeader, records: bool) -> Document:
    document: Document = {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "size_bytes": header.size_bytes,
        "partition_leader_epoch": header.partition_leader_epoch,
        "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": "log-append" if header.is_log_append_time else "create",
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
        "valid": crc_of(batch) == header.crc,
    }
    if not document["valid"]:
        document["error"] = f"the CRC of the content is {crc_of(batch)}"
    elif records:
        try:
            document["records"] = [_record(record, header) for record in read_records(batch, _RECORDS_BYTES_MAX)]
        except KafkaError as error:
            document |= {"valid": False, "error": error.message}
    return document


def _record(record: Any, header: BatchHeader) -> Document:
    from headwater.cli.record_output import put_bytes

    document: Document = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        kind = control_type(record)
        return document | {"control": _MARKERS.get(kind, str(kind))}
    put_bytes(document, "key", record.key)
    put_bytes(document, "value", record.value)
    if record.headers:
        document["headers"] = []
        for key, value in record.headers:
            entry: Document = {"key": key}
            put_bytes(entry, "value", value)
            document["headers"].append(entry)
    return document


def dump_offset_index(data: memoryview, base_offset: int) -> Iterator[Document]:
    for number, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(_whole(data, _OFFSET_ENTRY.size))):
        if number and relative == 0 and position == 0:
            return  # set aside and not used
        yield {"offset": base_offset + relative, "position": position}


def dump_time_index(data: memoryview, base_offset: int) -> Iterator[Document]:
    for number, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(_whole(data, _TIME_ENTRY.size))):
        if number and timestamp == 0 and relative == 0:
            return
        yield {"timestamp": timestamp, "offset": base_offset + relative}


def dump_transaction_index(data: memoryview) -> Iterator[Document]:
    for entry in _TRANSACTION_ENTRY.iter_unpack(_whole(data, _TRANSACTION_ENTRY.size)):
        names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
        yield dict(zip(names, entry, strict=True))


def dump_snapshot(data: memoryview) -> Iterator[Document]:
    if len(data) < _SNAPSHOT_HEAD.size:
        yield {"error": f"{len(data)} bytes are too few for a snapshot"}
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    actual = checksum.crc32c(data[_SNAPSHOT_CRC_FROM:])
    if crc != actual:
        yield {"error": f"the CRC of the content is {actual}, the file says {crc}"}
        return
    body = data[_SNAPSHOT_HEAD.size :]
    if len(body) != count * _SNAPSHOT_ENTRY.size:
        yield {"error": f"version {version} with {count} producers does not fit {len(body)} bytes"}
        return
    for entry in _SNAPSHOT_ENTRY.iter_unpack(body):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = entry
        yield {
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "last_sequence": last_sequence,
            "last_offset": last_offset,
            "offset_delta": offset_delta,
            "timestamp": timestamp,
            "coordinator_epoch": coordinator_epoch,
            "current_transaction_first_offset": first_offset,
        }


def dump_lines(data: memoryview, skip: int) -> Iterator[Document]:
    """`skip` lines at the start are the version and the count of a checkpoint."""
    for number, line in enumerate(bytes(data).decode("utf-8", "replace").splitlines()):
        if number >= skip and line and not line.startswith("#"):
            yield {"line": line}


def _whole(data: memoryview, entry_bytes: int) -> memoryview:
    """Without the last entry, if that is cut off."""
    return data[: len(data) - len(data) % entry_bytes]

"""`recovery-1gb`: a broker is killed, and finds a gigabyte of small batches in its log that it knows nothing of.

The batches are written into the segment itself, after the kill: the same file for every broker, and no minutes of
producing. Ready is when the end offset is told.
"""

import contextlib
import os
import shutil
import signal
import struct
import time
from pathlib import Path

from bench import requests
from bench.report import LESS, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figure, Figures, Scenario, check

TOPIC = "recovery"
LOG_BYTES = 1_000_000_000  # a segment holds it
BATCH_RECORDS, VALUE_BYTES = 20, 19  # some 580 bytes
CHUNK_BYTES = 1 << 20


def write_log(path: Path, size_bytes: int) -> int:
    """The end offset."""
    data = requests.batch(BATCH_RECORDS, VALUE_BYTES)
    length, rest = len(data) - 12, data[16:]
    offset = 0
    with path.open("wb", buffering=CHUNK_BYTES) as file:
        for _ in range(size_bytes // len(data)):
            file.write(struct.pack(">qii", offset, length, 0) + rest)
            offset += BATCH_RECORDS
    return offset


def read_once_ms(path: Path) -> float:
    buffer = bytearray(CHUNK_BYTES)
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return (time.perf_counter() - began) * 1e3


def killed(bench: Bench, directory: Path) -> None:
    """A broker with one batch in its topic, which was not stopped but killed."""
    done = False
    with contextlib.suppress(Broken), bench.start(directory) as broker:  # who ended by itself is Broken
        with Calls(broker.port) as calls:
            calls.create_topic(TOPIC, 1)
            calls.call(requests.produce(TOPIC, 0, requests.batch(BATCH_RECORDS, VALUE_BYTES)))
            check("records in the log", sum(calls.end_offsets(TOPIC, 1)), BATCH_RECORDS)
        os.kill(broker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)
        done = True
    if not done:
        raise Broken("the broker that was to be killed did not get so far")


def recovery(bench: Bench) -> Figures:
    directory = bench.directory()
    killed(bench, directory)
    path = directory / f"{TOPIC}-0" / f"{0:020d}.log"
    end_offset = write_log(path, bench.count(LOG_BYTES))
    limit = read_once_ms(path)
    with bench.start(directory) as broker, Calls(broker.port) as calls:
        began = time.perf_counter()
        calls.wait_for_topic(TOPIC, 1)
        taken = broker.ready_ms + (time.perf_counter() - began) * 1e3
        check("records in the log", sum(calls.end_offsets(TOPIC, 1)), end_offset)
        calls.delete_topic(TOPIC)  # its pages need not be written to disk then
    shutil.rmtree(directory)
    return {"recovery-1gb": Figure(taken, limit, f"{end_offset // BATCH_RECORDS:,} batches")}


def recovery_scenarios() -> list[Scenario]:
    kind = Kind("recovery-1gb", "ready after SIGKILL with 1 GB of log", "ms", LESS, "reading the file once")
    return [Scenario((kind,), recovery, 2, False)]

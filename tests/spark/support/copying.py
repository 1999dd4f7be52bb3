"""`copy_process` as tests start, follow and kill it, what it is given to copy, and what came of it."""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import confluent_kafka

from headwater.base.ids import TopicPartition
from headwater.client import Admin, KafkaError
from headwater.client.types import LATEST, READ_COMMITTED, OffsetAt

TESTS = Path(__file__).parents[2]
TOPIC = "copied"
PARTITIONS = 2
RECORDS = 400  # in each round
PATIENCE_S = 300


class Copy:
    """`copy_process`, in a process group with its JVM."""

    def __init__(self, servers: str, directory: Path, partitions: int, die: str = "") -> None:
        told = {"servers": servers, "topic": TOPIC, "checkpoint": str(directory / "checkpoint")}
        self._log = directory / "copy.log"
        self._seen = b""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "spark.support.copy_process",
                    json.dumps({**told, "partitions": partitions, "die": die}),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                start_new_session=True,
            )

    def wait_for(self, word: str) -> None:
        """A line that begins so, from now on."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            lines = self._seen.split(b"\n")
            found = next((number for number, line in enumerate(lines[:-1]) if line.startswith(word.encode())), None)
            if found is not None:
                self._seen = b"\n".join(lines[found + 1 :])
                return
            piece = self._read()
            if piece == b"":
                break
            self._seen += piece or b""
        raise AssertionError(f"no {word!r} from the query: {self.log}")

    def wait_until_dead(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            assert time.monotonic() < deadline_s, self.log
            self._read()

    def kill(self, *, whole: bool) -> None:
        """Without `whole`, the JVM and its workers notice the end of Python, and go on for a moment."""
        if whole:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def kill_worker(self, dice: random.Random) -> None:
        workers = [pid for pid in descendants(self._process.pid) if b"pyspark.daemon" in command_line(pid)]
        if workers:  # the last is a worker, or the daemon itself if it has none
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> bytes | None:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 0.2)[0]:
            return None
        return os.read(self._process.stdout.fileno(), 4096)


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def send(servers: str, start: int) -> list[str]:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    values = [str(number) for number in range(start, start + RECORDS)]
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, key=value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


def lag(admin: Admin) -> int:
    """Of the group that follows the query, which was given no name."""
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    committed = admin.list_group_offsets(f"headwater-spark-{TOPIC}")
    ends = [_offset(answer) for answer in admin.list_offsets(dict.fromkeys(partitions, LATEST)).values()]
    if min(ends) < 0:
        return RECORDS  # nobody leads a partition at the moment
    return sum(ends) - sum(committed[each].offset for each in partitions if each in committed)


def await_no_open_transaction(servers: str) -> None:
    """A transaction is answered when it is decided, before its markers are written; readers of committed records stop
    there.
    """
    places = [TopicPartition(f"{TOPIC}.target", partition) for partition in range(PARTITIONS)]
    deadline_s = time.monotonic() + PATIENCE_S
    with Admin(bootstrap_servers=servers) as admin:
        while True:
            ends = admin.list_offsets(dict.fromkeys(places, LATEST))
            stable = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
            if all(_offset(stable[place]) == _offset(ends[place]) >= 0 for place in places):
                return
            assert time.monotonic() < deadline_s, f"a transaction stays open: {stable} of {ends}"
            time.sleep(0.1)


def _offset(answer: OffsetAt | KafkaError) -> int:
    return -1 if isinstance(answer, KafkaError) else answer.offset


def copies(servers: str) -> list[str]:
    """What a reader of committed records finds, with a client that others wrote."""
    await_no_open_transaction(servers)
    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign(
        [confluent_kafka.TopicPartition(f"{TOPIC}.target", partition, 0) for partition in range(PARTITIONS)]
    )
    found = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "an open transaction holds readers up"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ends += 1
        else:
            found.append(message.value().decode())
    consumer.close()
    return found

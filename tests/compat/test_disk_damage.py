"""F11 and F10: one bit of one file has flipped while the broker was not running, in every kind of file that it has; or
its last write is torn.

It starts, or says what is wrong with which file. What it then serves was written so, at that offset: never another
record, never one of an aborted transaction. After a clean shutdown nothing that can be told from other files is
missing.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.broker import HeadwaterBroker
from compat.support.members import until
from compat.support.quick import QUICK, SOAK, lasting
from compat.support.records import read_all
from headwater.records.reader import read_batches

TOPIC = "written"
PATIENCE_S = 60
DELETED = 3  # so many records, by DeleteRecords
CHECKED_FROM = 16  # in a batch: what stands before that has no checksum, as in Apache Kafka
TRANSACTION_ENTRY_BYTES = 34
COMPARED = [
    *range(10),
    *range(18, 26),
]  # version, producer id, last offset: for the rest nothing is there to compare it with

OF_A_PARTITION = [
    "*.log",
    "*.index",
    "*.timeindex",
    "*.txnindex",
    "*.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
]
OF_A_DIRECTORY = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
    "headwater.metadata",
]
AFTER_A_KILL = ["*.log", "*.index", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint"]
CASES = [
    *(("stop", kind) for kind in OF_A_PARTITION + OF_A_DIRECTORY),
    *(("kill", kind) for kind in lasting(AFTER_A_KILL, OF_A_PARTITION + OF_A_DIRECTORY[:4])),
]
MAY_LOSE = {"*.log"}  # what cannot be told from other files: there is one copy of a record

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]


class Written:
    """A log directory that a broker has left, and what may be read from it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = HeadwaterBroker(directory, {**QUICK, **SETTINGS})
        self.values: dict[int, bytes] = {}
        self.is_clean = False

    def write(self) -> None:
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result(PATIENCE_S)
        for number in range(12):
            self._transaction(number)
        deleted = admin.delete_records([TopicPartition(TOPIC, 0, DELETED)], request_timeout=PATIENCE_S)
        for future in deleted.values():
            future.result(PATIENCE_S)
        self.values = {offset: value for offset, value in self.values.items() if offset >= DELETED}
        assert read_all(self.broker.bootstrap, TOPIC) == self.values
        until(self._are_checkpoints_written, "the checkpoints are not written", PATIENCE_S)

    def _are_checkpoints_written(self) -> bool:
        names = ("log-start-offset-checkpoint", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")
        paths = [self.broker.log_dir / name for name in names]
        return all(path.exists() and f"{TOPIC} 0 " in path.read_text() for path in paths)

    def _transaction(self, number: int) -> None:
        """Every third is aborted; nobody may read what is in it."""
        told: dict[int, bytes] = {}
        settings = {"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"id-{number % 2}", "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for each in range(5):
            value = (b"%d %d " % (number, each)).ljust(50_000, b".")
            producer.produce(
                TOPIC, value, on_delivery=lambda _error, message: told.update({message.offset(): message.value()})
            )
            assert producer.flush(PATIENCE_S) == 0
        if number % 3 == 1:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            self.values |= told

    def keep(self) -> None:
        shutil.copytree(self.broker.log_dir, self.directory / "kept")

    def restore(self) -> None:
        shutil.rmtree(self.broker.log_dir)
        shutil.copytree(self.directory / "kept", self.broker.log_dir)

    def files(self, kind: str) -> list[Path]:
        folder = self.broker.log_dir if kind in OF_A_DIRECTORY else self.broker.log_dir / f"{TOPIC}-0"
        return sorted(path for path in folder.glob(kind) if path.stat().st_size)

    def flip(self, kind: str, dice: random.Random) -> Path:
        path = dice.choice(self.files(kind))
        data = bytearray(path.read_bytes())
        position = dice.randrange(len(data))
        if kind == "*.log":
            start, header = dice.choice(list(read_batches(bytes(data))))
            position = start + dice.randrange(CHECKED_FROM, header.size_bytes)
        elif kind == "*.txnindex":
            position = dice.randrange(0, len(data), TRANSACTION_ENTRY_BYTES) + dice.choice(COMPARED)
        data[position] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        return path

    def starts(self, damaged: Path) -> bool:
        """Or it has said which file, or what of it, is wrong."""
        before = len(self.broker.log)
        try:
            self.broker.start()
        except AssertionError:
            said = self.broker.log[before:]
            assert "error: " in said, said
            assert damaged.name in said or damaged.parent.name in said, f"{damaged}: {said}"
            assert "Traceback" not in said, said
            return False
        return True

    def check(self, *, may_lose: bool) -> None:
        try:
            found = read_all(self.broker.bootstrap, TOPIC)
        except AssertionError:
            if may_lose:
                return
            raise
        wrong = {offset: value[:10] for offset, value in found.items() if self.values.get(offset, value) != value}
        extra = found.keys() - self.values.keys()
        assert not wrong, wrong
        assert not {offset for offset in extra if offset >= DELETED}, f"aborted records were served: {extra}"
        if not may_lose:
            assert found.items() >= self.values.items(), sorted(self.values.keys() - found.keys())


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Written]]:
    """By how its broker ended: stopped cleanly, or killed. Each is written once, when it is first asked for."""
    made: dict[str, Written] = {}

    def get(ending: str) -> Written:
        if ending not in made:
            made[ending] = written = Written(tmp_path_factory.mktemp(ending))
            written.write()
            getattr(written.broker, ending)()
            written.keep()
            written.is_clean = ending == "stop"
        return made[ending]

    yield get
    for written in made.values():
        written.broker.kill()


@pytest.mark.parametrize(("ending", "kind"), CASES)
def test_a_flipped_bit(endings: Callable[[str], Written], ending: str, kind: str) -> None:
    written = endings(ending)
    for round_ in range(lasting(1, 30)):
        written.restore()
        dice = random.Random(None if SOAK else f"{kind} {round_}")
        damaged = written.flip(kind, dice)
        try:
            if written.starts(damaged):
                written.check(may_lose=kind in MAY_LOSE or not written.is_clean)
        finally:
            written.broker.kill()


def test_a_torn_write(endings: Callable[[str], Written]) -> None:
    """The last batch is cut, at every byte in the unit tests, and here at some. It is the marker of the last
    transaction, which is undecided without it: what stands before that is served.
    """
    written = endings("kill")
    written.restore()
    (last,) = written.files("*.log")[-1:]
    data = last.read_bytes()
    *_, (start, _) = read_batches(data)
    expected = {offset: value for offset, value in written.values.items() if not value.startswith(b"11 ")}
    for position in random.Random(1).sample(range(start + 1, len(data)), lasting(2, 30)):
        written.restore()
        last.write_bytes(data[:position])
        try:
            assert written.starts(last)
            assert read_all(written.broker.bootstrap, TOPIC) == expected
        finally:
            written.broker.kill()

"""Where the writer's decisions and progress are kept, and how they are written down.

`_headwater.sink.decisions` is compacted; a record's key is the query, its value JSON. The last record of a key counts,
once its transaction is committed: each is written in one of its own, by a producer that fences those of drivers before.
`_headwater.sink.progress` has partitions and never a record: offsets can only be committed for partitions that exist.
"""

import json
import time
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.client.partitioner import partition_for_key
from headwater.client.types import LATEST, NewTopic
from headwater.spark.exactly_once import Decision, Digest, Entry, Producer, Progress

DECISIONS: Final = "_headwater.sink.decisions"
PROGRESS: Final = "_headwater.sink.progress"
_DECISION_PARTITIONS: Final = 4
_PROGRESS_PARTITIONS: Final = 32
_LOOK_BACK: Final = 200
_WAIT_S: Final = 0.02
DECIDING_TIMEOUT_MS: Final = 60_000  # of a decision's transaction: a broker may be gone for a while
STABLE_PATIENCE_S: Final = 2 * DECIDING_TIMEOUT_MS / 1000
_TOPICS: Final = (
    NewTopic(
        DECISIONS,
        partitions=_DECISION_PARTITIONS,
        configs={"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"},
    ),
    NewTopic(PROGRESS, partitions=_PROGRESS_PARTITIONS),
)


def ensure_topics(admin: Admin) -> None:
    for answer in admin.create_topics(_TOPICS).values():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer


def transactional_id(name: str, task: int) -> str:
    return f"{name}-{task}"


def task_of(name: str, transactional: str) -> int | None:
    """The task of this query whose transactional id it is; None for any other."""
    prefix, _, number = transactional.rpartition("-")
    return int(number) if prefix == name and number.isdecimal() else None


def driver_id(name: str) -> str:
    """The transactional id under which drivers write decisions. It is no task's."""
    return f"{name}-driver"


def progress_place(name: str, task: int) -> tuple[str, TopicPartition]:
    """The group and the partition under which a task's progress is committed."""
    return f"{name}-{task // _PROGRESS_PARTITIONS}", TopicPartition(PROGRESS, task % _PROGRESS_PARTITIONS)


def decision_place(reader: RangeReader, name: str) -> TopicPartition:
    """Where a query's decisions stand, whatever partitioner its rows have."""
    return TopicPartition(DECISIONS, partition_for_key(name.encode(), len(reader.topic(DECISIONS).partitions)))


def encode_progress(progress: Progress) -> str:
    return f"{progress.batch} {progress.producer_id} {progress.epoch}"


def decode_progress(text: str) -> Progress:
    batch, producer_id, epoch = text.split()
    return Progress(int(batch), int(producer_id), int(epoch))


def encode_decision(decision: Decision) -> bytes:
    tree = {
        "version": 1,
        "batch": decision.batch,
        "first": decision.first,
        "point": [decision.point.producer_id, decision.point.epoch],
        "settled": decision.settled,
        "tasks": {
            str(task): [each.producer.producer_id, each.producer.epoch, each.digest.rows, each.digest.checksum]
            for task, each in sorted(decision.entries.items())
        },
    }
    return json.dumps(tree, separators=(",", ":")).encode()


def decode_decision(name: str, value: bytes, age_ms: int) -> Decision:
    tree = json.loads(value)
    first = tree["first"]
    entries = {
        int(task): Entry(Producer(transactional_id(name, int(task)), producer_id, epoch), Digest(rows, checksum))
        for task, (producer_id, epoch, rows, checksum) in tree["tasks"].items()
    }
    point = Producer(transactional_id(name, first), *tree["point"])
    return Decision(tree["batch"], entries, first, point, tree["settled"], age_ms)


def read_decision(
    reader: RangeReader, admin: Admin, name: str, now_ms: int, patience_s: float = STABLE_PATIENCE_S
) -> Decision | None:
    """The last one: looked for from the end backwards, in stretches that grow. `reader` is one of committed records.

    None may be missing that was committed when this began, so what is open there is waited for. That is somebody about
    to write a decision of this query or of another; at the longest, one that has died in doing so
    (`DECIDING_TIMEOUT_MS`). Who has less patience than that is told that there is no answer (REQUEST_TIMED_OUT).
    """
    key = name.encode()
    partition = decision_place(reader, name)
    begin = reader.ends([partition], earliest=True)[partition]
    stop = _stable_end(reader, admin, partition, patience_s)
    length = _LOOK_BACK
    while stop > begin:
        start = max(begin, stop - length)
        found = None
        for record in reader.records(partition, start, stop, lost="skip"):
            if record.key == key and record.value is not None:
                found = record
        if found is not None:
            return decode_decision(name, bytes(found.value), now_ms - found.timestamp_ms)
        stop, length = start, length * 4
    return None


def _stable_end(reader: RangeReader, admin: Admin, partition: TopicPartition, patience_s: float) -> int:
    """An end before which nothing is open, and behind all that was written when it was asked for."""
    written = admin.list_offsets({partition: LATEST})[partition]
    if isinstance(written, KafkaError):
        raise written
    give_up_at = time.monotonic() + patience_s
    while (stop := reader.ends([partition], earliest=False)[partition]) < written.offset:
        if time.monotonic() > give_up_at:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"a transaction in {DECISIONS} does not end")
        time.sleep(_WAIT_S)
    return stop

"""Admin calls about the log directories of brokers: what lies where, and moving replicas between them. Each broker by
itself. No state.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import by_topic, each_of, every_broker, failure, of_broker
from headwater.client.errors import error_for, raise_for
from headwater.client.outcomes import all_or_raise
from headwater.client.session import Session
from headwater.client.types import LogDir, LogDirReplica
from headwater.wire.messages import alter_replica_log_dirs as alter_wire
from headwater.wire.messages import describe_log_dirs as describe_wire


class Replica(NamedTuple):
    """A partition as it lies on one broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


async def describe_log_dirs(
    session: Session, broker_ids: Iterable[int] | None = None, *, partitions: Iterable[TopicPartition] | None = None
) -> list[LogDir]:
    """The log directories of these brokers, or of all; with the replicas of these partitions, or of all."""
    topics = None
    if partitions is not None:
        topics = [
            describe_wire.DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    request = describe_wire.DescribeLogDirsRequest(topics=topics)

    async def one(broker_id: int) -> list[LogDir]:
        response = await of_broker(session, broker_id, request, describe_wire.DescribeLogDirsResponse)
        raise_for(response.error_code)
        return [_log_dir(broker_id, result) for result in response.results]

    known = await every_broker(session)
    answers = await each_of(session, known if broker_ids is None else broker_ids, one)
    for broker_id, answer in answers.items():
        if isinstance(answer, KafkaError):
            all_or_raise({f"broker {broker_id}": answer})
    return [each for found in answers.values() if not isinstance(found, KafkaError) for each in found]


async def alter_replica_log_dirs(session: Session, moves: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
    """Moves replicas to these directories of their brokers. They are copied; `describe_log_dirs` shows how far they
    are.
    """

    async def one(broker_id: int) -> dict[Replica, KafkaError | None]:
        request = alter_wire.AlterReplicaLogDirsRequest(dirs=_dirs(moves, broker_id))
        response = await of_broker(session, broker_id, request, alter_wire.AlterReplicaLogDirsResponse)
        return {
            Replica(topic.topic_name, each.partition_index, broker_id): failure(each.error_code)
            for topic in response.results
            for each in topic.partitions
        }

    answers = await each_of(session, [each.broker for each in moves], one)
    outcome: dict[Replica, KafkaError | None] = {}
    for replica in moves:
        answer = answers[replica.broker]
        outcome[replica] = answer if isinstance(answer, KafkaError) else answer.get(replica)
    return outcome


def _dirs(moves: Mapping[Replica, str], broker_id: int) -> list[alter_wire.AlterReplicaLogDir]:
    paths: dict[str, list[TopicPartition]] = {}
    for replica, path in moves.items():
        if replica.broker == broker_id:
            paths.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return [
        alter_wire.AlterReplicaLogDir(
            path=path,
            topics=[
                alter_wire.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        for path, partitions in paths.items()
    ]


def _log_dir(broker_id: int, result: describe_wire.DescribeLogDirsResult) -> LogDir:
    replicas = [
        LogDirReplica(
            topic.name,
            each.partition_index,
            each.partition_size,
            each.offset_lag,
            each.is_future_key,
            each.dirty_bytes,
        )
        for topic in result.topics
        for each in topic.partitions
    ]
    return LogDir(
        broker=broker_id,
        path=result.log_dir,
        error=error_for(result.error_code).code,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        replicas=sorted(replicas),
    )

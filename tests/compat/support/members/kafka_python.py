"""kafka-python 3."""

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from compat.support.members.base import Got, Member, Place, ThreadMember

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


POLL_MS = 300
# An answer to its join that comes between two polls is thrown away, and it joins once more (kafka-python 3.0.12,
# `join_group_async`: a task that is done is begun anew). If it leads the group, that is another rebalance for
# everybody: with short polls, on a busy machine, members keep each other from ever being done, against Apache Kafka
# too. So a poll waits for a join that is under way.
JOINING_POLL_MS = 5_000


class KafkaPythonMember(ThreadMember):
    name = "kafka-python"

    def _start(self) -> None:
        joining = self.joining
        self._consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=joining.group,
            group_instance_id=joining.instance,
            auto_offset_reset=joining.reset,
            enable_auto_commit=bool(joining.auto_commit_ms),
            auto_commit_interval_ms=joining.auto_commit_ms or 5000,
            session_timeout_ms=joining.session_ms,
            heartbeat_interval_ms=joining.heartbeat_ms,
            partition_assignment_strategy=[ASSIGNORS[joining.assignor]],
            isolation_level="read_committed" if joining.committed else "read_uncommitted",
            metadata_max_age_ms=joining.metadata_ms,
            reconnect_backoff_max_ms=500,
            retry_backoff_ms=50,
        )
        self._consumer.subscribe(topics=list(joining.topics) or None, pattern=joining.pattern, listener=Listener(self))

    def _turn(self) -> None:
        self._remember_the_join()
        is_joining = self._consumer._coordinator._join_task is not None
        for place, records in self._consumer.poll(timeout_ms=JOINING_POLL_MS if is_joining else POLL_MS).items():
            for record in records:
                self.received.append(Got(place.topic, place.partition, record.offset, record.value))
        self.assignment = frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    def _remember_the_join(self) -> None:
        """Of kafka-python 3.0.12: when a poll ends while it joins again because of new metadata, and it leads the
        group, the answer makes it believe that all is as it should be. It never takes its assignment in, sends no
        heartbeats, and is out of the group for good, whatever the broker does.
        """
        coordinator = self._consumer._coordinator
        if coordinator._join_task is not None:
            coordinator.request_rejoin()

    def _end(self) -> None:
        self._consumer.close()

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        self.do(lambda: self._consumer.commit(None if offsets is None else _offsets(offsets)))

    def commit_soon(self, *offsets: dict[Place, int]) -> None:
        self.do(lambda: [self._consumer.commit_async(_offsets(one)) for one in offsets])

    def committed(self, *places: Place) -> dict[Place, int | None]:
        return {
            place: self.do(lambda place=place: self._consumer.committed(TopicPartition(*place))) for place in places
        }

    def seek(self, place: Place, offset: int) -> None:
        self.do(lambda: self._consumer.seek(TopicPartition(*place), offset))

    def pause(self, *places: Place) -> None:
        self.do(lambda: self._consumer.pause(*[TopicPartition(*place) for place in places]))

    def resume(self, *places: Place) -> None:
        self.do(lambda: self._consumer.resume(*[TopicPartition(*place) for place in places]))


def _offsets(offsets: dict[Place, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.event("assigned", [(one.topic, one.partition) for one in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.event("revoked", [(one.topic, one.partition) for one in revoked])

    def on_partitions_lost(self, lost: Any) -> None:
        self._member.event("lost", [(one.topic, one.partition) for one in lost])

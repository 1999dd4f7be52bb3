"""aiokafka, in an event loop of its own thread."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from compat.support.members.base import POLL_S, Got, Member, Place, ThreadMember

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember(ThreadMember):
    name = "aiokafka"
    assignors = tuple(ASSIGNORS)

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        joining = self.joining
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=joining.group,
            group_instance_id=joining.instance,
            auto_offset_reset=joining.reset,
            enable_auto_commit=bool(joining.auto_commit_ms),
            auto_commit_interval_ms=joining.auto_commit_ms or 5000,
            session_timeout_ms=joining.session_ms,
            heartbeat_interval_ms=joining.heartbeat_ms,
            rebalance_timeout_ms=10_000,
            partition_assignment_strategy=(ASSIGNORS[joining.assignor],),
            isolation_level="read_committed" if joining.committed else "read_uncommitted",
            metadata_max_age_ms=joining.metadata_ms,
            retry_backoff_ms=50,
        )
        self._consumer.subscribe(topics=joining.topics, pattern=joining.pattern, listener=Listener(self))
        await self._consumer.start()

    def _turn(self) -> None:
        self._loop.run_until_complete(self._poll())
        self.assignment = frozenset((one.topic, one.partition) for one in self._consumer.assignment())

    async def _poll(self) -> None:
        for place, records in (await self._consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
            for record in records:
                self.received.append(Got(place.topic, place.partition, record.offset, record.value))

    def _end(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def _await(self, make: Any) -> Any:
        return self.do(lambda: self._loop.run_until_complete(make()))

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(*place): OffsetAndMetadata(offset, "") for place, offset in offsets.items()}
        self._await(lambda: self._consumer.commit(wanted))

    def committed(self, *places: Place) -> dict[Place, int | None]:
        return {
            place: self._await(lambda place=place: self._consumer.committed(TopicPartition(*place))) for place in places
        }

    def seek(self, place: Place, offset: int) -> None:
        self._in_loop(lambda: self._consumer.seek(TopicPartition(*place), offset))

    def pause(self, *places: Place) -> None:
        self._in_loop(lambda: self._consumer.pause(*[TopicPartition(*place) for place in places]))

    def resume(self, *places: Place) -> None:
        self._in_loop(lambda: self._consumer.resume(*[TopicPartition(*place) for place in places]))

    def _in_loop(self, work: Callable[[], Any]) -> None:
        async def run() -> None:
            work()

        self._await(run)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.event("assigned", [(one.topic, one.partition) for one in assigned])

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._member.event("revoked", [(one.topic, one.partition) for one in revoked])

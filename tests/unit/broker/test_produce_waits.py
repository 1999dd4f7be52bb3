"""A produce that waits for the device: committed, deleted under it, or never to be committed."""

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId
from headwater.broker.broker import Broker
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.handlers.produce import handle
from headwater.broker.topics import plan_topic
from headwater.log.config import LogConfig
from headwater.metadata.image import BrokerState, Change, TopicConfigured, TopicDeleted
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.assembly import Assembly
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Lab:
    """One topic with flush.messages=1; the disk moves only when it is told to."""

    def __init__(self) -> None:
        self.disk = SimDisk(seed=1)
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        assembly = Assembly(
            BrokerConfig({"node.id": "1", "log.dirs": "/data", "listeners": "PLAINTEXT://:0"}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(7),
            scheduler=self.scheduler,
        )
        opened: list[Broker] = []
        assembly.open(opened.append)
        (self.broker,) = opened
        self.broker.image.brokers[BrokerId(1)] = BrokerState(BrokerId(1), [])
        self.commit([plan_topic(self.broker, "orders", 1, 1, {"flush.messages": "1"})])

    def commit(self, changes: Sequence[Change]) -> None:
        self.broker.store.commit(changes, lambda _error: None)
        self.settle()

    def settle(self) -> None:
        while self.disk.run() + self.scheduler.run_due():
            pass

    def produce(self, acks: int = -1, version: int = 9) -> Any:
        batch = memoryview(build_batch([Record(0, self.clock.now_ms(), None, b"v")]))
        data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=data)
        context = RequestContext(ConnectionContext("127.0.0.1", 1, "PLAINTEXT"), 0, version, None)
        return handle(self.broker, context, request)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def outcome(answer: Any) -> tuple[ErrorCode, int]:
    response = answer.response if isinstance(answer, Deferred) else answer
    part = response.responses[0].partition_responses[0]
    return ErrorCode(part.error_code), part.base_offset


@pytest.mark.parametrize("acks", [1, -1])
def test_it_is_answered_when_the_record_is_on_the_device(lab: Lab, acks: int) -> None:
    answer = lab.produce(acks)
    assert not answer.done
    lab.settle()
    assert outcome(answer) == (ErrorCode.NONE, 0)
    assert not lab.broker.partition("orders", 0).waiters


def test_acks_1_does_not_wait_for_other_replicas(lab: Lab) -> None:
    partition = lab.broker.partition("orders", 0)
    partition.log.update_config(LogConfig())
    partition.confirm(0)  # there is another one, which has nothing yet
    assert outcome(lab.produce(acks=1)) == (ErrorCode.NONE, 0)
    assert not lab.produce(acks=-1).done


def test_a_failed_sync_is_told_at_once_and_not_when_the_time_is_over(lab: Lab) -> None:
    answer = lab.produce()
    lab.disk.faults.syncs_to_fail = 1
    lab.settle()
    assert answer.done
    assert outcome(answer) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert lab.broker.partition("orders", 0).high_watermark == 0


def test_the_topic_is_deleted_under_it(lab: Lab) -> None:
    answer = lab.produce()
    topic_id = lab.broker.image.topic("orders").topic_id
    lab.broker.store.commit([TopicDeleted(topic_id)], lambda _error: None)
    lab.broker.apply([TopicDeleted(topic_id)])
    lab.scheduler.run_due()
    assert outcome(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    lab.settle()


def test_its_time_is_over(lab: Lab) -> None:
    answer = lab.produce()
    lab.clock.advance(1000)
    lab.scheduler.run_due()
    assert outcome(answer) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_what_waits_is_committed_when_flushes_are_no_longer_asked_for(lab: Lab) -> None:
    """The config changed while a record waited for its flush: nobody moved the high watermark until the next append."""
    answer = lab.produce()
    partition = lab.broker.partition("orders", 0)
    topic_id = partition.topic_id
    lab.broker.image.apply(TopicConfigured(topic_id, {}))
    lab.broker.apply([TopicConfigured(topic_id, {})])
    lab.scheduler.run_due()
    assert partition.is_alone
    assert partition.high_watermark == 1
    assert outcome(answer) == (ErrorCode.NONE, 0)

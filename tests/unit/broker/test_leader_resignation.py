"""A leader whose log directory has failed names its successor."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from headwater.broker.leader_resignation import LeaderResignation, successor, without
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState

KEY = PartitionKey(TopicId(bytes(16)), 0)
ME = BrokerId(1)


def ids(*numbers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


def state(in_sync: list[BrokerId], leader: int = 1) -> PartitionState:
    epochs = [10 * replica for replica in in_sync]
    return PartitionState(BrokerId(leader), LeaderEpoch(4), ids(1, 2, 3), in_sync, epochs, [], [], 7)


def brokers(*live: int, stopping: int = 0) -> dict[BrokerId, BrokerState]:
    return {
        BrokerId(number): BrokerState(BrokerId(number), [], epoch=10 * number, is_stopping=number == stopping)
        for number in live
    }


def test_the_first_other_in_sync_replica_takes_over() -> None:
    change = successor(KEY, state(ids(3, 1, 2)), ME, brokers(1, 2, 3))
    assert change == PartitionChanged(
        KEY.topic_id, 0, BrokerId(2), LeaderEpoch(5), tuple(ids(1, 2, 3)), tuple(ids(3, 2)), (30, 20), (), (), 7
    )


def test_one_whose_disk_is_full_stays_in_sync() -> None:
    change = successor(KEY, state(ids(3, 1, 2)), ME, brokers(1, 2, 3), stays_in_sync=True)
    assert change == PartitionChanged(
        KEY.topic_id, 0, BrokerId(2), LeaderEpoch(5), tuple(ids(1, 2, 3)), tuple(ids(3, 1, 2)), (30, 10, 20), (), (), 7
    )


def test_a_follower_without_room_leaves_under_the_same_leader() -> None:
    assert without(KEY, state(ids(3, 1, 2), leader=3), ME) == PartitionChanged(
        KEY.topic_id, 0, BrokerId(3), LeaderEpoch(4), tuple(ids(1, 2, 3)), tuple(ids(3, 2)), (30, 20), (), (), 7
    )
    assert without(KEY, state(ids(3, 2), leader=3), ME) is None
    assert without(KEY, state(ids(1, 2)), ME) is None


@pytest.mark.parametrize(
    ("in_sync", "live"),
    [
        (ids(1), brokers(1, 2, 3)),  # the others are not in sync
        (ids(1, 2), brokers(1, 3)),  # not live
        (ids(1, 2), brokers(1, 2, stopping=2)),
        (ids(1, 2), {**brokers(1), BrokerId(2): BrokerState(BrokerId(2), [], epoch=21)}),  # in another life
    ],
)
def test_if_nobody_can_take_over_it_stays(in_sync: list[BrokerId], live: dict[BrokerId, BrokerState]) -> None:
    assert successor(KEY, state(in_sync), ME, live) is None


def test_who_does_not_lead_does_not_resign() -> None:
    assert successor(KEY, state(ids(1, 2), leader=2), ME, brokers(1, 2)) is None


@pytest.mark.parametrize("ails", [("failed", OSError(5, "I/O")), ("is_full", True)])
def test_it_is_asked_for_until_it_is_granted(ails: tuple[str, object]) -> None:
    asked: list[Any] = []
    log = SimpleNamespace(failed=None, is_full=False)
    topic = SimpleNamespace(name="t", partitions=[state(ids(1, 2))])
    broker: Any = SimpleNamespace(
        broker_id=ME,
        partitions={KEY: SimpleNamespace(is_leader=True, log=log)},
        image=SimpleNamespace(topics={KEY.topic_id: topic}, brokers=brokers(1, 2)),
        store=SimpleNamespace(propose=lambda change, done: asked.append((change.leader, done))),
        replicas=SimpleNamespace(missing=set()),
    )
    resigning = LeaderResignation(broker)
    resigning.look()
    assert asked == []  # its own log is well
    setattr(log, *ails)
    resigning.look()
    resigning.look()
    assert [leader for leader, _ in asked] == [2]
    asked[0][1](KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    resigning.look()
    assert [leader for leader, _ in asked] == [2, 2]


@pytest.mark.parametrize("epoch", [4, 3])
def test_a_follower_without_room_leaves_when_the_leader_of_its_term_has_sent_something(epoch: int) -> None:
    asked: list[Any] = []
    topic = SimpleNamespace(name="t", partitions=[state(ids(1, 2), leader=2)])
    broker: Any = SimpleNamespace(
        broker_id=ME,
        partitions={},
        image=SimpleNamespace(topics={KEY.topic_id: topic}, brokers=brokers(1, 2)),
        store=SimpleNamespace(propose=lambda change, _done: asked.append(change.in_sync_replicas)),
        replicas=SimpleNamespace(missing=set()),
    )
    resigning = LeaderResignation(broker)
    resigning.look()
    assert asked == [], "the leader may be dead"
    broker.replicas.on_full(SimpleNamespace(topic_id=KEY.topic_id, index=0, leader_epoch=epoch))
    broker.replicas.on_full(SimpleNamespace(topic_id=KEY.topic_id, index=0, leader_epoch=epoch))
    assert asked == ([(2,)] if epoch == 4 else [])


@pytest.mark.parametrize(("in_sync", "expected"), [(ids(1, 2), [(2,)]), (ids(1), [])], ids=["others are", "alone"])
def test_a_follower_whose_log_has_failed_leaves_at_once(
    in_sync: list[BrokerId], expected: list[tuple[int, ...]]
) -> None:
    """Nobody missed it until the next record came, and it could be elected, with what was left on a disk that had
    failed.
    """
    asked: list[Any] = []
    log = SimpleNamespace(failed=OSError(5, "I/O"), is_full=False)
    topic = SimpleNamespace(name="t", partitions=[state(in_sync, leader=2)])
    broker: Any = SimpleNamespace(
        broker_id=ME,
        partitions={KEY: SimpleNamespace(is_leader=False, log=log, topic_id=KEY.topic_id, index=0, leader_epoch=4)},
        image=SimpleNamespace(topics={KEY.topic_id: topic}, brokers=brokers(1, 2)),
        store=SimpleNamespace(propose=lambda change, _done: asked.append(change.in_sync_replicas)),
        replicas=SimpleNamespace(missing=set()),
    )
    resigning = LeaderResignation(broker)
    resigning.look()
    resigning.look()
    assert asked == expected


def test_who_cannot_open_its_log_does_not_go_on_leading() -> None:
    """A disk was full when it was to lead: nobody did, although others had everything."""
    asked: list[BrokerId] = []
    topic = SimpleNamespace(name="t", partitions=[state(ids(1, 2))])
    broker: Any = SimpleNamespace(
        broker_id=ME,
        partitions={},
        image=SimpleNamespace(topics={KEY.topic_id: topic}, brokers=brokers(1, 2)),
        store=SimpleNamespace(propose=lambda change, _done: asked.append(change.leader)),
        replicas=SimpleNamespace(
            missing={KEY, PartitionKey(KEY.topic_id, 7), PartitionKey(TopicId(bytes(15) + b"x"), 0)}
        ),
    )
    LeaderResignation(broker).look()
    assert asked == [2]

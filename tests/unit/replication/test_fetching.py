"""The leader's side of a fetch: what a follower is given and refused, and where consumers are sent."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId
from headwater.broker.deferred import Deferred
from headwater.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from unit.replication.cluster_lab import KEY, TOPIC, TOPIC_ID, ClusterLab

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def make(**properties: str) -> ClusterLab:
    """Three replicas, of which the followers do not fetch: the test does it in their place."""
    lab = ClusterLab(3, **properties)
    lab.cut = {(2, 1), (3, 1)}
    lab.holds_proposals = True
    lab.create(TOPIC, TOPIC_ID, (1, 2, 3))
    lab.run()
    return lab


def fetch(
    lab: ClusterLab,
    offset: int = 0,
    *,
    node: int = 1,
    replica: int = -1,
    epoch: int | None = None,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    rack: str = "",
    wait_ms: int = 0,
    version: int = 17,
    start: int = 0,
) -> FetchResponse | Deferred:
    part = FetchPartition(
        partition=0, current_leader_epoch=leader_epoch, fetch_offset=offset, last_fetched_epoch=last_epoch,
        log_start_offset=start, partition_max_bytes=1 << 20,
    )  # fmt: skip
    state = ReplicaState(replica_id=replica, replica_epoch=lab.epoch_of(replica) if epoch is None else epoch)
    topics = [FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])]
    request = FetchRequest(
        replica_state=state if replica >= 0 else None, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20,
        isolation_level=0, session_id=0, session_epoch=-1, topics=topics, forgotten_topics_data=[], rack_id=rack,
    )  # fmt: skip
    answer = lab.handle(node, request, version)
    assert isinstance(answer, FetchResponse | Deferred)
    return answer


def data_of(answer: FetchResponse | Deferred) -> PartitionData:
    response = answer.response if isinstance(answer, Deferred) else answer
    (data,) = response.responses[0].partitions
    if hasattr(data.records, "release"):
        data.records.release()
    assert isinstance(data, PartitionData)
    return data


def test_a_follower_reads_what_is_not_committed_and_a_consumer_does_not() -> None:
    lab = make()
    lab.produce(1)
    assert len(data_of(fetch(lab, replica=2)).records or b"") > 0
    assert len(data_of(fetch(lab)).records or b"") == 0


def test_fetches_of_all_followers_commit() -> None:
    lab = make()
    answer = lab.produce(1)
    fetch(lab, 1, replica=2)
    lab.run()
    assert not answer.done
    fetch(lab, 1, replica=3)
    lab.run()
    assert answer.done
    assert data_of(fetch(lab, 1, replica=2)).high_watermark == 1


def test_a_parked_follower_is_woken_by_an_append_and_not_by_the_high_watermark() -> None:
    lab = make()
    lab.produce(1)
    parked = fetch(lab, 1, replica=2, wait_ms=500)
    assert isinstance(parked, Deferred)
    fetch(lab, 1, replica=3)
    lab.run()
    assert lab.replica(1).high_watermark == 1
    assert not parked.done
    lab.produce(1)
    lab.run()
    assert parked.done
    assert len(data_of(parked).records or b"") > 0
    assert not lab.replica(1).append_waiters


def test_who_is_parked_on_a_term_that_ends_is_answered_at_once() -> None:
    """The next term may have the same leader, which would find nothing to refuse."""
    lab = make()
    parked = fetch(lab, wait_ms=60_000)
    assert isinstance(parked, Deferred)
    lab.run()
    assert not parked.done
    lab.elect(1)
    lab.run()
    assert parked.done
    assert data_of(parked).error_code == 0


def test_a_parked_follower_says_only_once_what_it_has() -> None:
    """It may have come again, in another life with less, while its first fetch was parked."""
    lab = make()
    lab.produce(1)
    fetch(lab, 1, replica=2, wait_ms=500)
    fetch(lab, 0, replica=2)
    assert lab.replica(1).in_sync is not None
    lab.produce(1)
    lab.run()
    assert lab.replica(1).in_sync.followers[BrokerId(2)].log_end_offset == 0


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"replica": 2, "epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"replica": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 2, "leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 2, "offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"replica": 2, "node": 3}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"version": 10, "node": 3}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"version": 11, "node": 3}, ErrorCode.NONE),
        ({"version": 11, "node": 3, "offset": 5}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_is_refused(asked: dict[str, int], code: ErrorCode) -> None:
    assert ErrorCode(data_of(fetch(make(), **asked)).error_code) is code


def test_an_older_leader_epoch_is_fenced_and_the_leader_named() -> None:
    lab = make()
    lab.elect(2)
    assert ErrorCode(data_of(fetch(lab, node=2, leader_epoch=0)).error_code) is ErrorCode.FENCED_LEADER_EPOCH
    answer = fetch(lab, node=1, replica=3)
    leader = data_of(answer).current_leader
    assert leader is not None
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert isinstance(answer, FetchResponse)
    assert [(each.node_id, each.host) for each in answer.node_endpoints] == [(2, "host2")]
    moved = lab.handle(1, _produce_request(), 10)
    (part,) = moved.responses[0].partition_responses
    assert part.current_leader.leader_id == 2
    assert [each.node_id for each in moved.node_endpoints] == [2]


def test_a_follower_that_knows_another_history_does_not_count() -> None:
    lab = make()
    for _ in range(3):
        lab.produce(1, acks=1)
    lab.elect(1)  # epoch 1 begins at 3
    lab.produce(1, acks=1)
    data = data_of(fetch(lab, 4, replica=2, leader_epoch=1, last_epoch=0))
    assert data.diverging_epoch is not None
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 3)
    in_sync = lab.replica(1).in_sync
    assert in_sync is not None
    assert in_sync.followers[BrokerId(2)].log_end_offset == -1


def test_a_follower_hears_that_nothing_is_left_to_compare_its_records_with() -> None:
    """And does not count as one that has them. A consumer may go on: what it has read is what was there."""
    lab = make()
    for _ in range(3):
        lab.produce(1, acks=1)
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(3)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(3)))
    lab.elect(1)  # epoch 1 begins at 3
    lab.replica(1).log.delete_records_before(3)
    data = data_of(fetch(lab, 3, replica=2, leader_epoch=1, last_epoch=0))
    assert data.diverging_epoch is not None
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (-1, 3)
    in_sync = lab.replica(1).in_sync
    assert in_sync is not None
    assert in_sync.followers[BrokerId(2)].log_end_offset == -1
    assert data_of(fetch(lab, 3, leader_epoch=1, last_epoch=0)).diverging_epoch is None
    data = data_of(fetch(lab, 2, replica=2, leader_epoch=1, last_epoch=0))
    assert (data.diverging_epoch, data.error_code) == (None, ErrorCode.OFFSET_OUT_OF_RANGE)
    data = data_of(fetch(lab, 3, replica=2, leader_epoch=1, last_epoch=-1))
    assert (data.diverging_epoch, in_sync.followers[BrokerId(2)].log_end_offset) == (None, 3)


@pytest.mark.parametrize("counts_by", ["the state", "a proposal"])
def test_of_a_follower_that_counts_nothing_need_be_compared(counts_by: str) -> None:
    """Seed 4239138440 of cluster-storage: one that was in sync dropped what it had confirmed. The records were deleted,
    but who had been elected from it would have given their offsets to others.
    """
    lab = make()
    lab.produce(1, acks=1)
    if counts_by == "a proposal":
        lab.change(in_sync_replicas=(BrokerId(1), BrokerId(3)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(3)))
    lab.elect(1)
    if counts_by == "a proposal":
        fetch(lab, 1, replica=2, leader_epoch=1, last_epoch=0)
        assert len(lab.proposals) == 1
    lab.replica(1).log.delete_records_before(1)
    assert data_of(fetch(lab, 1, replica=2, leader_epoch=1, last_epoch=0)).diverging_epoch is None


@pytest.mark.parametrize(("start", "leader_start", "compared"), [(3, 3, True), (3, 2, False), (2, 3, False)])
def test_of_a_follower_that_has_deleted_as_much_nothing_need_be_compared(
    start: int, leader_start: int, compared: bool
) -> None:
    """Seed 1294374641 of cluster-storage: all records were deleted, two brokers were restarted one after the other, and
    each forgot what it knew of producers. A batch that was sent again, in want of an answer, was written twice.
    """
    lab = make()
    for _ in range(2):
        lab.produce(1, acks=1)
    if leader_start == 3:
        lab.produce(1, acks=1)
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(3)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(3)))
    lab.elect(1)
    lab.replica(1).log.delete_records_before(leader_start)
    if leader_start == 2:
        lab.produce(1, acks=1)  # it has written where the follower has deleted something
    data = data_of(fetch(lab, 3, replica=2, leader_epoch=1, last_epoch=0, start=start))
    assert (data.diverging_epoch is None) is compared


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    lab = make(replica_selector_class=RACK_AWARE)
    lab.produce(1)
    for replica in (2, 3):
        fetch(lab, 1, replica=replica)
    assert data_of(fetch(lab, rack="rack3", wait_ms=500)).preferred_read_replica == 3
    assert data_of(fetch(lab, rack="rack1")).preferred_read_replica == -1
    assert data_of(fetch(lab, rack="elsewhere")).preferred_read_replica == -1
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(2)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2)))
    assert data_of(fetch(lab, rack="rack3")).preferred_read_replica == -1


def test_without_a_selector_consumers_stay_with_the_leader() -> None:
    lab = make()
    for replica in (2, 3):
        fetch(lab, replica=replica)
    assert data_of(fetch(lab, rack="rack3")).preferred_read_replica == -1


def test_a_follower_serves_consumers_up_to_its_high_watermark() -> None:
    lab = ClusterLab(3, replicas=3)
    lab.run(600)
    lab.produce(1)
    lab.run(10)
    waiting = fetch(lab, node=3, wait_ms=5000)
    assert isinstance(waiting, Deferred)
    lab.run(600)
    assert waiting.done
    assert len(data_of(waiting).records or b"") > 0
    assert lab.replica(3, KEY).high_watermark == 1


def _produce_request() -> object:
    from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(b"x"))])]
    return ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data)

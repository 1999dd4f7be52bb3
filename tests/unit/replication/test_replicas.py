"""Leaders and followers of a small cluster: what is copied, what counts, and what happens when roles change."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, PartitionKey, TopicId
from headwater.broker.deferred import Deferred
from headwater.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from unit.replication.cluster_lab import KEY, TOPIC, TOPIC_ID, ClusterLab, error_of

OTHER_ID = TopicId(bytes([1] * 16))


@pytest.fixture(name="lab")
def lab_fixture() -> ClusterLab:
    lab = ClusterLab(3, replicas=3)
    lab.run(600)
    return lab


def test_what_a_leader_appends_its_followers_have_and_an_acks_all_producer_is_told(lab: ClusterLab) -> None:
    answer = lab.produce(1)
    assert isinstance(answer, Deferred)
    assert not answer.done
    lab.run()
    assert error_of(answer) is ErrorCode.NONE
    assert lab.content(1) == lab.content(2) == lab.content(3) != b""
    assert lab.replica(1).high_watermark == 1


def test_followers_learn_the_high_watermark_with_the_next_fetch(lab: ClusterLab) -> None:
    lab.produce(1)
    lab.run(600)
    assert [lab.replica(node).high_watermark for node in (1, 2, 3)] == [1, 1, 1]


def test_without_its_followers_nothing_is_committed(lab: ClusterLab) -> None:
    lab.cut = {(2, 1)}
    lab.run(600)
    answer = lab.produce(1)
    lab.run(1000)
    assert not answer.done
    assert lab.replica(1).high_watermark == 0
    assert lab.replica(3).log.log_end_offset == 1
    lab.cut = set()
    lab.run(1000)
    assert error_of(answer) is ErrorCode.NONE


@pytest.mark.parametrize("is_member", [True, False])
def test_a_follower_whose_log_has_failed_hears_at_once_that_it_counts(lab: ClusterLab, is_member: bool) -> None:
    """Seed 4239138989 of cluster-storage: its fetch was on the way when the disk failed, and let it into the in-sync
    replicas. Before it looked again, half a second later, it had been elected, alone in sync.
    """
    told: list[Any] = []
    replicas = lab.broker(2).replicas
    assert replicas is not None
    replicas.on_failed_in_sync = told.append
    members = (BrokerId(1), BrokerId(2), BrokerId(3)) if is_member else (BrokerId(1), BrokerId(3))
    out, epochs = (BrokerId(1),), (lab.epoch_of(1),)
    lab.change(in_sync_replicas=out, in_sync_epochs=epochs)
    lab.replica(2).log.fail(OSError(5, "Input/output error"))
    lab.change(in_sync_replicas=members, in_sync_epochs=tuple(lab.epoch_of(each) for each in members))
    assert told == [lab.replica(2)] * is_member


def test_a_partition_that_cannot_be_opened_keeps_no_other_from_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ClusterLab(2)
    broker = lab.broker(1)
    with monkeypatch.context() as broken:
        open_log = broker.open_log

        def fail(topic: Any, index: int, config: Any, *, is_new: bool) -> Any:
            if index == 0:
                raise ZeroDivisionError
            return open_log(topic, index, config, is_new=is_new)

        broken.setattr(broker, "open_log", fail)
        lab.create(TOPIC, TOPIC_ID, (1, 2), (2, 1), (1, 2))
        assert [key.partition for key in broker.partitions] == [1, 2]
        assert broker.replicas is not None
        broker.replicas.open_all()
        broker.open_missing()
        assert [key.partition for key in broker.partitions] == [1, 2]
    broker.open_missing()
    assert sorted(key.partition for key in broker.partitions) == [0, 1, 2]
    answer = lab.produce(1)
    lab.run(1000)
    assert error_of(answer) is ErrorCode.NONE


def test_acks_1_does_not_wait_for_followers(lab: ClusterLab) -> None:
    assert error_of(lab.produce(1, acks=1)) is ErrorCode.NONE


def test_only_the_leader_takes_records(lab: ClusterLab) -> None:
    assert error_of(lab.produce(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as raised:
        lab.broker(2).partition(TOPIC, 0)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert lab.broker(2).replica_of(TOPIC_ID, 0) is lab.replica(2)


def test_who_lags_leaves_and_who_has_caught_up_joins_again(lab: ClusterLab) -> None:
    lab.cut = {(3, 1)}
    lab.run(600)
    answer = lab.produce(1)
    lab.run(50_000)
    assert lab.state().in_sync_replicas == [1, 2]
    assert error_of(answer) is not ErrorCode.NONE  # its time was over long before
    assert error_of(_done(lab, lab.produce(1))) is ErrorCode.NONE
    lab.cut = set()
    lab.run(2000)
    assert lab.state().in_sync_replicas == [1, 2, 3]
    assert lab.content(3) == lab.content(1)


def test_a_quiet_partition_keeps_its_in_sync_replicas(lab: ClusterLab) -> None:
    lab.run(120_000)
    assert lab.state().in_sync_replicas == [1, 2, 3]
    assert lab.state().version == 0


def test_too_few_in_sync_replicas_refuse_acks_all_and_nothing_else() -> None:
    lab = ClusterLab(3)
    lab.create(TOPIC, TOPIC_ID, (1, 2, 3), min_insync_replicas="2")
    lab.run(600)
    lab.change(in_sync_replicas=(BrokerId(1),), in_sync_epochs=(lab.epoch_of(1),))
    assert error_of(lab.produce(1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert error_of(lab.produce(1, acks=1)) is ErrorCode.NONE
    assert lab.replica(1).log.log_end_offset == 1
    with pytest.raises(KafkaError) as raised:
        lab.replica(1).append_marker(7, 0, 0, True, lab.clock.now_ms())
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_in_sync_replicas_that_get_too_few_while_a_producer_waits() -> None:
    lab = ClusterLab(3)
    lab.create(TOPIC, TOPIC_ID, (1, 2, 3), min_insync_replicas="2")
    lab.run(600)
    lab.cut = {(2, 1), (3, 1)}
    lab.holds_proposals = True
    lab.run(600)
    answer = lab.produce(1)
    lab.change(in_sync_replicas=(BrokerId(1),), in_sync_epochs=(lab.epoch_of(1),))
    lab.run()
    assert error_of(answer) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_whoever_waits_for_a_leader_that_is_none_any_more_is_told(lab: ClusterLab) -> None:
    lab.cut = {(2, 1), (3, 1)}
    lab.run(600)
    answer = lab.produce(1)
    lab.elect(2)
    lab.run()
    assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lab.cut = set()
    lab.run(2000)
    assert lab.replica(1).log.log_end_offset == 0, "what was never committed is gone"
    assert error_of(_done(lab, lab.produce(2, b"other"))) is ErrorCode.NONE
    assert lab.content(1) == lab.content(2) == lab.content(3)


def test_records_of_a_later_term_are_not_taken_for_those_that_were_waited_for(lab: ClusterLab) -> None:
    lab.cut = {(2, 1), (3, 1)}
    lab.run(600)
    answer = lab.produce(1, b"mine")
    lab.elect(2)
    lab.elect(1)  # in the same turn: nobody was woken in between
    lab.cut = set()
    lab.run(1000)
    assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_under_which_nothing_was_written_does_not_stop_a_follower(lab: ClusterLab) -> None:
    _done(lab, lab.produce(1))
    lab.elect(2)
    lab.elect(3)
    lab.elect(1)
    lab.run(2000)
    assert error_of(_done(lab, lab.produce(1))) is ErrorCode.NONE
    assert lab.content(1) == lab.content(2) == lab.content(3)


def test_a_leader_that_has_not_heard_of_its_successor_commits_nothing(lab: ClusterLab) -> None:
    lab.nodes[1].is_deaf = True
    lab.elect(2, in_sync=[1, 2, 3])
    lab.run(600)
    stale = lab.produce(1, b"stale")
    lab.run(1000)
    assert not stale.done
    assert lab.replica(1).high_watermark == 0
    lab.hear(1)
    lab.run(600)
    assert error_of(stale) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    _done(lab, lab.produce(2, b"right"))
    assert lab.content(1) == lab.content(2) == lab.content(3)


def test_a_replica_that_is_behind_the_leaders_start_begins_there(lab: ClusterLab) -> None:
    lab.cut = {(3, 1)}
    for _ in range(5):
        lab.produce(1)
    lab.run(600)
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(2)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2)))
    lab.run(600)
    lab.replica(1).log.delete_records_before(4)
    lab.cut = set()
    lab.run(3000)
    assert (lab.replica(3).log.log_start_offset, lab.replica(3).log.log_end_offset) == (4, 5)
    assert lab.replica(3).high_watermark == 5
    assert lab.state().in_sync_replicas == [1, 2, 3]


def test_the_start_of_the_log_follows_the_leaders(lab: ClusterLab) -> None:
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.replica(1).log.delete_records_before(2)
    lab.run(1200)
    assert [lab.replica(node).log.log_start_offset for node in (2, 3)] == [2, 2]


def delete_before(lab: ClusterLab, offset: int) -> Any:
    parts = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    return lab.handle(
        1, DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=parts)], timeout_ms=1500), 2
    )


def deleted(answer: Any) -> tuple[ErrorCode, int]:
    assert answer.done
    (result,) = answer.response.topics[0].partitions
    return ErrorCode(result.error_code), result.low_watermark


def test_deleted_records_are_gone_on_all_replicas_when_that_is_answered(lab: ClusterLab) -> None:
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.run(600)
    answer = delete_before(lab, 2)
    assert not answer.done
    lab.run(30)  # nobody waits for the fetches that the leader holds
    assert deleted(answer) == (ErrorCode.NONE, 2)
    assert [lab.replica(node).log.log_start_offset for node in (1, 2, 3)] == [2, 2, 2]


def test_a_replica_that_does_not_hear_of_deleted_records_makes_the_answer_time_out(lab: ClusterLab) -> None:
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.run(600)
    lab.cut = {(3, 1)}
    lab.run(600)
    answer = delete_before(lab, 2)
    lab.run(1400)
    assert not answer.done
    lab.run(200)
    assert deleted(answer) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_a_replica_that_is_away_is_not_waited_for_when_records_are_deleted(lab: ClusterLab) -> None:
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.kill(3)
    lab.run(600)
    answer = delete_before(lab, 2)
    lab.run(30)
    assert not answer.done, "it is in sync still, and might be elected"
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(2)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2)))
    lab.run(30)
    assert deleted(answer) == (ErrorCode.NONE, 2)


def test_a_replica_that_missed_a_deletion_hears_of_it_at_once_and_is_in_sync_then(lab: ClusterLab) -> None:
    """It has all records, so the leader would hold its fetch back: and it was elected before it knew where to begin."""
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.run(600)
    lab.cut = {(3, 1)}
    lab.change(in_sync_replicas=(BrokerId(1), BrokerId(2)), in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2)))
    lab.run(2000)
    lab.replica(1).log.delete_records_before(2)
    lab.cut = set()
    lab.asked.clear()
    while not any(source == 3 for source, _, _ in lab.asked):
        lab.run(1)
    asked_ms = lab.clock.monotonic_ms()
    while lab.state().in_sync_replicas != [1, 2, 3]:
        lab.run(1)
    assert lab.replica(3).log.log_start_offset == 2, "not before it knows where to begin"
    assert lab.clock.monotonic_ms() - asked_ms < 10, "no fetch was held back"


def test_whoever_waits_for_deletions_at_a_leader_that_is_none_any_more_is_told(lab: ClusterLab) -> None:
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.cut = {(3, 1)}
    lab.run(600)
    answer = delete_before(lab, 2)
    lab.elect(2)
    lab.run(30)
    assert deleted(answer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_new_leader_says_that_it_does_not_know_yet_what_is_committed(lab: ClusterLab) -> None:
    from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    def latest(node: int, version: int) -> tuple[ErrorCode, int]:
        asked = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked])
        (found,) = lab.handle(node, request, version).topics[0].partitions
        return ErrorCode(found.error_code), found.offset

    _done(lab, lab.produce(1))
    assert latest(1, 7) == (ErrorCode.NONE, 1)
    lab.cut = {(1, 2), (3, 2)}
    lab.replica(2).high_watermark = 0  # the news did not reach it
    lab.elect(2)
    lab.run()
    assert latest(2, 7)[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    assert latest(2, 4)[0] is ErrorCode.LEADER_NOT_AVAILABLE
    lab.cut = set()
    lab.run(2000)
    assert latest(2, 7) == (ErrorCode.NONE, 1)


def test_a_replica_that_was_moved_away_is_deleted_and_a_new_one_is_made(lab: ClusterLab) -> None:
    _done(lab, lab.produce(1))
    lab.change(replicas=(BrokerId(1), BrokerId(2)), in_sync_replicas=(BrokerId(1), BrokerId(2)),
               in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2)))  # fmt: skip
    lab.run()
    assert KEY not in lab.broker(3).partitions
    assert not lab.broker(3).logs.logs
    lab.change(replicas=(BrokerId(1), BrokerId(2), BrokerId(3)), adding=(BrokerId(3),))
    lab.run(2000)
    assert lab.content(3) == lab.content(1)
    assert lab.state().in_sync_replicas == [1, 2, 3]
    assert lab.state().adding == [3]


def test_a_second_replica_makes_a_lone_partition_wait_for_it() -> None:
    lab = ClusterLab(2)
    lab.create(TOPIC, TOPIC_ID, (1,))
    lab.run()
    assert lab.replica(1).is_alone
    assert error_of(lab.produce(1)) is ErrorCode.NONE
    lab.change(replicas=(BrokerId(1), BrokerId(2)), adding=(BrokerId(2),))
    assert not lab.replica(1).is_alone
    lab.run(1000)
    assert lab.state().in_sync_replicas == [1, 2]
    answer = lab.produce(1)
    assert not answer.done
    lab.run()
    assert error_of(answer) is ErrorCode.NONE
    assert lab.content(1) == lab.content(2)


def test_a_deleted_topic_leaves_nothing_and_one_of_the_same_name_is_another(lab: ClusterLab) -> None:
    answer = lab.produce(1)
    lab.delete(TOPIC_ID)
    lab.create(TOPIC, OTHER_ID, (2, 3, 1))
    lab.run(600)
    assert error_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [set(lab.broker(node).partitions) for node in (1, 2, 3)] == [{PartitionKey(OTHER_ID, 0)}] * 3
    assert lab.broker(1).partitions_by_topic_id.keys() == {OTHER_ID}
    assert error_of(_done(lab, lab.produce(2))) is ErrorCode.NONE


def test_the_directory_of_another_topic_is_set_aside(lab: ClusterLab) -> None:
    _done(lab, lab.produce(1))
    lab.kill(3)
    lab.delete(TOPIC_ID)
    lab.create(TOPIC, OTHER_ID, (1, 2, 3))
    lab.restart(3)
    lab.run(2000)
    assert lab.replica(3, PartitionKey(OTHER_ID, 0)).log.log_end_offset == 0
    assert any("stray" in name for name in lab.nodes[3].disk.list_directory("/data"))


def test_changes_that_come_twice_do_no_harm(lab: ClusterLab) -> None:
    _done(lab, lab.produce(1))
    before = {node: lab.replica(node) for node in (1, 2, 3)}
    for node in (1, 2, 3):
        lab.hear(node)
    assert {node: lab.replica(node) for node in (1, 2, 3)} == before


def test_the_produce_path_finds_only_what_is_led_here_alone() -> None:
    lab = ClusterLab(2)
    lab.create(TOPIC, TOPIC_ID, (2,), (1,), (1, 2))
    for by in (lab.broker(1).partitions_by_topic_id[TOPIC_ID], lab.broker(1).partitions_by_wire_name[TOPIC.encode()]):
        assert [partition.is_alone for partition in by] == [False, True, False]


def test_a_broker_that_is_gone_is_forgotten_and_fetched_from_when_it_is_back(lab: ClusterLab) -> None:
    lab.kill(1)
    assert (2, 1) in lab.forgotten
    lab.run(20_000)
    lab.restart(1)
    lab.change(in_sync_epochs=(lab.epoch_of(1), lab.epoch_of(2), lab.epoch_of(3)))
    lab.run(100)
    assert error_of(_done(lab, lab.produce(1))) is ErrorCode.NONE


def test_a_follower_keeps_a_record_from_counting_until_it_is_on_the_device() -> None:
    lab = ClusterLab(2)
    lab.create(TOPIC, TOPIC_ID, (1, 2), flush_messages="1")
    lab.run(600)
    answer = lab.produce(1)
    for _ in range(10):  # the devices rest: only messages travel
        lab.scheduler.run_due()
    assert lab.replica(2).log.log_end_offset == 1
    assert lab.replica(2).log.recovery_point == 0
    lab.nodes[1].disk.run()
    for _ in range(10):
        lab.scheduler.run_due()
    assert not answer.done, "the follower's device has it not"
    lab.run()
    assert error_of(answer) is ErrorCode.NONE


def test_a_partition_that_is_quiet_beside_a_busy_one_does_not_lag_with_its_first_record() -> None:
    lab = ClusterLab(2)
    lab.create(TOPIC, TOPIC_ID, (1, 2), (1, 2))
    quiet = PartitionKey(TOPIC_ID, 1)
    for _ in range(400):
        lab.produce(1)
        lab.run(100)
    lab.cut = {(2, 1)}
    lab.run(600)
    lab.produce(1, index=1)
    replicas = lab.broker(1).replicas
    assert replicas is not None
    replicas.keeper.consider(lab.replica(1, quiet))
    lab.run()
    assert lab.state(quiet).in_sync_replicas == [1, 2]


def test_a_new_partition_does_not_wait_for_a_fetch_that_is_parked_on_others(lab: ClusterLab) -> None:
    lab.delay_max_ms = 3
    lab.run(600)
    lab.create("more", OTHER_ID, (1, 2, 3))
    answer = lab.produce(1, topic="more")
    lab.run(100)
    assert error_of(answer) is ErrorCode.NONE


def _done(lab: ClusterLab, answer: Any) -> Any:
    lab.run()
    return answer


def test_a_follower_that_is_none_any_more_while_its_fetch_waits_is_told_so(lab: ClusterLab) -> None:
    """Its log began before the leader's: whether it was in sync was asked of replicas that it was not among."""
    for _ in range(3):
        _done(lab, lab.produce(1))
    lab.run(600)
    lab.cut = {(3, 1)}
    lab.replica(1).log.delete_records_before(2)
    lab.change(
        replicas=(BrokerId(1), BrokerId(2)), in_sync_replicas=(BrokerId(1), BrokerId(2)), in_sync_epochs=(10, 20)
    )
    _done(lab, lab.produce(1))
    lab.cut = set()
    lab.run(3000)
    assert lab.state().in_sync_replicas == [1, 2]

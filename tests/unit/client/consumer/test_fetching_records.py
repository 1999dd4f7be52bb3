"""Polling over a cluster that is not there: positions, prefetch, errors of fetches, and what leads out of them."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import (
    LogTruncationError,
    NoOffsetForPartition,
    OffsetOutOfRange,
    RecordDeserializationError,
    WakeupError,
)
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.wire.messages import fetch
from headwater.wire.messages.offset_fetch import OffsetFetchRequest
from unit.client.consumer.fake_log import NOW_MS, FakeConsumer, FakeLogs, one_broker
from unit.client.reactor.fakes import CLOSE, HOLD, FakeWorld

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)


def reading(partitions: int = 1, **settings: object) -> tuple[FakeWorld, FakeLogs, FakeConsumer]:
    world, logs = one_broker(partitions)
    settings.setdefault("auto_offset_reset", "earliest")
    return world, logs, FakeConsumer(world, **settings)


def values(records: list[object]) -> list[bytes]:
    return [record.value for record in records]  # type: ignore[attr-defined]


def test_records_come_with_all_that_is_known_of_them() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"a", b"b"], partition_leader_epoch=7)
    consumer.assign(P0)
    first, second = consumer.poll()
    assert (first.topic, first.partition, first.offset, first.key, first.value) == ("orders", 0, 0, b"k0", b"a")
    assert (second.offset, second.timestamp_ms, second.leader_epoch, second.headers) == (1, NOW_MS + 1, 7, ())
    assert (second.serialized_key_size, second.serialized_value_size) == (2, 1)


def test_poll_gives_no_more_than_max_poll_records_and_goes_on_where_it_was() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"%d" % at for at in range(10)])
    consumer.assign(P0)
    assert values(consumer.poll(limit=4)) == [b"0", b"1", b"2", b"3"]
    assert consumer.core.positions_to_commit()[P0].offset == 4
    assert values(consumer.poll(limit=4)) == [b"4", b"5", b"6", b"7"]
    assert values(consumer.poll(limit=4)) == [b"8", b"9"]


def test_the_next_stretch_is_fetched_while_the_first_is_read() -> None:
    world, logs, consumer = reading(max_partition_fetch_bytes=1)
    for value in (b"a", b"b", b"c", b"d"):
        logs.append(P0, [value, value])
    consumer.assign(P0)
    assert values(consumer.poll(limit=1)) == [b"a"]
    world.pass_time(0.1)
    assert [request.topics[0].partitions[0].fetch_offset for request in logs.fetches()] == [0, 2]
    world.pass_time(1)
    assert len(logs.fetches()) == 2  # and no further: two fetches are enough
    assert values(consumer.read(7)) == [b"a", b"b", b"b", b"c", b"c", b"d", b"d"]


def test_a_seek_drops_what_is_buffered_and_what_is_under_way() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"%d" % at for at in range(10)])
    consumer.assign(P0)
    consumer.poll(limit=2)
    consumer.do(lambda: consumer.core.seek(P0, 8))
    assert values(consumer.poll()) == [b"8", b"9"]
    consumer.do(lambda: consumer.core.seek(P0, 1))  # a fetch at 10 is under way
    assert values(consumer.poll(limit=1)) == [b"1"]


def test_seeking_again_and_again_leaves_nothing_behind() -> None:
    world, logs, consumer = reading()
    logs.append(P0, [b"%d" % at for at in range(10)])
    consumer.assign(P0)
    for _ in range(20):
        assert values(consumer.poll(limit=1)) == [b"0"]
        consumer.do(lambda: consumer.core.seek(P0, 0))
        world.pass_time(1)  # the records come before the next poll
    assert len(consumer.core.fetcher.ready) == 1


def test_an_answer_that_was_asked_for_before_a_seek_is_dropped() -> None:
    world, logs, consumer = reading()
    logs.append(P0, [b"%d" % at for at in range(10)])
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    logs.broker.on(fetch.FetchRequest, lambda _: HOLD)
    world.pass_time(0.1)
    (held,) = logs.broker.held
    consumer.do(lambda: consumer.core.seek(P0, 7))
    logs.broker.on(fetch.FetchRequest, logs._fetch)
    logs.broker.answer_held(logs._fetch(held.request))
    assert values(consumer.poll()) == [b"7", b"8", b"9"]


def test_a_partition_that_is_given_up_and_taken_again_while_a_fetch_waits_learns_where_its_log_ends() -> None:
    """The session has not heard of it, and the broker says nothing twice: without a full request, it would wait for the
    next record to know its lag.
    """
    world, logs, consumer = reading(2)
    logs.append(P0, [b"a"])
    logs.append(P1, [b"b"])
    consumer.assign(P0, P1)
    consumer.read(2)
    world.pass_time(1)
    logs.broker.on(fetch.FetchRequest, lambda _: HOLD)
    world.pass_time(1)
    (held,) = logs.broker.held
    consumer.assign(P0)
    consumer.assign(P0, P1)
    consumer.do(lambda: consumer.core.seek(P1, 1))
    logs.broker.on(fetch.FetchRequest, logs._fetch)
    before = len(logs.fetches())
    logs.broker.answer_held(logs._data(held.request, logs._wanted(held.request)))
    world.pass_time(1)
    assert logs.fetches()[before].session_epoch == 0
    assert {each.partition for each in logs.fetches()[before].topics[0].partitions} == {0, 1}
    world.pass_time(5)
    assert [each.session_epoch for each in logs.fetches()[before:]].count(0) == 1


def test_a_committed_offset_that_comes_after_a_seek_is_dropped() -> None:
    world, logs, consumer = reading(group_id="g", enable_auto_commit=False)
    logs.append(P0, [b"%d" % at for at in range(10)])
    logs.offsets[P0] = (2, "", -1)
    logs.broker.on(OffsetFetchRequest, lambda _: HOLD)
    consumer.assign(P0)
    world.pass_time(0.1)
    (held,) = logs.broker.held
    consumer.do(lambda: consumer.core.seek(P0, 7))
    logs.broker.answer_held(logs._committed(held.request))
    world.pass_time(0.1)
    assert values(consumer.poll()) == [b"7", b"8", b"9"]


def test_a_broker_is_not_asked_without_the_partition_that_is_full() -> None:
    """It would hold the request back for the idle ones, and the reader of the full one would wait with it."""
    world, logs, consumer = reading(2, max_partition_fetch_bytes=1)
    for value in (b"a", b"b", b"c"):
        logs.append(P0, [value])
    consumer.assign(P0, P1)
    world.pass_time(2)
    assert len(consumer.core.subscription.states[P0].buffered) == 2
    before = len(logs.fetches())
    world.pass_time(2)
    assert len(logs.fetches()) == before
    began = world.now
    assert values(consumer.read(3)) == [b"a", b"b", b"c"]
    assert world.now - began < 0.1


def test_paused_partitions_keep_their_buffers_and_are_not_fetched() -> None:
    world, logs, consumer = reading(2)
    logs.append(P0, [b"a", b"b"])
    consumer.assign(P0, P1)
    assert values(consumer.poll(limit=1)) == [b"a"]
    consumer.do(lambda: consumer.core.pause([P0], True))
    logs.append(P1, [b"x"])
    assert values(consumer.poll()) == [b"x"]
    assert consumer.poll(1) == []
    before = len(logs.fetches())
    consumer.do(lambda: consumer.core.pause([P0], False))
    assert values(consumer.poll()) == [b"b"]
    assert len(logs.fetches()) <= before + 1
    world.pass_time(0)


def test_partitions_take_turns() -> None:
    _, logs, consumer = reading(2, max_partition_fetch_bytes=1)
    for _ in range(4):
        logs.append(P0, [b"a"])
        logs.append(P1, [b"x"])
    consumer.assign(P0, P1)
    order = [values(consumer.poll(limit=1))[0] for _ in range(8)]
    assert order[:2] in ([b"a", b"x"], [b"x", b"a"])
    assert sorted(order[:4]) == [b"a", b"a", b"x", b"x"]


def test_what_did_not_change_is_not_sent_again_in_a_session() -> None:
    world, logs, consumer = reading(2, fetch_max_wait_ms=100)
    logs.append(P0, [b"a"])
    consumer.assign(P0, P1)
    consumer.poll()
    world.pass_time(1)
    first, second, third = logs.fetches()[:3]
    assert (first.session_id, first.session_epoch, len(first.topics[0].partitions)) == (0, 0, 2)
    assert (second.session_epoch, [each.partition for each in second.topics[0].partitions]) == (1, [0])
    assert (third.session_epoch, third.topics) == (2, [])
    consumer.do(lambda: consumer.core.assign([P1]))
    world.pass_time(0.2)
    assert [each.partitions for each in logs.fetches()[-2].forgotten_topics_data or []] == [[0]] or any(
        each.forgotten_topics_data for each in logs.fetches()
    )


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
def test_a_session_that_the_broker_forgot_is_begun_again(code: ErrorCode) -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    logs.session_errors.append(code)
    logs.append(P0, [b"b"])
    assert values(consumer.poll()) == [b"b"]
    assert 0 in [request.session_epoch for request in logs.fetches()[1:]]


def test_without_sessions_every_request_is_whole() -> None:
    _, logs, consumer = reading()
    logs.keeps_sessions = False
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    logs.append(P0, [b"b"])
    assert values(consumer.poll()) == [b"b"]
    assert {request.session_epoch for request in logs.fetches()} == {0}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_passes_is_waited_for_and_the_position_kept(code: ErrorCode) -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, error_code=code, high_watermark=-1)]
    logs.append(P0, [b"b"])
    assert values(consumer.poll()) == [b"b"]


def test_a_leader_that_moved_is_found_by_fresh_metadata() -> None:
    world, logs, consumer = reading()
    other = FakeLogs(world, world.broker(1))
    for each in (logs, other):
        each.append(P0, [b"a"])
    other.append(P0, [b"b"])
    consumer.assign(P0)
    consumer.poll()
    world.topics["orders"] = [1]
    world.leader_epochs["orders", 0] = 1
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, error_code=6, high_watermark=-1)]
    logs.append(P0, [b"never read"])
    assert values(consumer.poll()) == [b"b"]
    assert other.fetches()[0].topics[0].partitions[0].current_leader_epoch == 1


def test_a_broker_that_comes_back_is_read_on_from_the_position() -> None:
    world, logs, consumer = reading()
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    logs.broker.stop()
    assert consumer.poll(2) == []
    logs.append(P0, [b"b"])
    logs.broker.start()
    assert values(consumer.poll()) == [b"b"]
    assert world.now < 1010


def test_a_connection_that_breaks_during_a_fetch_is_made_again() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    consumer.poll()
    answer = logs._fetch
    answers = [CLOSE]
    logs.broker.on(fetch.FetchRequest, lambda request: answers.pop() if answers else answer(request))
    logs.append(P0, [b"b"])
    assert values(consumer.poll()) == [b"b"]


def test_errors_that_only_people_can_mend_are_raised_and_fetching_goes_on() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"a"])
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, error_code=29, high_watermark=-1)]
    consumer.assign(P0)
    with pytest.raises(KafkaError) as raised:
        consumer.poll()
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert values(consumer.poll()) == [b"a"]


# Offsets out of range


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [b"2", b"3", b"4"]), ("by_duration:PT0.003S", [b"4"])])
def test_out_of_range_is_reset_as_the_policy_says(policy: str, expected: list[bytes]) -> None:
    _, logs, consumer = reading(auto_offset_reset=policy)
    logs.append(P0, [b"0", b"1", b"2", b"3", b"4"])
    logs.starts[P0] = 2
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    logs.batches[P0] = []
    logs.ends[P0] = 2
    logs.append(P0, [b"2", b"3", b"4"])
    if "duration" in policy:
        consumer.core.resolver._wall_clock_ms = lambda: NOW_MS + 7
    assert values(consumer.poll()) == expected


def test_partitions_of_a_broker_that_is_gone_do_not_hold_up_the_others() -> None:
    world, logs, consumer = reading()
    dead = world.broker(1)
    world.topics["orders"] = [0, 1]
    dead.stop()
    logs.append(P0, [b"a"])
    consumer.assign(P0, P1)
    began = world.now
    assert values(consumer.poll()) == [b"a"]
    assert world.now - began < 0.5
    other = FakeLogs(world, dead)
    other.append(P1, [b"x"])
    dead.start()
    assert values(consumer.poll(10)) == [b"x"]


def test_latest_begins_behind_what_is_there() -> None:
    _, logs, consumer = reading(auto_offset_reset="latest")
    logs.append(P0, [b"old"])
    consumer.assign(P0)
    assert consumer.poll(1) == []
    logs.append(P0, [b"new"])
    assert values(consumer.poll()) == [b"new"]


def test_without_a_policy_out_of_range_is_raised_until_somebody_seeks() -> None:
    _, logs, consumer = reading(auto_offset_reset="none")
    logs.append(P0, [b"a"])
    consumer.assign(P0)
    with pytest.raises(NoOffsetForPartition):
        consumer.poll()
    consumer.do(lambda: consumer.core.seek(P0, 77))
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="offset 77"):
            consumer.poll()
    consumer.do(lambda: consumer.core.seek(P0, 0))
    assert values(consumer.poll()) == [b"a"]


# Truncation


def diverging(epoch: int, end_offset: int) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=0,
        high_watermark=3,
        diverging_epoch=fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset),
    )


def test_the_epoch_of_what_was_read_is_sent_and_a_truncated_log_is_read_again_from_where_it_parts() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"0", b"1", b"2"], partition_leader_epoch=4)
    consumer.assign(P0)
    assert len(consumer.poll()) == 3
    logs.errors[P0] = [diverging(4, 1)]
    assert values(consumer.poll()) == [b"1", b"2"]  # once more
    assert logs.fetches()[1].topics[0].partitions[0].last_fetched_epoch == 4


def test_without_a_policy_a_truncated_log_is_an_error_that_says_where_the_logs_part() -> None:
    _, logs, consumer = reading(auto_offset_reset="none")
    logs.append(P0, [b"0", b"1", b"2"], partition_leader_epoch=4)
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    consumer.poll()
    logs.errors[P0] = [diverging(4, 1)]
    with pytest.raises(LogTruncationError) as raised:
        consumer.poll()
    assert (raised.value.offset, raised.value.divergent_offset) == (3, 1)


def test_brokers_before_2_7_are_asked_where_an_epoch_ends() -> None:
    world, logs, consumer = reading(auto_offset_reset="none")
    logs.broker.versions[fetch.FetchRequest.KEY] = (4, 11)
    answer = logs._fetch

    def by_name(request: fetch.FetchRequest) -> object:
        from unit.client.reactor.fakes import topic_id

        for topic in request.topics:
            topic.topic_id = topic_id(topic.topic)
        response = answer(request)
        for topic in getattr(response, "responses", []):
            topic.topic = "orders"
        return response

    logs.broker.on(fetch.FetchRequest, by_name)
    logs.append(P0, [b"0", b"1", b"2"], partition_leader_epoch=4)
    logs.epoch_ends[P0] = (4, 3)
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    assert len(consumer.poll()) == 3
    logs.epoch_ends[P0] = (4, 2)
    world.leader_epochs["orders", 0] = 5
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, error_code=74, high_watermark=-1)]
    with pytest.raises(LogTruncationError) as raised:
        consumer.poll()
    assert raised.value.divergent_offset == 2


# Replicas


def test_a_preferred_replica_is_read_until_it_fails() -> None:
    world, logs, consumer = reading(client_rack="here")
    near = FakeLogs(world, world.broker(1))
    for each in (logs, near):
        each.append(P0, [b"a"])
    logs.errors[P0] = [fetch.PartitionData(partition_index=0, high_watermark=1, preferred_read_replica=1, records=None)]
    consumer.assign(P0)
    assert values(consumer.poll()) == [b"a"]
    assert (len(near.fetches()), logs.fetches()[0].rack_id) == (1, "here")
    near.errors[P0] = [fetch.PartitionData(partition_index=0, error_code=1, high_watermark=-1)]
    logs.append(P0, [b"b"])
    assert values(consumer.poll()) == [b"b"]  # from the leader; a follower's word is no reason to reset


# What cannot be read


def test_a_corrupt_batch_is_raised_after_everything_before_it_and_can_be_passed() -> None:
    _, logs, consumer = reading()
    logs.append(P0, [b"0", b"1"])
    logs.append(P0, [b"2", b"3"])
    base, last, data = logs.batches[P0][1]
    logs.batches[P0][1] = (base, last, data[:-1] + bytes([data[-1] ^ 1]))
    logs.append(P0, [b"4"])
    consumer.assign(P0)
    assert values(consumer.poll()) == [b"0", b"1"]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as raised:
            consumer.poll()
    assert (raised.value.topic_partition, raised.value.offset, raised.value.next_offset) == (P0, 2, 4)
    consumer.do(lambda: consumer.core.seek(P0, raised.value.next_offset))
    assert values(consumer.poll()) == [b"4"]


def test_a_record_that_a_deserializer_refuses_is_raised_at_its_offset() -> None:
    _, logs, consumer = reading(value_deserializer="json", key_deserializer="string")
    logs.append(P0, [b"1", b"{", b"3"])
    consumer.assign(P0)
    (first,) = consumer.poll()
    assert (first.key, first.value, first.serialized_value_size) == ("k0", 1, 1)
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="seek") as raised:
            consumer.poll()
    error = raised.value
    assert (error.offset, error.next_offset, error.origin, error.value) == (1, 2, "value", b"{")
    assert consumer.core.positions_to_commit()[P0].offset == 1
    consumer.do(lambda: consumer.core.seek(P0, error.offset + 1))
    assert values(consumer.poll()) == [3]  # type: ignore[comparison-overlap]


def test_bad_records_can_be_skipped_or_handed_to_a_function() -> None:
    seen: list[RecordDeserializationError] = []
    for rule in ("skip", seen.append):
        _, logs, consumer = reading(value_deserializer="json", on_bad_record=rule)
        logs.append(P0, [b"1", b"{", b"3"])
        logs.append(P0, [b"4", b"5"])
        base, last, data = logs.batches[P0][1]
        logs.batches[P0][1] = (base, last, data[:-1] + bytes([data[-1] ^ 1]))
        logs.append(P0, [b"6"])
        consumer.assign(P0)
        assert values(consumer.read(3)) == [1, 3, 6]  # type: ignore[comparison-overlap]
        assert consumer.core.positions_to_commit()[P0].offset == 6
    assert [(error.offset, error.next_offset) for error in seen] == [(1, 2), (3, 5)]


def test_read_committed_hides_what_was_aborted_and_moves_past_it() -> None:
    _, logs, consumer = reading(isolation_level="read_committed")
    transaction = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    logs.append(P0, [b"gone", b"gone"], **transaction)
    marker = build_end_transaction_marker(
        EndTransactionMarker(committed=False, coordinator_epoch=0),
        producer_id=9,
        producer_epoch=0,
        timestamp=NOW_MS,
        base_offset=2,
    )
    logs.append_raw(P0, 1, bytes(marker))
    logs.aborted[P0] = [(9, 0)]
    consumer.assign(P0)
    assert consumer.poll(1) == []
    assert consumer.core.positions_to_commit()[P0].offset == 3
    logs.append(P0, [b"kept"])
    assert values(consumer.poll()) == [b"kept"]
    assert logs.fetches()[0].isolation_level == 1


# Waking and misuse


def test_wakeup_ends_a_poll_and_is_forgotten_then() -> None:
    world, logs, consumer = reading()
    consumer.assign(P0)

    def wake() -> None:
        consumer.core.woken = True
        consumer.core.wake()

    world.later(wake, 0.3)
    with pytest.raises(WakeupError):
        consumer.poll(60)
    assert world.now < 1001
    logs.append(P0, [b"a"])
    assert values(consumer.poll()) == [b"a"]


def test_wrong_uses_are_explained() -> None:
    _, _, consumer = reading()
    with pytest.raises(UserError, match="nothing to poll"):
        consumer.poll(0)
    with pytest.raises(UserError, match=r"subscribe\(\) needs a group"):
        consumer.core.subscribe(["orders"], None)
    consumer.assign(P0)
    with pytest.raises(UserError, match="not assigned"):
        consumer.core.seek(P1, 0)
    with pytest.raises(UserError, match="offsets begin at 0"):
        consumer.core.seek(P0, -1)


def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    world, logs, consumer = reading()
    late = TopicPartition("late", 0)
    consumer.assign(late)
    assert consumer.poll(1) == []
    world.topic("late")
    logs.append(late, [b"a"])
    assert values(consumer.poll(20)) == [b"a"]


def test_memory_is_bounded_by_fetch_max_bytes() -> None:
    world, logs, consumer = reading(2, fetch_max_bytes=100)
    logs.append(P0, [b"x" * 500])
    logs.append(P1, [b"y" * 500])
    consumer.assign(P0)
    world.pass_time(1)
    before = len(logs.fetches())
    consumer.assign(P0, P1)
    world.pass_time(1)
    assert len(logs.fetches()) == before  # 500 bytes wait: they have to be read first
    assert sorted(values(consumer.read(2)))[0][:1] == b"x"

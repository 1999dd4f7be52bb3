"""Fetch: when it is answered and when it waits, limits, sessions, epochs; held against what Apache Kafka does."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ports import FileSlice
from headwater.broker import fetch_sessions
from headwater.broker.deferred import Deferred
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

TOPIC = "orders"
NAMED = 12  # the last version with names


def create(lab: Any, partitions: int = 1, **config: str) -> bytes:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1, configs=configs)
    answer = lab.ask(CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    return bytes(answer.topics[0].topic_id)


def append(lab: Any, partition: int = 0, size: int = 100) -> None:
    records = build_batch([Record(0, lab.clock.now_ms(), None, b"x" * size)])
    lab.broker.partition(TOPIC, partition).append(memoryview(records), lab.clock.now_ms())


def fetch(
    *offsets: int,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    wait_ms: int = 500,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forget: tuple[int, ...] = (),
    topic_id: bytes = bytes(16),
    **partition: int,
) -> FetchRequest:
    """Offset n of partition n."""
    name = "" if any(topic_id) else TOPIC
    parts = [
        FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **partition)
        for n, offset in enumerate(offsets)
    ]
    forgotten = [ForgottenTopic(topic=name, topic_id=topic_id, partitions=list(forget))] if forget else []
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=parts)] if parts else [],
        forgotten_topics_data=forgotten,
    )


def parts_of(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def size_of(part: Any) -> int:
    return len(part.records or b"")


def released(response: Any) -> Any:
    for part in parts_of(response).values():
        if isinstance(part.records, FileSlice):
            part.records.release()
    return response


def is_parked(answer: Any) -> bool:
    return isinstance(answer, Deferred) and not answer.done


# When it is answered


def test_a_fetch_that_cannot_get_more_into_its_answer_does_not_wait_for_the_minimum(lab: Any) -> None:
    """Whole batches rarely add up to the limit: with min_bytes = max_bytes each fetch waited for its whole time."""
    create(lab)
    for _ in range(10):
        append(lab, size=300)
    answer = lab.begin(fetch(0, min_bytes=1000, partition_max_bytes=1000), NAMED)
    assert not is_parked(answer)
    assert 0 < size_of(parts_of(released(answer))[0]) <= 1000


def test_the_end_of_a_segment_is_not_waited_at(make_lab: Any) -> None:
    lab = make_lab()
    create(lab, internal_segment_bytes="1000")
    for _ in range(8):
        append(lab, size=300)
    assert len(lab.broker.partition(TOPIC, 0).log.segments) > 2
    answer = lab.begin(fetch(0, min_bytes=100_000), NAMED)
    assert not is_parked(answer)
    assert 0 < size_of(parts_of(released(answer))[0]) <= 1000


def test_a_fetch_with_all_there_is_below_its_minimum_waits(lab: Any) -> None:
    create(lab)
    append(lab)
    answer = lab.begin(fetch(0, min_bytes=400), NAMED)
    assert is_parked(answer)
    append(lab)
    lab.settle()
    assert is_parked(answer)
    append(lab, size=200)
    lab.settle()
    assert size_of(parts_of(released(answer.response))[0]) > 400


def test_a_fetch_out_of_time_gives_what_is_there(lab: Any) -> None:
    create(lab)
    append(lab)
    answer = lab.begin(fetch(0, min_bytes=400), NAMED)
    lab.clock.advance(500)
    lab.settle()
    assert 0 < size_of(parts_of(released(answer.response))[0]) < 400
    assert not lab.broker.partition(TOPIC, 0).waiters


def test_records_that_are_not_yet_committed_do_not_answer_a_fetch(make_lab: Any) -> None:
    """With flush.messages=1 a record is there for readers when it is on the device."""
    lab = make_lab()
    create(lab, flush_messages="1")
    answer = lab.begin(fetch(0, min_bytes=300), NAMED)
    append(lab, size=300)
    lab.scheduler.run_due()
    assert is_parked(answer)
    lab.settle()
    assert size_of(parts_of(released(answer.response))[0]) > 300


def test_a_small_commit_does_not_answer_a_fetch_that_waits_for_more(make_lab: Any) -> None:
    lab = make_lab()
    create(lab, flush_messages="1")
    answer = lab.begin(fetch(0, min_bytes=300), NAMED)
    append(lab, size=10)
    lab.settle()
    assert is_parked(answer)
    append(lab, size=300)
    lab.settle()
    assert size_of(parts_of(released(answer.response))[0]) > 300


def test_a_parked_fetch_learns_that_its_topic_is_gone(lab: Any) -> None:
    topic_id = create(lab)
    by_name, by_id = lab.begin(fetch(0), NAMED), lab.begin(fetch(0, topic_id=topic_id), 13)
    lab.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC, topic_id=bytes(16))]))
    lab.settle()
    assert parts_of(by_name.response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert parts_of(by_id.response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_made_again_has_another_id(lab: Any) -> None:
    old = create(lab)
    append(lab)
    lab.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC, topic_id=bytes(16))]))
    new = create(lab)
    assert new != old
    assert parts_of(lab.begin(fetch(0, topic_id=old), 13))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    answer = lab.begin(fetch(0, topic_id=new, wait_ms=0), 13)
    assert (parts_of(answer)[0].error_code, parts_of(answer)[0].high_watermark) == (0, 0)


# Limits


def test_the_first_partition_gives_a_whole_batch_however_large_and_the_next_only_what_fits(lab: Any) -> None:
    create(lab, partitions=3)
    for partition in (1, 2):
        append(lab, partition, size=5000)
    parts = parts_of(released(lab.begin(fetch(0, 0, 0, max_bytes=100), NAMED)))
    assert [size_of(parts[n]) > 5000 for n in range(3)] == [False, True, False]


def test_a_limit_of_nothing_still_makes_progress(lab: Any) -> None:
    create(lab)
    append(lab)
    for limits in ({"max_bytes": 0}, {"partition_max_bytes": 0}, {"max_bytes": -1}):
        parts = parts_of(released(lab.begin(fetch(0, **limits), NAMED)))
        assert len(list(read_batches(parts[0].records.read()))) == 1


def test_out_of_range_is_told_at_once_with_nothing_else(lab: Any) -> None:
    create(lab, partitions=2)
    append(lab)
    for offset in (2, -1):
        parts = parts_of(lab.ask(fetch(offset, 0), NAMED))
        assert (parts[0].error_code, parts[0].high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert parts[1].error_code == 0


# Epochs


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epochs(lab: Any, epoch: int, code: ErrorCode) -> None:
    create(lab)
    assert parts_of(lab.ask(fetch(0, wait_ms=0, current_leader_epoch=epoch), NAMED))[0].error_code == code


def test_a_history_that_left_ours_is_told_where_even_past_the_end(lab: Any) -> None:
    create(lab)
    partition = lab.broker.partition(TOPIC, 0)
    append(lab)
    partition.leader_epoch = 3
    append(lab)
    same = parts_of(released(lab.begin(fetch(2, wait_ms=0, last_fetched_epoch=3), NAMED)))[0]
    assert (same.error_code, same.diverging_epoch) == (0, None)
    for offset in (2, 7):
        part = parts_of(lab.begin(fetch(offset, last_fetched_epoch=2), NAMED))[0]
        assert part.error_code == 0
        assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (0, 1)
    unknown = parts_of(lab.begin(fetch(2, last_fetched_epoch=9), NAMED))[0]
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Sessions


def full(lab: Any, *offsets: int) -> Any:
    return released(lab.begin(fetch(*offsets, wait_ms=0, session=(0, 0)), NAMED))


def test_an_incremental_answer_has_only_what_changed(lab: Any) -> None:
    create(lab, partitions=2)
    session_id = full(lab, 0, 0).session_id
    assert session_id != 0
    append(lab, 1)
    answer = released(lab.begin(fetch(wait_ms=0, session=(session_id, 1)), NAMED))
    assert list(parts_of(answer)) == [1]
    answer = lab.begin(fetch(wait_ms=0, session=(session_id, 2), forget=(1,)), NAMED)
    assert parts_of(answer) == {}
    assert answer.session_id == session_id


def test_a_session_without_partitions_is_over(lab: Any) -> None:
    create(lab)
    session_id = full(lab, 0).session_id
    answer = lab.begin(fetch(session=(session_id, 1), forget=(0,)), NAMED)
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(lab.broker.fetch_sessions) == 0
    answer = lab.begin(fetch(0, session=(session_id, 2)), NAMED)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_grows_too_large_is_over_and_the_next_answer_comes_without_one(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lab, partitions=2)
    monkeypatch.setattr(fetch_sessions, "_PARTITIONS_FREE", 1)
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 1)
    session_id = full(lab, 0).session_id
    assert session_id != 0
    answer = lab.begin(fetch(0, 0, wait_ms=0, session=(session_id, 1)), NAMED)
    assert ErrorCode(answer.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(lab.broker.fetch_sessions) == 0
    answer = full(lab, 0, 0)
    assert (answer.error_code, answer.session_id, len(answer.responses[0].partitions)) == (0, 0, 2)


def test_wrong_epochs_and_ids_of_sessions(lab: Any) -> None:
    topic_id = create(lab)
    session_id = full(lab, 0).session_id
    for session, version, code in (
        ((session_id, 5), NAMED, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((session_id + 1, 1), NAMED, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((session_id, 1), 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ):
        named = {} if version == NAMED else {"topic_id": topic_id}
        answer = lab.begin(fetch(0, session=session, **named), version)
        assert (answer.error_code, answer.session_id) == (code, 0)
    assert lab.begin(fetch(wait_ms=0, session=(session_id, 1)), NAMED).error_code == 0


def test_an_error_in_a_session_is_told_as_long_as_it_lasts(lab: Any) -> None:
    create(lab)
    session_id = full(lab, 7).session_id
    for epoch in (1, 2):
        answer = lab.begin(fetch(session=(session_id, epoch)), NAMED)
        assert parts_of(answer)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_that_its_client_never_heard_of_does_not_stay(lab: Any) -> None:
    create(lab)
    answer = lab.begin(fetch(0, session=(0, 0)), NAMED)
    assert is_parked(answer)
    answer.cancel()
    assert len(lab.broker.fetch_sessions) == 0
    assert not lab.broker.partition(TOPIC, 0).waiters


# Failures


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_storage_errors_by_version(lab: Any, version: int, code: ErrorCode) -> None:
    create(lab)
    lab.broker.partitions.clear()
    assert parts_of(lab.ask(fetch(0), version))[0].error_code == code


def test_slices_are_released_when_a_later_partition_breaks(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lab, partitions=2)
    append(lab, 0)
    append(lab, 1)
    log = lab.broker.partition(TOPIC, 0).log
    read = type(log).read

    def breaks(self: Any, *arguments: Any, **named: Any) -> Any:
        if self is not log:
            raise AssertionError("an invariant of ours")
        return read(self, *arguments, **named)

    monkeypatch.setattr(type(log), "read", breaks)
    before = log.active.file._references
    with pytest.raises(AssertionError):
        lab.begin(fetch(0, 0), NAMED)
    assert log.active.file._references == before

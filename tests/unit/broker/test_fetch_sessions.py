"""Fetch sessions: epochs, eviction, and what an incremental fetch reads."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker import fetch_sessions
from headwater.broker.fetch_sessions import FetchSession, FetchSessions, FetchSpec


class Counting:
    def __init__(self) -> None:
        self.next = 1

    def bytes(self, count: int) -> bytes:
        self.next += 2
        return self.next.to_bytes(count)

    def below(self, limit: int) -> int:
        return 0


def spec(partition: int, offset: int = 0) -> FetchSpec:
    return FetchSpec("orders", bytes(16), partition, offset, 1000, -1, -1)


def new(sessions: FetchSessions, now_ms: int = 0) -> FetchSession:
    session = sessions.create(False, now_ms)
    assert session is not None
    return session


def test_each_request_needs_the_next_epoch() -> None:
    sessions = FetchSessions(10, Counting())
    session = new(sessions)
    assert sessions.find(session.session_id, 1, False, 0) is session
    assert sessions.find(session.session_id, 2, False, 0) is session
    with pytest.raises(KafkaError) as caught:
        sessions.find(session.session_id, 2, False, 0)
    assert caught.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_id_and_a_change_between_names_and_ids_are_told_apart() -> None:
    sessions = FetchSessions(10, Counting())
    session = new(sessions)
    with pytest.raises(KafkaError) as caught:
        sessions.find(session.session_id + 1, 1, False, 0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with pytest.raises(KafkaError) as caught:
        sessions.find(session.session_id, 1, True, 0)
    assert caught.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_gives_up_only_sessions_that_rested_two_minutes() -> None:
    sessions = FetchSessions(2, Counting())
    old, young = new(sessions, 0), new(sessions, 100_000)
    assert sessions.create(False, 119_999) is None
    assert sessions.create(False, 120_000) is not None
    with pytest.raises(KafkaError):
        sessions.find(old.session_id, 1, False, 120_000)
    assert sessions.find(young.session_id, 1, False, 120_000) is young


def test_what_sessions_may_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each short fetch of a session looks at all of its partitions, and a thousand sessions of half a million fill any
    memory.
    """
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 2_000)
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX_IN_ALL", 3_000)
    sessions = FetchSessions(10, Counting())
    assert sessions.create(False, 0, 2_001) is None
    first = sessions.create(False, 0, 2_000)
    assert first is not None
    first.update([spec(partition) for partition in range(2_000)], [])
    assert sessions.create(False, 0, 1_001) is None, "all together"
    second = sessions.create(False, 0, 1_000)
    assert second is not None
    second.update([spec(partition) for partition in range(1_000)], [])
    assert sessions.create(False, 0, 500) is not None, "an ordinary consumer always has room"
    assert sessions.has_room(0, known=2_000)
    assert not sessions.has_room(1, known=2_000)
    assert not sessions.has_room(1, known=1_000)
    sessions.close(first.session_id)
    assert sessions.has_room(1_000, known=1_000)


def test_sessions_that_rest_make_room_for_what_others_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large consumer that dies leaves its session behind; without this the next ones would have none, for as long as
    the broker runs.
    """
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 2_000)
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX_IN_ALL", 3_000)
    sessions = FetchSessions(10, Counting())
    left_behind = []
    for began_ms in (0, 1, 2):
        session = sessions.create(False, began_ms, 1_000)
        assert session is not None
        session.update([spec(partition) for partition in range(1_000)], [])
        left_behind.append(session)
    assert sessions.create(False, 119_999, 1_500) is None
    assert len(sessions) == 3
    assert sessions.create(False, 130_000, 2_001) is None
    assert len(sessions) == 3, "what is too large in any case costs nobody anything"
    assert sessions.create(False, 130_000, 1_500) is not None
    assert sessions.find(left_behind[2].session_id, 1, False, 130_000) is left_behind[2], "no more than it takes"


def test_changes_and_forgotten_partitions_make_the_next_read() -> None:
    session = FetchSession(7, False)
    session.update([spec(0), spec(1), spec(2)], [])
    session.update([spec(1, offset=5)], [("orders", 0)])
    assert [(s.partition, s.fetch_offset) for s in session.specs.values()] == [(1, 5), (2, 0)]


def test_a_partition_that_gave_records_goes_to_the_end() -> None:
    session = FetchSession(7, False)
    session.update([spec(0), spec(1), spec(2)], [])
    session.to_the_end(session.specs[("orders", 0)])
    assert [s.partition for s in session.specs.values()] == [1, 2, 0]


def test_the_epoch_after_the_largest_is_one_again() -> None:
    session = FetchSession(7, False)
    session.epoch = 2**31 - 1
    session.advance()
    assert session.epoch == 1


@pytest.mark.parametrize(("leader_epoch", "offset", "told"), [(3, 8, 8), (3, 9, 8), (4, 8, -1), (3, 7, -1)])
def test_a_follower_that_passed_over_an_answer_of_an_earlier_term_is_told_the_high_watermark_again(
    leader_epoch: int, offset: int, told: int
) -> None:
    """Found in a simulated cluster: its high watermark stayed behind until the next record came."""
    session = FetchSession(7, False)
    first = FetchSpec("orders", bytes(16), 0, 8, 1000, 3, 3)
    session.update([first], [])
    first.told_high_watermark = first.told_log_start_offset = 8
    session.update([FetchSpec("orders", bytes(16), 0, offset, 1000, leader_epoch, 3)], [])
    (known,) = session.specs.values()
    assert known.told_high_watermark == known.told_log_start_offset == told

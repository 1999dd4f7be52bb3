"""The consumer's pure parts: subscriptions, sessions, reset policies, settings, arguments."""

import re

import pytest

from headwater.base.errors import ErrorCode, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.arguments import Callbacks, listener_method, offsets_of, partitions_of
from headwater.client.consumer.consumer_settings import consumer_settings
from headwater.client.consumer.fetch_errors import Remedy, remedy_for
from headwater.client.consumer.fetch_session import FetchSession, Wanted
from headwater.client.consumer.membership.port import RebalanceKind
from headwater.client.consumer.positions import EARLIEST, LATEST, OffsetAndMetadata, PartitionState, Phase
from headwater.client.consumer.record import ConsumerRecord, TimestampType
from headwater.client.consumer.resolving import ResetPolicy, parse_duration_ms
from headwater.client.consumer.subscription import Kind, Subscription, SubscriptionPattern

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)


def wanted(offset: int, topic_id: bytes = b"a" * 16) -> Wanted:
    return Wanted(topic_id, offset, 0, -1, 100)


def record(offset: int, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("orders", partition, offset, 0, TimestampType.CREATE_TIME, None, b"", (), 4)


# Sessions


def test_a_session_sends_changes_only() -> None:
    session = FetchSession()
    first = session.plan({P0: wanted(0), P1: wanted(0)})
    assert (first.session_id, first.session_epoch, list(first.send)) == (0, 0, [P0, P1])
    session.answered(0, 17)
    second = session.plan({P0: wanted(5), P1: wanted(0)})
    assert (second.session_id, second.session_epoch, list(second.send), second.forget) == (17, 1, [P0], {})
    session.answered(0, 17)
    third = session.plan({P0: wanted(5)})
    assert (third.session_epoch, third.send, third.forget) == (2, {}, {P1: b"a" * 16})
    session.answered(0, 17)
    assert session.plan({P0: wanted(5), P1: wanted(0)}).send == {P1: wanted(0)}


def test_a_session_has_what_was_asked_before_also_at_another_position() -> None:
    """A broker that has told the ends of a partition does not tell them again, wherever it is asked to go on."""
    session = FetchSession()
    session.plan({P0: wanted(5)})
    assert not session.has(P0)  # the first answer is still to come: it tells everything
    session.answered(0, 17)
    assert session.has(P0)
    assert not session.has(P1)
    session.plan({P0: wanted(9)})
    assert session.has(P0)
    session.answered(0, 17)
    session.plan({P1: wanted(0)})
    assert not session.has(P0)


def test_a_topic_that_was_made_again_is_forgotten_and_sent_anew() -> None:
    session = FetchSession()
    session.plan({P0: wanted(0)})
    session.answered(0, 17)
    plan = session.plan({P0: wanted(0, b"b" * 16)})
    assert (plan.send, plan.forget) == ({P0: wanted(0, b"b" * 16)}, {P0: b"a" * 16})


@pytest.mark.parametrize(
    ("code", "next_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 17),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 17),
    ],
)
def test_after_an_error_the_next_request_is_whole(code: ErrorCode, next_id: int) -> None:
    session = FetchSession()
    session.plan({P0: wanted(0)})
    session.answered(0, 17)
    session.plan({P0: wanted(1)})
    session.answered(code, 0)
    plan = session.plan({P0: wanted(1), P1: wanted(0)})
    assert (plan.session_id, plan.session_epoch, len(plan.send)) == (next_id, 0, 2)


def test_what_each_error_of_a_fetch_asks_for() -> None:
    assert remedy_for(ErrorCode.NOT_LEADER_OR_FOLLOWER) is Remedy.REFRESH
    assert remedy_for(ErrorCode.OFFSET_OUT_OF_RANGE) is Remedy.RESET
    assert remedy_for(ErrorCode.OFFSET_NOT_AVAILABLE) is Remedy.RETRY
    assert remedy_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED) is Remedy.TELL
    assert remedy_for(4711) is Remedy.TELL


# Subscriptions


def test_subscriptions_replace_each_other_and_exclude_assignments() -> None:
    subscription = Subscription()
    subscription.subscribe(["b", "a", "a"], None)
    assert (subscription.kind, subscription.topics) == (Kind.TOPICS, ["a", "b"])
    subscription.subscribe("c", None)
    assert subscription.topics == ["c"]
    with pytest.raises(UserError, match=r"unsubscribe\(\)"):
        subscription.assign([P0])
    subscription.unsubscribe()
    subscription.assign([P0])
    with pytest.raises(UserError, match=r"unsubscribe\(\)"):
        subscription.subscribe(["a"], None)
    with pytest.raises(UserError, match="cannot be assigned"):
        subscription.assign([TopicPartition("orders", -1)])


def test_a_pattern_is_matched_against_the_topics_that_there_are() -> None:
    subscription = Subscription()
    subscription.subscribe(re.compile("^or"), None)
    assert subscription.match(["orders", "other", "orphans"])
    assert subscription.topics == ["orders", "orphans"]
    assert not subscription.match(["orphans", "orders", "more"])
    assert subscription.match(["orders"])
    subscription.subscribe(SubscriptionPattern("or.*"), None)
    assert (subscription.kind, subscription.server_pattern) == (Kind.SERVER_PATTERN, "or.*")


def test_partitions_that_stay_assigned_keep_their_positions() -> None:
    subscription = Subscription()
    subscription.assign([P0, P1])
    subscription.state(P0).seek(7)
    subscription.assign([P0])
    assert subscription.state(P0).position == 7
    with pytest.raises(UserError, match="not assigned"):
        subscription.state(P1)


def test_partitions_of_the_group_are_held_until_the_listener_has_heard_of_them() -> None:
    subscription = Subscription()
    (state,) = subscription.add([P0])
    state.seek(3)
    assert not state.may_fetch(0)
    state.held = False
    assert state.may_fetch(0)
    subscription.remove([P0])
    assert subscription.states == {}


# States


def test_a_state_is_fetched_only_with_a_position() -> None:
    state = PartitionState(P0)
    assert (state.phase, state.may_fetch(0), state.committable()) == (Phase.UNCOMMITTED, False, None)
    state.reset(EARLIEST)
    assert not state.may_fetch(0)
    before = state.version
    state.seek(5, 2)
    assert state.version > before
    assert (state.may_fetch(0), state.fetch_position(), state.committable()) == (
        True,
        (5, 2),
        OffsetAndMetadata(5, "", 2),
    )
    state.retry_at = 10
    assert (state.may_fetch(9.9), state.may_fetch(10)) == (False, True)
    state.stop = 5
    assert not state.may_fetch(10)


def test_the_epoch_of_a_topic_that_was_made_again_is_not_that_of_the_one_before() -> None:
    state = PartitionState(P0)
    state.seek(5, 2)
    state.of_topic(b"a" * 16)
    state.of_topic(b"a" * 16)
    assert state.fetch_position() == (5, 2)
    state.of_topic(b"b" * 16)
    assert state.fetch_position() == (5, -1)


def test_the_lag_is_to_the_end_that_the_reader_may_see() -> None:
    state = PartitionState(P0)
    assert state.lag(False) is None
    state.seek(5)
    assert state.lag(False) is None
    state.high_watermark, state.last_stable_offset = 12, 9
    assert (state.lag(False), state.lag(True)) == (7, 4)


# Policies


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", None),
        ("by_duration:PT1H", 6_400_000),
        ("by_duration:P1D", -76_400_000),
    ],
)
def test_reset_policies(text: str, timestamp: int | None) -> None:
    assert ResetPolicy.parse(text).timestamp(10_000_000) == timestamp


@pytest.mark.parametrize(("text", "expected"), [("PT1H30M", 5_400_000), ("PT0.5S", 500), ("P2DT3H", 183_600_000)])
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "PT1X", "P1DT", "PT-1H"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


# Settings


def test_the_defaults_are_kafkas() -> None:
    known = consumer_settings({}, {})
    assert (known.fetch.min_bytes, known.fetch.max_wait_ms, known.fetch.partition_max_bytes) == (1, 500, 1 << 20)
    assert (known.max_poll_records, known.auto_commit, known.reset.end) == (500, False, LATEST)
    assert consumer_settings({"group.id": "g"}, {}).auto_commit


def test_names_of_earlier_days_are_understood_or_explained() -> None:
    known = consumer_settings(
        {"fetch.message.max.bytes": "77", "auto.offset.reset": "smallest", "metadata.broker.list": "a:1"}, {}
    )
    assert (known.fetch.partition_max_bytes, known.reset.end) == (77, EARLIEST)
    with pytest.raises(UserError, match=r"bootstrap\.servers"):
        consumer_settings({"zookeeper.connect": "localhost:2181"}, {})
    with pytest.raises(UserError, match=r"did you mean 'group\.id'"):
        consumer_settings({"grup.id": "g"}, {})


@pytest.mark.parametrize(
    "given",
    [
        {"enable.auto.commit": "true"},
        {"auto.offset.reset": "sometimes"},
        {"heartbeat.interval.ms": "50000"},
        {"group.protocol": "consumer", "session.timeout.ms": "9000"},
        {"on.bad.record": 5},
        {"value.deserializer": "yaml"},
        {"isolation.level": "serializable"},
    ],
)
def test_settings_that_cannot_be(given: dict[str, object]) -> None:
    with pytest.raises(UserError):
        consumer_settings(given, {})


# Arguments


def test_offsets_may_be_numbers_records_or_whole() -> None:
    assert offsets_of(None) is None
    assert offsets_of({P0: 5}) == {P0: OffsetAndMetadata(5)}
    assert offsets_of({P0: OffsetAndMetadata(5, "m", 2)}) == {P0: OffsetAndMetadata(5, "m", 2)}
    assert offsets_of(record(9)) == {P0: OffsetAndMetadata(10, "", 4)}
    assert offsets_of([record(9), record(3), record(7, 1)]) == {
        P0: OffsetAndMetadata(10, "", 4),
        P1: OffsetAndMetadata(8, "", 4),
    }
    with pytest.raises(UserError):
        offsets_of({P0: -1})


def test_partitions_may_be_given_one_by_one_or_together() -> None:
    assert partitions_of((P0, P1)) == partitions_of(([P0, P1],)) == [P0, P1]
    assert partitions_of(()) == []


def test_a_listener_that_knows_nothing_of_losses_hears_of_a_revocation() -> None:
    heard: list[str] = []
    listener = Callbacks(lambda _: heard.append("assigned"), lambda _: heard.append("revoked"), None)
    for kind in (RebalanceKind.ASSIGNED, RebalanceKind.LOST, RebalanceKind.REVOKED):
        method = listener_method(listener, kind)
        assert method is not None
        method([P0])
    assert heard == ["assigned", "revoked", "revoked"]
    assert listener_method(None, RebalanceKind.LOST) is None


def test_headers_are_found_by_name_the_last_one_first() -> None:
    found = record(0)._replace(headers=(("a", b"1"), ("b", None), ("a", b"2")))
    assert (found.header("a"), found.header("b"), found.header("c")) == (b"2", None, None)

"""Who counts for the high watermark, who joins and who leaves: the arithmetic alone."""

from dataclasses import replace

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, TopicId
from headwater.metadata.image import BrokerState, PartitionState
from headwater.replication.in_sync import INT64_MAX, InSync

ME, A, B, C = (BrokerId(broker) for broker in (1, 2, 3, 4))
LAG_MS = 30_000
ANY_START = -1  # where the logs begin does not matter


def brokers() -> dict[BrokerId, BrokerState]:
    return {broker: BrokerState(broker, [], epoch=10 * broker) for broker in (ME, A, B, C)}


def state(in_sync: tuple[BrokerId, ...] = (ME, A, B), version: int = 5) -> PartitionState:
    return PartitionState(
        ME,
        LeaderEpoch(3),
        [ME, A, B],
        list(in_sync),
        in_sync_epochs=[10 * member for member in in_sync],
        version=version,
    )


def make(in_sync: tuple[BrokerId, ...] = (ME, A, B), known: dict[BrokerId, BrokerState] | None = None) -> InSync:
    return InSync(
        TopicId(bytes(16)), 0, ME, state(in_sync), brokers() if known is None else known,
        epoch_start_offset=50, now_ms=1000,
    )  # fmt: skip


def test_nothing_is_confirmed_before_every_member_has_fetched() -> None:
    replicas = make()
    assert replicas.confirmed == -1
    replicas.fetched(A, 20, 70, 80, 1001)
    assert replicas.confirmed == -1
    replicas.fetched(B, 30, 60, 80, 1001)
    assert replicas.confirmed == 60


def test_who_is_not_in_sync_does_not_hold_the_others_up() -> None:
    replicas = make((ME, A))
    replicas.fetched(B, 30, 0, 80, 1001)
    replicas.fetched(A, 20, 80, 80, 1001)
    assert replicas.confirmed == 80
    assert make((ME,)).confirmed == INT64_MAX


@pytest.mark.parametrize(
    ("offset", "high_watermark", "joins"),
    [
        pytest.param(80, 80, True, id="has all that is committed"),
        pytest.param(79, 80, False, id="one committed record is missing"),
        pytest.param(49, 40, False, id="a record from before this leader's time is missing"),
        pytest.param(50, 40, True, id="has all from before this leader's time"),
    ],
)
def test_who_may_join(offset: int, high_watermark: int, joins: bool) -> None:
    replicas = make((ME, A))
    replicas.fetched(B, 30, offset, 80, 1001)
    change = replicas.proposal(ANY_START, high_watermark, 80, 1001, LAG_MS, B)
    assert (change is not None) is joins
    if change is not None:
        assert (change.in_sync_replicas, change.in_sync_epochs, change.version) == ((ME, A, B), (10, 20, 30), 5)
        assert (change.leader, change.leader_epoch, change.replicas) == (ME, 3, (ME, A, B))


@pytest.mark.parametrize(("start", "joins"), [(19, False), (20, True), (21, True), (-1, False)])
def test_who_begins_before_the_leader_does_not_join(start: int, joins: bool) -> None:
    """Elected, it would show records again that were deleted: seeds 263807196 and 1465970364 of cluster-storage."""
    replicas = make((ME, A))
    replicas.fetched(B, 30, 80, 80, 1001)
    replicas.followers[B].log_start_offset = start
    assert (replicas.proposal(20, 80, 80, 1001, LAG_MS, B) is not None) is joins


@pytest.mark.parametrize(
    ("registered", "in_sync", "expected"),
    [
        pytest.param((ME, A, B), (ME, A), 5, id="all live"),
        pytest.param((ME, A), (ME, A), 10, id="B is away"),
        pytest.param((ME, A), (ME, A, B), 5, id="B is away, and nobody has left it out"),
    ],
)
def test_the_low_watermark_is_that_of_all_who_live_or_may_be_elected(
    registered: tuple[BrokerId, ...], in_sync: tuple[BrokerId, ...], expected: int
) -> None:
    """A member without a session came back and led, with records that had been deleted: seed 548870209 of
    cluster-storage.
    """
    replicas = make(in_sync, {broker: each for broker, each in brokers().items() if broker in registered})
    replicas.followers[A].log_start_offset = 10
    replicas.followers[B].log_start_offset = 5
    assert replicas.low_watermark(20) == expected


@pytest.mark.parametrize("why", ["gone", "stopping", "another life"])
def test_who_may_not_join_though_it_has_everything(why: str) -> None:
    known = brokers()
    replicas = make((ME, A), known)
    replicas.fetched(B, 30, 80, 80, 1001)
    if why == "gone":
        del known[B]
    elif why == "stopping":
        known[B].is_stopping = True
    else:
        known[B].epoch = 31
    assert replicas.proposal(ANY_START, 80, 80, 1001, LAG_MS, B) is None


def test_who_has_not_fetched_does_not_join() -> None:
    known = brokers()
    known[B].epoch = -1
    assert make((ME, A), known).proposal(ANY_START, -1, 80, 1001, LAG_MS, B) is None


def test_a_fetch_of_an_earlier_life_is_refused_and_changes_nothing() -> None:
    known = brokers()
    replicas = make(known=known)
    replicas.fetched(A, 20, 60, 80, 1001)
    known[A].epoch = 25
    with pytest.raises(KafkaError) as raised:
        replicas.fetched(A, 20, 70, 80, 1002)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert replicas.followers[A].log_end_offset == 60
    known[A].epoch = 20  # the news of the new life has not come, but it has fetched
    replicas.fetched(A, 25, 40, 80, 1003)
    with pytest.raises(KafkaError):
        replicas.fetched(A, 20, 70, 80, 1004)
    assert replicas.followers[A].log_end_offset == 40


def test_a_stranger_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        make().fetched(C, 40, 0, 80, 1001)
    assert raised.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_who_was_proposed_counts_until_a_newer_state_tells_otherwise() -> None:
    replicas = make((ME, A))
    replicas.fetched(A, 20, 90, 90, 1001)
    replicas.fetched(B, 30, 80, 90, 1001)
    change = replicas.proposal(ANY_START, 80, 90, 1001, LAG_MS, B)
    assert change is not None
    replicas.proposed(change)
    assert replicas.confirmed == 80
    assert replicas.proposal(ANY_START, 80, 90, 1001, LAG_MS, B) is None, "one at a time"
    replicas.not_accepted(2000)
    assert replicas.confirmed == 80, "it may have been written all the same"
    assert replicas.proposal(ANY_START, 80, 90, 1999, LAG_MS, B) is None
    assert replicas.proposal(ANY_START, 80, 90, 2000, LAG_MS, B) == change
    replicas.state_changed(state((ME, A), version=5))
    assert replicas.confirmed == 80, "that is no news"
    replicas.state_changed(state((ME, A), version=6))
    assert replicas.confirmed == 90


def test_what_became_of_a_proposal_is_found_out_though_who_was_to_join_is_gone() -> None:
    known = brokers()
    replicas = make((ME,), known)
    replicas.fetched(A, 20, 80, 80, 1001)
    change = replicas.proposal(ANY_START, 80, 80, 1001, LAG_MS, A)
    assert change is not None
    replicas.proposed(change)
    del known[A]
    assert replicas.proposal(ANY_START, 80, 90, 1500, LAG_MS) is None, "one at a time"
    replicas.not_accepted(2000)
    assert replicas.proposal(ANY_START, 80, 90, 1999, LAG_MS) is None
    again = replicas.proposal(ANY_START, 80, 90, 2000, LAG_MS)
    assert again == replace(change, in_sync_replicas=(ME,), in_sync_epochs=(10,))
    replicas.proposed(again)
    assert replicas.confirmed == 80, "the first may still have been written"
    assert replicas.proposal(ANY_START, 80, 90, 2001, LAG_MS) is None, "one at a time"
    replicas.state_changed(state((ME,), version=6))
    assert replicas.confirmed == INT64_MAX
    assert replicas.proposal(ANY_START, 80, 90, 9000, LAG_MS) is None, "nothing is left to find out"


def test_who_lags_counts_until_it_is_out() -> None:
    replicas = make()
    replicas.fetched(A, 20, 90, 90, 1001)
    replicas.fetched(B, 30, 80, 90, 1001)
    now_ms = 1001 + LAG_MS
    replicas.fetched(A, 20, 90, 90, now_ms)
    change = replicas.proposal(ANY_START, 80, 90, now_ms, LAG_MS)
    assert change is not None
    assert change.in_sync_replicas == (ME, A)
    replicas.proposed(change)
    assert replicas.confirmed == 80
    replicas.state_changed(state((ME, A), version=6))
    assert replicas.confirmed == 90


def test_whoever_reaches_what_was_the_end_at_its_last_fetch_does_not_lag() -> None:
    """A follower under load is never at the very end, and keeps up all the same."""
    replicas = make((ME, A))
    end = 100
    for now_ms in range(1000, 200_000, 1000):
        replicas.fetched(A, 20, end, end + 10, now_ms)
        end += 10
        assert replicas.proposal(ANY_START, 50, end, now_ms, LAG_MS) is None
    replicas.fetched(A, 20, end - 1, end + 10, 200_000)  # slower from now on
    replicas.fetched(A, 20, end, end + 10, 200_000 + LAG_MS)
    assert replicas.proposal(ANY_START, 50, end + 10, 200_000 + LAG_MS, LAG_MS) is not None


def test_a_quiet_follower_at_the_end_does_not_lag() -> None:
    replicas = make((ME, A))
    replicas.fetched(A, 20, 80, 80, 1001)
    assert replicas.proposal(ANY_START, 80, 80, 10_000_000, LAG_MS) is None


def test_members_get_the_epoch_of_their_new_life() -> None:
    known = brokers()
    replicas = make((ME, A), known)
    known[ME] = replace(known[ME], epoch=11)
    change = replicas.proposal(ANY_START, 0, 80, 1001, LAG_MS)
    assert change is not None
    assert change.in_sync_epochs == (11, 20)
    known[ME] = replace(known[ME], epoch=10)
    known[A] = replace(known[A], epoch=21)
    replicas.fetched(A, 21, 80, 80, 1001)
    assert replicas.is_news(A)
    change = replicas.proposal(ANY_START, 0, 80, 1001, LAG_MS, A)
    assert change is not None
    assert (change.in_sync_replicas, change.in_sync_epochs) == ((ME, A), (10, 21))


@pytest.mark.parametrize(("members", "asked", "enough"), [((ME, A), 2, True), ((ME,), 2, False), ((ME, A, B), 9, True)])
def test_how_many_are_enough(members: tuple[BrokerId, ...], asked: int, enough: bool) -> None:
    """No more can be asked for than there are replicas."""
    assert make(members).is_enough(asked) is enough

"""The decisions of both protocols as tables: what an error means, and what it does to what a member knows."""

import pytest

from headwater.base.errors import ErrorCode, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.range import RangeAssignor
from headwater.client.consumer.assignors.sticky import CooperativeStickyAssignor
from headwater.client.consumer.membership.classic_state import ClassicState
from headwater.client.consumer.membership.consumer_state import ConsumerState
from headwater.client.consumer.membership.factory import membership_for
from headwater.client.consumer.membership.port import RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.consumer.membership.verdicts import Api, Verdict, classic_verdict, consumer_verdict
from headwater.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID_A, ID_B = b"a" * 16, b"b" * 16
E, V = ErrorCode, Verdict

#                                       join                 sync                 heartbeat            commit
CLASSIC = {
    E.NONE: (V.GO_ON, V.GO_ON, V.GO_ON, V.GO_ON),
    E.COORDINATOR_NOT_AVAILABLE: (V.AGAIN, V.AGAIN, V.AGAIN, V.AGAIN),
    E.COORDINATOR_LOAD_IN_PROGRESS: (V.AGAIN, V.AGAIN, V.AGAIN, V.AGAIN),
    E.NOT_COORDINATOR: (V.AGAIN, V.AGAIN, V.AGAIN, V.AGAIN),
    E.NETWORK_EXCEPTION: (V.AGAIN, V.AGAIN, V.AGAIN, V.AGAIN),
    E.REQUEST_TIMED_OUT: (V.AGAIN, V.AGAIN, V.AGAIN, V.AGAIN),
    E.MEMBER_ID_REQUIRED: (V.TAKE_ID, V.TELL, V.TELL, V.GO_ON),
    E.REBALANCE_IN_PROGRESS: (V.AGAIN, V.REJOIN, V.REJOIN, V.REJOIN),
    E.ILLEGAL_GENERATION: (V.LOSE_GENERATION, V.LOSE_GENERATION, V.LOSE_GENERATION, V.LOSE_GENERATION),
    E.UNKNOWN_MEMBER_ID: (V.LOSE_MEMBER, V.LOSE_MEMBER, V.LOSE_MEMBER, V.LOSE_MEMBER),
    E.FENCED_INSTANCE_ID: (V.END, V.END, V.END, V.END),
    E.INVALID_GROUP_ID: (V.END, V.TELL, V.TELL, V.GO_ON),
    E.INVALID_SESSION_TIMEOUT: (V.END, V.TELL, V.TELL, V.GO_ON),
    E.UNSUPPORTED_VERSION: (V.END, V.TELL, V.TELL, V.GO_ON),
    E.INCONSISTENT_GROUP_PROTOCOL: (V.TELL, V.TELL, V.TELL, V.GO_ON),
    E.GROUP_MAX_SIZE_REACHED: (V.TELL, V.TELL, V.TELL, V.GO_ON),
    E.GROUP_AUTHORIZATION_FAILED: (V.TELL, V.TELL, V.TELL, V.GO_ON),
    E.OFFSET_METADATA_TOO_LARGE: (V.TELL, V.TELL, V.TELL, V.GO_ON),
    E.UNSTABLE_OFFSET_COMMIT: (V.AGAIN, V.AGAIN, V.AGAIN, V.GO_ON),
}
CONSUMER = {
    E.NONE: V.GO_ON,
    E.NOT_COORDINATOR: V.AGAIN,
    E.COORDINATOR_NOT_AVAILABLE: V.AGAIN,
    E.COORDINATOR_LOAD_IN_PROGRESS: V.AGAIN,
    E.NETWORK_EXCEPTION: V.AGAIN,
    E.FENCED_MEMBER_EPOCH: V.LOSE_MEMBER,
    E.UNKNOWN_MEMBER_ID: V.LOSE_MEMBER,
    E.GROUP_ID_NOT_FOUND: V.LOSE_MEMBER,
    E.FENCED_INSTANCE_ID: V.END,
    E.UNRELEASED_INSTANCE_ID: V.END,
    E.UNSUPPORTED_ASSIGNOR: V.END,
    E.UNSUPPORTED_VERSION: V.END,
    E.INVALID_REQUEST: V.END,
    E.INVALID_GROUP_ID: V.END,
    E.INVALID_REGULAR_EXPRESSION: V.TELL,
    E.GROUP_MAX_SIZE_REACHED: V.TELL,
    E.GROUP_AUTHORIZATION_FAILED: V.TELL,
    E.TOPIC_AUTHORIZATION_FAILED: V.TELL,
}


@pytest.mark.parametrize(("code", "verdicts"), CLASSIC.items(), ids=[code.name for code in CLASSIC])
def test_what_an_error_means_in_a_classic_group(code: ErrorCode, verdicts: tuple[Verdict, ...]) -> None:
    assert tuple(classic_verdict(api, code) for api in Api) == verdicts


@pytest.mark.parametrize(("code", "verdict"), CONSUMER.items(), ids=[code.name for code in CONSUMER])
def test_what_an_error_means_in_the_consumer_protocol(code: ErrorCode, verdict: Verdict) -> None:
    assert consumer_verdict(code) is verdict


def classic(*owned: TopicPartition, cooperative: bool = False) -> ClassicState:
    state = ClassicState(cooperative, member_id="m")
    state.join_begins(["a", "b"])
    state.assigned(5, owned, ["a", "b"])
    state.acknowledged(RebalanceEvent(RebalanceKind.ASSIGNED, owned))
    return state


#            verdict's code             member  generation  lost   wants to join
STATES = [
    (Api.HEARTBEAT, E.REBALANCE_IN_PROGRESS, "m", 5, False, True),
    (Api.HEARTBEAT, E.ILLEGAL_GENERATION, "m", -1, True, True),
    (Api.HEARTBEAT, E.UNKNOWN_MEMBER_ID, "", -1, True, True),
    (Api.HEARTBEAT, E.FENCED_INSTANCE_ID, "", -1, True, True),
    (Api.HEARTBEAT, E.GROUP_AUTHORIZATION_FAILED, "m", -1, True, True),
    (Api.HEARTBEAT, E.NOT_COORDINATOR, "m", 5, False, False),
    (Api.COMMIT, E.ILLEGAL_GENERATION, "m", -1, True, True),
    (Api.COMMIT, E.GROUP_AUTHORIZATION_FAILED, "m", 5, False, False),
]


@pytest.mark.parametrize(("api", "code", "member_id", "generation", "lost", "rejoins"), STATES)
def test_what_an_error_does_to_a_stable_member(
    api: Api, code: ErrorCode, member_id: str, generation: int, lost: bool, rejoins: bool
) -> None:
    state = classic(A0)
    state.refused(api, code)
    assert (state.member_id, state.generation, state.lost) == (member_id, generation, lost)
    assert (state.rejoin_reason is not None) == rejoins


@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.MEMBER_ID_REQUIRED, E.REBALANCE_IN_PROGRESS])
def test_a_join_that_has_to_be_repeated_is_still_under_way(code: ErrorCode) -> None:
    """No heartbeat of the old generation goes out meanwhile: it would be refused, and what is owned lost."""
    state = classic(A0, cooperative=True)
    state.join_begins(["a"])
    state.refused(Api.JOIN, code)
    assert (state.joining, state.stable, state.lost, state.generation) == (True, False, False, 5)


@pytest.mark.parametrize(
    ("cooperative", "lost", "topics", "given_up"),
    [
        (False, False, ["a", "b"], (RebalanceKind.REVOKED, (A0, B0))),
        (False, True, ["a", "b"], (RebalanceKind.LOST, (A0, B0))),
        (True, False, ["a", "b"], None),
        (True, False, ["a"], (RebalanceKind.REVOKED, (B0,))),
        (True, True, ["a"], (RebalanceKind.LOST, (A0, B0))),
    ],
)
def test_what_is_given_up_before_a_join(cooperative: bool, lost: bool, topics: list[str], given_up) -> None:
    state = classic(A0, B0, cooperative=cooperative)
    if lost:
        state.lose("gone", forget_member=False)
    event = state.to_give_up(topics)
    assert (None if event is None else (event.kind, event.partitions)) == given_up


@pytest.mark.parametrize(
    ("assigned", "revoked", "added", "rejoins"),
    [
        ((A0,), (), (), False),
        ((A0, A1), (), (A1,), False),
        ((A1,), (A0,), (A1,), True),
        ((), (A0,), (), True),
    ],
)
def test_what_an_assignment_means_for_a_cooperative_member(assigned, revoked, added, rejoins: bool) -> None:
    state = classic(A0, cooperative=True)
    state.join_begins(["a"])
    changes = state.assigned(6, assigned, ["a"])
    assert (changes.revoked, changes.added, state.rejoin_reason is not None) == (revoked, added, rejoins)
    assert state.stable


def test_an_assignment_for_a_subscription_that_is_over_brings_nothing_unwanted() -> None:
    state = classic(cooperative=True)
    state.join_begins(["a", "b"])
    changes = state.assigned(6, (A0, B0), ["b"])
    assert changes.added == (B0,)
    assert state.rejoin_reason is not None


def test_topics_of_a_former_subscription_are_not_taken_and_asked_about_once() -> None:
    """A static member that comes back with another subscription gets what it had before, until the group rebalances."""
    state = ClassicState(cooperative=False, member_id="m")
    state.join_begins(["b"])
    assert state.assigned(6, (A0, B0), ["b"]).added == (B0,)
    assert state.rejoin_reason == "the assignment has topics that are not subscribed to"
    state.join_begins(["b"])
    state.assigned(6, (A0, B0), ["b"])  # a follower that says the same again brings about no rebalance
    assert state.rejoin_reason is None
    state.join_begins(["b"])
    state.assigned(7, (A0,), ["b"])
    assert state.rejoin_reason is not None


def test_what_a_member_says_of_itself() -> None:
    state = classic(A0, cooperative=True)
    said = state.subscription(CooperativeStickyAssignor(), ["b", "a"], "rack")
    assert (said.topics, said.owned, said.generation, said.rack_id) == (("a", "b"), (A0,), 5, "rack")
    eager = classic(A0)
    assert eager.subscription(RangeAssignor(), ["a"], None).owned == ()


@pytest.mark.parametrize("lost", [False, True])
def test_the_last_event(lost: bool) -> None:
    state = classic(A0)
    if lost:
        state.lose("gone", forget_member=True)
    assert state.at_the_end() == RebalanceEvent(RebalanceKind.LOST if lost else RebalanceKind.REVOKED, (A0,))
    assert ClassicState(False).at_the_end() is None


# The consumer protocol


def answer(epoch: int, assignment: dict[bytes, list[int]] | None = None) -> ConsumerGroupHeartbeatResponse:
    topics = [TopicPartitions(topic_id=each, partitions=indexes) for each, indexes in (assignment or {}).items()]
    return ConsumerGroupHeartbeatResponse(
        member_epoch=epoch,
        heartbeat_interval_ms=1000,
        assignment=None if assignment is None else Assignment(topic_partitions=topics),
    )


def consumer(**assignment: list[int]) -> ConsumerState:
    state = ConsumerState("m")
    state.heartbeat(MembershipSettings("g"), ["a"], None)
    ids = {"a": ID_A, "b": ID_B}
    state.answered(answer(3, {ids[name]: indexes for name, indexes in assignment.items()}))
    changes = state.changes({ID_A: "a", ID_B: "b"})
    state.reconciled = True
    state.acknowledged(RebalanceEvent(RebalanceKind.ASSIGNED, changes.added))
    return state


def test_changes_lead_from_what_is_owned_to_what_is_wanted() -> None:
    state = consumer(a=[0])
    state.answered(answer(4, {ID_A: [1], ID_B: [0]}))
    assert not state.reconciled
    assert state.changes({ID_A: "a", ID_B: "b"}) == ((A0,), (A1, B0))
    assert state.changes({ID_A: "a"}) == ((A0,), (A1,))  # a topic without a name waits


def test_an_answer_without_assignment_changes_the_epoch_only() -> None:
    state = consumer(a=[0])
    state.answered(answer(9))
    assert (state.epoch, state.reconciled, set(state.owned)) == (9, True, {A0})


def test_a_heartbeat_tells_what_changed_since_the_last() -> None:
    state = consumer(a=[0])
    settings = MembershipSettings("g", group_instance_id="i")
    first = state.heartbeat(settings, ["a"], None)
    assert [(each.topic_id, each.partitions) for each in first.topic_partitions or []] == [(ID_A, [0])]
    second = state.heartbeat(settings, ["a"], None)
    assert (second.topic_partitions, second.subscribed_topic_names, second.subscribed_topic_regex) == (None, None, None)
    assert second.instance_id == "i"
    third = state.heartbeat(settings, [], "x.*")
    assert (third.subscribed_topic_names, third.subscribed_topic_regex) == ([], "x.*")
    state.unanswered()
    fourth = state.heartbeat(settings, ["a"], None)
    assert (fourth.subscribed_topic_names, fourth.subscribed_topic_regex) == (["a"], "")
    assert fourth.topic_partitions


def test_a_lost_member_owns_until_it_has_given_up_and_joins_with_nothing() -> None:
    state = consumer(a=[0])
    state.refused(E.FENCED_MEMBER_EPOCH, None)
    event = state.lost_event()
    assert event == RebalanceEvent(RebalanceKind.LOST, (A0,))
    assert event is not None
    state.acknowledged(event)
    state.rejoin()
    again = state.heartbeat(MembershipSettings("g"), ["a"], None)
    assert (again.member_id, again.member_epoch, again.topic_partitions) == ("m", 0, [])


def test_there_are_two_protocols() -> None:
    with pytest.raises(UserError, match="streams"):
        membership_for("streams", None, MembershipSettings("g"))  # type: ignore[arg-type]

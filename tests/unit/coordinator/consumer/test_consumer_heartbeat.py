"""ConsumerGroupHeartbeat: join, stay, be assigned, give up, leave; what is refused and with which code."""

import pytest

from headwater.base.errors import ErrorCode
from unit.coordinator.consumer.consumer_group_support import Shard, assigned, durable, names, topic_id


@pytest.fixture
def shard() -> Shard:
    return Shard({"t": 4, "u": 2})


def test_the_first_member_gets_everything_at_once(shard: Shard) -> None:
    response = shard.beat("a")
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert response.heartbeat_interval_ms == 5_000
    assert assigned(response) == [0, 1, 2, 3]
    assert shard.group().state_name == "Stable"


def test_in_version_0_the_coordinator_makes_the_member_id(shard: Shard) -> None:
    response = shard.beat("", version=0)
    assert response.member_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert shard.beat(response.member_id, response.member_epoch, version=0).error_code == 0


def test_a_heartbeat_without_news_has_no_assignment_and_writes_nothing(shard: Shard) -> None:
    shard.beat("a")
    response = shard.beat("a", 2)
    assert (response.error_code, response.member_epoch, response.assignment) == (0, 2, None)
    assert shard.last_records == []


def test_a_full_heartbeat_hears_its_assignment_again(shard: Shard) -> None:
    shard.beat("a")
    response = shard.beat("a", 2, topics=["t"], owned=[], rebalance_timeout_ms=60_000)
    assert assigned(response) == [0, 1, 2, 3]


def test_a_second_member_waits_until_the_first_has_given_up(shard: Shard) -> None:
    shard.beat("a")
    joined = shard.beat("b")
    assert (joined.member_epoch, assigned(joined)) == (3, [])
    told = shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    assert (told.member_epoch, assigned(told)) == (2, [0, 1])  # the epoch waits for the revocation
    assert shard.beat("b", 3).assignment is None
    assert shard.group().state_name == "Reconciling"
    given_up = shard.beat("a", 2, owned=names([0, 1]))
    assert (given_up.member_epoch, given_up.assignment) == (3, None)
    got = shard.beat("b", 3)
    assert (got.member_epoch, assigned(got)) == (3, [2, 3])
    assert shard.group().state_name == "Stable"


def test_a_member_that_does_not_say_what_it_owns_still_owns_it(shard: Shard) -> None:
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    assert shard.beat("a", 2).member_epoch == 2
    assert shard.beat("b", 3).assignment is None


def test_who_gives_nothing_up_in_time_is_put_out(shard: Shard) -> None:
    shard.beat("a", rebalance_timeout_ms=10_000)
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    shard.advance(9_999)
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))  # it lives, but that does not help it
    shard.advance(1)
    assert shard.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert assigned(shard.beat("b", 3)) == [0, 1, 2, 3]


def test_the_time_to_give_up_ends_with_the_revocation(shard: Shard) -> None:
    shard.beat("a", rebalance_timeout_ms=10_000)
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    shard.beat("a", 2, owned=names([0, 1]))
    shard.advance(10_000)
    assert shard.beat("a", 3).error_code == 0


def test_who_is_not_heard_of_is_put_out(shard: Shard) -> None:
    shard.beat("a")
    shard.advance(44_999)
    shard.beat("b")
    shard.advance(1)
    assert sorted(shard.group().members) == ["b"]
    assert assigned(shard.beat("b", 3)) == [0, 1, 2, 3]


def test_leaving_frees_everything_and_the_last_leaves_an_empty_group(shard: Shard) -> None:
    shard.beat("a")
    response = shard.beat("a", -1)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", -1)
    assert shard.group().state_name == "Empty"
    assert shard.group().owners == {}
    assert shard.timers == {}


def test_a_lost_answer_is_told_again_to_a_member_with_its_previous_epoch(shard: Shard) -> None:
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    shard.beat("a", 2, owned=names([0, 1]))  # a is in epoch 3 now; the answer is lost
    assert shard.beat("a", 2, owned=names([0, 1])).member_epoch == 3


REFUSED = {
    "an epoch from the future": ({"epoch": 9}, ErrorCode.FENCED_MEMBER_EPOCH),
    "an old epoch": ({"epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
    "an unknown member": ({"member_id": "x", "epoch": 2}, ErrorCode.UNKNOWN_MEMBER_ID),
    "an unknown member that leaves": ({"member_id": "x", "epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    "an unknown instance": ({"epoch": 2, "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "an unknown group": ({"epoch": 2, "group": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
    "an unknown group to leave": ({"epoch": -1, "group": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
    "no member id": ({"member_id": "", "epoch": 0}, ErrorCode.INVALID_REQUEST),
    "no member id in version 0, later": ({"member_id": "", "epoch": 2, "version": 0}, ErrorCode.INVALID_REQUEST),
    "no group id": ({"group": ""}, ErrorCode.INVALID_REQUEST),
    "an empty instance id": ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
    "an empty rack id": ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    "a join without a timeout": ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
    "a join that owns something": ({"owned": [("t", 0)]}, ErrorCode.INVALID_REQUEST),
    "a join without a subscription": ({"subscribed_topic_regex": None}, ErrorCode.INVALID_REQUEST),
    "a dynamic member that leaves for a while": ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
    "a negative epoch": ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
    "an unknown assignor": ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    "a broken expression": ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    "a lookahead, which is not RE2": ({"subscribed_topic_regex": "a(?=b)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
}


@pytest.mark.parametrize(("fields", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(shard: Shard, fields: dict, code: ErrorCode) -> None:
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    shard.beat("a", 2, owned=names([0, 1]))
    before = durable(shard)
    response = shard.beat(**({"member_id": "a"} | fields))
    assert response.error_code == code
    assert response.error_message
    assert shard.last_records == []
    assert durable(shard) == before


def test_refused_a_new_group_does_not_come_to_be(shard: Shard) -> None:
    assert shard.beat("a", subscribed_topic_regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert shard.state.groups == {}


def test_a_group_has_no_more_members_than_it_may_have() -> None:
    shard = Shard({"t": 4}, consumer_group_size_max=1)
    shard.beat("a")
    assert shard.beat("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.beat("a").error_code == 0  # one that is in may join again


def test_without_the_consumer_protocol_the_version_is_not_supported() -> None:
    shard = Shard({"t": 4}, rebalance_protocols=("classic",))
    assert shard.beat("a").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_member_that_joins_again_hears_what_it_has(shard: Shard) -> None:
    shard.beat("a")
    response = shard.beat("a")
    assert (response.member_epoch, assigned(response)) == (2, [0, 1, 2, 3])


def test_topics_given_up_by_subscription_are_revoked_before_a_new_target() -> None:
    shard = Shard({"t": 2, "u": 2}, consumer_assignment_interval_ms=1_000)
    shard.beat("a", topics=["t", "u"])
    response = shard.beat("a", 2, topics=["t"], owned=[*names([0, 1]), *names([0, 1], "u")])
    assert (assigned(response), assigned(response, "u")) == ([0, 1], [])
    assert set(shard.group().members["a"].pending_revocation) == {(topic_id("u"), 0), (topic_id("u"), 1)}


def test_assignments_are_not_computed_more_often_than_the_interval_says() -> None:
    shard = Shard({"t": 2}, consumer_assignment_interval_ms=1_000)
    shard.beat("a")
    response = shard.beat("b")
    assert (response.member_epoch, assigned(response)) == (2, [])
    assert shard.group().state_name == "Assigning"
    shard.advance(1_000)
    shard.beat("a", 2, owned=names([0, 1]))
    shard.beat("a", 2, owned=names([0]))
    assert assigned(shard.beat("b", 2)) == [1]


def test_a_member_that_waits_for_an_assignment_is_to_come_again_when_it_may_be_computed() -> None:
    """It came five seconds later, after a whole heartbeat interval, to hear of what it had subscribed to."""
    shard = Shard({"t": 2, "u": 2}, consumer_assignment_interval_ms=1_000)
    shard.beat("a")
    shard.advance(300)
    response = shard.beat("b")
    assert assigned(response) == []
    assert 700 <= response.heartbeat_interval_ms <= 750
    shard.advance(response.heartbeat_interval_ms)
    response = shard.beat("b", 2)
    assert shard.group().assignment_epoch == shard.group().group_epoch
    assert response.heartbeat_interval_ms == 5_000
    shard.beat("a", 2, owned=names([0, 1]))
    shard.beat("a", 2, owned=names([0]))
    assert assigned(shard.beat("b", 3)) == [1]


def test_a_member_that_is_alone_gets_what_it_subscribes_to_at_once() -> None:
    shard = Shard({"t": 2, "u": 2}, consumer_assignment_interval_ms=1_000)
    shard.beat("a")
    response = shard.beat("a", 2, topics=["t", "u"], owned=names([0, 1]))
    assert (assigned(response), assigned(response, "u")) == ([0, 1], [0, 1])
    assert response.heartbeat_interval_ms == 5_000


def test_a_group_may_have_a_session_and_a_heartbeat_interval_of_its_own() -> None:
    shard = Shard({"t": 2})
    shard.state.config_of = lambda group: (
        {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"} if group == "g" else {}
    )
    assert shard.beat("a").heartbeat_interval_ms == 7_000
    assert shard.beat("a", group="other").heartbeat_interval_ms == 5_000
    session = {key[2]: due_ms - shard.now_ms for key, due_ms in shard.timers.items() if key[1] == "session"}
    assert session == {"g": 50_000, "other": 45_000}


def test_new_partitions_and_topics_are_assigned_at_the_next_heartbeat(shard: Shard) -> None:
    shard.beat("a", topics=["t", "later"])
    shard.change_topics(t=5, later=1, other=9)
    response = shard.beat("a", 2)
    assert (response.member_epoch, assigned(response), assigned(response, "later")) == (3, [0, 1, 2, 3, 4], [0])


def test_other_topics_change_nothing(shard: Shard) -> None:
    shard.beat("a")
    shard.change_topics(t=4, u=2, other=9)
    assert shard.beat("a", 2).assignment is None
    assert shard.last_records == []


def test_a_deleted_topic_is_taken_away(shard: Shard) -> None:
    shard.beat("a", topics=["t", "u"])
    shard.change_topics(t=4)
    response = shard.beat("a", 2, owned=[*names([0, 1, 2, 3]), *names([0, 1], "u")])
    assert (assigned(response), assigned(response, "u")) == ([0, 1, 2, 3], [])


def test_most_votes_choose_the_assignor(shard: Shard) -> None:
    shard.beat("a", server_assignor="range")
    described = shard.consumer.consumer_group_describe("g")
    assert described.assignor_name == "range"
    shard.beat("b", server_assignor="uniform")
    shard.beat("c", server_assignor="uniform")
    assert shard.consumer.consumer_group_describe("g").assignor_name == "uniform"


def test_described(shard: Shard) -> None:
    shard.beat("a", topics=["t", "gone"], rack_id="r")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    described = shard.consumer.consumer_group_describe("g")
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    first = next(member for member in described.members if member.member_id == "a")
    assert (first.member_epoch, first.rack_id, first.client_id, first.client_host) == (2, "r", "client", "/127.0.0.1")
    assert first.subscribed_topic_names == ["gone", "t"]
    assert first.member_type == 1
    assert [topic.partitions for topic in first.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert [topic.partitions for topic in first.target_assignment.topic_partitions] == [[0, 1]]
    assert first.assignment.topic_partitions[0].topic_name == "t"


def test_described_when_there_is_no_such_group(shard: Shard) -> None:
    assert shard.consumer.consumer_group_describe("x").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_reloaded_coordinator_goes_on_where_the_old_one_was(shard: Shard) -> None:
    shard.beat("a", rebalance_timeout_ms=10_000)
    shard.beat("b", topics=["t"], instance_id="i", subscribed_topic_regex="u.*")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    other = shard.reloaded()
    assert durable(other) == durable(shard)
    other.advance(10_000)  # the time to give up runs again
    assert sorted(other.group().members) == ["b"]


@pytest.mark.parametrize("other", [["t"], ["t", "u"]], ids=["alike", "different subscriptions"])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_that_the_coordinator_before_knew_and_this_one_does_not_yet(assignor: str, other: list[str]) -> None:
    """A broker that takes over may be behind with the topics; no member could join until it was not."""
    shard = Shard({"t": 6, "u": 2})
    shard.beat("a", server_assignor=assignor)
    shard.change_topics(t=4, u=2)
    joined = shard.beat("b", server_assignor=assignor, topics=other)
    assert joined.error_code == 0
    target = shard.group().target
    assert sorted(partition for topic, partition in target["a"] | target["b"] if topic == topic_id("t")) == [0, 1, 2, 3]
    shard.change_topics(t=6, u=2)
    shard.beat("b", joined.member_epoch)
    target = shard.group().target
    assert len([topic for topic, _ in target["a"] | target["b"] if topic == topic_id("t")]) == 6

"""The client's assignors by example, the bytes that members exchange, and the setting that names assignors."""

import pytest

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headwater.client.consumer.assignors.named import assignors_for, is_cooperative
from headwater.client.consumer.assignors.range import RangeAssignor
from headwater.client.consumer.assignors.round_robin import RoundRobinAssignor
from headwater.client.consumer.assignors.spec import Assignor, MemberSubscription
from headwater.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor


def run(assignor: Assignor, counts: dict[str, int], members: dict[str, MemberSubscription]) -> dict[str, str]:
    return {id_: " ".join(map(str, sorted(each))) for id_, each in sorted(assignor.assign(counts, members).items())}


def subscribe(*topics: str, instance: str | None = None) -> MemberSubscription:
    return MemberSubscription(topics, group_instance_id=instance)


def had(assignor: Assignor, generation: int, *partitions: TopicPartition) -> MemberSubscription:
    return MemberSubscription(("a",), partitions, generation, None, assignor.user_data(("a",), partitions, generation))


def a(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("a", index) for index in indexes]


def test_range_gives_runs_of_each_topic() -> None:
    members = {"m1": subscribe("a", "b"), "m2": subscribe("a", "b")}
    assert run(RangeAssignor(), {"a": 3, "b": 2}, members) == {"m1": "a-0 a-1 b-0", "m2": "a-2 b-1"}


def test_range_gives_only_to_those_who_subscribe() -> None:
    members = {"m1": subscribe("a"), "m2": subscribe("a", "b"), "m3": subscribe("missing")}
    assert run(RangeAssignor(), {"a": 2, "b": 2}, members) == {"m1": "a-0", "m2": "a-1 b-0 b-1", "m3": ""}


def test_static_members_keep_their_place_whatever_their_ids() -> None:
    for first, second in (("x", "y"), ("y", "x")):
        members = {first: subscribe("a", instance="i1"), second: subscribe("a", instance="i2")}
        assert run(RangeAssignor(), {"a": 2}, members) == dict(sorted({first: "a-0", second: "a-1"}.items()))


def test_round_robin_deals_out_in_turn() -> None:
    members = {"m1": subscribe("a", "b"), "m2": subscribe("a", "b")}
    assert run(RoundRobinAssignor(), {"a": 3, "b": 3}, members) == {"m1": "a-0 a-2 b-1", "m2": "a-1 b-0 b-2"}


def test_round_robin_passes_over_those_who_do_not_subscribe() -> None:
    members = {"m1": subscribe("a"), "m2": subscribe("a", "b"), "m3": subscribe("a", "b", "c")}
    assert run(RoundRobinAssignor(), {"a": 1, "b": 2, "c": 3}, members) == {
        "m1": "a-0",
        "m2": "b-0",
        "m3": "b-1 c-0 c-1 c-2",
    }


def test_sticky_moves_no_more_than_it_must() -> None:
    sticky = StickyAssignor()
    members = {"m1": had(sticky, 1, *a(0, 1, 2, 3)), "m2": subscribe("a")}
    assert run(sticky, {"a": 4}, members) == {"m1": "a-0 a-1", "m2": "a-2 a-3"}


def test_sticky_reads_the_oldest_form_of_what_members_had() -> None:
    """It has no generation."""
    data = bytes.fromhex("00000001 0001 61 00000002 00000000 00000003")
    members = {"m1": subscribe("a"), "m2": MemberSubscription(("a",), user_data=data)}
    assert run(StickyAssignor(), {"a": 4}, members) == {"m1": "a-1 a-2", "m2": "a-0 a-3"}


def test_two_claims_of_one_generation_are_believed_to_neither() -> None:
    """Whoever is second in line would keep the other's records otherwise; both say the same, so it counts as open."""
    sticky = StickyAssignor()
    members = {
        "m1": had(sticky, 3, *a(2, 0)),
        "m2": had(sticky, 3, *a(2, 1)),
        "m3": had(sticky, 3),
    }
    assert run(sticky, {"a": 3}, members) == {"m1": "a-0", "m2": "a-1", "m3": "a-2"}


def test_cooperative_sticky_takes_two_rounds_to_move_a_partition() -> None:
    cooperative = CooperativeStickyAssignor()
    members = {"m1": had(cooperative, 1, *a(0, 1)), "m2": subscribe("a")}
    first = run(cooperative, {"a": 2}, members)
    assert first == {"m1": "a-0", "m2": ""}
    members = {"m1": had(cooperative, 2, *a(0)), "m2": had(cooperative, 2)}
    assert run(cooperative, {"a": 2}, members) == {"m1": "a-0", "m2": "a-1"}


@pytest.mark.parametrize(
    "user_data",
    [
        (7).to_bytes(4, "big"),
        bytes.fromhex("00000001 0001 61 00000001 00000000 00000007"),  # librdkafka before 2.0
    ],
)
def test_the_generation_of_a_cooperative_member_may_be_in_its_user_data(user_data: bytes) -> None:
    cooperative = CooperativeStickyAssignor()
    late = MemberSubscription(("a",), tuple(a(0)), -1, None, user_data)
    stale = had(cooperative, 6, *a(0))
    assert run(cooperative, {"a": 2}, {"m1": stale, "m2": late})["m2"] == "a-0"


# Bytes, as Kafka's own client writes them

FULL = MemberSubscription(("a", "b"), tuple(a(0, 2)), 5, "r", b"\1\2")
FULL_BYTES = bytes.fromhex(
    "0003 00000002 0001 61 0001 62 00000002 0102 00000001 0001 61 00000002 00000000 00000002 00000005 0001 72"
)
EMPTY_BYTES = bytes.fromhex("0003 00000000 ffffffff 00000000 ffffffff ffff")


def test_the_bytes_of_a_subscription() -> None:
    assert encode_subscription(FULL) == FULL_BYTES
    assert encode_subscription(MemberSubscription(())) == EMPTY_BYTES


@pytest.mark.parametrize(
    ("version", "end", "owned", "generation", "rack"),
    [(0, 18, (), -1, None), (1, 37, tuple(a(0, 2)), -1, None), (2, 41, tuple(a(0, 2)), 5, None)],
)
def test_older_subscriptions_say_less(version: int, end: int, owned, generation: int, rack: str | None) -> None:
    found = decode_subscription(version.to_bytes(2, "big") + FULL_BYTES[2:end], "i")
    assert found == MemberSubscription(("a", "b"), owned, generation, rack, b"\1\2", "i")


def test_a_newer_subscription_says_more_than_is_read() -> None:
    assert decode_subscription(b"\0\7" + FULL_BYTES[2:] + b"more") == FULL


@pytest.mark.parametrize("end", range(2, len(FULL_BYTES)))
def test_a_subscription_that_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(KafkaError):
        decode_subscription(FULL_BYTES[:end])


@pytest.mark.parametrize(
    "data", ["0000 7fffffff", "8000 00000000", "0000 00000001 ffff", "0000 00000001 0001 ff ffffffff"]
)
def test_a_subscription_that_lies_is_refused(data: str) -> None:
    with pytest.raises(KafkaError):
        decode_subscription(bytes.fromhex(data))


def test_the_bytes_of_an_assignment() -> None:
    data = bytes.fromhex("0003 00000001 0001 61 00000002 00000000 00000001 ffffffff")
    assert encode_assignment(a(0, 1)) == data
    assert decode_assignment(data) == tuple(a(0, 1))
    assert decode_assignment(b"") == ()
    with pytest.raises(KafkaError):
        decode_assignment(data[:-9])


def test_the_user_data_of_the_sticky_assignors() -> None:
    assert StickyAssignor().user_data((), a(3), 9) == bytes.fromhex("00000001 0001 61 00000001 00000003 00000009")
    assert StickyAssignor().user_data((), (), -1) is None
    assert CooperativeStickyAssignor().user_data((), a(3), 9) == bytes.fromhex("00000009")


# The setting


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("range", ["range"]),
        ("range, cooperative-sticky", ["range", "cooperative-sticky"]),
        (["sticky", "roundrobin"], ["sticky", "roundrobin"]),
        ("org.apache.kafka.clients.consumer.StickyAssignor", ["sticky"]),
        ([CooperativeStickyAssignor], ["cooperative-sticky"]),
        (RangeAssignor(), ["range"]),
    ],
)
def test_assignors_are_named_in_many_ways(given: object, names: list[str]) -> None:
    assert [each.name for each in assignors_for(given)] == names


@pytest.mark.parametrize("given", ["", "ranges", ["range", "range"], [object()], []])
def test_what_is_no_assignor_is_refused(given: object) -> None:
    with pytest.raises(UserError):
        assignors_for(given)


def test_a_group_is_cooperative_if_every_assignor_is() -> None:
    assert is_cooperative(assignors_for("cooperative-sticky"))
    assert not is_cooperative(assignors_for("cooperative-sticky,range"))

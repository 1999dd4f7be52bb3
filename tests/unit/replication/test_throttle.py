"""Replicas that are copied at a limited rate: the budget, whom it covers,
and what a leader and a follower make of it.
"""

import pytest

from headwater.base.ids import BrokerId, PartitionKey
from headwater.broker.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, is_named
from headwater.metadata.image import BrokerConfigured, TopicConfigured
from headwater.replication.throttle import UNLIMITED, Budget, Throttle
from headwater.sim.clock import SimClock
from unit.replication.cluster_lab import KEY, TOPIC, TOPIC_ID, ClusterLab

RATE = 10_000


def test_a_budget_grows_with_time_up_to_one_second() -> None:
    budget = Budget()
    assert budget.left_bytes(RATE, 5000) == RATE
    budget.take(RATE, RATE, 5000)
    assert budget.left_bytes(RATE, 5000) == 0
    assert budget.left_bytes(RATE, 5250) == 2500
    assert budget.left_bytes(RATE, 99_000) == RATE


def test_what_was_taken_too_much_is_made_up_for() -> None:
    budget = Budget()
    budget.take(3 * RATE, RATE, 0)
    assert budget.left_bytes(RATE, 1000) == -RATE
    assert budget.left_bytes(RATE, 2500) == RATE / 2


def test_a_lower_rate_counts_at_once() -> None:
    budget = Budget()
    assert budget.left_bytes(RATE, 0) == RATE
    assert budget.left_bytes(10, 0) == 10


def throttle(rate: int, clock: SimClock) -> Throttle:
    return Throttle(clock, lambda: rate, lambda key: key.partition == 0)


def test_whoever_used_it_up_rests_until_there_is_something_again() -> None:
    clock = SimClock()
    limited = throttle(RATE, clock)
    assert limited.rest_ms(KEY) == 0
    limited.took(KEY, RATE + 5000)
    assert limited.rest_ms(KEY) == 501
    clock.advance(500)
    assert limited.rest_ms(KEY) == 1
    clock.advance(1)
    assert limited.rest_ms(KEY) == 0


def test_a_long_rest_is_looked_at_again() -> None:
    limited = throttle(10, SimClock())
    limited.took(KEY, 1_000_000)
    assert limited.rest_ms(KEY) == 1000
    assert throttle(0, SimClock()).rest_ms(KEY) == 1000


@pytest.mark.parametrize(("rate", "partition"), [(UNLIMITED, 0), (RATE, 1)])
def test_without_a_limit_or_for_others_nothing_is_counted(rate: int, partition: int) -> None:
    free = throttle(rate, SimClock())
    free.took(PartitionKey(TOPIC_ID, partition), 1 << 40)
    assert free.rest_ms(PartitionKey(TOPIC_ID, partition)) == 0


def test_whom_the_configs_name() -> None:
    assert is_named("*", 3, 7)
    assert is_named("0:1, 0:2", 0, 2)
    assert not is_named("0:1,0:2", 0, 12)
    assert not is_named("0:1,0:2", 2, 0)


# A cluster: the partition moves from 1 to 2

VALUE = bytes(5000)
COUNT = 20  # some 100 KB, in fetches of about 10 KB


def moving(rate_of: str = "", replicas: str = "", named: str = "") -> ClusterLab:
    lab = ClusterLab(2, replica_fetch_max_bytes="10500", replica_fetch_response_max_bytes="10500")
    lab.create(TOPIC, TOPIC_ID, (1,))
    for _ in range(COUNT):
        lab.produce(1, VALUE, acks=1)
    if rate_of:
        lab.spread([BrokerConfigured("", {rate_of: str(RATE)}), TopicConfigured(TOPIC_ID, {replicas: named})])
    lab.change(replicas=(BrokerId(1), BrokerId(2)), adding=(BrokerId(2),))
    return lab


def copied(lab: ClusterLab) -> int:
    return lab.replica(2).log.log_end_offset


def test_without_a_throttle_it_takes_no_time() -> None:
    lab = moving()
    lab.run()
    assert copied(lab) == COUNT


SIDES = [(FOLLOWER_RATE, FOLLOWER_REPLICAS, "0:2"), (LEADER_RATE, LEADER_REPLICAS, "0:1"), (LEADER_RATE, LEADER_REPLICAS, "*")]  # fmt: skip


@pytest.mark.parametrize(("rate", "replicas", "named"), SIDES)
def test_a_move_takes_about_as_long_as_its_size_at_the_rate(rate: str, replicas: str, named: str) -> None:
    lab = moving(rate, replicas, named)
    lab.run(4000)
    assert 6 <= copied(lab) <= 14, "a second's worth at first, and what is overdrawn"
    lab.run(4000)
    assert 14 <= copied(lab) < COUNT
    lab.run(4000)
    assert copied(lab) == COUNT
    assert lab.state().in_sync_replicas == [1, 2]


@pytest.mark.parametrize(("rate", "replicas", "named"), SIDES)
def test_a_throttle_that_is_lifted_holds_nobody_back(rate: str, replicas: str, named: str) -> None:
    lab = moving(rate, replicas, named)
    lab.run(500)
    assert copied(lab) < COUNT
    lab.spread([BrokerConfigured("", {}), TopicConfigured(TOPIC_ID, {})])
    lab.run(1100)
    assert copied(lab) == COUNT


@pytest.mark.parametrize(
    ("rate", "replicas", "named"),
    [(FOLLOWER_RATE, FOLLOWER_REPLICAS, "0:1,1:2"), (LEADER_RATE, LEADER_REPLICAS, "0:2")],
)
def test_replicas_that_are_not_named_are_not_held_back(rate: str, replicas: str, named: str) -> None:
    lab = moving(rate, replicas, named)
    lab.run()
    assert copied(lab) == COUNT


@pytest.mark.parametrize(("rate", "replicas", "named"), SIDES)
def test_a_replica_that_is_in_sync_is_not_held_back(rate: str, replicas: str, named: str) -> None:
    lab = ClusterLab(2, replicas=2)
    lab.spread([BrokerConfigured("", {rate: "1"}), TopicConfigured(TOPIC_ID, {replicas: named})])
    lab.run(600)
    for _ in range(5):
        answer = lab.produce(1, VALUE)
        lab.run()
        assert answer.done
    assert lab.replica(1).high_watermark == 5


def test_a_throttled_partition_does_not_hold_up_the_others() -> None:
    lab = moving(FOLLOWER_RATE, FOLLOWER_REPLICAS, "0:2")
    other = type(TOPIC_ID)(bytes([9] * 16))
    lab.create("other", other, (1, 2))
    lab.run(600)
    answer = lab.produce(1, VALUE, topic="other")
    lab.run()
    assert answer.done
    assert copied(lab) < COUNT

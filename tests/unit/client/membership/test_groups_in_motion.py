"""Groups of our members under our coordinator: they come, go, stall, are cut off, and topics grow; time is simulated.

While nothing goes wrong but that members come and go, no partition is ever in two members' hands. Whatever went wrong,
when it is over every partition is in the hands of one, and the shares are even.
"""

import random

import pytest

from headwater.base.errors import KafkaError
from headwater.client.consumer.assignors.named import assignors_for
from headwater.client.consumer.membership.classic import ClassicMembership
from headwater.client.consumer.membership.consumer import ConsumerMembership
from headwater.coordinator.groups.context import GroupSettings
from unit.client.membership.group_fakes import Group
from unit.client.membership.real_coordinator import RealCoordinator
from unit.client.membership.test_consumer_membership import answer_by_id
from unit.client.reactor.fakes import FakeWorld

KINDS = ("range", "sticky", "cooperative-sticky", "consumer")
STEPS = 150


class Motion:
    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.dice = random.Random(f"{kind} {seed}")
        self.world = FakeWorld()
        self.broker = self.world.broker(0)
        answer_by_id(self.world, self.broker)
        self.world.topic("orders", self.dice.randint(1, 7))
        self.world.topic("payments", self.dice.randint(1, 4))
        settings = GroupSettings(
            initial_rebalance_delay_ms=0,
            consumer_session_timeout_ms=10_000,
            consumer_heartbeat_interval_ms=1_000,
            consumer_assignment_interval_ms=0,
        )
        self.coordinator = RealCoordinator(self.world, self.broker, settings, seed)
        self.members: list[Group] = []
        self.stalled: dict[Group, float] = {}

    def join(self) -> None:
        settings = {"max_poll_interval_ms": 30_000, "session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000}
        if self.kind == "consumer":
            group = Group(self.world, ConsumerMembership, ("orders", "payments"), **settings)
        else:
            group = Group(
                self.world, ClassicMembership, ("orders", "payments"), assignors=assignors_for(self.kind), **settings
            )
        self.members.append(group)

    def leave(self) -> None:
        member = self.members.pop(self.dice.randrange(len(self.members)))
        member.leave()

    def vanish(self) -> None:
        """As if its process was killed."""
        member = self.members.pop(self.dice.randrange(len(self.members)))
        member.membership._end_rebalancing()
        member.membership._end_tasks()
        member.session.close()

    def turn(self, member: Group) -> None:
        """One poll, and what its listener is told."""
        if self.stalled.get(member, 0) > self.world.now:
            return
        try:
            member.membership.raise_error()
        except KafkaError as error:
            raise AssertionError(f"nothing here is fatal: {error}") from error
        member.membership.poll_heartbeat(self.world.now)
        event = member.membership.next_event()
        if event is not None:
            member.handle(event)
            member.membership.acknowledge(event)

    def pass_time(self, seconds: float, check: bool) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            for member in self.dice.sample(self.members, self.dice.randint(0, len(self.members))):
                self.turn(member)
                if check:
                    self.check_single_hands()
            self.world.pass_time(min(0.05, end - self.world.now))

    def check_single_hands(self) -> None:
        held = [partition for member in self.members for partition in member.held]
        assert len(held) == len(set(held)), [(member.owned, member.log[-3:]) for member in self.members]

    def grow(self) -> None:
        self.world.topic("orders", len(self.world.topics["orders"]) + 1)
        self.coordinator.topics_changed()
        for member in self.members:
            self.world.run(member.session.refresh(["orders"]))

    def settle(self) -> None:
        self.stalled.clear()
        if not self.members:
            self.join()
        self.pass_time(60, check=False)
        wanted = sorted(f"{name}-{at}" for name, leaders in self.world.topics.items() for at in range(len(leaders)))
        shares = [member.owned for member in self.members]
        assert sorted(partition for share in shares for partition in share) == wanted, shares
        if self.kind != "range":
            assert max(map(len, shares)) - min(map(len, shares)) <= 1, shares
        for member in self.members:
            assert {str(each) for each in member.held} == set(member.owned)
            assert member.membership.generation > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go_and_no_partition_is_in_two_hands(kind: str, seed: int) -> None:
    motion = Motion(kind, seed)
    for _ in range(STEPS // 3):
        chance = motion.dice.random()
        if chance < 0.25 and len(motion.members) < 6:
            motion.join()
        elif chance < 0.4 and motion.members:
            motion.leave()
        elif chance < 0.45:
            motion.grow()
        motion.pass_time(motion.dice.choice((0.01, 0.1, 1.0)), check=True)
    motion.settle()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_went_wrong_the_group_finds_together(kind: str, seed: int) -> None:
    motion = Motion(kind, seed)
    for _ in range(STEPS // 3):
        chance = motion.dice.random()
        if chance < 0.2 and len(motion.members) < 6:
            motion.join()
        elif chance < 0.28 and motion.members:
            motion.leave()
        elif chance < 0.34 and motion.members:
            motion.vanish()
        elif chance < 0.5:
            motion.broker.disconnect()
        elif chance < 0.58:
            motion.coordinator.reload()
        elif chance < 0.7 and motion.members:
            stall = motion.dice.choice((1.0, 12.0, 40.0))
            motion.stalled[motion.dice.choice(motion.members)] = motion.world.now + stall
        elif chance < 0.75:
            motion.broker.stop()
            motion.pass_time(motion.dice.choice((0.5, 5.0, 15.0)), check=False)
            motion.broker.start()
        elif chance < 0.8:
            motion.grow()
        motion.pass_time(motion.dice.choice((0.01, 0.1, 2.0)), check=False)
    motion.settle()

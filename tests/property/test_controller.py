"""The controller over random histories of brokers that die, crash, stop and return, and of leaders that change who is
in sync.

The store writes over versions only; the image may lag behind it, controllers change in the middle of a commit, and
commits fail. The model knows which brokers still have all that was acknowledged, which the controller does not.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, BrokerId, TopicPartition
from headwater.controller.controller import RETRY_MS
from headwater.controller.elections import counts
from headwater.controller.planning import Election
from headwater.controller.reassignment import Move
from headwater.metadata.image import BrokerGone, BrokerRegistered, BrokerState, Change, PartitionChanged, PartitionState
from unit.controller.controller_support import Harness, broker, partition

BROKERS = [BrokerId(number) for number in range(1, 5)]
ANY_BROKER = st.sampled_from(BROKERS)
REPLICAS = [(1, 2, 3), (2, 3, 4), (3, 1), (4,)]
ANY_PARTITION = st.integers(0, len(REPLICAS) - 1)


class Clusters(RuleBasedStateMachine):
    @initialize(unclean=st.booleans())
    def begin(self, unclean: bool) -> None:
        self.unclean = unclean
        states = [partition(replicas[0], replicas) for replicas in REPLICAS]
        flag = str(unclean).lower()
        self.harness = Harness(states, *map(int, BROKERS), unclean_leader_election_enable=flag)
        self.harness.store.on_written = self.written
        self.alive: dict[BrokerId, BrokerState] = {number: broker(number) for number in BROKERS}
        self.last_epoch = {number: number * 10 for number in BROKERS}
        self.lives = dict(self.alive)  # the last one of each, also of the dead
        self.clean = dict.fromkeys(BROKERS, True)  # how its last life ended
        self.clock = 1000
        self.truth = [self.copy(state) for state in states]
        self.leaders = [{state.leader_epoch: state.leader} for state in states]
        self.intact = [set(state.replicas) for state in states]  # who has all that was acknowledged
        self.from_outside = 0
        self.asked = self.answered = 0
        self.harness.active()

    def copy(self, state: PartitionState | PartitionChanged) -> PartitionState:
        return PartitionState(
            state.leader,
            state.leader_epoch,
            list(state.replicas),
            list(state.in_sync_replicas),
            list(state.in_sync_epochs),
            list(state.adding),
            list(state.removing),
            state.version,
        )

    # What is written: the invariants

    def written(self, change: PartitionChanged, by_controller: bool) -> None:
        index = change.partition
        before, after = self.truth[index], self.copy(change)
        self.truth[index] = after
        assert len(after.in_sync_replicas) == len(after.in_sync_epochs) == len(set(after.in_sync_replicas)) > 0
        assert set(after.in_sync_replicas) <= set(after.replicas)
        assert len(set(after.replicas)) == len(after.replicas) > 0
        assert set(after.adding) | set(after.removing) <= set(after.replicas)
        assert after.leader == NO_BROKER or after.leader in after.in_sync_replicas, "I9"
        assert self.leaders[index].setdefault(after.leader_epoch, after.leader) == after.leader, "I11"
        assert after.leader_epoch >= before.leader_epoch, "I11"
        if after.leader != before.leader:
            assert by_controller
        if by_controller and after.leader_epoch > before.leader_epoch and after.leader != NO_BROKER:
            self.elected(index, before, after)

    def elected(self, index: int, before: PartitionState, after: PartitionState) -> None:
        """I12, and what I1 needs of an election."""
        leader, intact = after.leader, self.intact[index]
        is_outside = leader not in before.in_sync_replicas
        living = self.alive.get(leader)
        epoch = after.in_sync_epochs[after.in_sync_replicas.index(leader)]
        sees_truth = living is not None and living.epoch == epoch  # else its next life will be decided about
        vouched = {
            member
            for member, since in zip(before.in_sync_replicas, before.in_sync_epochs, strict=True)
            if member in intact and counts(self.lives[member], since)  # two lives later nobody can tell
        }
        forgets = sees_truth and leader not in intact and bool(vouched)
        if is_outside or forgets:
            assert self.asked_unclean or self.unclean, "I12"
            assert after.in_sync_replicas == [leader]
            self.from_outside += 1
        if sees_truth and leader not in intact:
            self.intact[index] = {leader}

    @property
    def asked_unclean(self) -> bool:
        return self.asked > self.answered and self.asks_unclean

    asks_unclean = False

    # Brokers

    def announce(self, *changes: Change) -> None:
        self.harness.store.announce(*changes)

    @rule(number=ANY_BROKER, clean=st.booleans())
    def dies(self, number: BrokerId, clean: bool) -> None:
        if self.alive.pop(number, None) is not None:
            self.clean[number] = clean
            if not clean:
                self.damage(number)
            self.announce(BrokerGone(number))

    def damage(self, number: BrokerId) -> None:
        for intact in self.intact:
            intact.discard(number)

    @rule(number=ANY_BROKER)
    def returns(self, number: BrokerId) -> None:
        if number not in self.alive:
            self.announce(BrokerRegistered(self.new_life(number)))

    @rule(number=ANY_BROKER)
    def is_away_for_a_moment(self, number: BrokerId) -> None:
        """Too short for anybody to see it between: a session that ended, or a crash with a quick restart."""
        if number in self.alive:
            self.clean[number] = self.clock % 3 != 0
            if not self.clean[number]:
                self.damage(number)
            self.announce(BrokerGone(number), BrokerRegistered(self.new_life(number)))

    def new_life(self, number: BrokerId) -> BrokerState:
        self.clock += 1
        previous = self.last_epoch[number] if self.clean[number] else -1
        self.alive[number] = state = broker(number, self.clock, previous)
        self.last_epoch[number] = self.clock
        self.lives[number] = state
        return state

    @rule(number=ANY_BROKER)
    def stops(self, number: BrokerId) -> None:
        if number in self.alive:
            old = self.alive[number]
            self.alive[number] = broker(number, old.epoch, old.previous_epoch, stopping=True)
            self.announce(BrokerRegistered(self.alive[number]))

    # Leaders

    def proposal(self, index: int) -> tuple[int, list[BrokerId]] | None:
        """Its leader, if it lives and knows itself to be meant, takes in every follower that lives."""
        state, known = self.harness.partitions[index], self.harness.image.brokers
        leader = self.alive.get(state.leader)
        if leader is None or (leader.broker_id, leader.epoch) not in zip(
            state.in_sync_replicas, state.in_sync_epochs, strict=True
        ):
            return None
        caught_up = [
            replica
            for replica in state.replicas
            if replica in self.alive
            and replica in known
            and self.alive[replica].epoch == known[replica].epoch
            and not known[replica].is_stopping
        ]
        members = [member for member in state.in_sync_replicas if member not in caught_up] + caught_up
        if not all(member in known for member in members) or set(members) == set(state.in_sync_replicas):
            return None
        if state.leader in self.intact[index]:
            self.intact[index].update(caught_up)
        return index, members

    @rule(index=ANY_PARTITION)
    def proposes_more(self, index: int) -> None:
        found = self.proposal(index)
        if found is not None:
            self.harness.proposed(*found)

    @rule(index=ANY_PARTITION, number=ANY_BROKER)
    def proposes_fewer(self, index: int, number: BrokerId) -> None:
        state = self.harness.partitions[index]
        members = [member for member in state.in_sync_replicas if member != number]
        if (
            state.leader in self.alive
            and state.leader in members
            and all(m in self.harness.image.brokers for m in members)
        ):
            self.harness.proposed(index, members)

    @precondition(lambda self: not self.harness.store.is_held)
    @rule(index=ANY_PARTITION)
    def acknowledges(self, index: int) -> None:
        """What is acknowledged now is on the in-sync replicas, and on nobody else."""
        self.quiesces()
        state = self.truth[index]
        pairs = list(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
        if state.leader in self.alive and all(m in self.alive and self.alive[m].epoch == e for m, e in pairs):
            self.intact[index] = set(state.in_sync_replicas)

    # Clients

    def answer(self, error: KafkaError | None, results: list[KafkaError | None]) -> None:
        self.answered += 1
        assert error is not None or len(results) == 1

    @rule(index=ANY_PARTITION, replicas=st.none() | st.lists(ANY_BROKER, min_size=1, max_size=3, unique=True))
    def moves(self, index: int, replicas: Any) -> None:
        self.asked += 1
        self.harness.controller.reassign([Move("t", index, replicas)], True, 1000, self.answer)

    @rule(index=ANY_PARTITION)
    def elects_preferred(self, index: int) -> None:
        self.asked += 1
        self.harness.controller.elect([TopicPartition("t", index)], Election.PREFERRED, 1000, self.answer)

    @rule(index=ANY_PARTITION)
    def elects_unclean(self, index: int) -> None:
        self.asked += 1
        self.asks_unclean = True
        self.harness.controller.elect([TopicPartition("t", index)], Election.UNCLEAN, 1000, self.answer)

    # Time, ZooKeeper, other controllers

    @rule()
    def a_turn(self) -> None:
        if self.harness.scheduler.due_in_ms() == 0:
            self.harness.scheduler.run_one()

    @rule()
    def a_while(self) -> None:
        self.harness.wait(RETRY_MS)

    @rule()
    def the_image_falls_behind(self) -> None:
        self.harness.store.is_held = True

    @rule()
    def the_image_catches_up(self) -> None:
        self.harness.store.release()

    @rule(code=st.sampled_from([None, ErrorCode.REQUEST_TIMED_OUT]))
    def zookeeper_is_away_or_back(self, code: ErrorCode | None) -> None:
        self.harness.store.fails_with = code

    @rule()
    def another_controller(self) -> None:
        """It activates when it has everything: here, the same object in a new term."""
        self.harness.controller.deactivate()
        assert self.answered == self.asked
        self.asks_unclean = False
        self.harness.store.term += 1
        self.harness.store.release()
        self.harness.controller.activate()

    # Rest

    @rule()
    def quiesces(self) -> None:
        store = self.harness.store
        store.fails_with = None
        store.release()
        tries = store.tries
        bound = 20 + 3 * (self.asked - self.answered)  # who waits is served one after the other
        for _ in range(20):
            self.harness.wait(RETRY_MS)
        assert store.tries - tries < bound, "it does not come to rest"
        assert self.answered == self.asked
        self.asks_unclean = False
        tries = store.tries
        self.harness.wait(RETRY_MS)
        self.harness.controller.deactivate()
        self.harness.controller.activate()
        self.harness.wait(RETRY_MS)
        assert store.tries == tries, "the next controller finds something that this one did not"
        assert self.harness.metrics.unclean_elections >= self.from_outside, "I12: counted"
        for index, state in enumerate(self.harness.partitions):
            assert self.truth[index].leader_epoch == state.leader_epoch
            self.check_at_rest(state)
        offline = sum(state.leader not in self.alive for state in self.harness.partitions)
        assert self.harness.metrics.offline_partitions == offline

    def check_at_rest(self, state: PartitionState) -> None:
        alive = self.alive
        standing = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
        if state.leader == NO_BROKER:
            assert not any(member in alive for member in standing), "somebody in sync lives and nobody leads"
            assert not (self.unclean and any(replica in alive for replica in state.replicas))
            return
        assert all(member in alive and alive[member].epoch == epoch for member, epoch in standing.items())
        assert all(counts(alive[member], epoch) for member, epoch in standing.items())
        stopping = {member for member in standing if alive[member].is_stopping}
        assert not stopping or stopping == set(standing), "a stopping broker was not relieved"
        can_end = set(state.adding) <= standing.keys() and standing.keys() - set(state.removing)
        assert not can_end or not (state.adding or state.removing), "a move could end"

    @rule()
    def all_come_to_rest_together(self) -> None:
        """Leaders take in whom they can, the controller does what is due, and neither undoes what the other did."""
        for _ in range(6):
            self.quiesces()
            found = [each for each in map(self.proposal, range(len(REPLICAS))) if each is not None]
            for each in found:
                self.harness.proposed(*each)
            if not found:
                return
        raise AssertionError("leaders and the controller take turns for ever")

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.all_come_to_rest_together()


Clusters.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)
TestClusters = Clusters.TestCase

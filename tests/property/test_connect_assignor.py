"""What holds for every group of Connect workers: nothing runs twice, everything runs in the end, evenly, and moves
little.
"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headwater.connect.distributed.assignor import CONNECTOR, Decision, Memory, Resources, assign
from headwater.connect.runtime.task import TaskId

DELAY_MS = 1000
NOTHING: Resources = frozenset()


class Group:
    """Workers that do as they are told, and a leader that remembers."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now_ms = 0
        self.memory = Memory()
        self.held: dict[str, Resources] = {f"w{n}": NOTHING for n in range(self.dice.randint(1, 4))}
        self.born = len(self.held)
        self.configured: set[TaskId] = set()
        self.configure()

    def configure(self) -> None:
        for _ in range(self.dice.randint(0, 3)):
            name = f"c{self.dice.randint(0, 4)}"
            self.configured = {each for each in self.configured if each.connector != name}
            if self.dice.random() < 0.8:
                self.configured |= {TaskId(name, n) for n in range(CONNECTOR, self.dice.randint(0, 6))}

    def round(self) -> Decision:
        decided = assign(self.held, self.configured, self.memory, self.now_ms, DELAY_MS)
        self.memory = decided.memory
        for member, share in decided.shares.items():
            kept = self.held[member] - share.revoked
            assert kept <= share.assigned  # what is not taken away stays
            assert not share.assigned & share.revoked
            assert share.revoked <= self.held[member]
        given = [each for share in decided.shares.values() for each in share.assigned]
        assert len(given) == len(set(given))  # never twice
        assert set(given) <= self.configured
        for member, share in decided.shares.items():
            for other, resources in self.held.items():  # nor while another still stops it
                assert other == member or not (share.assigned - self.held[member]) & resources
        self.held = {member: share.assigned for member, share in decided.shares.items()}
        return decided

    def settle(self) -> None:
        """Rounds without news: two are enough, and one when the delay is over."""
        self.round()
        self.round()
        self.now_ms += DELAY_MS
        for _ in range(3):
            decided = self.round()
        assert all(not share.revoked for share in decided.shares.values())
        assert decided.delay_ms == 0
        assert frozenset().union(*self.held.values()) == self.configured
        for connectors in (True, False):
            sizes = [sum((each.number == CONNECTOR) == connectors for each in mine) for mine in self.held.values()]
            assert max(sizes) - min(sizes) <= 1

    def die(self) -> None:
        if len(self.held) > 1:
            self.held.pop(self.dice.choice(sorted(self.held)))

    def join(self) -> None:
        self.held[f"w{self.born}"] = NOTHING
        self.born += 1


@given(st.integers(0, 2**32))
def test_any_history_ends_in_balance_and_nothing_runs_twice(seed: int) -> None:
    group = Group(seed)
    for _ in range(8):
        group.dice.choice([group.configure, group.die, group.join, group.round, group.round])()
        if group.dice.random() < 0.2:
            group.memory = Memory()  # another leads now
        group.round()
        group.now_ms += group.dice.choice([0, 10, DELAY_MS])
    group.settle()


@given(st.integers(0, 2**32))
def test_a_group_at_rest_stays_as_it_is(seed: int) -> None:
    group = Group(seed)
    group.settle()
    before = dict(group.held)
    group.memory = group.dice.choice([group.memory, Memory()])
    group.round()
    assert group.held == before


@given(st.integers(0, 2**32))
def test_who_joins_gets_its_part_and_no_more_is_moved(seed: int) -> None:
    group = Group(seed)
    group.settle()
    before = dict(group.held)
    group.join()
    group.settle()
    new = f"w{group.born - 1}"
    for member, mine in before.items():
        assert group.held[member] <= mine
    assert len(group.held[new]) <= -(-len(group.configured) // len(group.held)) + 1


@given(st.integers(0, 2**32))
def test_what_a_dead_worker_had_waits_for_the_delay_and_everything_else_stays(seed: int) -> None:
    group = Group(seed)
    group.settle()
    before = dict(group.held)
    group.die()
    lost = group.configured - frozenset().union(*group.held.values())
    decided = group.round()
    if lost and len(before) > 1:
        assert decided.delay_ms == DELAY_MS
        assert all(share.assigned == before[member] for member, share in decided.shares.items())
    group.now_ms += DELAY_MS
    group.round()
    assert frozenset().union(*group.held.values()) == group.configured


def test_a_new_worker_takes_over_from_a_dead_one_at_once() -> None:
    tasks = {TaskId("c", n) for n in range(CONNECTOR, 4)}
    first = assign({"a": NOTHING, "b": NOTHING}, tasks, Memory(), 0, DELAY_MS)
    held = {"a": first.shares["a"].assigned, "c": NOTHING}
    decided = assign(held, tasks, first.memory, 1, DELAY_MS)
    assert decided.delay_ms == 0
    assert decided.shares["c"].assigned == first.shares["b"].assigned


def test_what_two_workers_run_both_must_stop_first() -> None:
    one = frozenset({TaskId("c", 0)})
    decided = assign({"a": one, "b": one}, one, Memory(), 0, DELAY_MS)
    assert [share.revoked for share in decided.shares.values()] == [one, one]
    after = assign({"a": NOTHING, "b": NOTHING}, one, decided.memory, 0, DELAY_MS)
    assert sorted(len(share.assigned) for share in after.shares.values()) == [0, 1]

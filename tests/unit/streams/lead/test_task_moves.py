"""When a task may go to another slot: cases by hand, and slots that do anything they might, in any order."""

import random
from dataclasses import dataclass, field

import pytest

from headwater.streams.lead.task_moves import Action, Fence, Grant, TaskMoves

TASKS = ("0_0", "0_1", "0_2", "0_3")


def _granted(actions: list[Action]) -> dict[int, tuple[str, ...]]:
    return {action.slot: action.tasks for action in actions if isinstance(action, Grant)}


def _two_slots() -> TaskMoves:
    moves = TaskMoves(TASKS)
    moves.expect((0, 1), 100)
    assert moves.ready(0, 1, (), 0) == []
    actions = moves.ready(1, 2, (), 0)
    assert _granted(actions) == {0: ("0_0", "0_2"), 1: ("0_1", "0_3")}
    for action in actions:
        assert isinstance(action, Grant)
        moves.owned(action.slot, action.life, action.number, action.tasks, 0)
    assert moves.all_open
    return moves


def test_the_first_slot_does_not_get_everything_while_others_are_expected() -> None:
    _two_slots()


def test_slots_that_do_not_come_are_not_waited_for_for_ever() -> None:
    moves = TaskMoves(TASKS)
    moves.expect((0, 1), 100)
    assert moves.ready(0, 1, (), 0) == []
    assert moves.tick(99) == []
    assert _granted(moves.tick(100)) == {0: TASKS}


def test_a_task_moves_when_it_is_released_and_not_before() -> None:
    moves = TaskMoves(TASKS)
    (grant,) = moves.ready(0, 1, (), 0)
    assert isinstance(grant, Grant)
    moves.owned(0, 1, grant.number, grant.tasks, 0)
    actions = moves.ready(1, 2, (), 0)
    assert _granted(actions) == {0: ("0_0", "0_1")}  # the newcomer gets nothing yet
    shrunk = actions[0]
    assert isinstance(shrunk, Grant)
    assert _granted(moves.owned(0, 1, shrunk.number, shrunk.tasks, 0)) == {1: ("0_2", "0_3")}


def test_tasks_of_a_lost_slot_go_to_others_when_it_is_fenced() -> None:
    moves = _two_slots()
    assert moves.lost(0, 1, 0) == [Fence(0, 1)]
    assert moves.unfenced() == [Fence(0, 1)]
    assert moves.tick(10**9) == []
    assert _granted(moves.fenced(0, 1, 0)) == {1: ("0_0", "0_1", "0_2", "0_3")}


def test_what_a_lost_slot_still_says_counts_for_nothing() -> None:
    moves = _two_slots()
    moves.lost(0, 1, 0)
    assert moves.owned(0, 1, 1, (), 0) == []
    assert moves.released(0, 1, 0) == []
    assert moves.lost(0, 1, 0) == []
    assert moves.unfenced() == [Fence(0, 1)]


def test_an_answer_to_an_older_grant_releases_only_what_it_says() -> None:
    moves = TaskMoves(TASKS)
    (first,) = moves.ready(0, 1, (), 0)
    assert isinstance(first, Grant)
    moves.ready(1, 2, (), 0)  # the first slot shall have two of them now
    assert moves.owned(0, 1, first.number, first.tasks, 0) == []
    assert moves.owner("0_3") == 0


def test_what_a_slot_has_not_read_yet_it_may_still_open() -> None:
    """It was told of 0_1, then that it shall not have it: until it has answered that, it may open it for a moment."""
    moves = TaskMoves(("0_0", "0_1"))
    moves.expect((0, 1), 100)
    moves.ready(0, 1, (), 0)
    first, other = moves.ready(1, 2, (), 0)
    assert isinstance(first, Grant)
    assert isinstance(other, Grant)
    moves.owned(1, 2, other.number, other.tasks, 0)
    moves.released(1, 2, 0)  # so slot 0 is told to take both
    (shrunk,) = moves.ready(1, 3, (), 0)  # and now that it shall not
    assert isinstance(shrunk, Grant)
    assert shrunk.tasks == ("0_0",)
    assert moves.owned(0, 1, first.number, first.tasks, 0) == []
    assert _granted(moves.owned(0, 1, shrunk.number, shrunk.tasks, 0)) == {1: ("0_1",)}


def test_between_two_leases_tasks_wait_and_come_back_to_their_slots() -> None:
    moves = _two_slots()
    moves.expect((0, 1), 1000)
    assert moves.released(0, 1, 0) == []
    assert moves.released(1, 2, 0) == []
    assert moves.ready(1, 3, (), 0) == []
    assert _granted(moves.ready(0, 4, (), 0)) == {0: ("0_0", "0_2"), 1: ("0_1", "0_3")}


def test_between_two_leases_nobody_waits_for_more_slots_than_there_were() -> None:
    """The third one may wait for an executor that is lost, or that starts: it gets its tasks when it comes."""
    moves = _two_slots()
    moves.expect((0, 1, 2), 10_000, 2)
    moves.released(0, 1, 0)
    moves.released(1, 2, 0)
    assert moves.ready(2, 3, (), 0) == []
    actions = moves.ready(1, 4, (), 0)  # Spark gives numbers to whichever core is free
    assert _granted(actions) == {1: ("0_1", "0_3"), 2: ("0_0", "0_2")}
    for action in actions:
        assert isinstance(action, Grant)
        moves.owned(action.slot, action.life, action.number, action.tasks, 0)
    assert moves.all_open
    (shrunk,) = moves.ready(0, 5, (), 0)
    assert isinstance(shrunk, Grant)
    assert len(_granted(moves.owned(shrunk.slot, shrunk.life, shrunk.number, shrunk.tasks, 0))[0]) == 1


def test_a_later_life_of_a_slot_waits_until_the_earlier_one_is_fenced() -> None:
    moves = _two_slots()
    moves.lost(0, 1, 0)
    assert _granted(moves.ready(0, 3, (), 0)) == {}
    assert _granted(moves.fenced(0, 1, 0)) == {0: ("0_0", "0_2")}


def test_nothing_is_granted_by_one_who_stops() -> None:
    moves = _two_slots()
    moves.close()
    assert moves.released(0, 1, 0) == []
    assert not moves.idle
    assert moves.released(1, 2, 0) == []
    assert moves.idle


def _follow(moves: TaskMoves, actions: list[Action]) -> list[Grant]:
    """Slots do what they are told, at once, until there is nothing more to do: every grant in its order."""
    seen: list[Grant] = []
    todo = list(actions)
    while todo:
        action = todo.pop(0)
        if isinstance(action, Grant):
            seen.append(action)
            todo += moves.owned(action.slot, action.life, action.number, action.tasks, 0, action.standbys)
        else:
            todo += moves.fenced(action.slot, action.life, 0)
    return seen


def _machines(slots: int, standbys: int = 1, tasks: tuple[str, ...] = TASKS) -> TaskMoves:
    """Each slot on a machine of its own; the slot `n` has the life `n`."""
    moves = TaskMoves(tasks, stateful=tasks, standbys=standbys, acceptable_lag=100)
    moves.expect(range(slots), 100)
    for slot in range(slots):
        _follow(moves, moves.ready(slot, slot, (), 0, f"host-{slot}:/state"))
    assert moves.all_open
    return moves


def test_copies_are_kept_by_slots_of_other_machines_alone() -> None:
    moves = TaskMoves(TASKS, stateful=TASKS, standbys=1)
    moves.expect((0, 1, 2), 100)
    moves.ready(0, 0, (), 0, "a:/state")
    moves.ready(1, 1, (), 0, "a:/state")
    grants = {grant.slot: grant for grant in _follow(moves, moves.ready(2, 2, (), 0, "b:/state"))}
    on_b = set(grants[2].tasks)
    assert set(grants[2].standbys) == set(TASKS) - on_b
    assert set(grants[0].standbys) | set(grants[1].standbys) == on_b
    assert not set(grants[0].standbys) & set(grants[1].standbys)


def test_a_lost_task_goes_to_its_standby_and_not_before_its_owner_is_fenced() -> None:
    moves = _machines(3, tasks=("0_0", "0_1", "0_2"))
    standby = next(slot for slot in (1, 2) if "0_0" in moves._slots[slot].copied)
    moves.lags(standby, standby, {"0_0": 3}, 0)
    fence, *grants = moves.lost(0, 0, 0)
    assert fence == Fence(0, 0)
    for grant in _follow(moves, grants):  # others keep copies now, but nobody has the task
        assert "0_0" not in grant.tasks
    assert "0_0" in moves._slots[standby].copied
    assert moves.tick(1) == []
    grants = _follow(moves, moves.fenced(0, 0, 0))
    assert moves.owner("0_0") == standby
    assert all("0_0" in grant.tasks for grant in grants if grant.slot == standby)  # its copy is not dropped in between


def test_a_newcomer_gets_a_task_once_its_copy_is_there() -> None:
    moves = _machines(1, standbys=0)
    grants = _follow(moves, moves.ready(1, 1, (), 0, "host-1:/state"))
    assert [(grant.slot, grant.tasks, grant.standbys) for grant in grants] == [(1, (), ("0_2", "0_3"))]
    assert moves.lags(1, 1, {"0_2": 101, "0_3": 5000}, 0) == []
    grants = _follow(moves, moves.lags(1, 1, {"0_2": 100, "0_3": 200}, 0))
    assert moves.tasks_of(0) == ["0_0", "0_1", "0_3"]
    assert moves.tasks_of(1) == ["0_2"]
    assert [grant.slot for grant in grants] == [0, 1]  # released, then granted: it moved once
    _follow(moves, moves.lags(1, 1, {"0_3": 0}, 0))
    assert moves.tasks_of(1) == ["0_2", "0_3"]
    assert moves.tick(10**9) == []


def test_few_tasks_warm_up_at_a_time_and_each_until_it_has_moved() -> None:
    tasks = tuple(f"0_{number}" for number in range(8))
    moves = _machines(1, standbys=0, tasks=tasks)
    (grant,) = _follow(moves, moves.ready(1, 1, (), 0, "host-1:/state"))
    assert (grant.tasks, grant.standbys) == ((), ("0_4", "0_5"))
    assert moves.lags(1, 1, {"0_4": 5000, "0_5": 5000}, 0) == []  # both go on: nobody takes their place
    grants = _follow(moves, moves.lags(1, 1, {"0_4": 5000, "0_5": 0}, 0))
    assert moves.tasks_of(1) == ["0_5"]
    assert grants[-1].standbys == ("0_4", "0_6")  # the one that is begun, and the next
    for task in ("0_4", "0_6", "0_7"):
        _follow(moves, moves.lags(1, 1, {task: 0}, 0))
    assert (moves.tasks_of(0), moves.tasks_of(1)) == (list(tasks[:4]), list(tasks[4:]))


def test_a_move_that_has_begun_goes_on_though_the_lag_grows_again() -> None:
    moves = _machines(1, standbys=0, tasks=("0_0", "0_1"))
    _follow(moves, moves.ready(1, 1, (), 0, "host-1:/state"))
    (release,) = moves.lags(1, 1, {"0_1": 99}, 0)
    assert isinstance(release, Grant)
    assert (release.slot, release.tasks) == (0, ("0_0",))
    for lag in (140, 99, 5000, 0, 101):
        assert moves.lags(1, 1, {"0_1": lag}, 0) == []  # the owner is not told to keep it after all
    _follow(moves, [release])
    assert moves.owner("0_1") == 1
    assert moves.lags(0, 0, {"0_1": 0}, 0) == []


def test_a_move_is_given_up_when_the_slot_that_waits_is_gone() -> None:
    moves = _machines(1, standbys=0, tasks=("0_0", "0_1"))
    _follow(moves, moves.ready(1, 1, (), 0, "host-1:/state"))
    release = moves.lags(1, 1, {"0_1": 0}, 0)
    kept = moves.lost(1, 1, 0)
    assert _granted(kept) == {0: ("0_0", "0_1")}
    _follow(moves, release + kept)
    assert moves.tasks_of(0) == ["0_0", "0_1"]
    again = _follow(moves, moves.ready(1, 2, (), 0, "host-1:/state"))  # another life of it has to warm up anew
    assert [(grant.slot, grant.tasks, grant.standbys) for grant in again] == [(1, (), ("0_1",))]


def test_a_standby_that_lags_is_promoted_where_no_copy_has_more() -> None:
    """Beyond the acceptable lag a task does not move there, but a lost one does: it replays what is missing, and not
    all.
    """
    moves = _machines(3, standbys=2, tasks=("0_0", "0_1", "0_2"))
    assert moves.lags(1, 1, {"0_0": 7000}, 0) == []
    assert moves.lags(2, 2, {"0_0": 5000}, 0) == []
    _follow(moves, moves.lost(0, 0, 0))
    assert moves.owner("0_0") == 2


def test_within_one_place_tasks_move_at_once() -> None:
    moves = TaskMoves(TASKS, stateful=TASKS, standbys=2)
    _follow(moves, moves.ready(0, 0, (), 0, "host:/state"))
    _follow(moves, moves.ready(1, 1, (), 0, "host:/state"))
    assert (moves.tasks_of(0), moves.tasks_of(1)) == (["0_0", "0_1"], ["0_2", "0_3"])


def test_the_former_owner_keeps_its_state_as_a_standby() -> None:
    moves = _machines(2, tasks=("0_0", "0_1"))
    _follow(moves, moves.lags(1, 1, {"0_0": 0}, 0))
    _follow(moves, moves.lost(0, 0, 0))
    grants = _follow(moves, moves.ready(0, 5, ("0_0", "0_1"), 0, "host-0:/state"))
    assert grants[0].standbys == ("0_0", "0_1")
    assert grants[0].tasks == ()


def test_a_slot_of_the_same_number_on_another_machine_is_not_the_owner_of_before() -> None:
    moves = _machines(2, standbys=0, tasks=("0_0", "0_1"))
    moves.expect((0, 1), 1000)
    moves.released(0, 0, 0)
    moves.released(1, 1, 0)
    moves.ready(0, 7, (), 0, "host-1:/state")  # they have changed places
    _follow(moves, moves.ready(1, 8, (), 0, "host-0:/state"))
    assert (moves.owner("0_0"), moves.owner("0_1")) == (1, 0)


PLACES = ("a:/state", "a:/state", "b:/state")


@dataclass
class _Life:
    """A slot as it is: what it was told and has not read, what it has open, what it has said and nobody has heard."""

    slot: int
    inbox: list[Grant] = field(default_factory=list)
    has: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)
    outbox: list[tuple[str, int, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)
    fenced: bool = False
    ended: bool = False


class _World:
    """Messages are late, slots die, fall silent while they live on, end their leases, and come again."""

    def __init__(self, seed: int, broken: str = "", standbys: int = 0) -> None:
        self.random = random.Random(seed)
        self.moves = TaskMoves(TASKS, stateful=TASKS[1:], standbys=standbys)
        self.lives: dict[int, _Life] = {}
        self.broken = broken
        self.number = 0

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Grant):
                self.lives[action.life].inbox.append(action)
            elif self.broken == "tasks of a lost slot are given before it is fenced":
                self.do(self.moves.fenced(action.slot, action.life, 0))

    def step(self) -> None:
        choices = [self.come, self.read, self.read, self.hear, self.hear, self.fence, self.lose, self.leave, self.warm]
        self.random.choice(choices)()
        owners: dict[str, int] = {}
        for number, life in self.lives.items():
            for task in life.has if not life.fenced else ():
                assert task not in owners, f"{task} is open in {owners[task]} and {number}"
                owners[task] = number
        opened: set[tuple[str, str]] = set()
        for number, life in self.lives.items():
            for task in life.has | life.copies if self.moves.is_current(life.slot, number) else ():
                assert (PLACES[life.slot], task) not in opened, f"the state of {task} is open twice in one place"
                opened.add((PLACES[life.slot], task))

    def warm(self) -> None:
        found = self.any_life()
        if found:
            lags = {task: self.random.choice((0, 1 << 40)) for task in found[1].copies}
            self.do(self.moves.lags(found[1].slot, found[0], lags, 0))

    def come(self) -> None:
        slot = self.random.randrange(3)
        if self.current(slot) is None:
            self.number += 1
            self.lives[self.number] = _Life(slot)
            self.do(self.moves.ready(slot, self.number, (), 0, PLACES[slot]))

    def current(self, slot: int) -> int | None:
        return next((n for n, life in self.lives.items() if life.slot == slot and self.moves.is_current(slot, n)), None)

    def any_life(self) -> tuple[int, _Life] | None:
        return self.random.choice(list(self.lives.items())) if self.lives else None

    def read(self) -> None:
        found = self.any_life()
        if found and found[1].inbox and not found[1].ended:
            grant = found[1].inbox.pop(0)
            found[1].has, found[1].copies = set(grant.tasks), set(grant.standbys)
            found[1].outbox.append(("owned", grant.number, grant.tasks, grant.standbys))

    def hear(self) -> None:
        found = self.any_life()
        if found and found[1].outbox:
            number, life = found
            kind, grant, tasks, standbys = life.outbox.pop(0)
            if kind == "owned":
                self.do(self.moves.owned(life.slot, number, grant, tasks, 0, standbys))
            else:
                self.do(self.moves.released(life.slot, number, 0))

    def fence(self) -> None:
        for each in self.moves.unfenced()[:1]:
            self.lives[each.life].fenced = True
            self.do(self.moves.fenced(each.slot, each.life, 0))

    def lose(self) -> None:
        found = self.any_life()
        if found and self.random.random() < 0.3:
            self.do(self.moves.lost(found[1].slot, found[0], 0))

    def leave(self) -> None:
        found = self.any_life()
        if found and not found[1].ended and self.random.random() < 0.3:
            found[1].ended, found[1].has, found[1].copies = True, set(), set()
            found[1].outbox.append(("released", 0, (), ()))

    def settle(self) -> None:
        """No more faults: everything is read and heard, and who is lost is fenced."""
        for slot in range(3):
            if self.current(slot) is None:
                self.come_as(slot)
        while any(life.outbox or (life.inbox and not life.ended) for life in self.lives.values()) or (
            self.moves.unfenced()
        ):
            for _ in range(50):
                self.read()
                self.hear()
            self.fence()
            for number, life in self.lives.items():
                self.do(self.moves.lags(life.slot, number, dict.fromkeys(life.copies, 0), 0))

    def come_as(self, slot: int) -> None:
        self.number += 1
        self.lives[self.number] = _Life(slot)
        self.do(self.moves.ready(slot, self.number, (), 0, PLACES[slot]))


@pytest.mark.parametrize("seed", range(60))
def test_a_task_is_never_open_twice_and_in_the_end_everywhere_once(seed: int) -> None:
    world = _World(seed, standbys=seed % 3)
    for _ in range(300):
        world.step()
    world.settle()
    for slot in range(3):  # who said that it leaves has left by now
        if world.current(slot) is None:
            world.come_as(slot)
    world.settle()
    assert world.moves.all_open
    sizes = [len(world.moves.tasks_of(slot)) for slot in range(3)]
    assert max(sizes) - min(sizes) <= 1


def test_giving_tasks_before_their_owner_is_fenced_is_found_out() -> None:
    def is_found(seed: int) -> bool:
        world = _World(seed, "tasks of a lost slot are given before it is fenced")
        try:
            for _ in range(300):
                world.step()
        except AssertionError:
            return True
        return False

    assert any(is_found(seed) for seed in range(60))

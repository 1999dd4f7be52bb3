"""Which slot runs which task: a table of cases, and random histories with slots that come, go and retire."""

from random import Random

import pytest

from headwater.connect.slots.placement import Action, Finished, Lost, Placement, Start, Stop


class World:
    """What the actions amount to: which runs are in which slot. A slot that goes takes its runs with it."""

    def __init__(self) -> None:
        self.placement = Placement()
        self.slots: dict[int, dict[int, int]] = {}  # slot -> run -> key
        self.ending: set[int] = set()  # runs
        self.isolated: set[int] = set()
        self.wanted: set[int] = set()
        self.finished: list[int] = []
        self.retiring: set[int] = set()

    def want(self, *keys: int, isolated: bool = False) -> None:
        for key in keys:
            self.wanted.add(key)
            if isolated:
                self.isolated.add(key)
            self.do(self.placement.wanted(key, isolated=isolated))

    def unwant(self, key: int) -> None:
        self.wanted.discard(key)
        self.do(self.placement.unwanted(key))

    def join(self, slot: int) -> None:
        self.slots[slot] = {}
        self.retiring.discard(slot)
        self.do(self.placement.joined(slot))

    def leave(self, slot: int) -> None:
        del self.slots[slot]
        self.retiring.discard(slot)
        self.do(self.placement.left(slot))

    def retire(self) -> None:
        self.retiring |= set(self.slots)
        self.do(self.placement.retiring())

    def end(self, run: int) -> None:
        slot = next(number for number, runs in self.slots.items() if run in runs)
        key = self.slots[slot].pop(run)
        self.ending.discard(run)
        self.do(self.placement.ended(key, run))

    def end_all(self) -> None:
        while self.ending:
            self.end(min(self.ending))

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Start(key, run, slot):
                    assert slot not in self.retiring
                    assert key in self.wanted
                    others = set(self.slots[slot].values())
                    assert key not in {each for runs in self.slots.values() for each in runs.values()}, "it runs twice"
                    assert not others or key not in self.isolated, "it is not alone"
                    assert not others & self.isolated, "another was to be alone"
                    self.slots[slot][run] = key
                case Stop(key, run, slot):
                    assert self.slots[slot][run] == key
                    assert run not in self.ending
                    self.ending.add(run)
                case Finished(key):
                    assert key not in self.wanted
                    self.finished.append(key)
                case Lost(key):
                    assert key in self.wanted
        self.ending &= {run for runs in self.slots.values() for run in runs}

    def keys(self, slot: int) -> set[int]:
        return set(self.slots[slot].values())

    def loads(self) -> list[int]:
        return sorted(len(runs) for runs in self.slots.values())


@pytest.fixture
def world() -> World:
    return World()


def test_tasks_wait_for_the_first_slot_and_share_it(world: World) -> None:
    world.want(*range(50))
    assert world.placement.waiting == list(range(50))
    world.join(0)
    assert world.keys(0) == set(range(50))
    assert world.placement.waiting == []


def test_a_slot_that_comes_gets_its_share_after_it_was_let_go(world: World) -> None:
    world.join(0)
    world.want(1, 2, 3, 4)
    world.join(1)
    assert (len(world.keys(0)), world.keys(1), len(world.ending)) == (4, set(), 2)
    world.end_all()
    assert world.loads() == [2, 2]
    world.want(5)
    assert not world.ending, "a difference of one moves nothing"


def test_the_tasks_of_a_slot_that_is_gone_begin_elsewhere_at_once(world: World) -> None:
    world.join(0)
    world.join(1)
    world.want(1, 2, 3, 4)
    world.leave(1)
    assert world.keys(0) == {1, 2, 3, 4}
    world.leave(0)
    assert world.placement.waiting == [1, 2, 3, 4]
    world.join(0)
    assert world.keys(0) == {1, 2, 3, 4}


def test_another_slot_of_the_same_number_has_none_of_the_former_tasks_running(world: World) -> None:
    world.join(0)
    world.want(1)
    (former,) = world.slots[0]
    world.join(0)
    (run,) = world.slots[0]
    assert run != former
    assert not world.placement.is_current(1, former)
    assert world.placement.ended(1, former) == [], "what the former says comes late"
    assert world.placement.slot_of(1) == (0, run)


def test_an_isolated_task_has_a_slot_alone_when_the_others_have_moved(world: World) -> None:
    world.join(0)
    world.join(1)
    world.want(1, 2)
    world.want(9, isolated=True)
    assert 9 in world.placement.waiting
    world.end_all()
    assert [world.keys(0), world.keys(1)] == [{1, 2}, {9}]
    world.want(3)
    assert world.keys(1) == {9}
    world.unwant(9)
    world.end_all()
    assert world.loads() == [1, 2]
    assert world.finished == [9]


def test_the_last_shared_slot_is_never_taken(world: World) -> None:
    world.join(0)
    world.want(9, isolated=True)
    world.want(1)
    assert world.placement.waiting == [9]
    world.join(1)
    world.want(8, isolated=True)
    world.end_all()
    assert world.placement.waiting == [8]
    assert {9} in (world.keys(0), world.keys(1))


def test_a_task_that_ended_by_itself_is_not_begun_again_until_it_is_unwanted(world: World) -> None:
    world.join(0)
    world.want(1)
    world.end(next(iter(world.slots[0])))
    world.join(1)
    world.leave(0)
    assert (world.loads(), world.placement.waiting) == ([0], [])
    world.unwant(1)
    assert world.finished == [1]


def test_what_ends_in_a_slot_that_retires_waits_for_the_next_lease(world: World) -> None:
    world.join(0)
    world.want(1)
    world.retire()
    world.end(next(iter(world.slots[0])))
    assert world.placement.waiting == [1]
    world.want(2)
    assert world.placement.waiting == [1, 2]
    world.leave(0)
    world.join(0)
    assert world.keys(0) == {1, 2}


def test_a_task_that_moves_and_is_unwanted_meanwhile_is_finished(world: World) -> None:
    world.join(0)
    world.want(1, 2)
    world.join(1)
    world.want(3, 4)
    world.join(2)
    assert world.ending, "some move"
    for key in (1, 2, 3, 4):
        world.unwant(key)
    world.end_all()
    assert sorted(world.finished) == [1, 2, 3, 4]
    assert world.loads() == [0, 0, 0]


def test_a_slot_that_goes_finishes_what_was_to_stop_there(world: World) -> None:
    world.join(0)
    world.want(1)
    world.unwant(1)
    world.unwant(1)
    assert world.finished == []
    world.leave(0)
    assert world.finished == [1]


@pytest.mark.parametrize("seed", range(40))
def test_random_histories(seed: int) -> None:
    random, world, keys = Random(seed), World(), iter(range(1000))
    for _ in range(150):
        runs = [run for each in world.slots.values() for run in each]
        match random.randrange(8):
            case 0 | 1:
                world.want(next(keys), isolated=random.random() < 0.2)
            case 2 if world.wanted:
                world.unwant(random.choice(sorted(world.wanted)))
            case 3:
                world.join(random.randrange(4))
            case 4 if world.slots:
                world.leave(random.choice(sorted(world.slots)))
            case 5 if world.ending:
                world.end(random.choice(sorted(world.ending)))
            case 6 if runs and random.random() < 0.2:
                world.end(random.choice(runs))
            case 7 if random.random() < 0.1:
                world.retire()
    for slot in list(world.slots):
        world.leave(slot)
    for slot in range(4):
        world.join(slot)
    world.end_all()
    shared = [len(runs) for runs in world.slots.values() if not world.isolated & set(runs.values())]
    assert max(shared) - min(shared) <= 1, shared
    alone = world.isolated & {key for runs in world.slots.values() for key in runs.values()}
    assert len(alone) == 3 or not world.isolated & set(world.placement.waiting)
    assert set(world.placement.waiting) <= world.isolated
    for key in sorted(world.wanted):
        world.unwant(key)
    world.end_all()
    assert world.loads() == [0, 0, 0, 0]
    assert len(world.finished) == len(set(world.finished))

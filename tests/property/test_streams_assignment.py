"""The assignment of tasks and of standby copies to slots for any past: balanced, as sticky as balance allows, and at
rest once it is reached.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.streams.lead.assignment import assign
from headwater.streams.lead.standbys import Copies, assign_standbys, host_of, owners_for_now
from headwater.streams.lead.task_moves import Action, Grant, TaskMoves

_TASKS = st.lists(st.integers(0, 6), min_size=0, max_size=4).map(
    lambda counts: [f"{sub}_{partition}" for sub, count in enumerate(counts) for partition in range(count)]
)
_SLOTS = st.sets(st.integers(0, 7), min_size=1, max_size=6)


@given(_TASKS, _SLOTS, st.data())
def test_balanced_sticky_and_at_rest(tasks: list[str], slots: set[int], data: st.DataObject) -> None:
    owners = {task: data.draw(st.integers(0, 7)) for task in tasks if data.draw(st.booleans())}
    has = {slot: data.draw(st.sets(st.sampled_from(tasks))) for slot in slots} if tasks else {}
    load = {slot: data.draw(st.integers(0, 3)) for slot in slots}
    placed = assign(tasks, slots, owners, has, load)
    assert placed.keys() == set(tasks)
    sizes = {slot: sum(owner == slot for owner in placed.values()) for slot in slots}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert sum(sizes.values()) == len(tasks)
    stayed = sum(placed[task] == owner for task, owner in owners.items())
    assert stayed == _most_that_can_stay(tasks, slots, owners)
    assert assign(tasks, slots, placed, has, load) == placed
    assert assign(list(reversed(tasks)), sorted(slots, reverse=True), owners, has, load) == placed


def _most_that_can_stay(tasks: list[str], slots: set[int], owners: dict[str, int]) -> int:
    """Over all ways to say who has one more than the others: the fullest slots should."""
    share, more = divmod(len(tasks), len(slots))
    counts = sorted((sum(owner == slot for owner in owners.values()) for slot in slots), reverse=True)
    return sum(min(count, share + (place < more)) for place, count in enumerate(counts))


_PLACES = ("a:/state", "b:/one", "b:/two", "c:/state", "d:/state")


@st.composite
def _copies(draw: st.DrawFn, tasks: list[str], slots: set[int]) -> Copies:
    places = {slot: draw(st.sampled_from(_PLACES)) for slot in sorted(slots)}
    some = st.sets(st.sampled_from(tasks)) if tasks else st.just(set())
    lags = {slot: {task: draw(st.integers(0, 20)) for task in draw(some)} for slot in places if draw(st.booleans())}
    states = {slot: draw(some) for slot in places}
    last = {task: draw(st.sampled_from(_PLACES)) for task in tasks if draw(st.booleans())}
    return Copies(places, lags, states, last, draw(some), acceptable_lag=draw(st.integers(0, 20)))


@given(_TASKS, _SLOTS, st.integers(0, 3), st.data())
def test_standbys_are_apart_from_their_owner_and_stay_where_they_are(
    tasks: list[str], slots: set[int], count: int, data: st.DataObject
) -> None:
    copies = data.draw(_copies(tasks, slots))
    owners = {task: data.draw(st.sampled_from(sorted(slots))) for task in tasks}
    before = {task: tuple(data.draw(st.lists(st.integers(0, 7), max_size=3, unique=True))) for task in tasks}
    found = assign_standbys(owners, owners, before, count, copies)
    assert found.keys() == set(copies.stateful)
    for task, chosen in found.items():
        places = [copies.places[slot] for slot in (owners[task], *chosen)]
        assert len(set(places)) == len(places)  # never on the owner's slot, nor beside it, nor two in one place
        assert len(chosen) == min(count, len(set(copies.places.values())) - 1)
        hosts = {host_of(place) for place in places}
        assert len(hosts) == min(len(places), len({host_of(place) for place in copies.places.values()}))
        _check_that_no_more_could_stay(owners[task], chosen, before[task], copies)
    assert assign_standbys(owners, owners, found, count, copies) == found
    backwards = Copies(
        dict(reversed(copies.places.items())),
        copies.lags,
        copies.states,
        copies.last_places,
        copies.stateful,
        copies.acceptable_lag,
    )
    assert assign_standbys(dict(reversed(owners.items())), owners, before, count, backwards) == found


@given(_TASKS, _SLOTS, st.integers(1, 3), st.data())
def test_no_more_tasks_warm_up_than_may_and_those_that_do_go_on(
    tasks: list[str], slots: set[int], most: int, data: st.DataObject
) -> None:
    copies = data.draw(_copies(tasks, slots))
    slot = st.sampled_from(sorted(slots))
    owners, targets = ({task: data.draw(slot) for task in tasks} for _ in range(2))
    found = assign_standbys(owners, targets, {}, 0, copies, most)
    behind = [task for task in copies.stateful if copies.places[owners[task]] != copies.places[targets[task]]]
    warming = {task: chosen for task, chosen in found.items() if chosen}
    assert len(warming) == min(most, len(behind))
    assert warming == {task: (targets[task],) for task in warming}
    assert assign_standbys(owners, targets, found, 0, copies, most) == found


def _check_that_no_more_could_stay(
    owner: int, chosen: tuple[int, ...], before: tuple[int, ...], copies: Copies
) -> None:
    """No newcomer is where one that was there before could have stayed, with as many hosts."""
    for newcomer in set(chosen) - set(before):
        others = {copies.places[slot] for slot in (owner, *chosen) if slot != newcomer}
        hosts = {host_of(place) for place in others}
        for stayed in set(before) & copies.places.keys() - set(chosen):
            place = copies.places[stayed]
            could = place not in others and (host_of(place) not in hosts or host_of(copies.places[newcomer]) in hosts)
            assert not could, f"slot {stayed} could have stayed in place of {newcomer}"


@given(_TASKS, _SLOTS, st.data())
def test_a_task_moves_once_and_only_to_who_can_go_on(tasks: list[str], slots: set[int], data: st.DataObject) -> None:
    copies = data.draw(_copies(tasks, slots))
    owners = {task: data.draw(st.integers(0, 7)) for task in tasks if data.draw(st.booleans())}
    targets = assign(tasks, slots, owners, copies.preferred(tasks))
    now = owners_for_now(targets, owners, copies)
    assert now.keys() == targets.keys()
    for task, slot in now.items():
        owner = owners.get(task)
        told = {each: lags[task] for each, lags in copies.lags.items() if task in lags}
        if task not in copies.stateful:
            assert slot == targets[task]
        elif owner in slots:
            assert owner is not None
            shares = copies.places[slot] == copies.places[owner]
            assert slot == owner or shares or copies.is_warm(task, slot)
            assert slot in (owner, targets[task])  # never over a third one
        elif told and min(told.values()) <= copies.acceptable_lag:
            assert copies.is_warm(task, slot)  # a standby first
    settled = owners_for_now(assign(tasks, slots, now, copies.preferred(tasks)), now, copies)
    assert sum(settled[task] != now[task] for task in tasks) <= sum(targets[task] != now[task] for task in tasks)


@given(st.integers(1, 6), st.integers(2, 4), st.integers(0, 2), st.data())
def test_lags_that_vary_move_each_task_once_at_most(tasks: int, slots: int, standbys: int, data: st.DataObject) -> None:
    """One slot has everything, others come; they tell any lags, and answer when they like."""
    names = [f"0_{number}" for number in range(tasks)]
    moves = TaskMoves(names, stateful=names, standbys=standbys, acceptable_lag=100)
    waiting: list[Grant] = []
    told: dict[int, list[tuple[str, ...]]] = {slot: [()] for slot in range(slots)}

    def do(actions: list[Action]) -> None:
        for grant in actions:
            assert isinstance(grant, Grant)
            waiting.append(grant)
            told[grant.slot].append(grant.tasks)

    def answer(grant: Grant) -> None:
        waiting.remove(grant)
        do(moves.owned(grant.slot, grant.life, grant.number, grant.tasks, 0, grant.standbys))

    do(moves.ready(0, 0, (), 0, "host-0:/state"))
    answer(waiting[0])
    for slot in range(1, slots):
        do(moves.ready(slot, slot, (), 0, f"host-{slot}:/state"))
    report = st.tuples(st.integers(0, slots - 1), st.sampled_from((0, 99, 101, 5000)), st.booleans())
    for slot, lag, answers in data.draw(st.lists(report, max_size=40)):
        do(moves.lags(slot, slot, dict.fromkeys(sorted(moves._slots[slot].copied), lag), 0))
        first = next((grant for grant in waiting if grant.slot == slot), None)
        if answers and first is not None:
            answer(first)
    for name in names:
        taken = [
            slot
            for slot, grants in told.items()
            for before, after in pairwise(grants)
            if name in after and name not in before
        ]
        assert taken in ([0], [0, *taken[1:2]]), f"{name} was given to {taken}"  # never back, never over a third one

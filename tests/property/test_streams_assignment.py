"""The assignment of tasks to slots for any past: balanced, as sticky as balance allows, and at rest once it is reached."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.streams.lead.assignment import assign

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

"""Which slot has which task, in cases worked out by hand."""

import pytest

from headwater.streams.lead import assignment
from headwater.streams.lead.assignment import assign


def _tasks(*counts: int) -> list[str]:
    return [f"{sub}_{partition}" for sub, count in enumerate(counts) for partition in range(count)]


def _of(placed: dict[str, int], slot: int) -> list[str]:
    return [task for task, owner in sorted(placed.items()) if owner == slot]


def test_each_sub_topology_is_spread() -> None:
    placed = assign(_tasks(4, 4), [0, 1], {})
    for slot in (0, 1):
        assert [task[0] for task in _of(placed, slot)] == ["0", "0", "1", "1"]


def test_without_slots_nobody_has_anything() -> None:
    assert assign(_tasks(2), [], {"0_0": 1}) == {}


def test_a_slot_that_is_gone_leaves_the_others_what_they_have() -> None:
    before = assign(_tasks(6), [0, 1, 2], {})
    after = assign(_tasks(6), [0, 2], before)
    assert all(after[task] == slot for task, slot in before.items() if slot != 1)
    assert len(_of(after, 0)) == len(_of(after, 2)) == 3


def test_a_new_slot_takes_its_share_and_nothing_else_moves() -> None:
    before = assign(_tasks(6), [0, 1], {})
    after = assign(_tasks(6), [0, 1, 2], before)
    moved = [task for task in before if before[task] != after[task]]
    assert len(moved) == 2
    assert all(after[task] == 2 for task in moved)


def test_a_task_that_is_nobodys_goes_where_its_state_lies() -> None:
    placed = assign(_tasks(4), [0, 1], {}, {0: {"0_2", "0_3"}, 1: {"0_0", "0_1"}})
    assert (_of(placed, 0), _of(placed, 1)) == (["0_2", "0_3"], ["0_0", "0_1"])


def test_a_task_whose_state_lies_somewhere_chooses_before_one_that_has_none() -> None:
    placed = assign(_tasks(2), [0, 1], {}, {0: {"0_1"}})
    assert placed == {"0_1": 0, "0_0": 1}


def test_small_applications_go_to_slots_that_have_less_to_do() -> None:
    assert assign(_tasks(1), [0, 1], {}, load={0: 3, 1: 2}) == {"0_0": 1}


def test_many_tasks_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took half a second for a thousand tasks, a minute for ten thousand, and slots waited for an answer so long."""
    order, asked = assignment._order, []

    def counted(task: str) -> tuple[int, int]:
        asked.append(task)
        return order(task)

    monkeypatch.setattr(assignment, "_order", counted)
    tasks = _tasks(200, 100)
    before = assign(tasks, [0, 1], {})
    after = assign(tasks, [0, 1, 2], before)
    assert [len(_of(after, slot)) for slot in (0, 1, 2)] == [100, 100, 100]
    assert len(asked) <= 2 * len(tasks)

"""Sweeps over many groups: a few looks in each turn, and what changes between two turns is seen."""

import pytest

from headwater.coordinator.effects import Effects, Producer
from headwater.coordinator.groups import expiry
from headwater.coordinator.groups.context import GroupSettings
from headwater.coordinator.groups.offsets import Offsets
from unit.coordinator.groups.support.driver import FakeTopics, World

RETENTION_MS = 60_000
INTERVAL_MS = 10_000
GROUPS = [f"group-{number}" for number in range(40)]
ORDERS = ("orders", 0)
PRODUCER = Producer(7, 0)
PER_TURN = 8


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Each group has one offset."""
    monkeypatch.setattr(expiry, "LOOKS_PER_TURN", PER_TURN)
    world = World(
        GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=INTERVAL_MS),
        FakeTopics({"orders": 4}),
    )
    for group_id in GROUPS:
        world.commit({ORDERS: 1}, group_id=group_id)
    return world


def turn(world: World, key: object = expiry.EXPIRY_TIMER) -> Effects:
    world.timers.pop(key, None)
    return world.run(world.shard.on_timer(key, world.now_ms))


def groups_of(world: World) -> set[str]:
    return {group.group_id for group in world.shard.list_groups()}


def test_groups_that_keep_everything_are_looked_at_a_few_in_each_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    is_due = Offsets.is_due

    def counted(offsets: Offsets, group: object, *rest: object) -> bool:
        looked.append(group.group_id)  # type: ignore[attr-defined]
        return is_due(offsets, group, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Offsets, "is_due", counted)
    turns = 1
    while turn(world).timers[expiry.EXPIRY_TIMER] == 0:
        assert len(looked) <= turns * PER_TURN
        turns += 1
    assert looked == GROUPS  # each once
    assert turns == 2 * len(GROUPS) // PER_TURN + 1
    assert world.timers[expiry.EXPIRY_TIMER] == world.now_ms + INTERVAL_MS
    assert groups_of(world) == set(GROUPS)


def test_all_that_is_due_goes_in_one_round_however_many_turns_it_takes(world: World) -> None:
    world.now_ms += RETENTION_MS
    most = 0
    while True:
        effects = turn(world)
        most = max(most, len(effects.records))
        if effects.timers[expiry.EXPIRY_TIMER] != 0:
            break
    assert most <= PER_TURN
    assert groups_of(world) == set()
    assert world.replayed().list_groups() == []


def test_what_is_committed_between_two_turns_is_kept(world: World) -> None:
    world.now_ms += RETENTION_MS
    turn(world)
    world.commit({ORDERS: 2}, group_id=GROUPS[-1])
    world.delete(group_id=GROUPS[-2])
    world.advance(INTERVAL_MS - 1)
    assert groups_of(world) == {GROUPS[-1]}
    assert world.offsets(GROUPS[-1]) == {ORDERS: 2}


def test_a_group_that_comes_during_a_round_is_looked_at_in_the_next(world: World) -> None:
    turn(world)
    world.commit({ORDERS: 1}, group_id="late")
    world.advance(RETENTION_MS + INTERVAL_MS)
    assert groups_of(world) == set()


def test_offsets_of_a_deleted_topic_go_a_few_in_each_turn(world: World) -> None:
    effects = world.run(world.shard.topic_deleted("orders", world.topics.ids["orders"], world.now_ms))
    assert 0 < len(effects.records) <= PER_TURN
    turns = 1
    while effects.timers.get(expiry.DELETED_TOPICS_TIMER) == 0:
        effects = turn(world, expiry.DELETED_TOPICS_TIMER)
        turns += 1
    assert turns > 2 * len(GROUPS) // PER_TURN
    assert all(world.offsets(group_id) == {} for group_id in GROUPS)


def test_a_topic_of_the_same_name_that_comes_between_two_turns_keeps_its_offsets(world: World) -> None:
    old = world.topics.ids["orders"]
    world.run(world.shard.topic_deleted("orders", old, world.now_ms))
    world.topics.ids["orders"] = b"n" * 16
    world.commit({ORDERS: 5}, group_id=GROUPS[-1])
    world.advance(0)
    assert world.offsets(GROUPS[-1]) == {ORDERS: 5}
    assert world.offsets(GROUPS[-2]) == {}


def test_a_transaction_that_ends_between_two_turns_does_not_bring_a_deleted_topic_back(world: World) -> None:
    world.txn_commit({("orders", 1): 3}, PRODUCER, group_id=GROUPS[0])
    world.txn_commit({("orders", 1): 3}, PRODUCER, group_id=GROUPS[-1])
    world.run(world.shard.topic_deleted("orders", world.topics.ids["orders"], world.now_ms))
    world.end(PRODUCER, committed=True)
    world.advance(0)
    assert world.offsets(GROUPS[0]) == {}
    assert world.offsets(GROUPS[-1]) == {}


def test_topics_that_are_deleted_at_once_wait_for_one_another(world: World) -> None:
    world.topics.counts["clicks"] = 1
    world.topics.ids["clicks"] = b"c" * 16
    world.commit({("clicks", 0): 1}, group_id=GROUPS[-1])
    for name in ("orders", "clicks"):
        world.run(world.shard.topic_deleted(name, world.topics.ids[name], world.now_ms))
    world.advance(0)
    assert all(world.offsets(group_id) == {} for group_id in GROUPS)

"""Commits on the hot path. Whom they are admitted for is checked with every commit of the other tests,
by their driver.
"""

import pytest

from headwater.coordinator.effects import Producer
from headwater.coordinator.groups.plain_commits import Part
from unit.coordinator.groups.support.driver import GROUP, World

PARTS: list[Part] = [(0, 5, 3, "here"), (1, 1 << 62, -1, "")]


def note(world: World, member_id: str = "", parts: list[Part] = PARTS) -> None:
    topic_id = world.topics.ids["orders"]
    effects = world.shard.plain_commits.note(GROUP, member_id, "orders", topic_id, parts, world.now_ms)
    if effects is not None:
        assert not effects.records
        world.run(effects)


def test_memory_is_what_the_general_way_makes_of_it() -> None:
    plain, general = World(), World()
    for world in (plain, general):
        world.commit({("orders", 0): 1, ("orders", 1): 1})
        world.advance(1000)
    note(plain)
    general.commit({("orders", 0): 5}, metadata="here", leader_epoch=3)
    general.commit({("orders", 1): 1 << 62}, metadata="")
    assert plain.shard.offsets.durable() == general.shard.offsets.durable()
    for index in (0, 1):
        assert plain.shard.offsets.get(GROUP, "orders", index) == general.shard.offsets.get(GROUP, "orders", index)


def test_of_plain_and_transactional_commits_the_one_written_last_wins() -> None:
    world = World()
    world.commit({("orders", 0): 1, ("orders", 1): 1})
    producer = Producer(7, 0)
    world.txn_commit({("orders", 0): 9, ("orders", 1): 9}, producer)
    note(world, parts=PARTS[:1])
    world.shard.end_transaction(producer, committed=True)
    assert [committed(world, index) for index in (0, 1)] == [5, 9]


def test_a_member_that_commits_lives() -> None:
    world = World()
    members, generation = world.stable_group()
    before = dict(world.timers)
    world.advance(100)
    note(world, members[0])
    moved = {key for key, due_ms in world.timers.items() if before.get(key) != due_ms}
    world.advance(0)
    world.commit({("orders", 0): 5}, member_id=members[0], generation=generation)
    assert moved == {("classic", "session", GROUP, members[0])}
    assert all(world.timers[key] == before[key] + 100 for key in moved)


@pytest.mark.parametrize("member_id", ["", "stranger"])
def test_nobody_else_does(member_id: str) -> None:
    world = World()
    world.stable_group()
    before = dict(world.timers)
    world.advance(100)
    note(world, member_id)
    assert world.timers == before


def committed(world: World, index: int) -> int:
    found = world.shard.offsets.get(GROUP, "orders", index)
    assert found is not None
    return found.offset

"""Offsets that go by themselves: those past their retention, and those of deleted topics.

A sweep writes at most `RECORDS_MAX` tombstones (one batch must stay far below the largest message), and asks to be called again at once
for the rest. A group whose last offset expires goes with it, if it has no members and no open transaction.
"""

from typing import Final

from headwater.coordinator.effects import Effects, TimerKey
from headwater.coordinator.groups.context import ShardState
from headwater.coordinator.groups.offsets import Offsets

EXPIRY_TIMER: Final[TimerKey] = ("offsets", "expiry")
DELETED_TOPICS_TIMER: Final[TimerKey] = ("offsets", "deleted topics")
RECORDS_MAX: Final = 1_000


class Sweeper:
    def __init__(self, state: ShardState, offsets: Offsets) -> None:
        self._state = state
        self._offsets = offsets
        self._deleted: list[tuple[str, bytes]] = []  # topics whose offsets are still to go

    def start(self, effects: Effects) -> None:
        effects.timers[EXPIRY_TIMER] = self._state.settings.offsets_retention_check_interval_ms

    def expire(self, now_ms: int) -> Effects:
        effects = Effects()
        self.start(effects)
        for group_id, group in list(self._state.groups.items()):
            due, all_gone = self._offsets.expired(group, now_ms, self._state.settings.offsets_retention_ms)
            room = RECORDS_MAX - len(effects.records)
            effects.records += [self._offsets.delete(group_id, *each) for each in due[:room]]
            if len(due) >= room:
                effects.timers[EXPIRY_TIMER] = 0
                break
            if all_gone and group.is_empty:
                remove_group(self._state, group_id, effects)
        return effects

    def topic_deleted(self, topic: str, topic_id: bytes) -> Effects:
        self._deleted.append((topic, topic_id))
        return self.sweep_deleted()

    def sweep_deleted(self) -> Effects:
        effects = Effects()
        while self._deleted:
            topic, topic_id = self._deleted[0]
            found = list(self._offsets.of_deleted_topic(topic, topic_id))
            room = RECORDS_MAX - len(effects.records)
            effects.records += [self._offsets.delete(group, topic, partition) for group, partition in found[:room]]
            if len(found) > room:
                effects.timers[DELETED_TOPICS_TIMER] = 0
                break
            self._deleted.pop(0)
        return effects


def remove_group(state: ShardState, group_id: str, effects: Effects) -> None:
    """The group itself, with its timers. Its offsets must be gone."""
    group = state.groups.pop(group_id)
    effects.records += group.tombstones()
    effects.timers |= dict.fromkeys(group.timer_keys())

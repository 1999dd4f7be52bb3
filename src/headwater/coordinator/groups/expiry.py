"""Offsets that go by themselves: those past their retention, and those of deleted topics.

There may be a million of them, and everybody waits while the broker looks for those that are due. So it looks at
`LOOKS_PER_TURN` at a time, and asks to be called again at once for the rest; what has changed in between is taken as it
is then. A group whose last offset expires goes with it, if it has no members and no open transaction.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from headwater.coordinator.effects import Effects, TimerKey
from headwater.coordinator.groups.context import ShardState
from headwater.coordinator.groups.group import Group
from headwater.coordinator.groups.offsets import Offsets, Step

EXPIRY_TIMER: Final[TimerKey] = ("offsets", "expiry")
DELETED_TOPICS_TIMER: Final[TimerKey] = ("offsets", "deleted topics")
LOOKS_PER_TURN: Final = 200  # at groups and offsets: less than a millisecond, but fifty shards may be at it


class Sweeper:
    def __init__(self, state: ShardState, offsets: Offsets) -> None:
        self._state = state
        self._offsets = offsets
        self._round: Iterator[Step] = iter(())  # what is still to be looked at
        self._deleted: deque[Iterator[Step]] = deque()  # for each topic that is gone

    # Retention

    def start(self, effects: Effects) -> None:
        effects.timers[EXPIRY_TIMER] = self._state.settings.offsets_retention_check_interval_ms
        self._round = self._everything()

    def _everything(self) -> Iterator[Step]:
        """Each group after its offsets. Those that come later are looked at in the next round."""
        for group_id in list(self._state.groups):
            for place in self._offsets.places(group_id):
                yield group_id, place
            yield group_id, None

    def expire(self, now_ms: int) -> Effects:
        effects = Effects()
        for _ in range(LOOKS_PER_TURN):
            step = next(self._round, None)
            if step is None:
                self.start(effects)
                return effects
            self._look(step, now_ms, effects)
        effects.timers[EXPIRY_TIMER] = 0
        return effects

    def _look(self, step: Step, now_ms: int, effects: Effects) -> None:
        group_id, place = step
        group = self._state.groups.get(group_id)
        if group is None:
            return
        if place is None:
            self._remove_if_nothing_is_left(group, effects)
        elif self._offsets.is_due(group, place, now_ms, self._state.settings.offsets_retention_ms):
            effects.records.append(self._offsets.delete(group_id, *place))

    def _remove_if_nothing_is_left(self, group: Group, effects: Effects) -> None:
        if group.is_empty and not self._offsets.has_any(group.group_id):
            remove_group(self._state, group.group_id, effects)

    # Deleted topics

    def topic_deleted(self, topic: str, topic_id: bytes) -> Effects:
        self._deleted.append(self._offsets.of_deleted_topic(topic, topic_id))
        return self.sweep_deleted() if len(self._deleted) == 1 else Effects()

    def sweep_deleted(self) -> Effects:
        effects = Effects()
        for _ in range(LOOKS_PER_TURN):
            if not self._deleted:
                return effects
            step = next(self._deleted[0], None)
            if step is None:
                self._deleted.popleft()
            elif step[1] is not None:
                effects.records.append(self._offsets.delete(step[0], *step[1]))
        effects.timers[DELETED_TOPICS_TIMER] = 0
        return effects


def remove_group(state: ShardState, group_id: str, effects: Effects) -> None:
    """The group itself, with its timers. Its offsets must be gone."""
    group = state.groups.pop(group_id)
    effects.records += group.tombstones()
    effects.timers |= dict.fromkeys(group.timer_keys())

"""Commits that are plainly fine, in two steps with the write between them: nearly every commit of every consumer is
one.

`admit` decides and changes nothing; `note` is called when the records stand in the log and are committed. So a write
that fails has nothing to take back. Whatever is not plainly fine (a new group, an unknown topic, a refusal) is not
admitted: `OffsetRequests.commit` decides about it, with its errors, by the same rules. Owned by the shard, whose groups
and offsets it shares.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from headwater.base.errors import KafkaError
from headwater.base.ids import NO_TOPIC_ID
from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.classic.classic_groups import ClassicGroups
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.context import GroupContext, ShardState
from headwater.coordinator.groups.offset_requests import COMMIT_BY_ID_SINCE
from headwater.coordinator.groups.offsets import Offsets

Part: TypeAlias = tuple[int, int, int, str]
"""Partition, offset, leader epoch (-1: not named), metadata."""

_VERSION_MAX: Final = 10


class PlainCommits:
    def __init__(self, state: ShardState, offsets: Offsets, classic: ClassicGroups) -> None:
        self._state = state
        self._offsets = offsets
        self._classic = classic
        self._length_max = state.settings.offset_metadata_length_max
        self._asking = [GroupContext(version) for version in range(_VERSION_MAX + 1)]  # validation looks at no more

    def admit(
        self,
        version: int,
        group_id: str,
        epoch: int,
        member_id: str,
        instance_id: str | None,
        topic: str | bytes,
        parts: Sequence[Part],
    ) -> tuple[str, bytes] | None:
        """The topic's name and id if all of it may be written, else None. `topic` is its name, or since version 10 its
        id.
        """
        state = self._state
        topics = state.topics
        group = state.groups.get(group_id)
        name = topics.names.get(topic) if version >= COMMIT_BY_ID_SINCE else topic  # type: ignore[arg-type]
        if group is None or name is None:
            return None
        assert isinstance(name, str)
        count = topics.partition_count(name) or 0
        topic_id = topics.ids.get(name, NO_TOPIC_ID)
        length_max = self._length_max
        try:
            validator = group.validate_offset_commit(
                self._asking[version], member_id, instance_id, epoch, transactional=False
            )
            for partition, _, _, metadata in parts:
                if not 0 <= partition < count or len(metadata) > length_max:
                    return None
                if validator is not None:
                    validator(name, topic_id, partition)
        except KafkaError:
            return None
        return name, topic_id

    def note(
        self, group_id: str, member_id: str, topic: str, topic_id: bytes, parts: Sequence[Part], now_ms: int
    ) -> Effects | None:
        """What was admitted is written: the offsets count, and a member has shown that it lives. None: nothing else to
        do.
        """
        self._offsets.note(group_id, topic, topic_id, parts, now_ms)
        group = self._state.groups[group_id]
        if type(group) is not ClassicGroup or not group.members:
            return None
        effects = Effects()
        self._classic.offsets_committed(group, member_id, effects)
        return effects

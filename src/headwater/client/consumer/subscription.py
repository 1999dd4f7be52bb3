"""What the user asked for, by topics, by pattern or by partitions, and the partitions that are assigned now.

Pure. Owned by the core; the states of partitions are changed by the fetcher and the resolver, in the same thread.
"""

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, NamedTuple

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.positions import PartitionState, Phase


class SubscriptionPattern(NamedTuple):
    """A pattern in RE2 syntax that the broker matches against all topics (group.protocol=consumer only)."""

    pattern: str


class Kind(Enum):
    NOTHING = auto()
    TOPICS = auto()
    PATTERN = auto()  # matched here, against the metadata
    SERVER_PATTERN = auto()
    PARTITIONS = auto()  # by hand, without the group


class Subscription:
    def __init__(self) -> None:
        self.kind = Kind.NOTHING
        self.topics: list[str] = []  # given, or matched by the pattern
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.listener: Any = None
        self.states: dict[TopicPartition, PartitionState] = {}
        self.may_be_broken = False  # a state may be in the phase BROKEN

    @property
    def by_group(self) -> bool:
        return self.kind in (Kind.TOPICS, Kind.PATTERN, Kind.SERVER_PATTERN)

    @property
    def by_name(self) -> bool:
        """Whether the user has named the topics: nobody else's may be made by asking for them. What a pattern has
        matched would be made again when it is deleted.
        """
        return self.kind in (Kind.TOPICS, Kind.PARTITIONS)

    def subscribe(self, wanted: "Iterable[str] | str | re.Pattern[str] | SubscriptionPattern", listener: Any) -> None:
        """Replaces the subscription that there was. What is assigned stays until the group says otherwise."""
        self._exclude(Kind.PARTITIONS, "subscribe")
        self.pattern = self.server_pattern = None
        self.listener = listener
        if isinstance(wanted, SubscriptionPattern):
            self.kind, self.server_pattern, self.topics = Kind.SERVER_PATTERN, wanted.pattern, []
        elif isinstance(wanted, re.Pattern):
            self.kind, self.pattern, self.topics = Kind.PATTERN, wanted, []
        else:
            self.kind, self.topics = Kind.TOPICS, _names(wanted)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that were assigned before keep their positions."""
        if self.by_group:
            self._exclude(self.kind, "assign")
        wanted = list(dict.fromkeys(TopicPartition(*each) for each in partitions))
        for each in wanted:
            if not each.topic or each.partition < 0:
                raise UserError(f"{each} cannot be assigned", "a partition is a topic and a number from 0 on")
        self.kind = Kind.PARTITIONS if wanted else Kind.NOTHING
        self.states = {each: self.states.get(each) or PartitionState(each) for each in wanted}

    def unsubscribe(self) -> None:
        self.kind = Kind.NOTHING
        self.topics = []
        self.pattern = self.server_pattern = self.listener = None
        self.states = {}

    def match(self, names: Iterable[str]) -> bool:
        """The topics that there are now; whether other ones match the pattern than before."""
        assert self.pattern is not None
        matched = sorted(name for name in names if self.pattern.search(name))
        changed = matched != self.topics
        self.topics = matched
        return changed

    def add(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """From the group: they are held until the listener has heard of them."""
        added = []
        for each in partitions:
            if each not in self.states:
                state = PartitionState(each)
                state.held = True
                self.states[each] = state
                added.append(state)
        return added

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            state = self.states.pop(each, None)
            if state is not None:
                state.drop_buffers()

    def state(self, partition: TopicPartition) -> PartitionState:
        found = self.states.get(partition)
        if found is None:
            raise UserError(
                f"{TopicPartition(*partition)} is not assigned to this consumer",
                "only assigned partitions have a position",
                "assign() it, or subscribe() and poll() until it is assigned",
            )
        return found

    def states_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Of all that are assigned, if none are named."""
        named = [self.state(each) for each in partitions]
        return named or list(self.states.values())

    def first_broken(self) -> PartitionState | None:
        """A partition that only a seek can mend; paused ones wait."""
        if not self.may_be_broken:
            return None
        broken = [state for state in self.states.values() if state.phase is Phase.BROKEN]
        self.may_be_broken = bool(broken)
        return next((state for state in broken if not state.paused), None)

    def topic_names(self) -> set[str]:
        """Whose metadata is needed."""
        return {each.topic for each in self.states} | set(self.topics)

    def _exclude(self, other: Kind, said: str) -> None:
        if self.kind is other:
            raise UserError(
                f"{said}() does not go together with what this consumer has been told before",
                "partitions are either assigned by hand or by the group",
                "Call unsubscribe() in between",
            )


def _names(wanted: "Iterable[str] | str") -> list[str]:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise UserError(f"{name!r} is not a topic name", "subscribe() takes names, or a compiled pattern")
    return sorted(set(names))

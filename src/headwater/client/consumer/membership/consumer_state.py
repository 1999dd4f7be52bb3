"""What a member of a group of the consumer protocol (KIP-848) knows and decides, without I/O.

The coordinator assigns; the member hears of it in answers to heartbeats, revokes first and then takes, and tells what
it owns in the next heartbeat. A heartbeat carries only what changed since the last one that was answered; after a
failure it carries everything, because nobody knows what arrived. A member that the coordinator fenced owns nothing any
more, and joins again with epoch 0 and the id that it always had. Owned by one `ConsumerMembership`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.membership.classic_state import Changes
from headwater.client.consumer.membership.port import RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.consumer.membership.verdicts import Verdict, consumer_verdict
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
_FIRST_INTERVAL_MS: Final = 5_000  # until the coordinator says otherwise

Partition = tuple[bytes, int]  # topic id and number


class Told(NamedTuple):
    """What the coordinator knows of the member."""

    topics: tuple[str, ...]
    pattern: str | None
    owned: frozenset[Partition]


@dataclass(slots=True)
class ConsumerState:
    member_id: str
    epoch: int = JOIN_EPOCH
    incarnation: int = 0  # answers to requests of an earlier one do not count
    heartbeat_interval_ms: int = _FIRST_INTERVAL_MS
    lost: bool = False
    urgent: bool = True  # the next heartbeat does not wait
    target: frozenset[Partition] | None = None  # what the coordinator last said; None: nothing yet
    reconciled: bool = True  # the target, as far as its names are known
    owned: dict[TopicPartition, bytes] = field(default_factory=dict)  # with their topic ids
    taking: dict[TopicPartition, bytes] = field(default_factory=dict)  # the ids of what is being assigned
    told: Told | None = None  # None: the next heartbeat tells everything
    told_pattern: bool = False
    told_assigned: bool = False  # the application knows its assignment, be it empty
    error: KafkaError | None = None
    error_is_final: bool = False

    @property
    def is_member(self) -> bool:
        return self.epoch > JOIN_EPOCH

    # Heartbeats

    def heartbeat(
        self, settings: MembershipSettings, topics: list[str], pattern: str | None
    ) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat. `answered` or `unanswered` follows."""
        before, now = self.told, Told(tuple(sorted(topics)), pattern, self._owned_by_id())
        everything = before is None or self.epoch == JOIN_EPOCH
        self.told = now
        self.urgent = False
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.group_instance_id,
        )
        if everything:
            request.rack_id = settings.rack_id
            request.rebalance_timeout_ms = settings.max_poll_interval_ms
            request.server_assignor = settings.remote_assignor
        if everything or before is None or before.topics != now.topics:
            request.subscribed_topic_names = list(now.topics)
        if pattern is not None if everything or before is None else before.pattern != pattern:
            request.subscribed_topic_regex = pattern or ""
        elif everything and self.told_pattern:
            request.subscribed_topic_regex = ""  # empty: no longer by pattern
        self.told_pattern |= pattern is not None
        if everything or before is None or before.owned != now.owned:
            request.topic_partitions = _by_topic(now.owned)
        return request

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert not response.error_code
        self.epoch = response.member_epoch
        self.member_id = response.member_id or self.member_id
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.target = frozenset(
                (bytes(topic.topic_id), index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )
            self.reconciled = False

    def unanswered(self) -> None:
        """Nobody knows whether it arrived."""
        self.told = None
        self.urgent = True

    def refused(self, code: ErrorCode, message: str | None) -> Verdict:
        verdict = consumer_verdict(code)
        if verdict in (Verdict.LOSE_MEMBER, Verdict.TELL, Verdict.END):
            self.lose()
        if verdict in (Verdict.TELL, Verdict.END):
            self.error = KafkaError(code, message)
            self.error_is_final = verdict is Verdict.END
        if verdict is Verdict.AGAIN:
            self.unanswered()
        return verdict

    def lose(self) -> None:
        """All that is owned is somebody else's now, or soon."""
        self.incarnation += 1
        self.epoch = JOIN_EPOCH
        self.lost = True
        self.target = None
        self.reconciled = True
        self.told = None
        self.told_assigned = False

    def rejoin(self) -> None:
        """What was lost is given up."""
        assert not self.owned, "what is lost was not given up"
        self.lost = False
        self.urgent = True

    # Reconciliation

    def changes(self, names: Mapping[bytes, str]) -> Changes:
        """What leads to the target, as far as its topics have names. A topic that was made anew has another id."""
        wanted = {
            TopicPartition(names[topic_id], index): topic_id
            for topic_id, index in self.target or ()
            if topic_id in names
        }
        self.taking = {each: topic_id for each, topic_id in wanted.items() if self.owned.get(each) != topic_id}
        revoked = sorted(each for each, topic_id in self.owned.items() if wanted.get(each) != topic_id)
        return Changes(tuple(revoked), tuple(sorted(self.taking)))

    def acknowledged(self, event: RebalanceEvent) -> None:
        self.told_assigned |= event.kind is RebalanceKind.ASSIGNED and not self.lost
        for each in event.partitions:
            if event.kind is RebalanceKind.ASSIGNED:
                self.owned[each] = self.taking[each]
            else:
                self.owned.pop(each, None)
        self.urgent = True

    def lost_event(self) -> RebalanceEvent | None:
        return RebalanceEvent(RebalanceKind.LOST, tuple(sorted(self.owned))) if self.owned else None

    def at_the_end(self) -> RebalanceEvent | None:
        if not self.is_member:
            return self.lost_event()
        return RebalanceEvent(RebalanceKind.REVOKED, tuple(sorted(self.owned))) if self.owned else None

    def error_told(self) -> None:
        if not self.error_is_final:
            self.error = None

    def _owned_by_id(self) -> frozenset[Partition]:
        return frozenset((topic_id, each.partition) for each, topic_id in self.owned.items())


def _by_topic(partitions: frozenset[Partition]) -> list[TopicPartitions]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in found.items()]

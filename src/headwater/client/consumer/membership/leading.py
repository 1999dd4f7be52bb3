"""What the leader of a classic group does besides: it assigns, and it watches the topics of all members for changes.

The coordinator does not know topics; if one gets more partitions, only the leader notices, and joins again, which makes
the whole group rebalance. Owned by one `ClassicMembership`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import decode_subscription, encode_assignment
from headwater.client.consumer.assignors.spec import Assignor, MemberSubscription
from headwater.client.session import Session
from headwater.wire.messages.join_group import JoinGroupResponseMember
from headwater.wire.messages.sync_group import SyncGroupRequestAssignment

_MISSING_TOPIC_INTERVAL: Final = 1.0  # a topic that a member waits for may be made at any time


class Leading:
    """`counts` are the partitions of the group's topics as they were when they were assigned; None: not the leader."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.counts: dict[str, int] | None = None

    def resign(self) -> None:
        self.counts = None

    async def watch_topics(self, members: Iterable[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
        """Asks for the metadata of all topics of all members; gives their subscriptions by member id."""
        subscriptions = {
            each.member_id: decode_subscription(bytes(each.metadata), each.group_instance_id) for each in members
        }
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        if topics:
            await self._session.refresh(topics)
        self.counts = {topic: self._count(topic) for topic in topics}
        return subscriptions

    def assign(
        self, assignor: Assignor, subscriptions: Mapping[str, MemberSubscription]
    ) -> list[SyncGroupRequestAssignment]:
        assert self.counts is not None
        existing = {topic: count for topic, count in self.counts.items() if count}
        assignment = assignor.assign(existing, subscriptions)
        _check(assignor, existing, subscriptions, assignment)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(sorted(assignment.get(member_id, ())))
            )
            for member_id in subscriptions
        ]

    def topics_changed(self) -> bool:
        """Whether the metadata of now would have been assigned otherwise."""
        return self.counts is not None and any(self._count(topic) != count for topic, count in self.counts.items())

    def topics_to_refresh(self, *, missing_too: bool) -> list[str]:
        """All, if the metadata of one is old; else, when `interval` is over, those that are missing."""
        counts = self.counts or {}
        if any(self._session.is_stale(topic) for topic in counts):
            return list(counts)
        return [topic for topic, count in counts.items() if not count] if missing_too else []

    def interval(self) -> float:
        """How long the metadata may stay unseen."""
        whole = self._session.settings.metadata_max_age_ms / 1000
        missing = self.counts is not None and not all(self.counts.values())
        return min(whole, _MISSING_TOPIC_INTERVAL) if missing else whole

    def _count(self, topic: str) -> int:
        found = self._session.view.topics.get(topic)
        return 0 if found is None or found.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else len(found.partitions)


def _check(
    assignor: Assignor,
    counts: Mapping[str, int],
    subscriptions: Mapping[str, MemberSubscription],
    assignment: Mapping[str, Iterable[TopicPartition]],
) -> None:
    """A custom assignor may be wrong; what is wrong must not reach the group."""
    seen: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        if member_id not in subscriptions:
            raise _wrong(assignor, f"gives partitions to {member_id!r}, which is not a member")
        for each in partitions:
            if each.topic not in subscriptions[member_id].topics:
                raise _wrong(assignor, f"gives {each} to {member_id!r}, which does not subscribe to it")
            if not 0 <= each.partition < counts.get(each.topic, 0):
                raise _wrong(assignor, f"gives {each} to {member_id!r}, which does not exist")
            if each in seen:
                raise _wrong(assignor, f"gives {each} to two members")
            seen.add(each)


def _wrong(assignor: Assignor, what: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignor {assignor.name!r} {what}")

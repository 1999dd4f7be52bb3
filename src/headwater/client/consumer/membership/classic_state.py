"""What a member of a classic group knows and decides, without I/O.

    unjoined --join--> joining --assigned--> stable --rejoin wanted--> joining ...

An eager member gives up everything before it joins; a cooperative one only what it no longer subscribes to, and after
the join what it was not given again. Where the coordinator no longer counts the member in (`lost`), what it owns is
lost: somebody else may have it already. Owned by one `ClassicMembership`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.spec import NO_GENERATION, Assignor, MemberSubscription
from headwater.client.consumer.membership.port import RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.verdicts import Api, Verdict, classic_verdict


class Changes(NamedTuple):
    """What an assignment means for what is owned."""

    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


@dataclass(slots=True)
class ClassicState:
    cooperative: bool
    member_id: str = ""
    generation: int = NO_GENERATION
    joining: bool = False
    lost: bool = False
    rejoin_reason: str | None = None  # None: no rejoin is wanted
    joined_topics: frozenset[str] | None = None  # what the coordinator was told
    owned: set[TopicPartition] = field(default_factory=set)
    previous: tuple[TopicPartition, ...] = ()  # the last assignment, for sticky assignors, whatever became of it
    previous_generation: int = NO_GENERATION
    foreign_generation: int = NO_GENERATION  # the last whose assignment had topics that are not subscribed to
    error: KafkaError | None = None
    error_is_final: bool = False

    @property
    def stable(self) -> bool:
        return self.generation != NO_GENERATION and not self.joining

    def subscription(self, assignor: Assignor, topics: Iterable[str], rack_id: str | None) -> MemberSubscription:
        names = tuple(sorted(topics))
        owned = tuple(sorted(self.owned)) if self.cooperative else ()
        return MemberSubscription(
            topics=names,
            owned=owned,
            generation=self.generation,
            rack_id=rack_id,
            user_data=assignor.user_data(names, self.previous, self.previous_generation),
        )

    # Before a join

    def want_rejoin(self, reason: str) -> None:
        """The first reason is the one that is told."""
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def to_give_up(self, topics: Iterable[str]) -> RebalanceEvent | None:
        """What has to be given up before the member joins with these topics."""
        if self.lost:
            return _event(RebalanceKind.LOST, self.owned)
        if not self.cooperative:
            return _event(RebalanceKind.REVOKED, self.owned)
        wanted = frozenset(topics)
        return _event(RebalanceKind.REVOKED, (each for each in self.owned if each.topic not in wanted))

    def join_begins(self, topics: Iterable[str]) -> None:
        assert not self.lost or not self.owned, "what is lost was not given up"
        self.lost = False
        self.joining = True
        self.rejoin_reason = None
        self.joined_topics = frozenset(topics)

    # Answers

    def refused(self, api: Api, code: ErrorCode, message: str | None = None) -> Verdict:
        """Takes an answer in that is not the wanted one; says what to do."""
        verdict = classic_verdict(api, code)
        if verdict in (Verdict.LOSE_GENERATION, Verdict.LOSE_MEMBER):
            self.lose(f"the coordinator answered {code.name}", forget_member=verdict is Verdict.LOSE_MEMBER)
        elif verdict is Verdict.REJOIN:
            self.want_rejoin("the group rebalances")
        elif verdict in (Verdict.TELL, Verdict.END):
            self.lose("an error has to be told", forget_member=verdict is Verdict.END)
            self.error = KafkaError(code, message)
            self.error_is_final = verdict is Verdict.END
        elif verdict in (Verdict.AGAIN, Verdict.TAKE_ID) and api in (Api.JOIN, Api.SYNC):
            # still joining: the old generation may be over, and heartbeats of it would lose what is owned
            self.want_rejoin("the join did not succeed" if verdict is Verdict.AGAIN else "a member id was needed")
        return verdict

    def lose(self, reason: str, *, forget_member: bool) -> None:
        self.generation = NO_GENERATION
        self.joining = False
        self.lost = True
        self.want_rejoin(reason)
        if forget_member:
            self.member_id = ""

    def assigned(self, generation: int, partitions: Iterable[TopicPartition], topics: Iterable[str]) -> Changes:
        """The join succeeded. `topics` are those subscribed to now: they may have changed meanwhile."""
        self.joining = False
        self.generation = generation
        self.previous = tuple(sorted(set(partitions)))
        self.previous_generation = generation
        wanted = frozenset(topics)
        target = {each for each in self.previous if each.topic in wanted}
        if wanted != self.joined_topics:
            self.want_rejoin("the subscription changed while the group rebalanced")
        elif len(target) < len(self.previous) and generation != self.foreign_generation:
            # a static member gets what its former life had; where joining again changes nothing, once is enough
            self.foreign_generation = generation
            self.want_rejoin("the assignment has topics that are not subscribed to")
        changes = Changes(tuple(sorted(self.owned - target)), tuple(sorted(target - self.owned)))
        if changes.revoked:
            self.want_rejoin("revoked partitions are free for others")
        return changes

    def acknowledged(self, event: RebalanceEvent) -> None:
        """The consumer has done it: what is owned changes now."""
        if event.kind is RebalanceKind.ASSIGNED:
            self.owned.update(event.partitions)
        else:
            self.owned.difference_update(event.partitions)

    def at_the_end(self) -> RebalanceEvent | None:
        """The last event of a member that leaves."""
        gone = self.lost or self.generation == NO_GENERATION
        return _event(RebalanceKind.LOST if gone else RebalanceKind.REVOKED, self.owned)

    def error_told(self) -> None:
        if not self.error_is_final:
            self.error = None


def _event(kind: RebalanceKind, partitions: Iterable[TopicPartition]) -> RebalanceEvent | None:
    chosen = tuple(sorted(partitions))
    return RebalanceEvent(kind, chosen) if chosen else None

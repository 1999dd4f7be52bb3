"""What a consumer and its membership in a group say to each other.

A membership runs by itself, in tasks on the kernel: it joins when the application polls, heartbeats, and rebalances. It
alone decides which partitions the member owns, and says so in events, one at a time: `next_event` gives the event that
waits, the consumer does its part and calls the user's listener, then `acknowledge` lets the membership go on. So
listeners run only inside poll (and close and unsubscribe), in the caller's context, with no lock held between the two
calls.

What the consumer does for each kind, in this order:

    REVOKED   stop fetching `partitions`, commit their positions if commits are automatic (the generation still counts),
              call on_partitions_revoked, forget them, acknowledge
    LOST      stop fetching, call on_partitions_lost, forget them, acknowledge; nothing can be committed for them
    ASSIGNED  add `partitions` (new ones only; there may be none), call on_partitions_assigned, which may seek, take the
              positions of the rest from the committed offsets, acknowledge

An event is acknowledged also when the listener raises. It stays the same until then, whatever happens to the group.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.session import Session


class RebalanceKind(Enum):
    REVOKED = auto()
    LOST = auto()
    ASSIGNED = auto()


@dataclass(frozen=True, slots=True)
class RebalanceEvent:
    kind: RebalanceKind
    partitions: tuple[TopicPartition, ...]


class Departure(Enum):
    """What `close` does to the membership. DEFAULT: a static member stays, any other leaves."""

    DEFAULT = auto()
    LEAVE = auto()
    REMAIN = auto()


class MembershipHost(Protocol):
    """The consumer, as its membership sees it."""

    @property
    def session(self) -> Session: ...

    def subscribed_topics(self) -> list[str]:
        """The names, given by the user or found by matching a pattern here. Not for server-side patterns."""

    def subscription_pattern(self) -> str | None:
        """A pattern in RE2 syntax that the broker is to match (the consumer protocol only)."""

    def wake(self) -> None:
        """A poll that waits does well to look again: an event waits, or an error."""


class Membership(Protocol):
    """Owned by the kernel's owner, as everything on it. `start` once, and again after `leave`."""

    @property
    def group_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def member_id(self) -> str:
        """Empty: not a member now."""

    @property
    def generation(self) -> int:
        """The generation, or the member epoch, that commits carry. -1: not a member now; a commit would be refused."""

    @property
    def rebalancing(self) -> bool:
        """A join is under way: a commit with the generation of now would be refused with REBALANCE_IN_PROGRESS."""

    @property
    def error(self) -> KafkaError | None:
        """What ended the membership, until `raise_error` has told it."""

    def start(self) -> None: ...

    def subscription_changed(self) -> None:
        """`subscribed_topics` or `subscription_pattern` gives something else now."""

    def poll_heartbeat(self, now: float) -> None:
        """The application polls: the first time it joins; for `max.poll.interval.ms` from `now` it counts as alive.

        A poll that waits may give the time at which it will end. Where names come from a pattern, they are known
        before.
        """

    def next_event(self) -> RebalanceEvent | None:
        """The event that waits, now in the caller's hands."""

    def acknowledge(self, event: RebalanceEvent) -> None:
        """The event of `next_event` is done."""

    def raise_error(self) -> None:
        """Raises `error`, if there is one. One that may pass (a missing permission) is told once; poll then joins
        anew.
        """

    def failed(self, code: ErrorCode, generation: int | None = None) -> None:
        """A commit of this member, sent in `generation`, was refused with `code`.

        Codes that say nothing about the membership are ignored, and so are those of an earlier generation.
        """

    def stop(self) -> RebalanceEvent | None:
        """Before `leave`: no more rebalances. The last event, to be handled but not acknowledged. Heartbeats go on."""

    async def leave(self, reason: str, departure: Departure = Departure.DEFAULT, timeout_ms: int | None = None) -> None:
        """Tells the coordinator, if it can be reached in time, and ends the tasks. Does not raise."""

"""What both faces of a consumer have in common: everything that does not wait.

A face brings the way in (`_do`): a thread that has entered, or a task of the loop. Owned by the face.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from headwater.base.ids import TopicPartition
from headwater.client.consumer.arguments import Callbacks, OffsetsGiven, offsets_of, partitions_of
from headwater.client.consumer.commits import CommitCallback
from headwater.client.consumer.core import ConsumerCore, GroupMetadata
from headwater.client.consumer.positions import EARLIEST, LATEST, OffsetAndMetadata
from headwater.client.reactor.network import Network

T = TypeVar("T")


class ConsumerFace(ABC):
    _core: ConsumerCore
    _network: Network
    _closed: bool

    @abstractmethod
    def _do(self, action: Callable[[], T]) -> T:
        """Does something short with the core's state; refuses if the consumer is closed."""

    # What to read

    def subscribe(
        self,
        topics: Any,
        listener: Any = None,
        *,
        on_assigned: Callable[[list[TopicPartition]], Any] | None = None,
        on_revoked: Callable[[list[TopicPartition]], Any] | None = None,
        on_lost: Callable[[list[TopicPartition]], Any] | None = None,
    ) -> None:
        """Names, a compiled pattern, or a `SubscriptionPattern`. Replaces the subscription before."""
        if listener is None and (on_assigned or on_revoked or on_lost):
            listener = Callbacks(on_assigned, on_revoked, on_lost)
        self._do(lambda: self._core.subscribe(topics, listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions, without the group; those before are given up."""
        self._do(lambda: self._core.assign(partitions))

    def subscription(self) -> list[str]:
        return self._do(self._core.subscribed_topics)

    def assignment(self) -> list[TopicPartition]:
        return self._do(lambda: sorted(self._core.subscription.states))

    # Positions

    def seek(self, partition: TopicPartition, offset: "int | OffsetAndMetadata") -> None:
        known = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        self._do(lambda: self._core.seek(TopicPartition(*partition), known.offset, known.leader_epoch))

    def seek_to_beginning(self, *partitions: Any) -> None:
        """Of all that are assigned, if none are named."""
        self._do(lambda: self._core.seek_to_time(partitions_of(partitions), EARLIEST))

    def seek_to_end(self, *partitions: Any) -> None:
        self._do(lambda: self._core.seek_to_time(partitions_of(partitions), LATEST))

    def pause(self, *partitions: Any) -> None:
        """Not read until `resume`; the membership in the group goes on."""
        self._do(lambda: self._core.pause(partitions_of(partitions), True))

    def resume(self, *partitions: Any) -> None:
        self._do(lambda: self._core.pause(partitions_of(partitions), False))

    def paused(self) -> list[TopicPartition]:
        states = self._core.subscription.states
        return self._do(lambda: sorted(each for each, state in states.items() if state.paused))

    def current_lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the position is behind the end; None: not known yet."""
        return self._do(lambda: self._core.lag(TopicPartition(*partition)))

    # The rest

    def commit_async(self, offsets: OffsetsGiven = None, callback: CommitCallback | None = None) -> None:
        """Does not wait. `callback(offsets, error)` runs in a later poll, or in close.

        What fails for a moment is tried again, but never so that it would overwrite a newer commit.
        """
        self._do(lambda: self._core.commit_async(offsets_of(offsets), callback))

    def group_metadata(self) -> GroupMetadata:
        """For a transactional producer's `send_offsets_to_transaction`."""
        return self._do(self._core.group_metadata)

    def metrics(self) -> dict[str, float]:
        return self._do(self._core.metrics)

    def wakeup(self) -> None:
        """From any thread, or a signal handler: the poll under way, or the next one, raises `WakeupError`."""
        if not self._closed:
            self._core.woken = True
            self._network.post(self._core.wake)

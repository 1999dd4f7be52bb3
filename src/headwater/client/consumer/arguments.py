"""What users give to both faces, to what the core takes: partitions, offsets, listeners. No state."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.membership.port import RebalanceKind
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.consumer.record import ConsumerRecord

OffsetsGiven = Mapping[TopicPartition, "int | OffsetAndMetadata"] | ConsumerRecord | Iterable[ConsumerRecord] | None


class RebalanceListener:
    """What the application does when partitions come and go. Called inside poll, close and unsubscribe, by their
    caller.

    Within, commit, seek and position may be called. For `AsyncConsumer` the methods may be coroutine functions.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        """They are still this member's: the last moment to commit."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        """They are this member's now; positions are looked up afterwards, unless this seeks."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """They are another member's already: nothing can be committed for them."""
        return self.on_partitions_revoked(partitions)


class Callbacks(RebalanceListener):
    """A listener of functions."""

    def __init__(
        self,
        assigned: Callable[[list[TopicPartition]], Any] | None,
        revoked: Callable[[list[TopicPartition]], Any] | None,
        lost: Callable[[list[TopicPartition]], Any] | None,
    ) -> None:
        self._assigned = assigned
        self._revoked = revoked
        self._lost = lost

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        return self._revoked(partitions) if self._revoked is not None else None

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        return self._assigned(partitions) if self._assigned is not None else None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        return self._lost(partitions) if self._lost is not None else self.on_partitions_revoked(partitions)


_METHODS = {
    RebalanceKind.REVOKED: ("on_partitions_revoked",),
    RebalanceKind.ASSIGNED: ("on_partitions_assigned",),
    RebalanceKind.LOST: ("on_partitions_lost", "on_partitions_revoked"),
}


def listener_method(listener: Any, kind: RebalanceKind) -> Callable[[list[TopicPartition]], Any] | None:
    for name in _METHODS[kind]:
        method = getattr(listener, name, None)
        if method is not None:
            return method  # type: ignore[no-any-return]
    return None


def offsets_of(given: OffsetsGiven) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Offsets by partition; or a record, or records: then the offsets behind them. None: the positions."""
    if given is None:
        return None
    if isinstance(given, ConsumerRecord):
        return {given.topic_partition: OffsetAndMetadata(given.offset + 1, "", given.leader_epoch)}
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    if isinstance(given, Mapping):
        for partition, offset in given.items():
            found = OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
            if found.offset < 0:
                raise UserError(
                    f"offset {found.offset} of {TopicPartition(*partition)} cannot be committed", "it is negative"
                )
            offsets[TopicPartition(*partition)] = found
        return offsets
    records: Iterable[ConsumerRecord] = given
    for record in records:
        known = offsets.get(record.topic_partition)
        if known is None or known.offset <= record.offset:
            offsets[record.topic_partition] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
    return offsets


def partitions_of(given: tuple[Any, ...]) -> list[TopicPartition]:
    """`pause(a, b)` and `pause([a, b])` are the same."""
    if len(given) == 1 and not isinstance(given[0], TopicPartition):
        return [TopicPartition(*each) for each in given[0]]
    return [TopicPartition(*each) for each in given]


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1000))


def milliseconds_left(deadline: float | None) -> int | None:
    return None if deadline is None else milliseconds(deadline - time.monotonic())

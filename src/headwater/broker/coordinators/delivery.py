"""Brings transaction markers to the leaders of their partitions, wherever those are, and says what came of each.

What goes to one broker in one turn goes in one request. Nothing is tried again here: whoever asked does so after a
while, with what the image says then about leaders. Markers that wait for their turn are dropped if their coordinator
has lost its partition meanwhile.

Owned by the transaction coordinator of this broker.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, TopicPartition
from headwater.base.peers import Lane, Unreachable
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.markers import Marker, Results, write_markers
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_VERSION: Final = 2
_MARKERS_MAX: Final = 500  # in one request


class _Outgoing(NamedTuple):
    marker: Marker
    partitions: list[TopicPartition]
    is_wanted: Callable[[], bool]
    done: Callable[[Results], None]

    def told(self, code: ErrorCode) -> None:
        self.done(dict.fromkeys(self.partitions, code))


class Delivery:
    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._outgoing: dict[BrokerId, list[_Outgoing]] = {}

    def deliver(
        self,
        marker: Marker,
        partitions: Iterable[TopicPartition],
        is_wanted: Callable[[], bool],
        done: Callable[[Results], None],
    ) -> None:
        """`done` is called once for each broker that has a part in it, now or later.

        UNKNOWN_TOPIC_OR_PARTITION means that the partition exists no more; `is_wanted` is asked before anything leaves.
        """
        broker = self._broker
        if broker.peers is None:
            write_markers(broker, marker, partitions, done)
            return
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        unplaced: Results = {}
        for name in partitions:
            leader = self._leader_of(name)
            if leader is None:
                unplaced[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif leader not in broker.image.brokers:
                unplaced[name] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, []).append(name)
        if unplaced:
            done(unplaced)
        for leader, names in by_leader.items():
            if leader == broker.broker_id:
                write_markers(broker, marker, names, done)
            else:
                self._put(leader, _Outgoing(marker, names, is_wanted, done))

    def _leader_of(self, name: TopicPartition) -> BrokerId | None:
        topic_id = self._broker.image.ids_by_name.get(name.topic)
        if topic_id is None:
            return None
        states = self._broker.image.topics[topic_id].partitions
        return states[name.partition].leader if name.partition < len(states) else None

    # To other brokers

    def _put(self, leader: BrokerId, outgoing: _Outgoing) -> None:
        waiting = self._outgoing.setdefault(leader, [])
        waiting.append(outgoing)
        if len(waiting) == 1:
            self._broker.scheduler.call_soon(lambda: self._send(leader))

    def _send(self, leader: BrokerId) -> None:
        wanted = []
        for outgoing in self._outgoing.pop(leader, ()):
            if outgoing.is_wanted():
                wanted.append(outgoing)
            else:
                outgoing.told(ErrorCode.NOT_COORDINATOR)
        for first in range(0, len(wanted), _MARKERS_MAX):
            self._ask(leader, wanted[first : first + _MARKERS_MAX])

    def _ask(self, leader: BrokerId, asked: list[_Outgoing]) -> None:
        peers = self._broker.peers
        assert peers is not None

        def answered(response: Any, problem: Unreachable | None) -> None:
            if problem is not None or len(response.markers) != len(asked):
                for outgoing in asked:
                    outgoing.told(ErrorCode.NETWORK_EXCEPTION)
                return
            for outgoing, result in zip(asked, response.markers, strict=True):
                outgoing.done(_codes(outgoing.partitions, result.topics))

        request = WriteTxnMarkersRequest(markers=[_on_the_wire(each) for each in asked])
        timeout_ms = self._broker.config.int("request.timeout.ms")
        peers.ask(leader, Lane.MARKERS, request, _VERSION, answered, timeout_ms=timeout_ms)


def _on_the_wire(outgoing: _Outgoing) -> WritableTxnMarker:
    marker = outgoing.marker
    topics: dict[str, list[int]] = {}
    for name in outgoing.partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _codes(partitions: list[TopicPartition], topics: Iterable[Any]) -> Results:
    """A broker that does not know the partition has not heard of it yet: whether it exists is for our image to say."""
    codes = dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
    for topic in topics:
        for part in topic.partitions:
            code = ErrorCode(part.error_code)
            unknown = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
            codes[TopicPartition(topic.name, part.partition_index)] = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if unknown else code
            )
    return codes

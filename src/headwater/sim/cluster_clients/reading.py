"""Consumers of a cluster, and the audit at the end of a run.

What one client was told of a partition's end never goes back, whoever leads: it asks with the highest leader epoch that
it knows, so a deposed leader does not answer, and a new one that does not know the high watermark yet says so
(KIP-207).
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.consumer import EARLIEST, LATEST, Consumer, Place, Reader
from headwater.sim.cluster_clients.routed import OUT_OF_DATE, RoutedClient
from headwater.sim.trace import Violation
from headwater.wire.messages.fetch import FetchRequest
from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld

_FIRST_LIST_WITH_EPOCH: Final = 4
_FIRST_FETCH_WITH_EPOCH: Final = 9
_FIRST_FETCH_FROM_FOLLOWERS: Final = 11
_READ_VERSION: Final = 17
_MAY_PASS: Final = OUT_OF_DATE | {ErrorCode.OFFSET_NOT_AVAILABLE}


class ClusterReader(RoutedClient, Reader):
    def __init__(self, world: "ClusterWorld", name: str) -> None:
        super().__init__(world, name)
        self._latest_told: dict[tuple[bytes, int], int] = {}

    def end_offset(self, topic: Topic, index: int, timestamp: int) -> Steps:
        history = topic.partitions[index]
        part = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[part])], timeout_ms=1000
        )
        asked = history.ends
        (answer,) = yield [Ask(request, self.version(request.KEY, _FIRST_LIST_WITH_EPOCH))]
        if answer is None:
            return None
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.excuse(topic, index, found.error_code)
            return None
        if timestamp == EARLIEST:
            history.told_earliest(found.offset, asked)
        else:
            self._told_latest(topic, index, found.offset)
        return found.offset

    def _told_latest(self, topic: Topic, index: int, offset: int) -> None:
        history = topic.partitions[index]
        known = self._latest_told.get((topic.topic_id, index), 0)
        if offset < known and not history.may_lose:
            raise Violation(f"I15: {self.name} was told that {history.name} ends at {known}, and now at {offset}")
        self._latest_told[topic.topic_id, index] = offset
        history.told_latest(offset, history.ends, "latest offset")

    def excuse(self, topic: Topic, index: int, code: int) -> None:
        if code not in _MAY_PASS:
            super().excuse(topic, index, code)

    def read_up_to(self, place: Place) -> None:
        key = place.key
        self._latest_told[key] = max(self._latest_told.get(key, 0), place.position)


class ClusterConsumer(ClusterReader, Consumer):
    """Reads partitions of one leader at a time, and goes on elsewhere when it does not lead them any more."""

    _first_version = _FIRST_FETCH_WITH_EPOCH

    def script(self) -> Script:
        while not self.is_stopping:
            yield from self.metadata()
            for topic, index in self.some_partitions(2):
                yield from self.end_offset(topic, index, LATEST)
            yield from self._assign()
            if self._places:
                yield from self._poll(
                    self.version(FetchRequest.KEY, self._first_version),
                    self.random.random() < 0.6,
                    self.random.randint(3, 15),
                )
                for place in self._places.values():
                    self.read_up_to(place)
            yield self.random.randint(5, 300)

    def _assign(self) -> Steps:
        self._places = {}
        chosen = self.some_partitions(4)
        if not chosen:
            return
        node_id = self.leader_of(chosen[0][0].topic_id, "", chosen[0][1]).node_id
        for topic, index in chosen:
            if self.leader_of(topic.topic_id, "", index).node_id == node_id:
                which = self.random.choice((EARLIEST, EARLIEST, LATEST))
                end = yield from self.end_offset(topic, index, which)
                if end is not None:
                    self._places[topic.topic_id, index] = Place(topic, index, end)

    def _fetch(self, version: int, session_id: int, epoch: int, changed: list[Place]) -> Steps:
        """A place whose leader is another by now is let go."""
        leaders = {key: self.leader_of(key[0], "", key[1]).node_id for key in self._places}
        if len(set(leaders.values())) > 1 or self.is_out_of_date:
            self._places = {}
            return None, {}
        self._node_id = next(iter(leaders.values()))
        answer, asked = yield from super()._fetch(version, session_id, epoch, changed)
        return answer, asked

    def fetch_node(self) -> int:
        return self._node_id


class FollowerConsumer(ClusterConsumer):
    """Reads where no leader is, too: from any broker that may be a follower (KIP-392)."""

    def fetch_node(self) -> int:
        if self._chosen_for is not self._places:
            self._chosen_for = self._places
            self._chosen = self.random.choice(self.world.node_ids)
        return self._chosen

    _chosen_for: dict[tuple[bytes, int], Place] | None = None
    _first_version = _FIRST_FETCH_FROM_FOLLOWERS


class ClusterAuditor(ClusterReader):
    """Reads every partition from its beginning to its end, and finds all that clients were told of."""

    def script(self) -> Script:
        while (yield from self.metadata()) is None:
            yield 100
        for topic in list(self.world.catalog.usable()):
            for index in range(len(topic.partitions)):
                yield from self._audit(topic, index)

    def _audit(self, topic: Topic, index: int) -> Steps:
        history = topic.partitions[index]
        earliest = yield from self._surely(topic, index, EARLIEST)
        place = Place(topic, index, earliest)
        latest = yield from self._surely(topic, index, LATEST)
        while place.position < latest:
            asked = history.ends
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=self.fetch_topics([place], 1 << 20))
            (answer,) = yield [Ask(request, _READ_VERSION)]
            if answer is None or answer.error_code:
                yield 50
                continue
            data = answer.responses[0].partitions[0]
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and history.begins_anywhere:
                yield from self._audit(topic, index)  # retention was quicker
                return
            if data.error_code in _MAY_PASS:
                yield 50
            elif data.error_code:
                raise Violation(f"I16: {history.name} answers {ErrorCode(data.error_code).name} with all faults gone")
            else:
                self.take(place, data, asked)
        history.audited(earliest, place.position)

    def _surely(self, topic: Topic, index: int, timestamp: int) -> Steps:
        while True:
            offset = yield from self.end_offset(topic, index, timestamp)
            if offset is not None:
                return offset
            yield 50

"""Consumers by offset: with and without fetch sessions, with and without waiting; and the audit at the end of a run.

Every batch's CRC is checked. A consumer goes on from where it was, or begins anew at an end that ListOffsets tells.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.reader import Record, check_crc, read_batches, read_records
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, SimClient, Steps
from headwater.sim.history import Ends, PartitionHistory
from headwater.sim.trace import Violation
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from headwater.sim.stage import Stage

LATEST: Final = -1
EARLIEST: Final = -2
_RECORD_BYTES_MAX: Final = 1 << 20
_FIRST_SESSION: Final = 7
_FIRST_TOPIC_ID: Final = 13
_MAY_PASS: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Place:
    """One assigned partition."""

    def __init__(self, topic: Topic, index: int, position: int) -> None:
        self.topic = topic
        self.index = index
        self.position = position
        self.sent_position = -1  # what the session was last told
        self.losses = self.history.losses

    @property
    def history(self) -> PartitionHistory:
        return self.topic.partitions[self.index]

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic.topic_id, self.index


class Reader(SimClient):
    """What consumers and the audit do."""

    def __init__(self, world: "Stage", name: str) -> None:
        super().__init__(world, name)
        self._places: dict[tuple[bytes, int], Place] = {}
        self._out_of_range: list[Place] = []

    def explain_out_of_range(self) -> Steps:
        """There is one good reason: what was asked for has been deleted."""
        while self._out_of_range:
            place = self._out_of_range.pop()
            earliest = yield from self.end_offset(place.topic, place.index, EARLIEST)
            history = place.history
            if history.may_lose or history.begins_anywhere:
                continue
            if earliest is not None and earliest <= place.position and history.losses == place.losses:
                raise Violation(f"I6: {history.name} has no offset {place.position}, it says, and begins at {earliest}")

    def end_offset(self, topic: Topic, index: int, timestamp: int) -> Steps:
        """By ListOffsets; None without an answer."""
        if not topic.may_be_named and not self.world.is_finishing:
            return None  # ListOffsets knows names only, and the name may mean another topic by now
        history = topic.partitions[index]
        asked = history.ends
        part = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[part])], timeout_ms=1000
        )
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return None
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.excuse(topic, index, found.error_code)
            return None
        if timestamp == EARLIEST:
            history.told_earliest(found.offset, asked)
        else:
            history.told_latest(found.offset, asked, "latest offset")
        return found.offset

    def excuse(self, topic: Topic, index: int, code: int) -> None:
        """Errors that a consumer may get."""
        if code in _MAY_PASS or (code in _UNKNOWN and topic.delete_asked):
            return
        raise Violation(f"{self.name} got {ErrorCode(code).name} from {topic.partitions[index].name}")

    def take(self, place: Place, data: PartitionData, asked: Ends) -> None:
        """What a fetch brought from one partition; moves the position."""
        history = place.history
        if history.losses > place.losses:  # what this consumer had read may be gone
            place.losses = history.losses
            place.position = min(place.position, history.ends.latest)
            return
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._places.pop(place.key, None)
            self._out_of_range.append(place)
            return
        if data.error_code:
            self.excuse(place.topic, place.index, data.error_code)
            self._places.pop(place.key, None)
            return
        records = _records(data, history.name)
        place.position = history.read(place.position, records, data.high_watermark, asked)
        if history.has_gaps:  # the last batches may have no records any more
            place.position = max(place.position, _next_offset(data))

    def fetch_topics(self, places: list[Place], bytes_max: int) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for place in places:
            topic = topics.setdefault(
                place.topic.topic_id, FetchTopic(topic=place.topic.name, topic_id=place.topic.topic_id, partitions=[])
            )
            topic.partitions.append(
                FetchPartition(partition=place.index, fetch_offset=place.position, partition_max_bytes=bytes_max)
            )
        return list(topics.values())

    def place_of(self, topic: str, topic_id: bytes, index: int) -> Place | None:
        for place in self._places.values():
            if place.index == index and (place.topic.topic_id == topic_id or (topic and place.topic.name == topic)):
                return place
        return None


def _records(data: PartitionData, name: str) -> list[Record]:
    if not data.records:
        return []
    records: list[Record] = []
    try:
        for at, header in read_batches(data.records):
            batch = data.records[at : at + header.size_bytes]
            check_crc(batch, header)
            records += read_records(batch, _RECORD_BYTES_MAX)
    except KafkaError as problem:
        raise Violation(f"{name} served a damaged batch: {problem.message}") from problem
    return records


class Consumer(Reader):
    def script(self) -> Script:
        while not self.is_stopping:
            yield from self.metadata()
            yield from self._assign()
            if self._places:
                version = self._version()
                uses_session = version >= _FIRST_SESSION and self.random.random() < 0.6
                yield from self._poll(version, uses_session, self.random.randint(3, 15))
            yield self.random.randint(5, 300)

    def _version(self) -> int:
        by_name = all(place.topic.may_be_named for place in self._places.values())
        return self.version(FetchRequest.KEY, 4 if by_name else _FIRST_TOPIC_ID)

    def _assign(self) -> Steps:
        self._places = {}
        for topic, index in self.some_partitions(4):
            end: int | None = topic.partitions[index].ends.earliest  # where a name does not do
            if topic.may_be_named:
                which = self.random.choice((EARLIEST, EARLIEST, EARLIEST, LATEST))
                end = yield from self.end_offset(topic, index, which)
            if end is not None and not topic.delete_asked:
                self._places[topic.topic_id, index] = Place(topic, index, end)

    def _poll(self, version: int, uses_session: bool, rounds: int) -> Steps:
        session_id, epoch = 0, 0 if uses_session else -1
        for _ in range(rounds):
            changed = [place for place in self._places.values() if epoch <= 0 or place.position != place.sent_position]
            if not self._places or self.is_stopping:
                return
            answer, asked = yield from self._fetch(version, session_id, epoch, changed)
            if answer is None or answer.error_code:
                session_id, epoch = 0, min(epoch, 0)
                continue
            session_id = answer.session_id
            if epoch >= 0:
                epoch = epoch + 1 if session_id else 0
            before = len(self._places)
            self._take_all(answer, asked)
            yield from self.explain_out_of_range()
            yield self.random.choice((0, 10, 60, 150))
            if len(self._places) < before:  # a partition was dropped: the session is begun anew without it
                session_id, epoch = 0, min(epoch, 0)

    def _fetch(self, version: int, session_id: int, epoch: int, changed: list[Place]) -> Steps:
        for place in changed:
            place.sent_position = place.position
        asked = {key: place.history.ends for key, place in self._places.items()}
        request = FetchRequest(
            max_wait_ms=self.random.choice((0, 100, 500, 2000)),
            min_bytes=self.random.choice((0, 1, 1, 500)),
            max_bytes=self.random.choice((1, 300, 1 << 20)),
            session_id=session_id,
            session_epoch=epoch,
            topics=self.fetch_topics(changed, self.random.choice((1, 400, 1 << 20))),
        )
        (answer,) = yield [Ask(request, version, node_id=self.fetch_node())]
        return answer, asked

    def fetch_node(self) -> int:
        """In a cluster: whom this fetch session is with."""
        return -1

    def _take_all(self, answer: FetchResponse, asked: dict[tuple[bytes, int], Ends]) -> None:
        for topic in answer.responses:
            for data in topic.partitions:
                place = self.place_of(topic.topic, topic.topic_id, data.partition_index)
                if place is None:
                    raise Violation(f"{self.name} got a partition that it did not ask for")
                self.take(place, data, asked[place.key])


class Auditor(Reader):
    """The end of a run: reads every partition from its beginning to its end, and finds all that clients were told
    of.
    """

    def script(self) -> Script:
        while (yield from self.metadata()) is None:
            yield 100
        for topic in self.world.catalog.usable():
            for index in range(len(topic.partitions)):
                yield from self._audit(topic, index)

    def _audit(self, topic: Topic, index: int) -> Steps:
        history = topic.partitions[index]
        earliest = None
        while earliest is None:
            earliest = yield from self.end_offset(topic, index, EARLIEST)
            yield 10
        place = Place(topic, index, earliest)
        while True:
            asked = history.ends
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=self.fetch_topics([place], 1 << 20))
            (answer,) = yield [Ask(request, FetchRequest.VERSIONS[1])]
            if answer is None:
                continue
            data = answer.responses[0].partitions[0]
            self.take(place, data, asked)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention was quicker
                yield from self.explain_out_of_range()
                yield from self._audit(topic, index)
                return
            if data.error_code:
                raise Violation(f"I16: {history.name} answers {ErrorCode(data.error_code).name} with all faults gone")
            if not data.records:
                history.audited(earliest, place.position)
                return


def _next_offset(data: PartitionData) -> int:
    return max((header.last_offset + 1 for _, header in read_batches(bytes(data.records or b""))), default=0)

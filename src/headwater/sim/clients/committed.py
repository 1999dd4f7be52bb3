"""Readers that see committed transactions only, as clients do it: by the list of aborted ones and the markers on the
way.

The audit at the end of a run reads everything once more, when every transaction has come to its end.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.records.control import read_end_transaction_marker
from headwater.records.reader import check_crc, read_batches, read_records
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.coordinated import CoordinatedClient
from headwater.sim.trace import Violation
from headwater.sim.transaction_history import number_of
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

if TYPE_CHECKING:
    from headwater.sim.coordinated import CoordinatedStage

READ_COMMITTED: Final = 1
_BYTES_MAX: Final = 1 << 20
_MAY_PASS: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_FIRST_SESSION: Final = 7

PartitionOf = tuple[bytes, int]


class CommittedPart:
    """What one fetch brought."""

    def __init__(self, position: int) -> None:
        self.values: list[tuple[int, bytes]] = []
        self.position = position
        self.is_at_end = False


class CommittedClient(CoordinatedClient):
    def read_committed(self, topic: Topic, index: int, position: int) -> Steps:
        """CommittedPart, or None without an answer."""
        history = topic.partitions[index]
        asked, stable = history.ends, self.world.stable_end(topic, index)
        part = FetchPartition(
            partition=index, fetch_offset=position, partition_max_bytes=self.random.choice((1, 300, _BYTES_MAX))
        )
        request = FetchRequest(
            max_wait_ms=self.random.choice((0, 0, 50)),
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[part])],
        )
        (answer,) = yield [Ask(request, self.version(FetchRequest.KEY, self.world.first_fetch_version))]
        if answer is None:
            return None
        data = answer.responses[0].partitions[0]
        if data.error_code:
            if not self.may_read_again(data.error_code):
                raise Violation(f"{self.name} got {ErrorCode(data.error_code).name} from {history.name}")
            return None
        history.told_latest(data.high_watermark, asked, "high watermark")
        self.world.told_stable_end(topic, index, data.last_stable_offset, data.high_watermark, stable)
        return self._decode(topic, index, position, data)

    def may_read_again(self, code: int) -> bool:
        return code in _MAY_PASS

    def _decode(self, topic: Topic, index: int, position: int, data: PartitionData) -> CommittedPart:
        history = topic.partitions[index]
        result = CommittedPart(position)
        aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
        if aborted != sorted(aborted, key=lambda each: each[0]):
            raise Violation(f"I4: {history.name} tells of aborted transactions out of order")
        open_aborted: set[int] = set()
        for at, header in read_batches(data.records or b""):
            assert data.records is not None
            batch = data.records[at : at + header.size_bytes]
            check_crc(batch, header)
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborted.add(aborted.pop(0)[1])
            records = read_records(batch, _BYTES_MAX)
            if header.last_offset >= data.last_stable_offset:
                raise Violation(
                    f"I4: {history.name} served {header.last_offset} past {data.last_stable_offset}, its last stable offset"
                )
            if header.is_control:
                marker = read_end_transaction_marker(records[0])
                if marker is not None and not marker.committed:
                    open_aborted.discard(header.producer_id)
            else:
                for record in records:
                    history.seen(record.offset, record.value or b"")
                    if record.offset >= position and header.producer_id not in open_aborted:
                        result.values.append((record.offset, record.value or b""))
            result.position = max(result.position, header.last_offset + 1)
        result.is_at_end = result.position >= data.high_watermark
        return result


class CommittedReader(CommittedClient):
    """Reads all partitions side by side; remembers what it saw, for the audit."""

    def __init__(self, world: "CoordinatedStage", name: str) -> None:
        super().__init__(world, name)
        self.seen: dict[PartitionOf, dict[int, bytes]] = {}
        self.positions: dict[PartitionOf, int] = {}

    def script(self) -> Script:
        yield from self.topics_made()
        while not self.is_stopping:
            topic, index = self.random.choice(self.world.outputs())
            yield from self.poll(topic, index)
            yield self.random.choice((0, 10, 100))

    def poll(self, topic: Topic, index: int) -> Steps:
        """Whether the end was reached."""
        key = topic.topic_id, index
        part = yield from self.read_committed(topic, index, self.positions.get(key, 0))
        if part is None:
            return False
        self.positions[key] = part.position
        for offset, value in part.values:
            self.world.transactions.saw(number_of(value), self.name)
            self.seen.setdefault(key, {})[offset] = value
        return part.is_at_end


class CommittedAuditor(CommittedReader):
    """The end of a run: every transaction is over, all of it or nothing is there, and every reader saw what it
    passed.
    """

    def __init__(self, world: "CoordinatedStage", name: str, readers: list[CommittedReader]) -> None:
        super().__init__(world, name)
        self._readers = readers

    def script(self) -> Script:
        for topic, index in self.world.outputs():
            while not (yield from self.poll(topic, index)):
                yield 50
        offsets: dict[str, int] = {}
        for transactional_id in self.world.transactional_ids:
            offset = None
            while offset is None:
                offset = yield from self.committed(transactional_id, *self.world.inputs()[0])
                yield 20
            offsets[transactional_id] = offset
        visible = {value for values in self.seen.values() for value in values.values()}
        self.world.transactions.audited(visible, offsets)
        for reader in self._readers:
            self._compare(reader)
        yield from self._audit_groups()

    def _compare(self, reader: CommittedReader) -> None:
        for key, position in reader.positions.items():
            expected = {offset: value for offset, value in self.seen.get(key, {}).items() if offset < position}
            seen = reader.seen.get(key, {})
            if seen != expected:
                skipped = sorted(expected.keys() - seen.keys())
                raise Violation(f"I6: {reader.name} passed committed records of partition {key[1]} by: {skipped}")

    def _audit_groups(self) -> Steps:
        for group in self.world.group_ids:
            for topic, index in self.world.inputs():
                offset = None
                while offset is None:
                    asked_at = self.world.groups.now()
                    offset = yield from self.committed(group, topic, index)
                    yield 20
                self.world.groups.fetched(group, index, offset, asked_at)

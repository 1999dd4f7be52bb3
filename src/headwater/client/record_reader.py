"""Reading partitions by assignment, for tools: where to start, then fetch after fetch, until a stop or for ever.

`resolve` turns a window (beginning, end, offset, last N, time) into offsets. `RecordReader` owns the positions: every
poll asks all leaders at once and gives what came, each partition's records in order. It stands on the connections of an
`Admin`, and starts with less than a `Consumer` does. For one thread.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.calls import BlockingFace
from headwater.client.admin.records import list_offsets
from headwater.client.errors import ConnectionFailed, RequestTimedOut, error_for, raise_for
from headwater.client.outcomes import all_or_raise
from headwater.client.positions import AtTime, PartitionOffsets, Window, start_offset, stop_offset
from headwater.client.session import Session
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, FetchedRecord
from headwater.client.visible import aborted_in, visible_records
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024


class Span(NamedTuple):
    """Where one partition's reading begins, and the first offset that is not wanted (None: no end)."""

    start: int
    stop: int | None


def resolve(
    admin: BlockingFace,
    partitions: Iterable[TopicPartition],
    window: Window,
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, Span]:
    wanted = list(partitions)

    def ask(timestamp: int) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(wanted, timestamp)
        answers = admin.run(lambda session: list_offsets(session, asked, isolation_level=isolation_level))
        return {partition: answer.offset for partition, answer in all_or_raise(answers).items()}

    earliest, latest = ask(EARLIEST), ask(LATEST)
    at_start = ask(window.start.timestamp_ms) if isinstance(window.start, AtTime) else {}
    at_stop = ask(window.stop.timestamp_ms) if isinstance(window.stop, AtTime) else {}
    spans = {}
    for each in wanted:
        offsets = PartitionOffsets(earliest[each], latest[each], at_start.get(each, -1), at_stop.get(each, -1))
        spans[each] = Span(start_offset(window.start, offsets), stop_offset(window.stop, offsets))
    return spans


class RecordReader:
    """`high_watermarks` is what the last fetches said. `skipped` counts offsets that were gone before they were
    read.
    """

    def __init__(
        self,
        admin: BlockingFace,
        spans: dict[TopicPartition, Span],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
    ) -> None:
        self.positions = {partition: span.start for partition, span in spans.items()}
        self.stops = {partition: span.stop for partition, span in spans.items() if span.stop is not None}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.skipped = 0
        self._admin = admin
        self._session = admin.session
        self._order = list(spans)  # whoever gave records goes to the back, so that none starves behind a full response
        self._isolation_level = isolation_level
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._failures = 0
        self._give_up_at = 0.0

    @property
    def reading(self) -> list[TopicPartition]:
        """The partitions that have not reached their stop."""
        return [each for each in self._order if each not in self.stops or self.positions[each] < self.stops[each]]

    @property
    def done(self) -> bool:
        return not self.reading

    def poll(self) -> list[FetchedRecord]:
        """What came within the wait; maybe nothing. Raises when a failure lasts beyond the API timeout."""
        return self._admin.run(self._poll)

    async def _poll(self, session: Session) -> list[FetchedRecord]:
        reading = self.reading
        missing = {each.topic for each in reading if each.topic not in session.view.topics}
        if missing:
            await session.refresh(missing)
        routes = session.view.route(reading)
        problem = next(iter(routes.without_leader.values()), None)
        records: list[FetchedRecord] = []
        answers = await session.kernel.all_of([self._fetch(*route) for route in routes.by_leader.items()])
        for answer in answers:
            if isinstance(answer, ConnectionFailed | RequestTimedOut):
                problem = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                problem = await self._take(answer, records) or problem
        await self._after(problem)
        return records

    async def _fetch(self, leader: int, partitions: list[TopicPartition]) -> FetchResponse:
        timeout_ms = self._max_wait_ms + self._session.settings.request_timeout_ms
        response = await self._session.call(leader, self._request(partitions), FetchResponse, timeout_ms=timeout_ms)
        raise_for(response.error_code)
        return response

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for each in partitions:
            if each.topic not in topics:
                topics[each.topic] = FetchTopic(
                    topic=each.topic, topic_id=self._session.view.topics[each.topic].topic_id
                )
            topics[each.topic].partitions.append(
                FetchPartition(
                    partition=each.partition,
                    fetch_offset=self.positions[each],
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
        )

    async def _take(self, response: FetchResponse, records: list[FetchedRecord]) -> KafkaError | None:
        """Adds what the response holds to `records`; gives an error that may pass, raises one that will not."""
        problem = None
        for topic in response.responses:
            name = topic.topic or self._session.view.topic_name(topic.topic_id)
            for data in topic.partitions if name is not None else ():
                partition = TopicPartition(name or "", data.partition_index)
                if partition not in self.positions:
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._out_of_range(partition)
                elif data.error_code:
                    problem = error_for(data.error_code, str(partition))
                    if not problem.code.retriable:
                        raise problem
                else:
                    self._take_partition(partition, data, records)
        return problem

    def _take_partition(self, partition: TopicPartition, data: PartitionData, records: list[FetchedRecord]) -> None:
        self.high_watermarks[partition] = data.high_watermark
        if not data.records:
            return
        aborted = aborted_in(data) if self._isolation_level == READ_COMMITTED else None
        position = self.positions[partition]
        seen = visible_records(
            partition, data.records, position, aborted, DECOMPRESSED_BYTES_MAX, self.stops.get(partition)
        )
        if seen.next_offset > position:
            self.positions[partition] = seen.next_offset
            self._order.remove(partition)
            self._order.append(partition)
        records += seen.records

    async def _out_of_range(self, partition: TopicPartition) -> None:
        """Retention may overtake a reader: then it goes on with what is left. Past the end it has no business."""
        position = self.positions[partition]
        answer = all_or_raise(await list_offsets(self._session, {partition: EARLIEST}))[partition]
        if position >= answer.offset:
            end = all_or_raise(await list_offsets(self._session, {partition: LATEST}))[partition]
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has no offset {position}; it goes from {answer.offset} to {end.offset}",
            )
        self.skipped += answer.offset - position
        self.positions[partition] = answer.offset

    async def _after(self, problem: KafkaError | None) -> None:
        """Failures are counted from the first in a row; each is followed by a pause and fresh metadata."""
        if problem is None:
            self._failures = 0
            return
        if self._failures == 0:
            self._give_up_at = self._session.deadline()
        if not problem.code.retriable or not await self._session.pause(self._failures, self._give_up_at):
            raise problem
        self._failures += 1
        await self._session.refresh_quietly({each.topic for each in self.reading})

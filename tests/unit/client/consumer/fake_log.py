"""Partitions that are not there: logs that a `FakeBroker` serves, and a consumer on the fake world's clock."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.client.consumer.arguments import listener_method
from headwater.client.consumer.consumer_settings import consumer_settings
from headwater.client.consumer.core import ConsumerCore
from headwater.client.consumer.record import ConsumerRecord
from headwater.records.builder import build_batch
from headwater.records.record import Record
from headwater.wire.messages import fetch, list_offsets, offset_commit, offset_fetch, offset_for_leader_epoch
from unit.client.reactor.fakes import HOLD, FakeBroker, FakeWorld, topic_id

NOW_MS = 1_700_000_000_000


class FakeLogs:
    """The logs of one broker. `errors` answer a partition's next fetches; `offsets` is what the group committed."""

    def __init__(self, world: FakeWorld, broker: FakeBroker) -> None:
        self.world = world
        self.broker = broker
        self.batches: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}  # base offset, last offset, bytes
        self.ends: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.errors: dict[TopicPartition, list[fetch.PartitionData]] = {}
        self.aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.session_errors: list[int] = []
        self.offsets: dict[TopicPartition, tuple[int, str, int]] = {}
        self.commit_errors: list[int] = []
        self.fetch_offset_errors: list[int] = []
        self.epoch_ends: dict[TopicPartition, tuple[int, int]] = {}
        self.sessions: dict[int, dict[tuple[bytes, int], fetch.FetchPartition]] = {}
        self.keeps_sessions = True
        broker.coordinates()
        broker.on(fetch.FetchRequest, self._fetch)
        broker.on(list_offsets.ListOffsetsRequest, self._list_offsets)
        broker.on(offset_commit.OffsetCommitRequest, self._commit)
        broker.on(offset_fetch.OffsetFetchRequest, self._committed)
        broker.on(offset_for_leader_epoch.OffsetForLeaderEpochRequest, self._epochs)

    def append(self, partition: TopicPartition, values: list[bytes], **batch: Any) -> None:
        base = self.ends.get(partition, 0)
        records = [
            Record(base + at, NOW_MS + base + at, b"k%d" % (base + at), value) for at, value in enumerate(values)
        ]
        self.append_raw(partition, len(values), bytes(build_batch(records, base_offset=base, **batch)))

    def append_raw(self, partition: TopicPartition, count: int, data: bytes) -> None:
        base = self.ends.get(partition, 0)
        self.batches.setdefault(partition, []).append((base, base + count - 1, data))
        self.ends[partition] = base + count

    def fetches(self) -> list[fetch.FetchRequest]:
        return self.broker.received(fetch.FetchRequest)

    def committed(self) -> list[offset_commit.OffsetCommitRequest]:
        return self.broker.received(offset_commit.OffsetCommitRequest)

    # Answers

    def _fetch(self, request: fetch.FetchRequest) -> Any:
        if self.session_errors:
            return fetch.FetchResponse(error_code=self.session_errors.pop(0), responses=[])
        wanted = self._wanted(request)
        response = self._data(request, wanted)
        if response.responses or not request.max_wait_ms:
            return response
        held = len(self.broker.held)

        def later() -> None:
            found = [each for each in self.broker.held if each.request is request]
            for each in found:
                self.broker.held.remove(each)
                each.answer(self._data(request, wanted))

        self.world.later(later, request.max_wait_ms / 1000)
        assert held >= 0
        return HOLD

    def _wanted(self, request: fetch.FetchRequest) -> dict[tuple[bytes, int], fetch.FetchPartition]:
        new = {(t.topic_id, p.partition): p for t in request.topics for p in t.partitions}
        if request.session_epoch <= 0:
            return new
        known = self.sessions[request.session_id]
        known.update(new)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                known.pop((topic.topic_id, number), None)
        return known

    def _data(
        self, request: fetch.FetchRequest, wanted: dict[tuple[bytes, int], fetch.FetchPartition]
    ) -> fetch.FetchResponse:
        names = {topic_id(name): name for name in self.world.topics}
        topics: dict[bytes, fetch.FetchableTopicResponse] = {}
        for (id_, number), asked in wanted.items():
            if id_ in names:
                data = self._partition(TopicPartition(names[id_], number), asked)
            else:
                data = fetch.PartitionData(
                    partition_index=number, error_code=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1
                )
            if data is not None:
                topic = topics.setdefault(id_, fetch.FetchableTopicResponse(topic_id=id_, partitions=[]))
                topic.partitions.append(data)
        session_id = 0
        if self.keeps_sessions:
            session_id = request.session_id or len(self.sessions) + 1
            self.sessions[session_id] = dict(wanted)
        return fetch.FetchResponse(session_id=session_id, responses=list(topics.values()))

    def _partition(self, partition: TopicPartition, asked: fetch.FetchPartition) -> fetch.PartitionData | None:
        if self.errors.get(partition):
            return self.errors[partition].pop(0)
        end, start = self.ends.get(partition, 0), self.starts.get(partition, 0)
        if not start <= asked.fetch_offset <= end:
            return fetch.PartitionData(partition_index=partition.partition, error_code=1, high_watermark=end)
        found, size = [], 0
        for _, last, data in self.batches.get(partition, []):
            if last >= asked.fetch_offset and (not found or size + len(data) <= asked.partition_max_bytes):
                found.append(data)
                size += len(data)
        if not found:
            return None
        return fetch.PartitionData(
            partition_index=partition.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=start,
            aborted_transactions=[
                fetch.AbortedTransaction(producer_id=id_, first_offset=first)
                for id_, first in self.aborted.get(partition, [])
            ],
            records=b"".join(found),
        )

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        def answer(name: str, asked: list_offsets.ListOffsetsPartition) -> list_offsets.ListOffsetsPartitionResponse:
            partition = TopicPartition(name, asked.partition_index)
            start, end = self.starts.get(partition, 0), self.ends.get(partition, 0)
            if asked.timestamp == -2:
                offset = start
            elif asked.timestamp == -1:
                offset = end
            else:
                offset = asked.timestamp - NOW_MS if asked.timestamp - NOW_MS < end else -1
            return list_offsets.ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset)

        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name, partitions=[answer(topic.name, each) for each in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _commit(self, request: offset_commit.OffsetCommitRequest) -> offset_commit.OffsetCommitResponse:
        code = self.commit_errors.pop(0) if self.commit_errors else 0
        for topic in request.topics:
            for each in topic.partitions:
                if not code:
                    place = TopicPartition(topic.name, each.partition_index)
                    self.offsets[place] = (
                        each.committed_offset,
                        each.committed_metadata or "",
                        each.committed_leader_epoch,
                    )
        return offset_commit.OffsetCommitResponse(
            topics=[
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        offset_commit.OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _committed(self, request: offset_fetch.OffsetFetchRequest) -> offset_fetch.OffsetFetchResponse:
        code = self.fetch_offset_errors.pop(0) if self.fetch_offset_errors else 0
        topics = []
        for topic in request.groups[0].topics or []:
            entries = []
            for number in topic.partition_indexes:
                offset, metadata, epoch = self.offsets.get(TopicPartition(topic.name, number), (-1, "", -1))
                entries.append(
                    offset_fetch.OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        metadata=metadata,
                        error_code=code,
                    )
                )
            topics.append(offset_fetch.OffsetFetchResponseTopics(name=topic.name, partitions=entries))
        group = offset_fetch.OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics, error_code=0)
        return offset_fetch.OffsetFetchResponse(groups=[group])

    def _epochs(
        self, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest
    ) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        offset_for_leader_epoch.EpochEndOffset(
                            partition=each.partition,
                            leader_epoch=self.epoch_ends[TopicPartition(topic.topic, each.partition)][0],
                            end_offset=self.epoch_ends[TopicPartition(topic.topic, each.partition)][1],
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class FakeConsumer:
    """A consumer's core with the loop of a face, on the fake clock."""

    def __init__(self, world: FakeWorld, **settings: object) -> None:
        self.world = world
        known = consumer_settings({"bootstrap.servers": "broker-0:9092"}, settings)
        self.core = ConsumerCore(
            world.session(api_timeout_ms=known.api_timeout_ms, metadata_max_age_ms=300_000),
            known,
            wall_clock_ms=lambda: NOW_MS + round((world.now - 1000) * 1000),
        )

    def do(self, action: Callable[[], Any]) -> Any:
        result = action()
        self.world.kernel.run_ready()
        return result

    def assign(self, *partitions: TopicPartition) -> None:
        self.do(lambda: self.core.assign(partitions))

    def poll(self, timeout: float = 5.0, limit: int = 500) -> list[ConsumerRecord]:
        return self.poll_with(lambda: self.core.take(limit), timeout) or []

    def poll_with(self, take: Callable[[], Any], timeout: float) -> Any:
        deadline = self.world.now + timeout
        self.do(self.core.begin_poll)
        while True:
            turn = self.do(lambda: self.core.turn(take))
            if turn.event is not None:
                membership = self.core.membership
                self.world.run(self.core.before_listener(turn.event))
                method = listener_method(self.core.subscription.listener, turn.event.kind)
                if method is not None:
                    method(list(turn.event.partitions))
                self.do(lambda turn=turn, membership=membership: self.core.after_listener(turn.event, membership))
                continue
            if turn.finished is not None:
                turn.finished.callback(turn.finished.offsets, turn.finished.error)
                continue
            if turn.taken or self.world.now >= deadline:
                return turn.taken
            self.world.run(self.core.wait_for_news(turn.seen, deadline - self.world.now))

    def read(self, count: int, timeout: float = 5.0) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        end = self.world.now + timeout
        while len(records) < count and self.world.now < end:
            records += self.poll(end - self.world.now)
        return records


def one_broker(partitions: int = 1) -> tuple[FakeWorld, FakeLogs]:
    world = FakeWorld()
    logs = FakeLogs(world, world.broker(0))
    world.topic("orders", partitions)
    return world, logs

"""Fetch (key 1), versions 4 to 18: records from offsets on, as slices of the segment files.

v5 log start offset, v7 fetch sessions (broker/fetch_sessions.py), v9 leader epochs, v11 racks, v12 flexible and
diverging epochs, v13 topic ids in place of names, v15 the replica's state as a tagged field, v16 node endpoints, v17
directory ids, v18 the follower's high watermark.

A fetch is answered at once when it finds `min_bytes`, an error, or has no time to wait; otherwise it is parked on its
partitions, woken by appends, and answered when enough has come or its time is over. A parked fetch dies with its
connection. What it may read is told in broker/fetch_reading.py. `max_bytes` bounds the answer, but the first partition
that has anything gives at least one whole batch, or a large batch could never be read. A consumer is woken by the high
watermark, a follower by appends.
"""

import logging
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.base.ports import FileSlice
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.fetch_reading import FIRST_TOPIC_ID, Reader
from headwater.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, FetchSpec, specs_of
from headwater.broker.leader_hints import TOLD_WITH, addresses_of, leader_of
from headwater.replication.partition import Partition
from headwater.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_WITH_LEADERS: Final = 16
_FIRST_STORAGE_ERROR: Final = 6  # older clients take that code for a fatal one; NOT_LEADER makes them ask again

logger = logging.getLogger("headwater.broker")

_Read = tuple[FetchSpec, "Partition | None", PartitionData]


def handle(broker: "Broker", context: RequestContext, request: FetchRequest) -> FetchResponse | Deferred:
    try:
        session, specs, is_incremental = _session_for(broker, request, context.api_version >= FIRST_TOPIC_ID)
    except KafkaError as problem:
        return FetchResponse(error_code=int(problem.code), session_id=0, responses=[])
    return Fetch(broker, context, request, session, specs, is_incremental).begin()


def _session_for(
    broker: "Broker", request: FetchRequest, by_id: bool
) -> tuple[FetchSession | None, list[FetchSpec], bool]:
    """(session or None, what to read, whether the answer holds changes only)."""
    sessions = broker.fetch_sessions
    specs = specs_of(request)
    epoch = request.session_epoch
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if request.session_id:
            sessions.close(request.session_id)
        if epoch == FINAL_EPOCH:
            return None, specs, False
        session = sessions.create(by_id, broker.clock.monotonic_ms(), len(specs))
        if session is not None:
            session.update(specs, [])
        return session, specs, False
    session = sessions.find(request.session_id, epoch, by_id, broker.clock.monotonic_ms())
    forgotten: list[tuple[str | bytes, int]] = [
        (topic.topic or topic.topic_id, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    session.update(specs, forgotten)
    if specs and not sessions.has_room(0, len(session.specs)):  # the client begins anew, and is answered without one
        sessions.close(session.session_id)
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if not session.specs:  # nothing is left of it: the client begins with a new one, should it want more
        sessions.close(session.session_id)
        return None, [], False
    return session, list(session.specs.values()), True


class Fetch:
    """One fetch: read now, and again when it was parked and its time has come."""

    __slots__ = (
        "_broker",
        "_bytes_to_come",
        "_client_id",
        "_is_expired",
        "_is_incremental",
        "_is_woken",
        "_knows_storage_errors",
        "_listener",
        "_max_bytes",
        "_max_wait_ms",
        "_meter",
        "_min_bytes",
        "_parked_on",
        "_reader",
        "_session",
        "_specs",
        "_tells_leaders",
        "_timer",
        "deferred",
    )

    def __init__(
        self,
        broker: "Broker",
        context: RequestContext,
        request: FetchRequest,
        session: FetchSession | None,
        specs: list[FetchSpec],
        is_incremental: bool,
    ) -> None:
        version = context.api_version
        self._broker = broker
        self._listener = context.connection.listener
        self._tells_leaders = version >= _FIRST_WITH_LEADERS
        self._session = session
        self._specs = specs
        self._is_incremental = is_incremental
        self._reader = Reader(broker, context, request)
        self._knows_storage_errors = version >= _FIRST_STORAGE_ERROR
        self._client_id = context.client_id
        self._meter = context.connection.meter
        if self._meter is not None and self._reader.is_follower:
            from headwater.broker.quotas.exemptions import is_between_brokers  # not where there are no quotas

            self._meter = None if is_between_brokers(broker, context, request) else self._meter
        self._max_bytes = min(request.max_bytes, broker.config.int("fetch.max.bytes"))
        if self._meter is not None:
            self._max_bytes = min(self._max_bytes, self._meter.fetch_bytes_max(self._client_id) or self._max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._is_woken = False
        self._is_expired = False
        self._bytes_to_come = 0
        self._parked_on: list[Partition] = []

    def begin(self) -> FetchResponse | Deferred:
        if self._reader.is_follower and not self._specs:
            self._hurry_other()
        read, size, is_urgent = self._read()
        self._reader.has_read()
        if is_urgent or size >= self._min_bytes or self._max_wait_ms <= 0 or not self._specs:
            return self._respond(read)
        _release(read)
        self._bytes_to_come = self._min_bytes - size
        self._park()
        return self.deferred

    # Parking

    def _park(self) -> None:
        broker = self._broker
        self.deferred = Deferred(self._cancelled)
        is_follower, parked_on = self._reader.is_follower, self._parked_on
        for spec in self._specs:
            partition = spec.found  # a follower's session may be of very many
            if partition is None or partition.deleted:
                partition = self._find(spec)
            if partition is not None:
                (partition.append_waiters if is_follower else partition.waiters)[self] = None
                parked_on.append(partition)
        if broker.replicas is not None and self._reader.is_follower:
            broker.replicas.parked[self._reader.replica_id] = self
        self._timer = broker.scheduler.call_later(self._max_wait_ms, self._expired)

    def on_progress(self, appended_bytes: int) -> None:
        self._bytes_to_come -= appended_bytes
        if not self._is_woken and (self._bytes_to_come <= 0 or appended_bytes == 0):
            self._is_woken = True
            self._broker.wake(self)

    def _hurry_other(self) -> None:
        """A follower that asks for nothing wants the answer to what it asked before:
        there is something to add to it.
        """
        replicas = self._broker.replicas
        parked = None if replicas is None else replicas.parked.get(self._reader.replica_id)
        if parked is not None:
            parked.hurry()

    def hurry(self) -> None:
        self._expired()

    def _expired(self) -> None:
        self._is_expired = True
        self._broker.wake(self)

    def answer(self) -> None:
        """Woken, or out of time. What was appended may be less than it seemed: not committed, or in an open
        transaction.

        A partition whose term is over wakes nobody any more: whoever waits on it asks again, and waits on the next.
        """
        if self.deferred.done:
            return
        self._is_woken = False
        is_over = any(partition.deleted for partition in self._parked_on)
        read, size, is_urgent = self._read()
        if is_urgent or is_over or size >= self._min_bytes or self._is_expired:
            self._leave()
            self.deferred.complete(self._respond(read))
        else:
            _release(read)
            self._bytes_to_come = self._min_bytes - size

    def _cancelled(self) -> None:
        """The connection is gone: nobody has learnt the id of a session that this answer was to begin."""
        self._leave()
        if self._session is not None and not self._is_incremental:
            self._broker.fetch_sessions.close(self._session.session_id)

    def _leave(self) -> None:
        self._timer.cancel()
        replicas = self._broker.replicas
        if replicas is not None and replicas.parked.get(self._reader.replica_id) is self:
            del replicas.parked[self._reader.replica_id]
        is_follower = self._reader.is_follower
        for partition in self._parked_on:
            (partition.append_waiters if is_follower else partition.waiters).pop(self, None)
        self._parked_on.clear()

    # Reading

    def _find(self, spec: FetchSpec) -> Partition | None:
        try:
            return self._reader.find(spec)
        except KafkaError:
            return None

    def _read(self) -> tuple[list[_Read], int, bool]:
        """What each partition has, the bytes of all records, and whether something cannot wait."""
        read: list[_Read] = []
        reader = self._reader
        size = 0
        is_urgent = reader.is_cut = False
        skips = self._is_incremental and reader.is_follower
        try:
            for spec in self._specs:
                if skips and reader.has_no_news(spec):
                    continue
                partition = None
                try:
                    partition = reader.find(spec)
                    data = reader.read(partition, spec, self._max_bytes - size, size == 0)
                except (KafkaError, OSError) as problem:
                    data = self._refused(spec, problem)
                    is_urgent = True
                if data.diverging_epoch is not None or data.preferred_read_replica >= 0:
                    is_urgent = True
                is_urgent = is_urgent or (partition is not None and reader.must_hear_start(partition, spec))
                size += len(data.records or b"")
                read.append((spec, partition, data))
        except BaseException:
            _release(read)
            raise
        return read, size, is_urgent or reader.is_cut

    def _refused(self, spec: FetchSpec, problem: KafkaError | OSError) -> PartitionData:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(problem, KafkaError):
            code = problem.code
        else:
            logger.error("event=read-failed partition=%s-%d error=%r", spec.topic, spec.partition, str(problem))
        if code == ErrorCode.KAFKA_STORAGE_ERROR and not self._knows_storage_errors:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = PartitionData(partition_index=spec.partition, error_code=int(code), high_watermark=-1, records=b"")
        if self._tells_leaders and code in TOLD_WITH:
            leader = leader_of(self._broker, spec.topic, spec.topic_id, spec.partition)
            if leader is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        return data

    # Answering

    def _respond(self, read: list[_Read]) -> FetchResponse:
        session = self._session
        if self._meter is not None:
            size = sum(len(data.records or b"") for _, _, data in read)
            throttle_ms = self._meter.fetch_throttle_ms(self._client_id, size, self._broker.clock.monotonic_ms())
            if throttle_ms:
                return self._throttled(read, throttle_ms)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for spec, partition, data in read:
            size = len(data.records or b"")
            if partition is not None and not self._reader.is_follower:
                partition.bytes_out += size
            elif partition is not None and size:
                self._reader.gave(partition, size)
            if session is not None:
                if self._is_incremental and not _is_news(spec, data):
                    continue
                spec.told_high_watermark = data.high_watermark
                spec.told_log_start_offset = data.log_start_offset
                if size:
                    session.to_the_end(spec)
                if data.error_code or data.diverging_epoch is not None:  # told again: nothing else of the answer counts
                    spec.told_high_watermark = -1
            name = spec.topic or spec.topic_id
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchableTopicResponse(topic=spec.topic, topic_id=spec.topic_id, partitions=[])
            topic.partitions.append(data)
        return FetchResponse(
            error_code=0,
            session_id=session.session_id if session is not None else 0,
            responses=list(topics.values()),
            node_endpoints=self._endpoints(read),
        )

    def _throttled(self, read: list[_Read], throttle_ms: int) -> FetchResponse:
        """Too much for its quota: an answer without anything, and the client asks again later. A session that was to
        begin does not.
        """
        _release(read)
        session = self._session
        if session is not None and not self._is_incremental:
            self._broker.fetch_sessions.close(session.session_id)
            session = None
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=0,
            session_id=session.session_id if session is not None else 0,
            responses=[],
        )

    def _endpoints(self, read: list[_Read]) -> list[NodeEndpoint]:
        leaders = [BrokerId(data.current_leader.leader_id) for _, _, data in read if data.current_leader is not None]
        if not leaders:
            return []
        return [NodeEndpoint(**each._asdict()) for each in addresses_of(self._broker, self._listener, leaders)]


def _release(read: list[_Read]) -> None:
    for _, _, data in read:
        if isinstance(data.records, FileSlice):
            data.records.release()


def _is_news(spec: FetchSpec, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != spec.told_high_watermark
        or data.log_start_offset != spec.told_log_start_offset
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
    )

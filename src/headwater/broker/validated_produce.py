"""Produce to topics whose records must name a schema of the right subject (`schema_policy.py`). Others never come here.

Each partition of the request is opened as far as the names of its schemas, which the registry has told about before or
is asked for now. Where nothing has to be waited for, the request goes on at once. Else the connection begins nothing
behind it, so that a producer's batches stay in order, and the batches are copied out of the read buffer. Decompressing
more than a little is a thread's work.

A record that names no schema, an unknown one or one of another subject has its batch refused, INVALID_RECORD, and is
named in the answer. When the registry says nothing in time, nothing is appended and the producer is told
REQUEST_TIMED_OUT: it will try again. Null keys and values name no schema and are always taken.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.broker.deferred import Deferred
from headwater.broker.known_schemas import KnownSchemas, Trouble
from headwater.broker.schema_policy import SchemaPolicy, SidePolicy
from headwater.log.validation import DECOMPRESSED_BYTES_MAX, RecordError, RecordsRefused
from headwater.records.batch import ATTRIBUTES_AT, HEADER_BYTES
from headwater.records.codec import schema_frames
from headwater.records.columns import OTHER_FRAME, SCHEMA_FRAMES_MAX
from headwater.records.reader import corrupt, header_at, open_batch
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

HERE_BYTES_MAX: Final = 16 * 1024  # a compressed batch that is opened on the loop
ASKED_MAX: Final = 100  # schemas that one request may have the registry asked for
_CODEC_BITS: Final = 7  # of the lower byte of a batch's attributes

Found: TypeAlias = list[tuple[list[bytes], bytes]]  # per side of the policy: frames, and which of them each record has
Proceed: TypeAlias = Callable[[Mapping[int, KafkaError]], ProduceResponse | Deferred | None]


@dataclass(slots=True)
class _Part:
    data: PartitionProduceData
    policy: SchemaPolicy
    found: Found | None = None
    problem: KafkaError | None = None


def find_schemas(batch: memoryview | bytes, sides: tuple[bool, ...]) -> Found:
    """What the records of one whole batch name, for keys (True) or values. Raises KafkaError for a batch that cannot be
    opened.
    """
    header = header_at(batch, 0)
    if header is None or header.size_bytes != len(batch):
        raise corrupt(f"{len(batch)} bytes are not one whole batch")
    payload = open_batch(batch, header, DECOMPRESSED_BYTES_MAX)
    return [schema_frames(payload, header, of_key) for of_key in sides]


def validated(broker: "Broker", request: ProduceRequest, proceed: Proceed) -> ProduceResponse | Deferred | None:
    """`proceed` appends, but for what it is told was refused (by the identity of a partition's data)."""
    parts: list[_Part] = []
    for topic in request.topic_data:
        topic_id = broker.image.ids_by_name.get(topic.name) if topic.name else TopicId(topic.topic_id)
        policy = broker.schema_policies.get(topic_id) if topic_id is not None else None
        if policy is not None:
            parts += [_Part(data, policy) for data in topic.partition_data if data.records]
    if broker.known_schemas is not None:
        return ValidatedProduce(broker, request, parts, broker.known_schemas(), proceed).begin()
    problem = KafkaError(
        ErrorCode.INVALID_CONFIG,
        "the topic asks for schemas to be checked, and the broker has no confluent.schema.registry.url to ask",
    )
    return proceed({id(part.data): problem for part in parts})


class ValidatedProduce:
    def __init__(
        self, broker: "Broker", request: ProduceRequest, parts: list[_Part], known: KnownSchemas, proceed: Proceed
    ) -> None:
        self._broker = broker
        self._request = request
        self._known = known
        self._proceed = proceed
        self._parts = parts
        self._asked: set[tuple[bytes, SidePolicy]] = set()
        self._troubles: dict[bytes, Trouble] = {}
        self._owed = 0  # batches to be opened and questions to be answered
        self._is_copied = False
        self._is_late = False
        self._is_over = False
        self._deferred: Deferred | None = None
        self._then: Deferred | None = None

    def begin(self) -> ProduceResponse | Deferred | None:
        for part in self._parts:
            self._open(part)
        if self._owed == 0:
            self._is_over = True
            return self._proceed(self._refusals())
        self._copy()
        self._deferred = Deferred(self._cancelled, holds_order=True)
        limit_ms = min(self._known.source.timeout_ms, max(1, self._request.timeout_ms))
        self._timer = self._broker.scheduler.call_later(limit_ms, self._timed_out)
        return self._deferred

    # Opening

    def _open(self, part: _Part) -> None:
        batch = part.data.records
        assert batch is not None
        sides = tuple(side.of_key for side in part.policy.sides)
        is_compressed = len(batch) > HEADER_BYTES and batch[ATTRIBUTES_AT + 1] & _CODEC_BITS
        if not is_compressed or len(batch) <= HERE_BYTES_MAX:
            try:
                part.found = find_schemas(batch, sides)
            except KafkaError as problem:
                part.problem = problem
            else:
                self._look(part)
            return
        self._copy()
        self._owed += 1
        self._known.source.open(
            find_schemas, part.data.records, sides, done=lambda found, problem: self._opened(part, found, problem)
        )

    def _opened(self, part: _Part, found: Found | None, problem: BaseException | None) -> None:
        if isinstance(problem, KafkaError):
            part.problem = problem
        elif problem is not None:
            part.problem = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the batch could not be opened")
        else:
            part.found = found
            if not self._is_over:
                self._look(part)
        self._settled()

    def _copy(self) -> None:
        """The request's bytes belong to somebody else when this is answered later."""
        if not self._is_copied:
            self._is_copied = True
            for topic in self._request.topic_data:
                for data in topic.partition_data:
                    if data.records is not None:
                        data.records = memoryview(bytearray(data.records))

    # Asking

    def _look(self, part: _Part) -> None:
        assert part.found is not None
        for side, (frames, _) in zip(part.policy.sides, part.found, strict=True):
            for frame in frames:
                verdict = self._known.verdict(frame, side)
                if (verdict is None or verdict.is_stale) and (frame, side) not in self._asked:
                    self._ask(frame, side)

    def _ask(self, frame: bytes, side: SidePolicy) -> None:
        if len(self._asked) >= ASKED_MAX:
            self._troubles[frame] = Trouble(f"one request names more than {ASKED_MAX} schemas that are not known yet")
            return
        self._asked.add((frame, side))
        self._owed += 1
        self._known.ask(frame, side, lambda trouble: self._told(frame, trouble))

    def _told(self, frame: bytes, trouble: Trouble | None) -> None:
        if trouble is not None:
            self._troubles[frame] = trouble
        self._settled()

    def _settled(self) -> None:
        self._owed -= 1
        if self._owed == 0 and self._deferred is not None and not self._is_over:
            self._finish(self._deferred)

    def _timed_out(self) -> None:
        if not self._is_over and self._deferred is not None:
            self._is_late = True
            self._finish(self._deferred)

    # Deciding

    def _refusals(self) -> dict[int, KafkaError]:
        refused: dict[int, KafkaError] = {}
        for part in self._parts:
            problem = part.problem or self._judged(part)
            if problem is not None:
                refused[id(part.data)] = problem
        return refused

    def _judged(self, part: _Part) -> KafkaError | None:
        if part.found is None:
            return self._no_answer("it was not opened in time")
        bad: list[tuple[dict[int, str], bytes]] = []
        unsure: KafkaError | None = None
        for side, (frames, places) in zip(part.policy.sides, part.found, strict=True):
            refusals: dict[int, str] = {}
            if len(frames) >= SCHEMA_FRAMES_MAX:
                refusals[OTHER_FRAME] = f"more than {SCHEMA_FRAMES_MAX} schemas in one batch"
            for place, frame in enumerate(frames):
                verdict = self._known.verdict(frame, side)
                if verdict is None or (verdict.is_stale and verdict.refusal is not None):
                    trouble = self._troubles.get(frame)
                    unsure = self._no_answer(trouble.message if trouble else "it does not answer")
                elif verdict.refusal is not None:
                    refusals[place] = verdict.refusal
            bad.append((refusals, places))
        named = _named(bad)
        first = next(named, None)
        if first is None:
            return unsure
        return RecordsRefused(ErrorCode.INVALID_RECORD, first.message, chain((first,), named))

    def _no_answer(self, why: str) -> KafkaError:
        late = f" within {self._known.source.timeout_ms} ms" if self._is_late else ""
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the schemas of the batch could not be checked{late} with the registry {self._known.source.address}: {why}",
        )

    # Going on

    def _finish(self, deferred: Deferred) -> None:
        self._is_over = True
        self._timer.cancel()
        try:
            result = self._proceed(self._refusals())
        except Exception as problem:  # noqa: BLE001 - nobody above us belongs to this connection
            deferred.complete(problem)
            return
        if isinstance(result, Deferred):
            self._then = result
            result.listen(deferred.complete)
        else:
            deferred.complete(result)

    def _cancelled(self) -> None:
        self._is_over = True
        self._timer.cancel()
        if self._then is not None:
            self._then.cancel()


def _named(bad: list[tuple[dict[int, str], bytes]]) -> Iterator[RecordError]:
    """The records that are why, in their order; a side in which nothing is wrong is not walked over."""
    for refusals, places in bad:
        if refusals:
            for index, place in enumerate(memoryview(places).cast("i")):
                if place in refusals:
                    yield RecordError(index, refusals[place])

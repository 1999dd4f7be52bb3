"""What the tasks of a slot have made since its last commit, and the producer that writes it.

Records, changes of stores and offsets wait in memory until `send_records` and `send_offsets`. What brokers refuse for
good is left out (`leave_out`) and the rest is sent again: for that the producer is connected anew, so nothing of the
first attempt stands. Owned by one slot and its thread.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import OffsetOutOfRange
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.consumer.ranges import RangeReader
from headwater.client.producer.producer import Producer
from headwater.client.producer.transaction_calls import GroupMember
from headwater.streams.engine.failures import ErrorPolicy
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.model.record import OutputRecord
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot.open_task import OpenTask, Stopped
from headwater.streams.slot.pending_outputs import PendingOutputs
from headwater.streams.slot.refusals import Refused, refusal, settle
from headwater.streams.slot.sending import send_all
from headwater.streams.slot.settings import RunSettings

_MOST_OUTPUTS: Final = 200_000  # a commit comes early when so many wait
_MOST_OUTPUT_BYTES: Final = 64 * 1024 * 1024
_FLUSH_S: Final = 1.0
_STOP_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 5.0
_MISSING_S: Final = 8.0  # a topic that brokers do not know for so long is gone: not all hear of a new one at once
_UNKNOWN: Final = frozenset((ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION))


def _gone(topic: str) -> UserError:
    return UserError(
        f"The topic {topic}, to which the application writes, is not there",
        "it was never made, or was deleted while the application ran; what was not committed is processed again",
        "Create it and start the application again, or end the application",
    )


class CommitWriter:
    def __init__(
        self,
        settings: RunSettings,
        errors: ErrorPolicy,
        application_id: str,
        of_globals: list[OutputRecord],
        stopping: threading.Event,
    ) -> None:
        """`of_globals`: what global tables want written; theirs, and kept by them until a commit has succeeded."""
        self._settings = settings
        self._errors = errors
        self._application_id = application_id
        self._of_globals = of_globals
        self._stopping = stopping
        self._producer: Producer | None = None
        self._outputs = PendingOutputs()
        self._changelog = PendingOutputs()
        self.offsets: dict[TopicPartition, int] = {}
        self._suspects: frozenset[int] | None = None  # of what this attempt sends: see `sending`
        self._next_suspects: frozenset[int] | None = None
        self._found: set[str] = set()  # topics that this producer knows
        self._globals_sent: tuple[TopicPartition, int, int] | None = None  # the offset of the last one; how many

    # The producer

    def connect(self, identity: protocol.SlotProducer) -> None:
        """A new producer, with the producer id that the lead has taken."""
        self.disconnect()
        self._found.clear()
        common = {**self._settings.for_producers, "linger.ms": 5}
        if not self._settings.exactly_once:
            self._producer = Producer({**common, "enable.idempotence": True})
            return
        name = identity.transactional_id
        timeout = {"transaction.timeout.ms": self._settings.transaction_timeout_ms}
        self._producer = Producer({**common, **timeout, "transactional.id": name})
        self._producer.resume_transactions(identity.producer_id, identity.epoch)

    def disconnect(self) -> None:
        if self._producer is not None:
            with contextlib.suppress(KafkaError, TimeoutError):
                self._producer.close(timeout=0)
            self._producer = None

    # What waits

    def add(self, output: TaskOutput) -> None:
        self._outputs.add(output.records, output.columns)
        self._changelog.add(output.changelog, output.changelog_columns)
        for (topic, partition), offset in output.positions.items():
            self.offsets[TopicPartition(topic, partition)] = offset

    def has_outputs(self) -> bool:
        return bool(self.offsets or self._outputs or self._changelog or self._of_globals)

    def is_full(self) -> bool:
        rows = self._outputs.rows + self._changelog.rows
        return rows > _MOST_OUTPUTS or self._outputs.data_bytes + self._changelog.data_bytes > _MOST_OUTPUT_BYTES

    def forget(self) -> None:
        """What tasks have made: it is committed, or will be made again."""
        self._outputs.clear()
        self._changelog.clear()
        self.offsets = {}

    def forget_globals(self) -> None:
        """What global tables want written: it is committed."""
        self._of_globals.clear()
        self._globals_sent = None

    def look_for_globals(self, reader: RangeReader) -> None:
        """After a commit that failed or whose outcome is unknown, when its transaction has ended: nobody makes again
        what global tables want written, so it is sent again unless a reader of committed records finds it. Where that
        cannot be told soon (a transaction of others is open there) it is sent again.
        """
        if self._globals_sent is None:
            return
        partition, last, count = self._globals_sent
        give_up_at = time.monotonic() + _LOOK_S
        found = reader.records(
            partition,
            last,
            last + 1,
            lost="skip",
            given_up=lambda: self._stopping.is_set() or time.monotonic() >= give_up_at,
        )
        with contextlib.suppress(OffsetOutOfRange):  # it is gone
            if next(found, None) is not None:
                del self._of_globals[:count]
        self._globals_sent = None

    # Steps of a commit

    def send_records(self, tasks: Iterable[OpenTask], *, transactional: bool) -> None:
        assert self._producer is not None
        topics = sorted({each.topic for each in chain(self._of_globals, self._outputs.pieces, self._changelog.pieces)})
        for topic in topics:
            self._find(self._producer, topic)
        if transactional:
            self._producer.begin_transaction()
        self._globals_sent = None
        written = send_all(self._producer, [*self._of_globals, *self._outputs.pieces], self._suspects)
        changes = send_all(self._producer, self._changelog.pieces, self._suspects)
        self._flush(self._producer, topics)
        ends = written()
        if self._of_globals:
            topic = self._of_globals[-1].topic
            for place, end in ends.items():
                if place.topic == topic and end > 0:  # a retry that the broker had already does not say where
                    self._globals_sent = TopicPartition(place.topic, place.partition), end - 1, len(self._of_globals)
        owners = {changelog: task for task in tasks for changelog in task.changelogs}
        for changelog, position in changes().items():
            owners[changelog].wrote(changelog, position)

    def _find(self, producer: Producer, topic: str) -> None:
        """Raises UserError for a topic that is not there, and that brokers do not make. While no broker answers, the
        producer waits for as long as it is told to.
        """
        if topic in self._found:
            return
        give_up_at = time.monotonic() + _MISSING_S
        while True:
            try:
                producer.partitions_for(topic, timeout=_FLUSH_S)
            except TimeoutError:
                if time.monotonic() < give_up_at:
                    continue
                if self._stopping.is_set():
                    raise Stopped from None
                if producer.is_missing(topic):
                    raise _gone(topic) from None
            self._found.add(topic)
            return

    def _flush(self, producer: Producer, topics: Sequence[str]) -> None:
        """Waits for the brokers, but not for long once the run is to end, nor for a topic that is gone: the next
        producer looks for it anew, and has it made where brokers make topics.
        """
        give_up_at: float | None = None
        missing_since: float | None = None
        while True:
            try:
                return producer.flush(timeout=_FLUSH_S)
            except TimeoutError:
                missing = next(filter(producer.is_missing, topics), None)
                missing_since = None if missing is None else missing_since or time.monotonic()
                if missing is not None and missing_since is not None and time.monotonic() - missing_since >= _MISSING_S:
                    text = f"there is no topic {missing!r} any more"
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text) from None
                if self._stopping.is_set():
                    give_up_at = give_up_at or time.monotonic() + _STOP_PATIENCE_S
                    if time.monotonic() >= give_up_at:
                        raise Stopped from None

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: protocol.Member) -> None:
        """Within the transaction."""
        assert self._producer is not None
        group = GroupMember(member.group_id, member.generation, member.member_id, member.instance_id)
        self._producer.send_offsets_to_transaction(offsets, group)

    def end_transaction(self) -> bool:
        """False: nobody knows whether it is committed."""
        assert self._producer is not None
        try:
            self._producer.commit_transaction()
        except TimeoutError:
            return False
        except KafkaError as error:
            if error.code in _UNKNOWN:
                return False
            raise
        return True

    # What brokers refuse

    def leave_out(self, refused: Refused) -> bool:
        """The next attempt is without what is surely refused (then it is true), and with the suspects one by one.

        Raises UserError for a record that is refused and may not be left out.
        """
        outputs, changelog = self._outputs.as_records(), self._changelog.as_records()
        if not refused.certain:
            self._next_suspects = (self._suspects or frozenset()) | frozenset(refused.records)
            return False
        for change in changelog:
            if id(change) in refused.records:
                raise refusal(change, refused.records[id(change)]) from refused.error
        for records in (outputs, self._of_globals):
            records[:] = settle(records, refused.records, self._errors, self._application_id)
        self._next_suspects = frozenset()  # there may be more
        return True

    def end_attempt(self) -> None:
        self._suspects, self._next_suspects = self._next_suspects, None

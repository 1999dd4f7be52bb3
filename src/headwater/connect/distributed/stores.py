"""What workers of a group share, each with its topic behind it: configs, statuses, source offsets.

Everybody reads all three. Configs are written by the group's leader alone, with a transactional id that fences the
leader before; statuses by who runs the thing; offsets by source tasks, or by the leader when they are altered.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Admin, ConsumerRecord, Producer, ProducerFenced
from headwater.client.errors import passes
from headwater.connect.distributed import config_records, status_records
from headwater.connect.distributed.config_records import ConfigRecord, LoggerLevel, Restart
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.status_records import (
    ConnectorStatus,
    Status,
    StatusRecord,
    TaskStatus,
    TopicUse,
)
from headwater.connect.distributed.status_writer import StatusWriter
from headwater.connect.distributed.topic_log import Settings, TopicLog
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.runtime.refusals import BadRequest
from headwater.connect.runtime.task import State, TaskId

logger = logging.getLogger("headwater.connect")

READ_S: Final = 60.0
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_ENDS: Final = (State.UNASSIGNED, State.FAILED)
Command = Restart | LoggerLevel


class Fenced(ConnectError):
    """Another worker leads: what was to be written is not."""


class ConfigStore:
    """`on_news(commands)` is called in the log's thread after records that came later than the start. Commands are of
    the moment: a worker that starts does not do what it was not there for.
    """

    def __init__(
        self,
        topic: str,
        consumer: Settings,
        producer: Settings,
        admin: Admin,
        on_news: Callable[[list[Command]], None],
        transactional_id: str | None,
    ) -> None:
        self._state = ConfigState()
        self._snapshot: ConfigState | None = None  # of this moment, if somebody has asked for it
        self._lock = threading.Lock()
        self._commands: list[Command] = []
        self._on_news = on_news
        self._started = False
        self.log = TopicLog(topic, consumer, admin, self._take, self._news)
        self._producer_settings = {**producer, "acks": "all"}
        if transactional_id is not None:
            self._producer_settings["transactional.id"] = transactional_id
        self._transactional = transactional_id is not None
        self._producer: Producer | None = None
        self._writing = threading.Lock()

    def start(self) -> None:
        self.log.start(READ_S)
        self._started = True

    def snapshot(self) -> ConfigState:
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._state.snapshot()
            return self._snapshot

    def refreshed(self) -> ConfigState:
        self.log.read_to_end(READ_S)
        return self.snapshot()

    # For the leader

    def claim(self) -> None:
        """From now on it is this worker that writes: the one before is fenced."""
        with self._writing:
            self._let_go()
            producer = Producer(self._producer_settings)
            try:
                if self._transactional:
                    producer.init_transactions()
            except BaseException:
                producer.close(0)
                raise
            self._producer = producer

    def resign(self) -> None:
        with self._writing:
            self._let_go()

    def write(self, *records: ConfigRecord) -> ConfigState:
        """All of them or none; what the topic says afterwards."""
        with self._writing:
            producer = self._producer
            if producer is None:
                raise Fenced("This worker does not lead its group any more")
            try:
                self._send(producer, records)
            except (KafkaError, TimeoutError) as error:
                self._let_go()
                if isinstance(error, ProducerFenced) or getattr(error, "code", None) in _FENCED:
                    raise Fenced("Another worker leads the group now") from None
                raise ConnectError(f"Failed to write to the config topic: {error}") from error
        return self.refreshed()

    def _send(self, producer: Producer, records: Sequence[ConfigRecord]) -> None:
        try:
            entries = [(key.encode(), value) for key, value in map(config_records.encode, records)]
        except UnicodeEncodeError:
            raise BadRequest("There is half a character in what is to be written, which no text in UTF-8 can have") from None  # fmt: skip
        if self._transactional:
            with producer.transaction():
                for key, value in entries:
                    producer.send(self.log.topic, value, key=key, partition=0)
            return
        deliveries = [producer.send(self.log.topic, value, key=key, partition=0) for key, value in entries]
        for each in deliveries:
            each.result(READ_S)

    def _let_go(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(0)

    def close(self) -> None:
        self.resign()
        self.log.close()

    # In the log's thread

    def _take(self, record: ConsumerRecord) -> None:
        found = config_records.decode(record.key, record.value)
        with self._lock:
            self._snapshot = None
            self._state.next_offset = record.offset + 1
            if found is not None:
                self._state.apply(found)
        if isinstance(found, Restart | LoggerLevel) and self._started:
            self._commands.append(found)

    def _news(self) -> None:
        commands, self._commands = self._commands, []
        self._on_news(commands)


class StatusStore:
    """Written without waiting; known when it has been read back."""

    def __init__(self, topic: str, consumer: Settings, producer: Producer, admin: Admin) -> None:
        self.log = TopicLog(topic, consumer, admin, self._take)
        self._writer = StatusWriter(topic, producer, self._is_past)
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[TaskId, Status]] = {}  # by connector
        self._topics: dict[tuple[str, str], TopicUse] = {}  # by connector and topic
        self.worker_id = ""  # of this worker, when it is known

    def start(self) -> None:
        self.log.start(READ_S)

    def connector(self, name: str) -> Status | None:
        return self._connectors.get(name)

    def task(self, task: TaskId) -> Status | None:
        return self._tasks.get(task.connector, {}).get(task)

    def tasks(self, connector: str) -> dict[TaskId, Status]:
        with self._lock:
            return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> list[str]:
        with self._lock:
            return sorted(topic for name, topic in self._topics if name == connector)

    def put(self, *records: StatusRecord) -> None:
        """The end of what another worker has begun later is not told."""
        for record in records:
            if not self._is_late(record):
                self._writer.put(record)

    def _is_late(self, record: StatusRecord) -> bool:
        """Whether it is the end of something that another worker has begun since, as one says that was asleep."""
        match record:
            case ConnectorStatus(_, Status(state)) | TaskStatus(_, Status(state)):
                return state in _ENDS and self._is_past(record)
            case _:
                return False

    def _is_past(self, record: StatusRecord) -> bool:
        match record:
            case ConnectorStatus(name, Status() as given):
                known = self._connectors.get(name)
            case TaskStatus(task, Status() as given):
                known = self.task(task)
            case _:
                return False
        return known is not None and known.worker_id != given.worker_id and known.generation > given.generation

    def _take(self, record: ConsumerRecord) -> None:
        found = status_records.decode(record.key, record.value)
        if found is None:
            return
        if not self._is_late(found):
            self._apply(found)
        elif isinstance(found, ConnectorStatus):
            self._tell_again(ConnectorStatus(found.connector, self._connectors[found.connector]))
        elif isinstance(found, TaskStatus):
            self._tell_again(TaskStatus(found.task, self.task(found.task)))

    def _tell_again(self, record: ConnectorStatus | TaskStatus) -> None:
        """This worker's own status was overwritten: what stays in the topic is to be true."""
        if record.status is not None and record.status.worker_id == self.worker_id:
            self.put(record)

    def _apply(self, record: StatusRecord) -> None:
        with self._lock:
            match record:
                case ConnectorStatus(name, status):
                    _set(self._connectors, name, status)
                case TaskStatus(task, status):
                    _set(self._tasks.setdefault(task.connector, {}), task, status)
                    if not self._tasks[task.connector]:
                        del self._tasks[task.connector]
                case TopicUse(topic, connector, _, discovered_ms):
                    _set(self._topics, (connector, topic), record if discovered_ms is not None else None)

    def close(self) -> None:
        self._writer.close()
        self.log.close()


def _set(known: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


class KafkaOffsetStore:
    """An `OffsetStore` in a topic. Who begins to read from it calls `refresh` first."""

    def __init__(self, topic: str, consumer: Settings, producer: Producer, admin: Admin) -> None:
        self.log = TopicLog(topic, consumer, admin, self._take)
        self._producer = producer
        self._lock = threading.Lock()
        self._entries: dict[bytes, bytes] = {}

    @property
    def topic(self) -> str:
        return self.log.topic

    def start(self) -> None:
        self.log.start(READ_S)

    def refresh(self) -> None:
        self.log.read_to_end(READ_S)

    def get(self, key: bytes) -> bytes | None:
        return self._entries.get(key)

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Raises RetriableError where brokers are away."""
        try:
            deliveries = [self._producer.send(self.log.topic, value, key=key) for key, value in changes.items()]
            for each in deliveries:
                each.result(READ_S)
            self.refresh()
        except (KafkaError, TimeoutError) as error:
            kind = RetriableError if passes(error) else ConnectError
            raise kind(f"Cannot write the offsets to the topic {self.log.topic}: {error}") from None

    def send(self, changes: Mapping[bytes, bytes]) -> None:
        """Without waiting; what is not delivered is told by the log."""

        def delivered(error: BaseException | None, _metadata: Any) -> None:
            if error is not None:
                self._not_sent(error)

        try:
            for key, value in changes.items():
                self._producer.send(self.log.topic, value, key=key, on_delivery=delivered)
        except (KafkaError, TimeoutError) as error:
            self._not_sent(error)

    def _not_sent(self, error: BaseException) -> None:
        logger.warning("event=offsets-not-copied topic=%r error=%r", self.log.topic, str(error)[:500])

    def before_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Offsets are about to be written in a transaction of a task's."""

    def after_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        """They are."""

    def all(self) -> dict[bytes, bytes]:
        with self._lock:
            return dict(self._entries)

    def _take(self, record: ConsumerRecord) -> None:
        if record.key is not None:
            with self._lock:
                _set(self._entries, bytes(record.key), None if record.value is None else bytes(record.value))

    def close(self) -> None:
        self.log.close()


class ConnectorOffsetStore:
    """A connector's own offsets topic (KIP-618) over the worker's: both are read, the connector's counts; both are
    written.

    The worker's topic is a copy for whoever takes the property away later: it may be behind, and what goes wrong with
    it is told and nothing more. Only a tombstone must be there first, or an offset that was deleted would shine
    through.

    The connector's topic is made and read by the first that needs it, a task's thread or a call's: that can take long,
    or fail.
    """

    def __init__(self, topic: str, open_own: Callable[[str], KafkaOffsetStore], workers: KafkaOffsetStore) -> None:
        self.topic, self._open_own, self._workers = topic, open_own, workers
        self._opening = threading.Lock()
        self._opened: KafkaOffsetStore | None = None

    @property
    def _own(self) -> KafkaOffsetStore:
        with self._opening:
            if self._opened is None:
                self._opened = self._open_own(self.topic)
            return self._opened

    def refresh(self) -> None:
        self._own.refresh()
        self._workers.refresh()

    def get(self, key: bytes) -> bytes | None:
        found = self._own.get(key)
        return found if found is not None else self._workers.get(key)

    def all(self) -> dict[bytes, bytes]:
        return {**self._workers.all(), **self._own.all()}

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        self.before_commit(changes)
        self._own.set(changes)
        self.after_commit(changes)

    def before_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        gone = {key: value for key, value in changes.items() if value is None}
        if gone:
            self._workers.set(gone)

    def after_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        kept = {key: value for key, value in changes.items() if value is not None}
        if kept:
            self._workers.send(kept)

"""A source task whose records and offsets are one transaction (KIP-618): what was read is in the topic once, whoever
dies when.

The transactional id is `<group>-<connector>-<task>`, so that a task that begins fences the one before. Before it takes
the id and after, the task asks whether it may (`Permission`): a worker that its group has forgotten must not fence who
runs the task now. Where transactions end is said by `transaction.boundary`: after each poll, after some time, or where
the connector says so.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from headwater.base.errors import KafkaError
from headwater.client import Producer
from headwater.connect.api import SourceTask
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.sending import Sending
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Tolerance

_TRANSACTION_MS: Final = 60_000
_TRANSACTION_MAX_MS: Final = 900_000  # what brokers allow, unless they are told otherwise


class TransactionalStore(Protocol):
    """Where a task's offsets are: in `topic`, by its own transactions."""

    @property
    def topic(self) -> str: ...

    def refresh(self) -> None: ...

    def before_commit(self, changes: Mapping[bytes, bytes | None]) -> None: ...

    def after_commit(self, changes: Mapping[bytes, bytes | None]) -> None: ...


class TransactionalTask(Protocol):
    """A task that wants to write in transactions, or what stands for one that runs elsewhere."""

    @property
    def id(self) -> TaskId: ...

    @property
    def generation(self) -> int: ...

    @property
    def stopping(self) -> threading.Event: ...

    @property
    def cancelled(self) -> bool: ...


class Permission(Protocol):
    """Whether a task may write. Both raise ConnectError if not; `task.stopping` ends their waiting."""

    def before_producer(self, task: TransactionalTask) -> None:
        """Earlier tasks of the connector are fenced when this returns."""

    def after_producer(self, task: TransactionalTask) -> None:
        """Nobody else has been given the task meanwhile."""


class RequestedBoundaries:
    """What the connector has asked for. Used by the task's thread alone."""

    def __init__(self) -> None:
        self._records: dict[int, bool] = {}  # by identity: whether it is a commit
        self._batch: bool | None = None

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, True)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, False)

    def _ask(self, record: SourceRecord | None, commit: bool) -> None:
        if record is None:
            self._batch = commit
        else:
            self._records[id(record)] = commit

    def after_record(self, record: SourceRecord) -> bool | None:
        """True: commit, False: abort, None: go on."""
        return self._records.pop(id(record), None)

    def after_batch(self) -> bool | None:
        asked, self._batch = self._batch, None
        self._records.clear()  # the records of this batch are gone
        return asked


class ExactlyOnceSourceTask(SourceWorkerTask):
    arrived_is_done = False  # its transaction may be aborted

    def __init__(
        self,
        task_id: TaskId,
        *arguments: Any,
        transactional_id: str,
        store: TransactionalStore,
        permission: Permission,
        generation: int,
        **keywords: Any,
    ) -> None:
        super().__init__(task_id, *arguments, **keywords)
        own = {"transactional.id": transactional_id, "enable.idempotence": "true", "acks": "all"}
        self._producer_settings = {**self._producer_settings, **own}
        self._producer_settings.pop("delivery.timeout.ms")  # a transaction does not wait for ever
        self.store, self._permission = store, permission
        self.generation = generation
        self._boundary = str(self._config["transaction.boundary"]).lower()
        interval_ms = self._config["transaction.boundary.interval.ms"]
        self._interval_s = self._flush_interval_s if interval_ms is None else interval_ms / 1000
        if self._boundary == "interval":
            patience_ms = min(_TRANSACTION_MAX_MS, 2 * int(self._interval_s * 1000) + _TRANSACTION_MS)
            self._producer_settings.setdefault("transaction.timeout.ms", patience_ms)
        self._requested = RequestedBoundaries()
        if self._boundary == "connector":
            self.transaction_context = self._requested
        self._open = False

    def _begin(self, producer: Producer) -> None:
        self._ended_at = 0  # what had arrived when the transaction before ended
        self._permission.before_producer(self)
        self._open = False
        producer.init_transactions()
        self._permission.after_producer(self)
        self.store.refresh()

    def _loop(self, task: SourceTask, sending: Sending, tolerance: Tolerance) -> None:
        try:
            next_commit = time.monotonic() + self._interval_s
            while not self.stopping.is_set():
                sending.count_arrived()
                if self._boundary == "interval" and (time.monotonic() >= next_commit or self.commit_requested):
                    self.commit_requested = False
                    self._end(task, sending)
                    next_commit = time.monotonic() + self._interval_s
                self.wait_while_paused()
                if not self.paused:
                    self._take(task, sending, self._poll(task, tolerance) or ())
            if self._boundary != "connector":
                self._end(task, sending)
        finally:
            self._give_up_open(sending.producer)

    def _take(self, task: SourceTask, sending: Sending, records: Iterable[SourceRecord]) -> None:
        if self._boundary != "connector":
            if sending.send_all(records, lambda: self._ensure_open(sending.producer)) and self._boundary == "poll":
                self._end(task, sending)
            return
        for record in records:
            if self.cancelled:
                return
            self._ensure_open(sending.producer)
            sending.send(record)
            self._end_as_asked(task, sending, self._requested.after_record(record))
        self._end_as_asked(task, sending, self._requested.after_batch())

    def _ensure_open(self, producer: Producer) -> None:
        if not self._open:
            producer.begin_transaction()
            self._open = True

    def _end_as_asked(self, task: SourceTask, sending: Sending, commit: bool | None) -> None:
        if commit is None:
            return
        if not commit and self._open:
            sending.flush(self._flush_timeout_s)  # so that it is known which offsets are passed
            self._open = False
            self._ended_at = sending.arrived
            sending.producer.abort_transaction()
        self._end(task, sending)

    def _end(self, task: SourceTask, sending: Sending) -> None:
        """Commits what is open, with the offsets of all of it."""
        producer = sending.producer
        if self._open:
            producer.flush()
        sending.check()
        with self.committing:
            if self.cancelled:
                return
            changes = self._offsets.changes(sending.submitted.committable())
            if changes:
                self.store.before_commit(changes)
                self._ensure_open(producer)
            if not self._open:
                return
            records, self._ended_at = sending.arrived - self._ended_at, sending.arrived
            with self.timed_commit():
                for key, value in changes.items():
                    producer.send(self.store.topic, value, key=key)
                producer.commit_transaction()
            self.metrics.transaction(records)
            self._open = False
            self.store.after_commit(changes)
        sending.tell_arrived()
        self.call(task.commit)

    def _give_up_open(self, producer: Producer) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(KafkaError, TimeoutError):  # fenced, or out of reach: the broker aborts it
            producer.abort_transaction()


def superseded(task: TransactionalTask) -> ConnectError:
    return ConnectError(f"The task {task.id} was configured anew: this one is over")

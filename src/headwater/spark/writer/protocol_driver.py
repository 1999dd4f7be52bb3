"""The driver of the exactly-once protocol: each step that `exactly_once` asks for is done here, with the client.

One for a task's attempt or for a driver's commit; it owns the task's producer, or that of decisions. A prepared
transaction outlives it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut
from headwater.client.producer.ending import end_transaction
from headwater.client.producer.producer import Producer as ProducerClient
from headwater.client.producer.transaction_manager import OpenTransaction
from headwater.client.session import KeyType, Session
from headwater.spark import exactly_once as protocol
from headwater.spark.writer.decision_topic import (
    DECIDING_TIMEOUT_MS,
    DECISIONS,
    STABLE_PATIENCE_S,
    decision_place,
    decode_progress,
    driver_id,
    encode_decision,
    encode_progress,
    progress_place,
    read_decision,
    task_of,
    transactional_id,
)
from headwater.spark.writer.digest import RunningDigest
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.rows import send_rows
from headwater.spark.writer.run_timeouts import timeout_of_run
from headwater.spark.writer.sink_clients import SinkClients

if TYPE_CHECKING:
    import pyarrow

TRANSACTION_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms of brokers, unless they were told otherwise
_ONGOING: Final = "Ongoing"
_REFUSED: Final = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)
_UNREACHABLE: Final = (BootstrapFailed, ConnectionFailed, RequestTimedOut)
_PASSING: Final = frozenset(  # a broker that is starting or leaving says so when it is asked for its transactions
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.BROKER_NOT_AVAILABLE)
)
_REPEATABLE: Final = (
    protocol.ReadDecision,
    protocol.ReadProgress,
    protocol.AllOpen,
    protocol.FindOpen,
    protocol.RunsAgain,
    protocol.End,
    protocol.CommitAll,
    protocol.Begin,
    protocol.BeginDeciding,
)
_PATIENCE_S: Final = 180.0
ABORT_PATIENCE_S: Final = 10.0  # all in all, for what is only a courtesy to others: transactions end by themselves
_PAUSE_S: Final = 0.25
_STABLE_WAIT_S: Final = 0.02


class ProtocolDriver:
    """`run_id` is that of the run whose task this is: its transactions can be told from those of other runs. With a
    `patience_s`, all steps together have so long; without, each has as long as a broker may be gone.
    """

    def __init__(
        self,
        options: SinkOptions,
        query: str,
        clients: SinkClients,
        rows: "Iterator[pyarrow.RecordBatch] | None" = None,
        *,
        run_id: str = "",
        patience_s: float | None = None,
        runs_again: Callable[[], bool] = lambda: False,
    ) -> None:
        self._options = options
        self._name = f"{options.prefix}-{query}"
        self._clients = clients
        self._rows = rows
        self._run_id = run_id
        self._runs_again = runs_again
        self._give_up_at = None if patience_s is None else time.monotonic() + patience_s
        self._producer: ProducerClient | None = None
        self._decider: ProducerClient | None = None
        self._place = -1  # the partition of its decisions, once it may decide

    def close(self) -> None:
        """Leaves a prepared transaction open, and aborts any other."""
        for client in (self._producer, self._decider):
            if client is not None:
                client.close()

    def run(self, steps: protocol.Steps) -> Any:
        """To the end; gives what the steps return, raises what they raise."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self._do(step))
        except StopIteration as stop:
            return stop.value

    def _do(self, step: protocol.Step) -> Any:
        """What can be asked twice is asked again while nobody answers: a broker may be gone for a minute."""
        give_up_at = time.monotonic() + self._patience_left_s(_PATIENCE_S)
        while True:
            try:
                return self._do_once(step)
            except KafkaError as error:
                passing = isinstance(error, _UNREACHABLE) or error.code in _PASSING
                if not passing or not isinstance(step, _REPEATABLE) or time.monotonic() > give_up_at:
                    raise
                time.sleep(_PAUSE_S)

    def _patience_left_s(self, at_most_s: float) -> float:
        if self._give_up_at is None:
            return at_most_s
        left_s = self._give_up_at - time.monotonic()
        if left_s <= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "there is no time left to go on")
        return min(at_most_s, left_s)

    def _do_once(self, step: protocol.Step) -> Any:
        match step:
            case protocol.ReadDecision():
                now_ms = time.time_ns() // 1_000_000
                patience_s = self._patience_left_s(STABLE_PATIENCE_S)
                return read_decision(self._clients.reader, self._clients.admin, self._name, now_ms, patience_s)
            case protocol.BeginDeciding():
                return self._begin_deciding()
            case protocol.WriteDecision(decision):
                return self._write_decision(decision)
            case protocol.Begin(task):
                return self._begin(task)
            case protocol.ReadProgress(task, stable):
                return self._progress(task, stable)
            case protocol.WriteRows():
                return self._write_rows()
            case protocol.StoreProgress(task, producer, batch):
                return self._store_progress(task, producer, batch)
            case protocol.AllOpen(producers):
                return self._all_open(producers)
            case protocol.FindOpen(run):
                return self._find_open(run)
            case protocol.RunsAgain():
                return self._runs_again()
            case protocol.End(producer, commit):
                return self._end(producer, commit)
            case protocol.CommitAll(producers):
                return self._commit_all(producers)

    # Of a task

    def _begin(self, task: int) -> protocol.Producer:
        if self._producer is not None:  # a try before, which came to nothing
            self._producer.close()
        name = transactional_id(self._name, task)
        ours = {"transaction.timeout.ms": self._timeout_ms(self._run_id), "transactional.id": name}
        self._producer = client = ProducerClient({**self._clients.settings, **ours})
        _take_id(client)
        client.begin_transaction()
        return protocol.Producer(name, *client.producer_identity())

    def _timeout_ms(self, run: str) -> int:
        return timeout_of_run(int(self._clients.settings.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)), run)

    def _write_rows(self) -> protocol.Digest:
        assert self._producer is not None
        digest = RunningDigest()
        for batch in self._rows or ():
            digest.add(batch)
            send_rows(self._producer, batch, self._options.topic)
        self._producer.flush()
        return digest.result()

    def _store_progress(self, task: int, producer: protocol.Producer, batch: int) -> None:
        assert self._producer is not None
        group, partition = progress_place(self._name, task)
        text = encode_progress(protocol.Progress(batch, producer.producer_id, producer.epoch))
        self._producer.send_offsets_to_transaction({partition: OffsetAndMetadata(0, metadata=text)}, group)
        prepared = self._producer.prepare_transaction()
        assert (prepared.producer_id, prepared.producer_epoch) == (producer.producer_id, producer.epoch)

    # Of both

    def _progress(self, task: int, stable: bool) -> protocol.Progress | None:
        group, partition = progress_place(self._name, task)
        give_up_at = time.monotonic() + self._patience_left_s(STABLE_PATIENCE_S)
        while True:
            try:
                found = self._clients.admin.list_group_offsets(group, [partition], require_stable=stable)
            except KafkaError as error:
                if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT or time.monotonic() > give_up_at:
                    raise
                time.sleep(_STABLE_WAIT_S)
                continue
            committed = found.get(partition)
            return None if committed is None else decode_progress(committed.metadata)

    def _end(self, producer: protocol.Producer, commit: bool) -> bool:
        return self._is_ended(self._clients.admin.run(lambda session: _ended(session, [producer], commit))[0])

    def _commit_all(self, producers: Sequence[protocol.Producer]) -> list[bool]:
        """Side by side over one connection: a batch of many tasks waits for one answer, not for all in a row."""
        outcomes = self._clients.admin.run(lambda session: _ended(session, producers, commit=True))
        return [self._is_ended(each) for each in outcomes]

    def _is_ended(self, outcome: BaseException | None) -> bool:
        if outcome is not None and not (isinstance(outcome, KafkaError) and outcome.code in _REFUSED):
            raise outcome
        return outcome is None

    # Of the driver

    def _all_open(self, producers: Iterable[protocol.Producer]) -> bool:
        wanted = {each.transactional_id: each for each in producers}
        for name, found in self._clients.admin.describe_transactions(list(wanted)).items():
            if isinstance(found, KafkaError):
                if found.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    return False
                raise found
            producer = wanted[name]
            if (found.state, found.producer_id, found.producer_epoch) != (
                _ONGOING,
                producer.producer_id,
                producer.epoch,
            ):
                return False
        return True

    def _find_open(self, run: str | None) -> tuple[protocol.Producer, ...]:
        """What ends between the list and its description is not open any more."""
        admin = self._clients.admin
        listed = [each.transactional_id for each in admin.list_transactions(states=[_ONGOING])]
        mine = [each for each in listed if task_of(self._name, each) is not None]
        found = []
        for name, answer in admin.describe_transactions(mine).items() if mine else ():
            if isinstance(answer, KafkaError):
                if answer.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise answer
            elif answer.state == _ONGOING and (run is None or answer.timeout_ms == self._timeout_ms(run)):
                found.append(protocol.Producer(name, answer.producer_id, answer.producer_epoch))
        return tuple(found)

    def _begin_deciding(self) -> None:
        if self._decider is not None:  # a try before, which came to nothing
            self._decider.close()
        self._place = decision_place(self._clients.reader, self._name).partition
        given = self._clients.settings
        timeout_ms = min(int(given.get("transaction.timeout.ms", DECIDING_TIMEOUT_MS)), DECIDING_TIMEOUT_MS)
        ours = {"transaction.timeout.ms": timeout_ms, "acks": "all", "transactional.id": driver_id(self._name)}
        self._decider = ProducerClient({**given, **ours})
        _take_id(self._decider)

    def _write_decision(self, decision: protocol.Decision) -> None:
        """Nobody reads it before its transaction is committed, and nobody has before this returns."""
        assert self._decider is not None
        try:
            self._decider.begin_transaction()
            self._decider.send(DECISIONS, encode_decision(decision), key=self._name.encode(), partition=self._place)
            self._decider.commit_transaction()
        except KafkaError as error:
            if error.code in _REFUSED:
                raise protocol.Superseded("it has begun to decide since, or this one took too long to") from error
            raise


def _take_id(client: ProducerClient) -> None:
    try:
        client.init_transactions()
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise UserError(
            "The cluster does not let transactions be open for so long",
            f"the writer asks for {TRANSACTION_TIMEOUT_MS // 60_000} minutes, or what kafka.transaction.timeout.ms says; "
            "transaction.max.timeout.ms of the brokers is less",
            "Set the option kafka.transaction.timeout.ms to what they allow, or let them allow more; "
            "a batch must be through in that time",
        ) from error


async def _ended(session: Session, producers: Sequence[protocol.Producer], commit: bool) -> list[BaseException | None]:
    """What came of each: None is good."""
    given = [OpenTransaction(each.transactional_id, each.producer_id, each.epoch) for each in producers]
    outcomes = await session.kernel.all_of([end_transaction(session, each, commit=commit) for each in given])
    for transaction, outcome in zip(given, outcomes, strict=True):
        if isinstance(outcome, _UNREACHABLE):  # another broker may have taken over
            session.forget_coordinator(transaction.transactional_id, KeyType.TRANSACTION)
    return outcomes

"""Transactions of a producer: begun here, known to a coordinator, ended for all partitions and offsets at once.

    NEW --init--> READY --begin--> OPEN --commit/abort--> ENDING --> READY
                                   OPEN --an error--> FAILED --abort--> ENDING
                                   OPEN --prepare--> PREPARED --commit/abort, here or elsewhere--> ...

Two protocols. The old one tells the coordinator each partition and group before the first write to it. The new one
(KIP-890, where the cluster has finalized transaction.version 2) leaves that to the broker, and every end gives the
producer a new epoch, so that nothing late can leak into the next transaction. Which of the two is asked of the
coordinator at `init` and at `begin`.

Several threads may call at once. Of `init`, `commit`, `abort` and `prepare` one is under way at a time; whoever asks
for the same meanwhile shares its outcome. A transaction ends after the offsets that are on their way into it.

An error inside a transaction leaves the abort as the only way on (`TransactionFailed`). Being fenced is the end of the
producer (`ProducerFenced`). A commit or abort that ran out of time may be called again: the coordinator knows it. Of
offsets that ran out of time nobody knows whether they are in the transaction: it can only be aborted.

Owned by the owner of the kernel; only `state` is read by others.
"""

from collections.abc import Callable, Coroutine, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.errors import error_for
from headwater.client.producer.queues import PartitionQueue
from headwater.client.producer.transaction_calls import (
    GroupMember,
    add_offsets,
    add_partitions,
    commit_offsets,
    end,
    init_producer_id,
    uses_new_protocol,
)
from headwater.client.producer.types import ProducerFenced, TransactionAborted, TransactionFailed
from headwater.client.reactor.kernel import Cancelled, Future, Task
from headwater.client.session import KeyType

if TYPE_CHECKING:
    from headwater.client.producer.core import ProducerCore

T = TypeVar("T")

_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_FATAL: Final = _FENCED | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
}
_ADDING_PAUSE: Final = 0.02  # the transaction before is being completed


class State(Enum):
    NEW = auto()
    READY = auto()
    OPEN = auto()
    FAILED = auto()
    PREPARED = auto()
    FLUSHING = auto()  # to be committed or prepared: what is there is written, and nothing comes to it
    COMMITTING = auto()
    ABORTING = auto()


class OpenTransaction(NamedTuple):
    """A transaction that is complete and left open: plain data, which another process can end (`ending`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    empty: bool = False  # nothing was written: there is nothing to end


class _GivenUp(Exception):
    """Who made a call ran out of time, or was cancelled."""


class _Call(NamedTuple):
    kind: str
    outcome: Future[Any]


class TransactionManager:
    def __init__(self, transactional_id: str, core: "ProducerCore") -> None:
        self.transactional_id = transactional_id
        self.uses_new_protocol = False
        self.error: KafkaError | None = None
        self._state = State.NEW
        self._core = core
        self._started = False  # the coordinator knows of the transaction
        self._asked = False  # or may know, by a request whose answer did not come
        self._bump_wanted = False
        self._to_add: dict[PartitionQueue, None] = {}
        self._adding: Task[None] | None = None
        self._call: _Call | None = None  # under way
        self._sending_offsets: list[Future[None]] = []

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._core.allow_short_way()

    # Calls

    async def init(self) -> None:
        """Takes the transactional id over: earlier producers of it are fenced, what they left open is aborted."""
        await self._once("init", self._init)

    async def _init(self) -> None:
        self._core.check()
        if self.state is not State.NEW:
            raise UserError("init_transactions was called before", f"the producer is {self.state.name.lower()}")
        await self._take_id(-1, -1)
        self.state = State.READY

    async def resume(self, producer_id: int, producer_epoch: int) -> None:
        """Goes on with an id that somebody else has taken for this transactional id. Fences nobody."""
        await self._once("resume", lambda: self._resume(producer_id, producer_epoch))

    async def _resume(self, producer_id: int, producer_epoch: int) -> None:
        self._core.check()
        if self.state is not State.NEW:
            raise UserError("The producer has its id already", f"it is {self.state.name.lower()}")
        link = await self._core.session.coordinator_link(self.transactional_id, KeyType.TRANSACTION)
        self.uses_new_protocol = uses_new_protocol(link)
        self._core.sequences.begin(producer_id, producer_epoch)
        self.state = State.READY

    def begin(self) -> None:
        self._core.check()
        if self.state is State.NEW:
            raise UserError("No transaction can begin yet", "init_transactions was not called", "Call it once, first")
        if self.state is not State.READY:
            raise UserError("No transaction can begin", f"there is one already, {self.state.name.lower()}")
        coordinator = self._core.session.known_coordinator(self.transactional_id)
        link = self._core.session.open_link(coordinator) if coordinator is not None else None
        if link is not None:
            self.uses_new_protocol = uses_new_protocol(link)
        self.state = State.OPEN
        self.error = None

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits a group's offsets as part of the transaction."""
        self.check_send()
        member = GroupMember.of(group)
        if not offsets:
            return
        sent: Future[None] = Future()
        self._sending_offsets.append(sent)
        try:
            await self._send_offsets(offsets, member)
        except KafkaError as error:
            self.failed(error)
            raise self._problem(error) from None
        except Cancelled:  # out of time: they may come late, and are for this transaction only
            text = f"the offsets of group {member.group_id!r} were not answered before the call was given up"
            self.failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            raise
        finally:
            self._sending_offsets.remove(sent)
            sent.resolve(None)

    async def _send_offsets(self, offsets: Mapping[TopicPartition, Any], member: GroupMember) -> None:
        session = self._core.session
        if not self.uses_new_protocol:
            self._asked = True
            await add_offsets(session, self.transactional_id, self.identity(), member.group_id)
        self._started = True
        await commit_offsets(
            session, self.transactional_id, self.identity(), offsets, member, new_protocol=self.uses_new_protocol
        )

    async def commit(self) -> None:
        if self.state not in (State.OPEN, State.PREPARED, State.FLUSHING, State.COMMITTING):
            self.check_send()
        await self._once("commit", self._commit)

    async def _commit(self) -> None:
        if self.state not in (State.OPEN, State.PREPARED, State.COMMITTING):
            self.check_send()
        await self._complete()
        self.state = State.COMMITTING
        await self._end(committed=True)

    async def abort(self) -> None:
        self._check_abort()
        await self._once("abort", self._abort)

    async def _abort(self) -> None:
        self._check_abort()
        self.state = State.ABORTING
        self._core.sender.fail_waiting(TransactionAborted())
        for batch in self._core.accumulator.incomplete():
            await batch.when_done()
        await self._offsets_sent()
        await self._end(committed=False)

    async def prepare(self) -> OpenTransaction:
        """All records and offsets are written, the transaction stays open; this producer can only end it."""
        return await self._once("prepare", self._prepare)

    async def _prepare(self) -> OpenTransaction:
        self.check_send()
        await self._complete()
        self.state = State.PREPARED
        return OpenTransaction(self.transactional_id, *self.identity(), empty=not self._started)

    def identity(self) -> tuple[int, int]:
        """Producer id and epoch; both change with the end of a transaction."""
        return self._core.sequences.producer_id, self._core.sequences.producer_epoch

    async def close(self) -> None:
        """A commit or an abort that has begun is brought to its end, an open transaction is aborted; a prepared one is
        left to whoever ends it.
        """
        while self._call is not None and self.state is not State.NEW:
            await self._call_over(self._call)
        if self.state in (State.OPEN, State.FAILED, State.ABORTING):
            await self.abort()
        elif self.state is State.COMMITTING:
            await self.commit()

    # For the intake and the sender

    def check_send(self) -> None:
        """Raises unless a transaction is open; from any thread."""
        if self.state is State.OPEN:
            return
        self._core.check()
        self._raise_failure()
        raise UserError(
            "No transaction is open",
            f"the producer has a transactional.id and is {self.state.name.lower()}",
            "Call begin_transaction first" if self.state is not State.NEW else "Call init_transactions first",
        )

    def may_write(self, queue: PartitionQueue) -> bool:
        if self.state not in (State.OPEN, State.PREPARED, State.FLUSHING):
            return False
        if queue.in_transaction:
            return True
        if self.uses_new_protocol:
            self._started = queue.in_transaction = True
            return True
        self._to_add[queue] = None
        if self._adding is None:
            self._adding = self._core.kernel.spawn(self._add_partitions(), "partitions of the transaction")
        return False

    def give_up(self) -> KafkaError | None:
        """Why a batch of the transaction is not tried again; whether it was written is open then."""
        if self.state not in (State.ABORTING, State.FAILED):
            return None
        self._bump_wanted = True
        return TransactionAborted()

    def failed(self, error: KafkaError) -> None:
        """Something of the open transaction went wrong."""
        if isinstance(error, TransactionAborted) or self._core.closed or self._core.fatal is not None:
            return
        if error.code in _FATAL:
            self._core.fail(self._problem(error))
        elif self.state in (State.OPEN, State.PREPARED, State.FLUSHING, State.COMMITTING):
            self.state = State.FAILED
            self.error = error
            self._core.sender.fail_waiting(TransactionFailed(error))
            self._bump_wanted = True
        elif self.state is State.ABORTING:
            self._bump_wanted = True  # what failed may have reached the coordinator all the same

    # Inside

    async def _once(self, kind: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One call at a time. Calls of the same kind are one: if who made it gives up, the next of them goes on."""
        while (under_way := self._call) is not None:
            if under_way.kind != kind:
                await self._call_over(under_way)
                continue
            try:
                shared: T = await under_way.outcome
            except _GivenUp:
                continue
            return shared
        mine = self._call = _Call(kind, Future())
        try:
            value = await call()
        except BaseException as error:
            self._call = None
            mine.outcome.fail(error if isinstance(error, Exception) else _GivenUp())
            raise
        self._call = None
        mine.outcome.resolve(value)
        return value

    @staticmethod
    async def _call_over(call: _Call) -> None:
        over: Future[None] = Future()
        call.outcome.when_done(lambda _: over.resolve(None))
        await over

    def _check_abort(self) -> None:
        self._core.check()
        if self.state not in (State.OPEN, State.FAILED, State.PREPARED, State.ABORTING):
            self.check_send()

    async def _complete(self) -> None:
        """All that was sent is written, and nothing comes to it."""
        if self.state is State.OPEN:
            self.state = State.FLUSHING  # a record that another thread sends from here on would miss the transaction
        try:
            await self._core.flush()
            await self._offsets_sent()
        except BaseException:  # out of time: it may be tried again, or aborted
            if self.state is State.FLUSHING:
                self.state = State.OPEN
            raise
        self._raise_failure()

    def _lost_a_number(self) -> bool:
        """A retry that was dropped leaves a gap, which only a new epoch passes."""
        topics = self._core.accumulator.topics.values()
        return any(self._core.sequences.has_gap(queue) for topic in topics for queue in topic.queues)

    async def _offsets_sent(self) -> None:
        for sent in list(self._sending_offsets):
            await sent

    def _problem(self, error: KafkaError) -> KafkaError:
        """The error as the caller sees it."""
        if error.code in _FENCED:
            return ProducerFenced(self.transactional_id, error.code)
        return error if error.code in _FATAL or self.state is not State.FAILED else TransactionFailed(error)

    def _raise_failure(self) -> None:
        if self._core.fatal is not None:
            raise self._core.fatal
        if self.state is State.FAILED:
            assert self.error is not None
            raise TransactionFailed(self.error)

    async def _take_id(self, producer_id: int, producer_epoch: int) -> None:
        core = self._core
        try:
            response, link = await init_producer_id(
                core.session,
                self.transactional_id,
                core.settings.transaction_timeout_ms,
                producer_id,
                producer_epoch,
            )
        except KafkaError as error:
            if error.code in _FATAL:
                core.fail(self._problem(error))
                raise self._problem(error) from None
            raise
        self.uses_new_protocol = uses_new_protocol(link)
        core.sequences.begin(response.producer_id, response.producer_epoch)

    async def _end(self, *, committed: bool) -> None:
        core = self._core
        if self._adding is not None:
            self._to_add.clear()
            await self._adding
        if self._started or self._asked:
            await self._tell_end(committed)
            self._started = self._asked = False
        if self._bump_wanted or self._lost_a_number():
            await self._take_id(*self.identity())
            self._bump_wanted = False
        for topic in core.accumulator.topics.values():
            for queue in topic.queues:
                queue.in_transaction = False
        self.state = State.READY
        self.error = None

    async def _tell_end(self, committed: bool) -> None:
        try:
            response = await end(
                self._core.session,
                self.transactional_id,
                *self.identity(),
                committed,
                new_protocol=self.uses_new_protocol,
            )
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_TXN_STATE and not self._started:
                return  # what was asked did not reach it
            self._end_failed(error)
            raise self._problem(error) from None
        if response.producer_id >= 0:
            self._core.sequences.begin(response.producer_id, response.producer_epoch)
            self._bump_wanted = False

    def _end_failed(self, error: KafkaError) -> None:
        if error.code in _FATAL:
            self._core.fail(self._problem(error))
        elif error.code in (
            ErrorCode.TRANSACTION_ABORTABLE,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ):
            self.state = State.FAILED
            self.error = error
            self._bump_wanted = True

    async def _add_partitions(self) -> None:
        """The old protocol: the coordinator hears of partitions before they are written to."""
        core = self._core
        try:
            while self._to_add and self.state in (State.OPEN, State.PREPARED, State.FLUSHING):
                queues, self._to_add = list(self._to_add), {}
                wanted = {TopicPartition(queue.topic.name, queue.partition): queue for queue in queues}
                self._asked = True
                codes = await add_partitions(core.session, self.transactional_id, self.identity(), list(wanted))
                again = False
                for partition, queue in wanted.items():
                    code = codes.get(partition, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
                    if not code:
                        queue.in_transaction = self._started = True
                    elif error_for(code).code.retriable:
                        self._to_add[queue] = None
                        again = True
                    elif code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                        raise error_for(code, f"{partition} cannot be part of the transaction")
                if again:
                    await core.kernel.sleep(_ADDING_PAUSE)
        except KafkaError as error:
            if error.code in _FENCED:
                core.fail(self._problem(error))
            else:
                self.failed(error)
        finally:
            self._adding = None
        core.sender.route_all()

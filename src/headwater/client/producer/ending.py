"""Ending a transaction from another process than the one that wrote it: the second half of a two-phase write.

The writer (`Producer.prepare_transaction`) has flushed its records, committed its offsets into the transaction, and
left it open; it hands over an `OpenTransaction`, which is plain data. Whoever coordinates the writers ends all of them:

    with TransactionEnder({"bootstrap.servers": "localhost:9092"}) as ender:
        for transaction in transactions:
            ender.end(transaction, commit=True)

The same end may be asked for again, after a crash in between: the coordinator knows it. The other end is refused then
(INVALID_TXN_STATE). A transaction that went past its `transaction.timeout.ms` has been aborted by the broker, and one
whose transactional id a newer producer has taken too: both are refused as fenced, so that a lost write is never called
committed.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.producer.transaction_calls import end, uses_new_protocol
from headwater.client.producer.transaction_manager import OpenTransaction
from headwater.client.producer.types import ProducerFenced
from headwater.client.reactor.thread_engine import Engine
from headwater.client.session import KeyType, Session
from headwater.client.settings.common import COMMON, OLD_NAMES, network, session_settings
from headwater.client.settings.parsing import read_settings

_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


async def end_transaction(session: Session, transaction: OpenTransaction, *, commit: bool) -> None:
    """On a session of the caller's."""
    if transaction.empty:
        return
    name = transaction.transactional_id
    link = await session.coordinator_link(name, KeyType.TRANSACTION)
    try:
        await end(
            session,
            name,
            transaction.producer_id,
            transaction.producer_epoch,
            commit,
            new_protocol=uses_new_protocol(link),
        )
    except KafkaError as error:
        if error.code in _FENCED:
            raise ProducerFenced(name, error.code) from None
        raise


class TransactionEnder:
    """Takes the settings that all clients have. `timeout` in seconds, for each end."""

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, timeout: float = 60.0, **keywords: object
    ) -> None:
        given = read_settings(COMMON, settings, keywords, old_names=OLD_NAMES)
        sockets = network(given)
        self._engine = Engine(sockets, patient=True, name="headwater-transactions")
        self._session = Session(self._engine.kernel, sockets, session_settings(given, int(timeout * 1000)))

    def end(self, transaction: OpenTransaction, *, commit: bool) -> None:
        self._engine.run(end_transaction(self._session, transaction, commit=commit))

    def close(self) -> None:
        self._engine.submit(self._session.close)
        self._engine.close()

    def __enter__(self) -> "TransactionEnder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

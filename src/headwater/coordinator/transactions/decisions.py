"""What a request may do to a transaction in its present state: pure functions from both to an error code or a go.

Every producer's request names a producer id and an epoch. Whoever comes with another id than the current one was given
its transactional id by nobody (INVALID_PRODUCER_ID_MAPPING); whoever comes with another epoch has been replaced, or its
transaction has been taken from it (PRODUCER_FENCED; before it had a code of its own, INVALID_PRODUCER_EPOCH).

From transaction version 2 on each end of a transaction bumps the epoch. So an EndTxn with the current epoch is about
the present transaction; one with the epoch before is a retry of the last end, and told what that came to; anything
older is fenced. That is what keeps a delayed EndTxn from touching a later transaction. Version 1 cannot tell the two
apart.

While the markers of a transaction are being written, its producer may go on already: what it asks for then is
CONCURRENT_TRANSACTIONS, as in Apache Kafka 4.3, whatever it would be afterwards. Only who has been replaced is told so
at once.
"""

from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.coordinator.transactions.states import AT_REST, PREPARED, TransactionState
from headwater.coordinator.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX_OF_CLIENTS,
    NONE,
    Transaction,
)

GO: Final = None  # no code: the state changes

_COMPLETE: Final = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def for_version(code: ErrorCode, version: int, first_with_fenced: int) -> ErrorCode:
    """PRODUCER_FENCED came late; older versions know INVALID_PRODUCER_EPOCH in its place."""
    if code is ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode | None:
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != epoch or epoch > EPOCH_MAX_OF_CLIENTS:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return GO


def decide_end(
    transaction: Transaction | None, producer_id: int, epoch: int, committed: bool, transaction_version: int
) -> ErrorCode | None:
    """GO: prepare. NONE: that end has been reached already."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction_version >= EPOCH_BUMP_VERSION:
        return _decide_end_with_epoch_bump(transaction, producer_id, epoch, committed)
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != epoch or epoch > EPOCH_MAX_OF_CLIENTS:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        return GO
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE if transaction.state is _COMPLETE[committed] else ErrorCode.INVALID_TXN_STATE


def _decide_end_with_epoch_bump(
    transaction: Transaction, producer_id: int, epoch: int, committed: bool
) -> ErrorCode | None:
    state = transaction.state
    is_overflow_retry = (
        transaction.previous_producer_id == producer_id
        and epoch == EPOCH_MAX_OF_CLIENTS
        and transaction.producer_epoch == 0
    )
    has_bumped = (
        transaction.client_transaction_version >= EPOCH_BUMP_VERSION
    )  # with its end; else the epoch before is a zombie's
    is_retry = has_bumped and (is_overflow_retry or transaction.producer_epoch == epoch + 1)
    is_present = transaction.producer_epoch == epoch <= EPOCH_MAX_OF_CLIENTS
    if transaction.producer_id != producer_id and not is_overflow_retry:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if state in PREPARED and (is_retry or is_present):
        return ErrorCode.CONCURRENT_TRANSACTIONS  # what it comes to is known when the markers are written
    if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT) and is_retry:
        return ErrorCode.NONE if state is _COMPLETE[committed] else ErrorCode.INVALID_TXN_STATE
    if not is_present:
        return ErrorCode.PRODUCER_FENCED
    if state is TransactionState.ONGOING:
        return GO
    return ErrorCode.INVALID_TXN_STATE if committed else GO  # nothing was added: there is nothing to commit


class Initialization(NamedTuple):
    """What InitProducerId comes to. `code` is GO when the producer gets an id and an epoch."""

    code: ErrorCode | None
    epoch: int = NONE
    last_epoch: int = NONE
    is_new_id: bool = False
    is_fencing: bool = False  # a transaction is open: end it first, and let the producer come again


def decide_initialization(
    transaction: Transaction | None, expected_producer_id: int, expected_epoch: int
) -> Initialization:
    """`expected_*` is what a producer that goes on after an error says it has (KIP-360); -1 from one that begins."""
    if transaction is None:
        return Initialization(GO, 0, NONE, is_new_id=True)
    goes_on = expected_producer_id != NONE
    if goes_on and not (
        expected_producer_id == transaction.producer_id
        or (expected_producer_id == transaction.previous_producer_id and expected_epoch >= EPOCH_MAX_OF_CLIENTS)
    ):
        return Initialization(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        return Initialization(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        if goes_on and expected_epoch != transaction.producer_epoch:
            return Initialization(ErrorCode.PRODUCER_FENCED)  # Kafka would abort the transaction of who came after it
        return Initialization(ErrorCode.CONCURRENT_TRANSACTIONS, is_fencing=True)
    assert transaction.state in AT_REST
    epoch = transaction.producer_epoch
    if transaction.is_exhausted:
        if goes_on and expected_epoch != epoch:
            return Initialization(ErrorCode.PRODUCER_FENCED)
        return Initialization(GO, 0, epoch if goes_on else NONE, is_new_id=True)
    if not goes_on:
        return Initialization(GO, epoch + 1)
    if expected_epoch == epoch:
        return Initialization(GO, epoch + 1, epoch)
    if expected_epoch == transaction.last_producer_epoch:
        return Initialization(GO, epoch, expected_epoch)  # a retry: the answer to the first was lost
    return Initialization(ErrorCode.PRODUCER_FENCED)

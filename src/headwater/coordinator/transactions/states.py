"""The states of a transaction, and which may follow which.

    Empty --add--> Ongoing --end--> PrepareCommit --all markers--> CompleteCommit --add--> Ongoing ...
                          \\-end/timeout/new producer--> PrepareAbort --all markers--> CompleteAbort

`InitProducerId` leads from every state at rest back to Empty. Clients of transaction version 2 may abort at rest too:
that is a transaction without partitions. PrepareEpochFence stands in no log: fencing and the abort that follows are one
record. Dead is what a tombstone means. Both have numbers in Kafka's format, so they are named here.
"""

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools show it."""
        return _LABELS[self]


_LABELS: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATES_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

AT_REST: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)  # no transaction is open: a new one may begin, and the id may expire
PREPARED: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))

MAY_FOLLOW: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
    TransactionState.DEAD: AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset((TransactionState.ONGOING,)),
}  # state -> what it may come from

"""What transactional producers did and what readers saw of it, and whether all of it can be true together.

I3  a value stands at one offset (`history.py` sees to that)
I4  what a read_committed reader gets belongs to a transaction whose commit was asked for, and that was not aborted
I5  a transaction is all or nothing, across partitions and offsets (`audited`)
I7  no cyclic flow of information: what a transaction has read from another one it cannot have been read by
I11 who was replaced (a later producer got the transactional id) gets nothing done any more; and nobody is told that it
    was replaced whom nobody has tried to replace, and whose transaction has not lasted for too long

Each transaction has a number, which grows; its values and the offset that it commits carry that number. Owned by the
world.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.sim.trace import Violation

if TYPE_CHECKING:
    from headwater.sim.clients.client import Ask

OFFSET_BASE: Final = 0x5A17_0000_0000  # so that the offset of a transaction stands out among other bytes


class Producer(NamedTuple):
    """Later ones are greater."""

    producer_id: int
    epoch: int


class Transaction:
    """`commit_asked`: it may become committed at any time from then on."""

    def __init__(self, number: int, transactional_id: str) -> None:
        self.number = number
        self.transactional_id = transactional_id
        self.values: list[bytes] = []
        self.has_offsets = False
        self.commit_asked = False
        self.is_committed: bool | None = None  # as soon as somebody was told
        self.was_passed_by = False  # an offset of before was called stable after this one had offsets of its own

    @property
    def offset(self) -> int:
        return OFFSET_BASE + self.number

    def value(self, partition: str) -> bytes:
        value = f"t:{self.number}:{len(self.values)}:{partition}".encode()
        self.values.append(value)
        return value


def number_of(value: bytes) -> int:
    return int(value.split(b":", 2)[1])


class Attempts:
    """To get a transactional id, each with a number. One without an answer may be carried out at any time."""

    def __init__(self) -> None:
        self._count = 0
        self._open: set[int] = set()
        self._owner: int | None = None  # whose attempt it was that nobody else can undo

    def begin(self) -> int:
        self._count += 1
        self._open.add(self._count)
        self._owner = None
        return self._count

    def answered(self, number: int, *, has_it: bool) -> None:
        self._open.discard(number)
        if has_it:
            self._owner = None if self._open else number

    def is_last(self, number: int) -> bool:
        """Whoever got the id with this attempt can be fenced by nobody."""
        return self._owner == number


class TransactionHistory:
    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self.transactions: list[Transaction] = []
        self._latest: dict[str, Producer] = {}  # transactional id -> the last one that InitProducerId gave
        self._given: set[Producer] = set()
        self._attempts: dict[str, Attempts] = {}  # transactional id -> those to replace its producer
        self._read_from: dict[int, set[int]] = {}
        self.held_back: list[tuple[Ask, Transaction]] = []  # EndTxn requests that will come again

    # Producers

    def attempts(self, transactional_id: str) -> "Attempts":
        return self._attempts.setdefault(transactional_id, Attempts())

    def initialized(self, transactional_id: str, producer: Producer) -> None:
        """Somebody was told that it may begin with this producer id and epoch."""
        if producer in self._given:
            raise Violation(f"I11: {transactional_id}: two producers have the epoch {producer}")
        self._tell(transactional_id, f"{producer} may begin")
        self._given.add(producer)
        self._latest[transactional_id] = max(producer, self._latest.get(transactional_id, producer))

    def is_replaced(self, transactional_id: str, producer: Producer) -> bool:
        return self._latest[transactional_id] > producer

    def begin(self, transactional_id: str) -> Transaction:
        transaction = Transaction(len(self.transactions), transactional_id)
        self.transactions.append(transaction)
        self._tell(transactional_id, f"transaction {transaction.number} begins")
        return transaction

    def ended(self, transaction: Transaction, *, committed: bool, by: str) -> None:
        if transaction.is_committed is not None and transaction.is_committed != committed:
            words = ("aborted", "committed")
            raise Violation(
                f"I5: transaction {transaction.number} was {words[transaction.is_committed]}, now {by} says {words[committed]}"
            )
        self._tell(
            transaction.transactional_id,
            f"transaction {transaction.number} is {'committed' if committed else 'aborted'}, {by} says",
        )
        transaction.is_committed = committed
        self._must_hold(transaction)

    # Readers

    def saw(self, number: int, by: str) -> None:
        """As committed: a value or an offset."""
        transaction = self.transactions[number]
        if not transaction.commit_asked:
            raise Violation(f"I4: {by} saw transaction {number}, which nobody has asked to commit")
        if transaction.is_committed is False:
            raise Violation(f"I4: {by} saw transaction {number}, which was aborted")
        transaction.is_committed = True
        self._must_hold(transaction)

    def _must_hold(self, transaction: Transaction) -> None:
        if transaction.is_committed and transaction.was_passed_by:
            raise Violation(f"I5: an older offset was called stable while transaction {transaction.number} was open")

    def read(self, reader: Transaction, number: int) -> None:
        """Within a transaction."""
        self.saw(number, f"transaction {reader.number}")
        self._read_from.setdefault(reader.number, set()).add(number)
        if number == reader.number or self._reaches(number, reader.number):
            raise Violation(f"I7: transactions {reader.number} and {number} have read from each other")

    def _reaches(self, start: int, goal: int) -> bool:
        seen: set[int] = set()
        todo = [start]
        while todo:
            for number in self._read_from.get(todo.pop(), ()):
                if number == goal:
                    return True
                if number not in seen:
                    seen.add(number)
                    todo.append(number)
        return False

    # Offsets of a transactional id's own group

    def least_offset(self, transactional_id: str) -> int:
        """What a question that is sent now must be answered with, at least."""
        known = [t.number for t in self._with_offsets(transactional_id) if t.is_committed]
        return OFFSET_BASE + max(known) if known else -1

    def fetched(self, transactional_id: str, offset: int, least: int, by: str) -> int | None:
        """The number of the transaction that committed it."""
        if offset < least:
            raise Violation(f"I13: {by} gets the offset {offset} of {transactional_id}, and {least} was committed")
        if offset == -1:
            return None
        number = offset - OFFSET_BASE
        if all(t.number != number for t in self._with_offsets(transactional_id)):
            raise Violation(f"I13: the offset {offset} of {transactional_id} comes from nowhere")
        self.saw(number, by)
        return number

    def _with_offsets(self, transactional_id: str) -> list[Transaction]:
        return [t for t in self.transactions if t.transactional_id == transactional_id and t.has_offsets]

    # The end of a run

    def audited(self, visible: set[bytes], offsets: dict[str, int]) -> None:
        """`visible`: all that read_committed readers can get now. `offsets`: of each transactional id's group."""
        for transaction in self.transactions:
            there = [value for value in transaction.values if value in visible]
            if there:
                self.saw(transaction.number, "the audit")
            if there and len(there) < len(transaction.values):
                raise Violation(f"I5: of transaction {transaction.number} only {there} is there")
            if not transaction.values:
                continue  # it had offsets alone, if anything
            if transaction.is_committed and not there:
                raise Violation(f"I5: transaction {transaction.number} was committed, and nothing of it is there")
            transaction.is_committed = bool(there)
        for transactional_id, offset in offsets.items():
            expected = self.least_offset(transactional_id)
            possible = [
                t.offset for t in self._with_offsets(transactional_id) if t.commit_asked and t.is_committed is None
            ]
            if offset != expected and not (offset > expected and offset in possible):
                raise Violation(f"I5: {transactional_id} has committed the offset {expected}, and has {offset}")

"""Producer ids, unique for ever: taken from the store in blocks of a thousand, as Kafka does, and handed out from
memory.

A block is committed before its first id is used, so a crash wastes the rest of a block and never repeats an id.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from headwater.base.errors import KafkaError
from headwater.metadata.image import MetadataStore

BLOCK: Final = 1000


class ProducerIds:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._waiting: deque[Callable[[int, KafkaError | None], None]] = deque()

    def take(self, done: Callable[[int, KafkaError | None], None]) -> None:
        """Gives one id, now or after the next block was committed."""
        if self._next < self._end:
            self._next += 1
            done(self._next - 1, None)
            return
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._reserve()

    def _reserve(self) -> None:
        def reserved(first: int, error: KafkaError | None) -> None:
            waiting, self._waiting = self._waiting, deque()
            if error is None:
                self._next, self._end = first, first + BLOCK
            for done in waiting:
                if error is None:
                    self.take(done)
                else:
                    done(-1, error)

        self._store.reserve_producer_ids(BLOCK, reserved)

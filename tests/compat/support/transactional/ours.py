"""Our own producer, as a transactional one like the others."""

from collections.abc import Iterator
from contextlib import contextmanager

from compat.support.transactional.base import TIMEOUT_S, Place, Refused, Transactional
from headwater.client import KafkaError, Producer, TopicPartition


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(error) from error


class OursTransactional(Transactional):
    name = "headwater"

    def init(self) -> None:
        self._producer = Producer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            max_block_ms=TIMEOUT_S * 1000,
            linger_ms=1,
        )
        with _refusals():
            self._producer.init_transactions()

    def begin(self) -> None:
        with _refusals():
            self._producer.begin_transaction()

    def send(self, place: Place, value: str) -> None:
        topic, partition = place
        with _refusals():
            self._producer.send(topic, value, partition=partition).result(TIMEOUT_S)

    def offsets(self, group: str, offsets: dict[Place, int]) -> None:
        with _refusals():
            self._producer.send_offsets_to_transaction(
                {TopicPartition(*place): offset for place, offset in offsets.items()}, group
            )

    def commit(self) -> None:
        with _refusals():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _refusals():
            self._producer.abort_transaction()

    def close(self) -> None:
        if hasattr(self, "_producer"):
            self._producer.close(0)

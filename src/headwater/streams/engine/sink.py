"""The end of a path: encodes a record and gives it to the task, to be written."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import OutputRecord, Record
from headwater.streams.serdes.port import Serde, writer


class Sink(Processor):
    """Writes to one topic, or to the one that `topic(record, context)` names. Timestamps before 0 are refused, as in
    Kafka Streams.
    """

    def __init__(
        self,
        topic: str | Callable[[Record, Any], str],
        key: Serde,
        value: Serde,
        partitions: Callable[[str, Any, Any], list[int | None]] | None,
        emit: Callable[[OutputRecord], None],
        failed: Callable[[Exception, str], None],
    ) -> None:
        self.topic = topic
        self._key = writer(key)
        self._value = writer(value)
        self._partitions = partitions
        self._emit = emit
        self._failed = failed
        self._context: Context | None = None

    def init(self, context: Context) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        if record.timestamp < 0:
            raise UserError(
                f"A record for {self.topic} has the timestamp {record.timestamp}", "it must not be negative"
            )
        topic = self.topic if isinstance(self.topic, str) else self._named(self.topic(record, self._context))
        try:
            key = None if record.key is None else self._key(record.key)
            value = None if record.value is None else self._value(record.value)
        except Exception as error:  # noqa: BLE001 - a serde may raise anything; the policy decides
            self._failed(error, self.context.node_name)
            return
        if self._partitions is None:
            self._emit(OutputRecord(topic, None, key, value, record.timestamp, record.headers))
            return
        for partition in self._partitions(topic, record.key, record.value):
            self._emit(OutputRecord(topic, partition, key, value, record.timestamp, record.headers))

    def _named(self, topic: object) -> str:
        if not isinstance(topic, str) or not topic:
            raise UserError(f"The function of {self.context.node_name} gave {topic!r}", "the name of a topic is needed")
        return topic


def check_partitions(topic: str, chosen: list[int | None], count: int) -> None:
    """Brokers would refuse them with the whole commit, again and again. Raises UserError."""
    for partition in chosen:
        if partition is not None and not 0 <= partition < count:
            raise UserError(
                f"The partitioner for {topic} chose partition {partition}",
                f"the topic has {count} partitions, numbered from 0 to {count - 1}",
                "It is given their number as its last argument",
            )

"""What the synchronous and the asyncio producer have in common: taking a record to its place in a batch.

`put` is the hot path. It does nothing that can wait: a topic that is not known yet and memory that is used up are left
to the face, which has its own way of waiting.
"""

from collections.abc import Mapping, Sequence
from time import time_ns
from typing import Any

from headwater.base.errors import UserError
from headwater.client.producer.batch import Callback, Delivery
from headwater.client.producer.core import ProducerCore
from headwater.client.producer.preparing import as_bytes, as_headers, choose_by
from headwater.client.producer.queues import TopicQueues
from headwater.client.serialization import serializer_for
from headwater.client.serialization.lookups import LookupDeferred
from headwater.client.settings.producer import ProducerSettings


class Intake:
    """Serialises, chooses the partition, appends. Used by one producer, from any thread."""

    def __init__(self, core: ProducerCore, settings: ProducerSettings) -> None:
        self._core = core
        self._append = core.accumulator.append
        self._serialize_key = serializer_for(settings.key_serializer, "key.serializer")
        self._serialize_value = serializer_for(settings.value_serializer, "value.serializer")
        self._choose = choose_by(settings.partitioner)
        self._ignore_keys = settings.ignore_keys
        self._plain = not (self._serialize_key or self._serialize_value or self._choose or self._ignore_keys)
        self._transactions = core.transactions
        core.takes_plain = self._plain
        core.allow_short_way()

    def put(
        self,
        topic: TopicQueues,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
        on_delivery: Callback | None,
    ) -> Delivery | None:
        """None: there is no room now."""
        core = self._core
        if core.closed or core.fatal is not None:
            core.check()
        if self._transactions is not None:
            self._transactions.check_send()
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        if partition is not None and not 0 <= partition < topic.count:
            raise topic.no_partition(partition)
        delivery = None
        as_it_is = self._plain
        if as_it_is:
            try:
                delivery = self._append(topic, partition, timestamp_ms, key, value, headers, on_delivery)
            except (TypeError, AttributeError, ValueError):
                as_it_is = False  # text, a dict of headers: the slower way takes them
        if not as_it_is:
            delivery = self._put_prepared(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if delivery is None and core.accumulator.is_shut:
            core.check_send()  # a commit, or the end, came while the record was serialized
        return delivery

    def _put_prepared(
        self,
        topic: TopicQueues,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int,
        on_delivery: Callback | None,
    ) -> Delivery | None:
        pairs: Sequence[Any] = as_headers(headers)
        key_bytes = self._serialized(self._serialize_key, topic.name, key, pairs, "key")
        value_bytes = self._serialized(self._serialize_value, topic.name, value, pairs, "value")
        if partition is None and self._choose is not None:
            partition = self._choose(topic, key, key_bytes, value, value_bytes)
        elif partition is None and self._ignore_keys and key_bytes is not None:
            partition = self._core.accumulator.sticky_partition(topic, len(key_bytes) + len(value_bytes or b""))
        return self._append(topic, partition, timestamp_ms, key_bytes, value_bytes, pairs, on_delivery)

    @staticmethod
    def _serialized(serialize: Any, topic: str, data: Any, headers: Any, what: str) -> Any:
        if serialize is None:
            return as_bytes(data, what)
        try:
            return as_bytes(serialize(topic, data, headers), what)
        except (UserError, LookupDeferred):
            raise
        except Exception as error:
            raise UserError(
                f"The {what} of a record for {topic!r} cannot be serialised", f"{type(error).__name__}: {error}"
            ) from error


def record_fields(record: Any) -> tuple[str, Any, dict[str, Any]]:
    """Topic, value and the rest of a `ProducerRecord`, or of anything that has its attributes or keys."""
    if isinstance(record, Mapping):
        get = record.get
    else:

        def get(name: str, default: Any = None) -> Any:
            return getattr(record, name, default)

    topic = get("topic")
    if not isinstance(topic, str):
        raise UserError(
            f"{type(record).__name__} is neither a topic nor a record",
            "a record has a topic, a value, and perhaps key, partition, headers, timestamp_ms",
            "send(topic, value) or send(ProducerRecord(topic, value))",
        )
    rest = {name: get(name) for name in ("key", "partition", "headers", "timestamp_ms")}
    rest["headers"] = rest["headers"] or ()
    return topic, get("value"), rest

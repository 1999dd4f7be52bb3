"""From what `send` is given to what a batch takes: partitioners, headers, text. (Serializers: `client.serialization`.)

A partitioner is a function or an object with `partition`; which of the two is found out once.
"""

from collections.abc import Callable, Iterable
from typing import Any

from headwater.base.errors import UserError
from headwater.base.ports import Buffer
from headwater.client.partitioner import RoundRobin
from headwater.client.producer.queues import TopicQueues

Choose = Callable[[TopicQueues, Any, Buffer | None, Any, Buffer | None], int]


def choose_by(partitioner: Any) -> Choose | None:
    """None: by key, else sticky, which the accumulator does by itself."""
    if isinstance(partitioner, str):
        return _named(partitioner)
    if partitioner is None:
        return None
    if isinstance(partitioner, type):
        partitioner = partitioner()
    method = getattr(partitioner, "partition", partitioner)
    if not callable(method):
        raise UserError(
            f"{partitioner!r} is no partitioner",
            "it is neither a function nor an object with a method partition",
            "Give a function (topic, key_bytes, key, value_bytes, value, partition_count) that returns a partition",
        )

    def choose(topic: TopicQueues, key: Any, key_bytes: Buffer | None, value: Any, value_bytes: Buffer | None) -> int:
        partition = method(topic.name, key_bytes, key, value_bytes, value, topic.count)
        if not isinstance(partition, int) or not 0 <= partition < topic.count:
            raise UserError(
                f"The partitioner chose partition {partition!r} of {topic.name!r}",
                f"the topic has {topic.count} partitions, numbered from 0 to {topic.count - 1}",
                "The last partition is partition_count - 1",
            )
        return partition

    return choose


def _named(name: str) -> Choose | None:
    """Kafka's own class names are understood too."""
    short = name.rsplit(".", 1)[-1].removesuffix("Partitioner").replace("_", "").lower()
    if short in ("", "default", "sticky", "murmur2", "uniformsticky"):
        return None
    if short == "roundrobin":
        turns: dict[str, RoundRobin] = {}

        def choose(topic: TopicQueues, *_: Any) -> int:
            turn = turns.get(topic.name)
            if turn is None:
                turn = turns[topic.name] = RoundRobin()
            return turn.choose([queue.partition for queue in topic.available])

        return choose
    raise UserError(
        f"There is no partitioner {name!r}",
        "the names are sticky and round_robin",
        "Give a function or an object for one of your own",
    )


def as_headers(headers: Iterable[tuple[str, Any]] | dict[str, Any]) -> list[tuple[str, Buffer | None]]:
    """Pairs of a name and bytes; a dict and text are taken too."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def as_bytes(data: Any, what: str) -> Buffer | None:
    """Text is taken in UTF-8; anything else needs a serializer."""
    if data is None or isinstance(data, bytes | bytearray | memoryview):
        return data
    if isinstance(data, str):
        return data.encode()
    raise UserError(
        f"A {what} of the type {type(data).__name__} cannot be sent as it is",
        "without a serializer it is bytes or text",
        f"Set {what}_serializer, or serialize it before",
    )

"""A partitioner of one's own: Banana, the biggest customer, has the last partition to itself;
the others share the rest.

    .venv/bin/headwater topic create customers -p 4
    echo Banana | .venv/bin/python examples/banana_partitioner.py [BOOTSTRAP [TOPIC]]

Reads one customer per line, and prints where each went. With one partition there is nothing to choose. The Java class
that this is after returned numPartitions for Banana: one too many, since partitions are numbered from 0.
"""

import sys

from headwater.client import Producer
from headwater.client.partitioner import murmur2


class BananaPartitioner:
    def partition(
        self, _topic: str, key_bytes: bytes | None, key: object, _value_bytes: object, _value: object, count: int
    ) -> int:
        if key_bytes is None or not isinstance(key, str):
            raise ValueError("We expect all messages to have customer names as key")
        if key == "Banana" or count == 1:
            return count - 1
        return (murmur2(key_bytes) & 0x7FFFFFFF) % (count - 1)


def main() -> None:
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "customers"
    with Producer(
        {
            "bootstrap.servers": bootstrap,
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "partitioner.class": BananaPartitioner(),
        }
    ) as producer:
        customers = [line.strip() for line in sys.stdin if line.strip()]
        sent = [(customer, producer.send(topic, f"an order of {customer}", key=customer)) for customer in customers]
        for customer, delivery in sent:
            print(customer, delivery.result().partition)


if __name__ == "__main__":
    main()

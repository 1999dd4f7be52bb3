"""Three ways to send, as every book on Kafka has them: forget it, wait for it, be called back.

    python examples/send_and_be_told.py [BOOTSTRAP [TOPIC]]

The settings are those of the notes that this is after, in their names. `acks=all` and no retries cannot be idempotent;
leave `retries` out, and they are.
"""

import sys

from headwater.client import KafkaError, Producer, ProducerRecord, RecordMetadata


def on_completion(error: KafkaError | None, metadata: RecordMetadata | None) -> None:
    if error is not None:
        print(f"Not sent: {error}", file=sys.stderr)
    elif metadata is not None:
        print(f"Offset of sent record: {metadata.offset}")


def main() -> None:
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "mytopic"
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "retries": 0,
            "batch.size": 16384,
            "linger.ms": 1,
            "buffer.memory": 33554432,
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        }
    )
    try:
        producer.send(ProducerRecord(topic, "fire and forget", "key"))
        metadata = producer.send(ProducerRecord(topic, "wait for it", "key")).result()
        print(f"Sent to {metadata.topic}, partition {metadata.partition}, offset {metadata.offset}")
        for number in range(3):
            producer.send(ProducerRecord(topic, f"be told {number}", "key"), on_delivery=on_completion)
    finally:
        producer.close(10)  # sends what is left


if __name__ == "__main__":
    main()

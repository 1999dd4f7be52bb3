"""Batches, encoded already, as one Produce request. No state."""

from typing import Final

from headwater.client.producer.batch import ProducerBatch
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_BY_NAME_MAX: Final = 12  # the last version of Produce that names topics
_OLD_TRANSACTIONS_MAX: Final = 11  # the last that does not add partitions to transactions by itself


def produce_request(
    batches: list[ProducerBatch], acks: int, timeout_ms: int, transactional_id: str | None
) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        queue = batch.queue
        topic = topics.get(queue.topic.name)
        if topic is None:
            topic = topics[queue.topic.name] = TopicProduceData(
                name=queue.topic.name, topic_id=queue.topic.topic_id, partition_data=[]
            )
        topic.partition_data.append(PartitionProduceData(index=queue.partition, records=batch.data))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )


def version_limit(batches: list[ProducerBatch], adds_partitions: bool) -> int | None:
    """The highest version that may be used. `adds_partitions`: a broker may add them to a transaction by itself."""
    if not adds_partitions:
        return _OLD_TRANSACTIONS_MAX
    return None if all(any(batch.queue.topic.topic_id) for batch in batches) else _BY_NAME_MAX

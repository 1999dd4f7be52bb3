"""Who may write to the topics of the coordinators: the coordinators."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.broker.handlers import produce
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produce_to(lab: Any, topic: str) -> ProduceRequest:
    records = build_batch([Record(0, lab.clock.now_ms(), b"key", b"value")])
    topic_id = lab.broker.image.topic(topic).topic_id
    data = TopicProduceData(
        name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=bytes(records))]
    )
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[data])


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("version", [3, 12, 13])
@pytest.mark.parametrize("cleanup", ["compact", "delete"])
def test_a_client_cannot_write_what_a_coordinator_would_read_back(
    lab: Any, topic: str, version: int, cleanup: str
) -> None:
    lab.ask(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)], timeout_ms=1000
        )
    )
    lab.ask(
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name=topic,
                    configs=[AlterableConfig(name="cleanup.policy", value=cleanup)],
                )
            ]
        )
    )
    request = produce_to(lab, topic)
    header = encode_request_header(0, version, 1, "tests")
    frame = memoryview(bytearray(header + b"".join(request.encode(version))))
    assert produce.handle_frame(lab.broker, frame, 8, len(frame), version, 1) is None
    (part,) = lab.ask(request, version).responses[0].partition_responses
    assert ErrorCode(part.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert lab.broker.partition(topic, 0).log.log_end_offset == 0

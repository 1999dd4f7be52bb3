"""What reading and writing records needs: WRITE and READ of topics, and of transactional ids where there is one."""

from typing import TYPE_CHECKING

from headwater.base.acls import Operation
from headwater.base.ids import TopicId
from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.outcome import (
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Narrowed,
    Outcome,
    Refused,
    denial,
    divide,
)
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headwater.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def name_of(broker: "Broker", topic_id: bytes) -> str | None:
    topic = broker.image.topics.get(TopicId(topic_id))
    return None if topic is None else topic.name


def produce(broker: "Broker", caller: Caller, request: ProduceRequest, _version: int) -> Outcome:
    """A topic id that nobody knows is the handler's to refuse: ids are no secret."""
    transactional_id = request.transactional_id
    if transactional_id is not None and not caller.may_transaction(Operation.WRITE, transactional_id):
        return _no_produce(request, request.topic_data, TRANSACTION_DENIED)

    def may_write(topic: TopicProduceData) -> bool:
        name = topic.name or name_of(broker, topic.topic_id)
        return name is None or caller.may_topic(Operation.WRITE, name)

    allowed, denied = divide(request.topic_data, may_write)
    if caller.noted is not None:
        for topic in allowed:
            topic_id = TopicId(bytes(topic.topic_id)) if not topic.name else broker.image.ids_by_name.get(topic.name)
            if topic_id in broker.image.topics:
                caller.noted.note_writable(topic_id)
    if not denied:
        return None
    if not allowed or request.acks == 0:
        return _no_produce(request, denied, TOPIC_DENIED)
    request.topic_data = allowed

    def complete(response: ProduceResponse) -> ProduceResponse:
        response.responses += _produce_results(denied, TOPIC_DENIED)
        return response

    return Narrowed(complete)


def _no_produce(request: ProduceRequest, topics: list[TopicProduceData], code: int) -> Refused:
    if request.acks == 0:
        raise denial(code)  # nobody waits for an answer: that the connection ends is the only way to hear of it
    return Refused(ProduceResponse(responses=_produce_results(topics, code)))


def _produce_results(topics: list[TopicProduceData], code: int) -> list[TopicProduceResponse]:
    return [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1, record_errors=[])
                for part in topic.partition_data
            ],
        )
        for topic in topics
    ]


def fetch(_broker: "Broker", caller: Caller, request: FetchRequest, version: int) -> Outcome:
    """Followers need CLUSTER_ACTION for everything. What a consumer may read is asked for each partition as it is read.

    (`broker/fetch_reading.py`: a session holds partitions that this request does not name.)
    """
    if replica_of(request, version) < 0 or caller.may_cluster(Operation.CLUSTER_ACTION):
        return None
    return Refused(
        FetchResponse(
            error_code=0,
            session_id=0,
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=part.partition, error_code=TOPIC_DENIED, high_watermark=-1, records=b""
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )
    )


def replica_of(request: FetchRequest, version: int) -> int:
    if version >= 15:
        return -1 if request.replica_state is None else request.replica_state.replica_id
    return request.replica_id


def list_offsets(_broker: "Broker", caller: Caller, request: ListOffsetsRequest, _version: int) -> Outcome:
    if request.replica_id >= 0 and caller.may_cluster(Operation.CLUSTER_ACTION):
        return None
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.DESCRIBE, topic.name))
    if not denied:
        return None

    def complete(response: ListOffsetsResponse) -> ListOffsetsResponse:
        response.topics += [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=TOPIC_DENIED)
                    for part in topic.partitions
                ],
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete)


def offset_for_leader_epoch(
    _broker: "Broker", caller: Caller, request: OffsetForLeaderEpochRequest, _version: int
) -> Outcome:
    if caller.may_cluster(Operation.CLUSTER_ACTION):
        return None
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.DESCRIBE, topic.topic))
    if not denied:
        return None

    def complete(response: OffsetForLeaderEpochResponse) -> OffsetForLeaderEpochResponse:
        response.topics += [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=TOPIC_DENIED, partition=part.partition) for part in topic.partitions
                ],
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete)


def delete_records(_broker: "Broker", caller: Caller, request: DeleteRecordsRequest, _version: int) -> Outcome:
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.DELETE, topic.name))
    if not denied:
        return None

    def complete(response: DeleteRecordsResponse) -> DeleteRecordsResponse:
        response.topics += [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=part.partition_index, low_watermark=-1, error_code=TOPIC_DENIED
                    )
                    for part in topic.partitions
                ],
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete)

"""WriteTxnMarkers (key 27), versions 1 to 2: between brokers, a coordinator ends transactions on the partitions of
others.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.broker.coordinators.markers import Marker, Results, write_markers
from headwater.broker.deferred import Deferred
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: WriteTxnMarkersRequest) -> Any:  # noqa: ARG001
    return gather(
        [_write(broker, asked) for asked in request.markers], lambda results: WriteTxnMarkersResponse(markers=results)
    )


def _write(broker: "Broker", asked: WritableTxnMarker) -> Deferred:
    deferred = Deferred()
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    names = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]

    def written(results: Results) -> None:
        deferred.complete(
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=int(results[TopicPartition(topic.name, index)])
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in asked.topics
                ],
            )
        )

    write_markers(broker, marker, names, written)
    return deferred

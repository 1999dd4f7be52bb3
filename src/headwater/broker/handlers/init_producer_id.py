"""InitProducerId (key 22), versions 0 to 5: an id and an epoch for an idempotent producer.

From v3 on a producer that has lost its sequence may offer its id and epoch to get the next epoch; without a transactional id
Kafka gives it a fresh id instead, and so do we. A transactional id needs the transaction coordinator, which this broker does not have yet.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: InitProducerIdRequest,
) -> InitProducerIdResponse | Deferred:
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    deferred = Deferred()

    def taken(producer_id: int, error: KafkaError | None) -> None:
        if error is not None:
            deferred.complete(_refused(error.code))
        else:
            deferred.complete(InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0))

    broker.producer_ids.take(taken)
    return deferred


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)

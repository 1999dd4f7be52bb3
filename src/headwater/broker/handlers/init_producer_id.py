"""InitProducerId (key 22), versions 0 to 5: an id and an epoch for an idempotent or a transactional producer.

From v3 on a producer that has lost its sequence may offer its id and epoch to get the next epoch; without a
transactional id Kafka gives it a fresh id instead, and so do we. v4 answers PRODUCER_FENCED where older versions know
INVALID_PRODUCER_EPOCH.
"""

import logging
from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.coordinator.transactions.shard import init_producer_id_error
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")


def handle(
    broker: "Broker",
    context: RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse | Deferred:
    version = context.api_version
    if request.transactional_id == "" or (request.producer_id == -1) != (request.producer_epoch == -1):
        return init_producer_id_error(ErrorCode.INVALID_REQUEST, version)
    if request.transactional_id is not None:
        answer: InitProducerIdResponse | Deferred = broker.transactions.call_with_producer_id(
            request.transactional_id,
            lambda shard: shard.needs_producer_id(request),
            lambda shard, new_id, ticket, now_ms: shard.init_producer_id(request, version, new_id, ticket, now_ms),
            lambda code: init_producer_id_error(code, version),
        )
        return answer
    deferred = Deferred()

    def taken(producer_id: int, error: KafkaError | None) -> None:
        if error is not None:
            # The disk refused the block of ids. Producers take other codes for the end of them,
            # and this one for "soon".
            logger.error("event=no-producer-ids reason=%r", str(error))
            deferred.complete(init_producer_id_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version))
        else:
            deferred.complete(InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0))

    broker.producer_ids.take(taken)
    return deferred

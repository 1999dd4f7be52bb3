"""CreateTopics (key 19), versions 2 to 7: makes topics, each on its own, so that one may fail and the next succeed.

-1 for the count or the factor takes the broker's default; with replicas assigned by hand both must be -1.
`validate_only` does all the checks and makes nothing. v5 answers the configs of the new topic, v7 its id. A name that
stands in the request twice is refused once, and not made at all.
"""

from typing import TYPE_CHECKING

from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.topic_creation import create
from headwater.wire.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: CreateTopicsRequest) -> Deferred:
    return create(broker, request, context)

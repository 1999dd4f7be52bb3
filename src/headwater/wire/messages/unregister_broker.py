"""UnregisterBroker: forgets a broker that will not come back. Flexible from the start."""

from headwater.wire.schema import INT16, INT32, STRING, Message, field


class UnregisterBrokerRequest(Message, key=64, versions=(0, 0), flexible_since=0):
    broker_id: int = field(INT32)


class UnregisterBrokerResponse(Message, key=64, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)

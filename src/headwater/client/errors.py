"""How talking to a broker fails before the broker itself says anything. Each is a `KafkaError` with Kafka's code."""

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.addresses import Address


class ConnectionFailed(KafkaError):
    """The connection could not be made, or broke. `refused`: a machine is there, but nothing listens on the port.
    `mute`: it ended before it said anything, as listeners do that want TLS or a login of who shows neither.
    """

    def __init__(self, address: Address, reason: str, *, refused: bool = False, mute: bool = False) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, f"{address}: {reason}")
        self.address = address
        self.reason = reason
        self.refused = refused
        self.mute = mute


class NotTrusted(KafkaError):
    """The broker's certificate is not trusted: of the code that nobody tries again, but no fault of the user who logs
    in.
    """

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{address}: {reason}")


class RequestTimedOut(KafkaError):
    def __init__(self, address: Address, api: str, timeout_ms: int) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, f"{address}: no answer to {api} within {timeout_ms} ms")
        self.address = address


class BootstrapFailed(KafkaError):
    """No address led to a cluster. `attempts` tells what was tried, and what came of it, in order."""

    def __init__(self, attempts: list[KafkaError]) -> None:
        tried = "; ".join(attempt.message or attempt.code.name for attempt in attempts)
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, f"no bootstrap server could be reached: {tried}")
        self.attempts = attempts


class UnknownTopic(KafkaError):
    """The cluster has no topic of this name. `known` holds the names it has, as far as they were asked for."""

    def __init__(self, topic: str, known: list[str]) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        self.topic = topic
        self.known = known


def passes(error: KafkaError | TimeoutError) -> bool:
    """Whether the same may succeed later: brokers are away, or are not ready."""
    return isinstance(error, TimeoutError) or error.code.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE


def error_for(code: int, message: str | None = None) -> KafkaError:
    """A code from a response, as an exception; one that we do not know yet keeps its number in the message."""
    try:
        return KafkaError(ErrorCode(code), message)
    except ValueError:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"error {code}" + (f": {message}" if message else ""))


def raise_for(code: int, message: str | None = None) -> None:
    if code:
        raise error_for(code, message)

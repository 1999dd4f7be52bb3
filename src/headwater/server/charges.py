"""What a request of the general way costs its sender's quotas, told in its answer and waited for behind it. Owned by its request."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.server.connection import Connection
    from headwater.server.dispatch import Begun

_LENGTH_BYTES = 4


class Charge:
    """For connections that have a meter. `busy_ns`: how long the request kept the loop's thread; waiting does not count."""

    __slots__ = ("_begun", "_busy_ns", "_connection", "_size_bytes")

    def __init__(self, connection: "Connection", begun: "Begun", frame_bytes: int, busy_ns: int) -> None:
        self._connection = connection
        self._begun = begun
        self._size_bytes = frame_bytes + _LENGTH_BYTES
        self._busy_ns = busy_ns

    def throttle_ms(self, response: Any, now_ms: int) -> int:
        """How long the client has to wait, which its answer says from now on: for these quotas, or for what the handler has said."""
        told_ms: int = getattr(response, "throttle_time_ms", 0)
        meter, begun = self._connection.context.meter, self._begun
        if meter is None or begun.is_exempt:
            return told_ms
        charged_ms = meter.charge(begun.api.key, begun.client_id, self._size_bytes, self._busy_ns, now_ms)
        if charged_ms <= told_ms:
            return told_ms
        if response is not None:
            response.throttle_time_ms = charged_ms
        return charged_ms

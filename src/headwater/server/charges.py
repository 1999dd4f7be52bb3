"""What a request of the general way costs its sender's quotas: counted when it was handled, told in its answer and
waited for behind it.

A request whose answer comes later counts at once: a client that goes away before it has sent the same bytes. Owned by
its request.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.broker.quotas.meter import Meter
    from headwater.server.dispatch import Begun

_LENGTH_BYTES = 4


class Charge:
    """For connections that have a meter. `busy_ns`: how long the request kept the loop's thread; waiting does not
    count.
    """

    __slots__ = ("_begun", "_meter")

    def __init__(self, meter: "Meter", begun: "Begun", frame_bytes: int, busy_ns: int, now_ms: int) -> None:
        self._meter = None if begun.is_exempt else meter
        self._begun = begun
        if self._meter is not None:
            self._meter.record(begun.api.key, begun.client_id, frame_bytes + _LENGTH_BYTES, busy_ns, now_ms)

    def throttle_ms(self, response: Any, now_ms: int) -> int:
        """How long the client has to wait, for these quotas or for what the handler has said. Its answer says so, if it
        has a field for it.
        """
        if self._meter is None:
            return 0  # a broker: it passes on what its client is told, and is not kept waiting itself
        told_ms: int = getattr(response, "throttle_time_ms", 0)
        waits_ms = self._meter.throttle_ms(self._begun.api.key, self._begun.client_id, now_ms)
        if waits_ms <= told_ms:
            return told_ms
        if hasattr(response, "throttle_time_ms"):  # those of logins and of markers have none
            response.throttle_time_ms = waits_ms
        return waits_ms

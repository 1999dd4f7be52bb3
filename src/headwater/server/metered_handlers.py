"""Quick handlers of a connection for which quotas may hold: each request's client id is looked at first.

Without a quota for that client its requests take the way that they would have taken. A produce that keeps to its quotas
is counted and takes it too. Whatever else a quota is about goes the general way, which says how long to wait. No state
but the meter's.
"""

from collections.abc import Mapping
from struct import Struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from headwater.broker.quotas.client_quotas import Limits
from headwater.broker.quotas.meter import Meter

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.server.quick_handlers import QuickHandler

_PRODUCE, _FETCH = 0, 1
_SHORT: Final = Struct(">h")
_HEAD_BYTES: Final = 12  # of a frame: length, API key, version, correlation id


def metered(handlers: "Mapping[int, QuickHandler]", meter: Meter) -> "dict[int, QuickHandler]":
    return {
        key: _metered_produce(handlers, meter) if key == _PRODUCE else _metered(handlers, key, meter)
        for key in handlers
    }


def _metered(handlers: "Mapping[int, QuickHandler]", key: int, meter: Meter) -> "QuickHandler":
    def handle(
        broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | list[Any] | None:
        limits = _limits(meter, frame, at, end)
        if limits is not None and (limits.request is not None or (key == _FETCH and limits.fetch is not None)):
            return None
        return handlers[key](broker, frame, at, end, version, correlation_id)

    return handle


def _metered_produce(handlers: "Mapping[int, QuickHandler]", meter: Meter) -> "QuickHandler":
    def handle(
        broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | list[Any] | None:
        limits = _limits(meter, frame, at, end)
        if limits is None:
            return handlers[_PRODUCE](broker, frame, at, end, version, correlation_id)
        now_ms = broker.clock.monotonic_ms()
        size_bytes = end - at + _HEAD_BYTES
        if not meter.takes_at_once(limits, size_bytes, now_ms):
            return None
        began_ns = perf_counter_ns()
        answer = handlers[_PRODUCE](broker, frame, at, end, version, correlation_id)
        if answer is None:
            if limits.produce is not None:
                limits.produce.used.record(-size_bytes, now_ms)
        elif limits.request is not None:
            limits.request.used.record(meter.percent_of(perf_counter_ns() - began_ns), now_ms)
        return answer

    return handle


def _limits(meter: Meter, frame: memoryview, at: int, end: int) -> Limits | None:
    """A client id that is none is for the general way to refuse, if for any:
    it has the quotas of a client without one.
    """
    size = _SHORT.unpack_from(frame, at)[0] if end - at >= _SHORT.size else 0
    if size <= 0 or size > end - at - _SHORT.size:
        return meter.limits(None)
    return meter.limits(str(frame[at + 2 : at + 2 + size], "utf-8", "replace"))

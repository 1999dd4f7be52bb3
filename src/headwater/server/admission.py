"""Who may connect: how many connections there are, in all and per address, and how fast new ones come. Owned by the
server's loop.

Beyond a number, a connection is closed as soon as it is accepted. Beyond `max.connection.creation.rate` nobody is
refused: accepting pauses, and clients wait in the kernel's queue. A second's worth of connections may come at once. All
of it is read from the config each time, because it may change while the broker runs.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig

_SECOND_NS: Final = 1_000_000_000
_LONGEST_PAUSE_MS: Final = 1000  # then the rate is looked at again: it may have been raised


class Admission:
    def __init__(self, config: "BrokerConfig", now_ns: int) -> None:
        self._config = config
        self._per_address: Counter[str] = Counter()
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}
        self._rate = config.int("max.connection.creation.rate")
        self._allowed = float(self._rate)  # connections that may come at once
        self._counted_ns = now_ns
        names = [listener.name for listener in config.listeners()]
        between = config.inter_broker_listener().name
        self._protected = between if len(names) > 1 else None  # brokers get through to each other

    # Numbers

    def refusal(self, host: str, connection_count: int) -> str | None:
        """Why one more connection from there is too many; None if it is not."""
        if connection_count >= self._config.int("max.connections"):
            return "too many connections"
        if self._per_address[host] >= self._limit_of(host):
            return "too many connections from this address"
        return None

    def _limit_of(self, host: str) -> int:
        text = self._config.string("max.connections.per.ip.overrides") or ""
        if text != self._overrides_text:
            self._overrides_text = text
            pairs = (entry.strip().rpartition(":") for entry in text.split(",") if entry.strip())
            self._overrides = {address.strip("[]"): int(count) for address, _, count in pairs}
        limit = self._overrides.get(host)
        return self._config.int("max.connections.per.ip") if limit is None else limit

    def entered(self, host: str) -> None:
        self._per_address[host] += 1

    def left(self, host: str) -> None:
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]

    # Rate

    def pause_ms(self, listener: str, now_ns: int) -> int:
        """How long to wait before the next connection is accepted; 0 if it may come."""
        rate = self._config.int("max.connection.creation.rate")
        if rate != self._rate:
            self._rate, self._allowed, self._counted_ns = rate, float(rate), now_ns
        self._allowed = min(float(rate), self._allowed + rate * (now_ns - self._counted_ns) / _SECOND_NS)
        self._counted_ns = now_ns
        if self._allowed < 1 and listener != self._protected:
            missing_ms = (1 - self._allowed) * 1000 / rate if rate else _LONGEST_PAUSE_MS
            return min(_LONGEST_PAUSE_MS, int(missing_ms) + 1)
        return 0

    def accepted(self) -> None:
        """A connection came, whatever becomes of it."""
        self._allowed = max(0.0, self._allowed - 1)

"""The clients beside the producers of the exactly-once writer: they ask the cluster, and end transactions."""

from collections.abc import Callable
from typing import Any, cast

from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.spark.client_options import shared_settings
from headwater.spark.writer.options import SinkOptions


class SinkClients:
    """What asks and ends: an admin client, which ends transactions, too, and a reader of decisions. Made on first use.

    With a patience, no call of theirs takes much longer than that."""

    def __init__(self, options: SinkOptions, *, patience_s: float | None = None) -> None:
        self.settings = {**options.client, "bootstrap.servers": options.bootstrap_servers}  # of producers
        self._settings: dict[str, Any] = dict(shared_settings(self.settings))
        if patience_s is not None:
            patience_ms = int(patience_s * 1000)
            request_ms = min(patience_ms, int(self._settings.get("request.timeout.ms", patience_ms)))
            self._settings |= {"default.api.timeout.ms": patience_ms, "request.timeout.ms": request_ms}
        self._made: dict[str, Any] = {}

    @property
    def admin(self) -> Admin:
        return cast(Admin, self._get("admin", lambda: Admin(self._settings)))

    @property
    def reader(self) -> RangeReader:
        settings = {**self._settings, "isolation.level": "read_committed"}
        return cast(RangeReader, self._get("reader", lambda: RangeReader(settings)))

    def close(self) -> None:
        for client in self._made.values():
            client.close()
        self._made.clear()

    def _get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


_cached: dict[str, SinkClients] = {}


def cached_clients(options: SinkOptions) -> SinkClients:
    """Spark keeps its Python workers from batch to batch: so they keep their connections. One task at a time uses
    them.
    """
    return _cached.setdefault(repr((options.bootstrap_servers, sorted(options.client.items()))), SinkClients(options))

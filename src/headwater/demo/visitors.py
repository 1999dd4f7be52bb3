"""The visitors at work: a thread that sends what they do to a topic, at a rate, until it is stopped."""

import threading
import time
from typing import Final

from headwater.demo.activity import Website, due

_PAUSE_S: Final = 0.05


class Visitors:
    """`sent` and `rate_per_s` may be read while it runs. Leaving the `with` block ends it, with all records
    delivered.
    """

    def __init__(self, servers: str, topic: str, rate_per_s: float, seed: int | None = None) -> None:
        self._servers = servers
        self._topic = topic
        self._wanted_per_s = rate_per_s
        self._website = Website(time.time_ns() if seed is None else seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="visitors")
        self.sent = 0
        self.rate_per_s = 0.0
        self.error: Exception | None = None

    def __enter__(self) -> "Visitors":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.rate_per_s = 0.0

    def _work(self) -> None:
        from headwater.client import Producer

        try:
            with Producer(bootstrap_servers=self._servers, client_id="visitors", linger_ms=20) as producer:
                started_s = time.monotonic()
                while not self._stop.wait(_PAUSE_S):
                    elapsed_s = time.monotonic() - started_s
                    for _ in range(due(self._wanted_per_s, elapsed_s, self.sent)):
                        key, value = self._website.next_record(time.time_ns() // 1_000_000)
                        producer.send(self._topic, value, key=key)
                        self.sent += 1
                    self.rate_per_s = self.sent / max(elapsed_s, 1e-3)
                producer.flush()
        except Exception as error:  # noqa: BLE001 (the engine shows it)
            self.error = error

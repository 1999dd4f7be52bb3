"""Writes statuses without waiting for the brokers. The last of each key is sent until they have it: where a connector
or task has ended, no other status would come and make good for one that was lost. That something is forgotten is sent
once: by the next time, somebody may have made another under its name.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.client import Producer
from headwater.connect.distributed import status_records
from headwater.connect.distributed.status_records import StatusRecord

logger = logging.getLogger("headwater.connect")

_AGAIN_S: Final = 1.0  # after the producer has given up, which takes it `delivery.timeout.ms`


class StatusWriter:
    """For any thread. `is_past`: whether another worker has begun since with what the status is of."""

    def __init__(self, topic: str, producer: Producer, is_past: Callable[[StatusRecord], bool]) -> None:
        self._topic, self._producer, self._is_past = topic, producer, is_past
        self._lock = threading.Lock()
        self._under_way: dict[str, StatusRecord] = {}  # by key, the last only
        self._failed: list[StatusRecord] = []
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def put(self, record: StatusRecord) -> None:
        key, value = status_records.encode(record)
        with self._lock:
            self._under_way[key] = record
        self._send(key, value, record)

    def close(self) -> None:
        """What is under way is the producer's to bring to its end."""
        with self._lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _send(self, key: str, value: bytes | None, record: StatusRecord) -> None:
        try:
            self._producer.send(self._topic, value, key=key.encode(), on_delivery=partial(self._ended, key, record))
        except KafkaError as error:
            self._ended(key, record, error)

    def _ended(self, key: str, record: StatusRecord, error: BaseException | None, _metadata: Any = None) -> None:
        """In the producer's thread, which must not wait."""
        again = isinstance(error, KafkaError) and error.code.retriable
        again = again and status_records.encode(record).value is not None
        if error is not None:
            logger.warning("event=status-not-written key=%r again=%s error=%r", key, again, str(error)[:500])
        with self._lock:
            if self._under_way.get(key) is not record:
                return  # a later one is
            if again and not self._is_closed:
                self._failed.append(record)
                self._send_again_soon()
            else:
                del self._under_way[key]

    def _send_again_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_AGAIN_S, self._send_again)
            self._timer.daemon = True
            self._timer.start()

    def _send_again(self) -> None:
        with self._lock:
            failed, self._failed, self._timer = self._failed, [], None
        for record in failed:
            key, value = status_records.encode(record)
            with self._lock:
                if self._is_closed or self._under_way.get(key) is not record:
                    continue
                if self._is_past(record):
                    del self._under_way[key]
                    continue
            self._send(key, value, record)

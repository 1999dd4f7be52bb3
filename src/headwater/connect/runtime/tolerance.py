"""What becomes of a record that cannot be converted, transformed or delivered: retried, told, skipped, or the end of
its task.

`Tolerance.run` does an operation on one record. A `RetriableError` is tried again for `errors.retry.timeout`; any other
error, or one that lasts, is reported (log, dead letter topic) and, with `errors.tolerance=all`, the record is skipped.
A task that is to stop while it waits for the next try has not tried for as long as it may: it leaves the record to the
one that comes after it.
"""

import logging
import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headwater.connect.errors import ConnectError, Interrupted, RetriableError, java_name_of
from headwater.connect.metrics.error_counts import ErrorCounter

logger = logging.getLogger("headwater.connect")
T = TypeVar("T")
_FIRST_DELAY_MS: Final = 300


class Stage(StrEnum):
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


class Failure(NamedTuple):
    stage: Stage
    class_name: str  # of what was at work
    error: BaseException
    record: Any  # the consumer's record of a sink, the source record of a source
    attempts: int


class Reporter(Protocol):
    def report(self, failure: Failure) -> None: ...


class Skipped(Exception):
    """The record is not to go on."""


class Tolerance:
    """Owned by one task. `sleep` returns True if the task is to stop."""

    def __init__(
        self,
        config: dict[str, Any],
        reporters: Sequence[Reporter],
        now_ms: Callable[[], int],
        sleep: Callable[[float], bool],
        metrics: ErrorCounter | None = None,
    ) -> None:
        self._timeout_ms: int = config["errors.retry.timeout"]
        self._delay_max_ms: int = config["errors.retry.delay.max.ms"]
        self.tolerant = config["errors.tolerance"].lower() == "all"
        self._reporters, self._now_ms, self._sleep, self._metrics = reporters, now_ms, sleep, metrics

    def run(self, stage: Stage, class_name: str, record: Any, operation: Callable[[], T]) -> T:
        """Raises Skipped if the record was given up, ConnectError if that is not tolerated, Interrupted if the task is
        to stop before that is known.
        """
        started_ms = self._now_ms()
        attempts = 0
        while True:
            attempts += 1
            try:
                return operation()
            except RetriableError as error:
                self._count("total-record-failures")
                delay_ms = retry_delay_ms(attempts, started_ms, self._now_ms(), self._timeout_ms, self._delay_max_ms)
                if delay_ms is None:
                    raise self._converting_failed(Failure(stage, class_name, error, record, attempts)) from error
                if self._sleep(delay_ms / 1000):
                    raise Interrupted(f"The task stops before {stage} is tried again: {error}") from error
                self._count("total-retries")
            except Exception as error:
                raise self._converting_failed(Failure(stage, class_name, error, record, attempts)) from error

    def give_up(self, failure: Failure) -> Exception:
        """Of what a plugin or the producer says of a record: tells the reporters; gives the exception to raise."""
        more = () if self.tolerant else ("total-record-errors",)
        self._count("total-record-failures", *more, at=True)
        return self._told(failure)

    def _converting_failed(self, failure: Failure) -> Exception:
        """Counted as Kafka Connect counts: what was tried again in vain is a failure more, and only what was converted
        or transformed in vain is counted as skipped.
        """
        more = ("total-records-skipped",) if self.tolerant else ()
        self._count("total-record-failures", *more, at=True)
        return self._told(failure)

    def _count(self, *names: str, at: bool = False) -> None:
        if self._metrics is not None:
            self._metrics.error(*names, at=at)

    def _told(self, failure: Failure) -> Exception:
        for reporter in self._reporters:
            reporter.report(failure)
        if self.tolerant:
            return Skipped()
        return ConnectError(f"Tolerance exceeded in error handler: {failure.stage}, {failure.error}")


def retry_delay_ms(attempts: int, started_ms: int, now_ms: int, timeout_ms: int, delay_max_ms: int) -> int | None:
    """How long to wait before the next try; None: no more of them."""
    if timeout_ms == 0:
        return None
    delay_ms = min(_FIRST_DELAY_MS << min(attempts - 1, 20), delay_max_ms)
    if timeout_ms < 0:
        return delay_ms
    left_ms = started_ms + timeout_ms - now_ms
    return min(delay_ms, left_ms) if left_ms > 0 else None


class LogReporter:
    def __init__(
        self,
        connector: str,
        task: int,
        with_record: bool,
        redact: Callable[[str], str],
        metrics: ErrorCounter | None = None,
    ) -> None:
        self._connector, self._task, self._with_record, self._redact = connector, task, with_record, redact
        self._metrics = metrics

    def report(self, failure: Failure) -> None:
        if self._metrics is not None:
            self._metrics.error("total-errors-logged")
        where = ""
        record = failure.record
        if self._with_record and hasattr(record, "offset"):
            where = f" topic={record.topic} partition={record.partition} offset={record.offset} timestamp={record.timestamp_ms}"
        error = self._redact(f"{type(failure.error).__name__}: {failure.error}")
        logger.error(
            "event=record-failed connector=%r task=%d stage=%s class=%s%s error=%r",
            self._connector,
            self._task,
            failure.stage,
            failure.class_name,
            where,
            error[:2000],
        )


_PREFIX: Final = "__connect.errors."


def context_headers(
    failure: Failure, connector: str, task: int, redact: Callable[[str], str]
) -> list[tuple[str, bytes]]:
    """The headers of a record in the dead letter topic, Kafka Connect's own."""
    record = failure.record
    trace = "".join(traceback.format_exception(failure.error))
    told = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "connector.name": connector,
        "task.id": str(task),
        "stage": str(failure.stage),
        "class.name": failure.class_name,
        "exception.class.name": java_name_of(failure.error),
        "exception.message": redact(str(failure.error)),
        "exception.stacktrace": redact(trace),
    }
    return [(_PREFIX + name, text.encode("utf-8", "replace")) for name, text in told.items()]

"""What a task counts. Pure: time comes in with each call, in milliseconds of one clock.

Calls are made by batch: a poll, a run of records, a put, a commit. They come from the task's thread and from those of
its clients, and `values` from whoever answers for the worker: so one lock, held for the length of a few additions.
"""

import threading
from collections.abc import Callable, Mapping

from headwater.connect.metrics.error_counts import ERROR_COUNTS, LAST_ERROR
from headwater.connect.metrics.names import ERRORS, SINK_TASK, SOURCE, SOURCE_TASK, TASK
from headwater.connect.metrics.sensors import Sensor, Windows

Values = dict[str, dict[str, float]]  # by group and name; without those that have no value yet


class TaskMetrics:
    """`kind`: source or sink. `now_ms` is monotonic, `wall_ms` the time of day. `fold` is called before anybody looks:
    it hands over what is counted elsewhere.
    """

    def __init__(
        self, kind: str, now_ms: Callable[[], float], wall_ms: Callable[[], int], windows: Windows | None = None
    ) -> None:
        windows = windows or Windows()
        self.kind = kind
        self.fold: Callable[[], None] | None = None
        self.now_ms, self._wall_ms = now_ms, wall_ms
        self._lock = threading.Lock()
        self._since: tuple[str, float] | None = None  # the state, and when it began
        self._spent: dict[str, float] = {}  # in states that are over
        self._batch, self._commit_time, self._commits = Sensor(windows), Sensor(windows), Sensor(windows)
        # source: polled, and arrived in Kafka; sink: read, and handed to the plugin
        self._records_in, self._records_out = Sensor(windows), Sensor(windows)
        self._plugin_time = Sensor(windows)  # of its poll or put
        self._active, self._active_now = Sensor(windows), 0
        self._transactions = Sensor(windows)
        self._completed = Sensor(windows)
        self._commit_number = 0
        self._partitions = 0
        self._errors = dict.fromkeys(ERROR_COUNTS, 0)
        self._last_error_ms = 0

    # Any task

    def state(self, state: str) -> None:
        with self._lock:
            now_ms = self.now_ms()
            if self._since is not None:
                before, since_ms = self._since
                self._spent[before] = self._spent.get(before, 0.0) + now_ms - since_ms
            self._since = state, now_ms

    def ended(self) -> None:
        """One run of the task is over; what it had open is read again by the next, if there is one."""
        self.fold = None
        with self._lock:
            self._partitions = 0
            self._set_active(0, self.now_ms())

    def committed(self, taken_ms: float, *, success: bool) -> None:
        """Offsets were to be committed."""
        with self._lock:
            now_ms = self.now_ms()
            self._commit_time.record(taken_ms, now_ms)
            self._commits.record(1.0 if success else 0.0, now_ms)
            if success:
                self._completed.record(1, now_ms)
            self._commit_number += 1

    # Sources

    def polled(self, records: int, taken_ms: float) -> None:
        """A poll has given records."""
        with self._lock:
            now_ms = self.now_ms()
            self._plugin_time.record(taken_ms, now_ms)
            self._took(records, now_ms)
            self._set_active(self._active_now + records, now_ms)

    def written(self, records: int, passed_over: int = 0) -> None:
        """They have arrived in Kafka; others of the same polls never will, because nobody wants them."""
        with self._lock:
            now_ms = self.now_ms()
            self._records_out.record(records, now_ms)
            self._set_active(self._active_now - records - passed_over, now_ms)

    def transaction(self, records: int) -> None:
        with self._lock:
            self._transactions.record(records, self.now_ms())

    # Sinks

    def read(self, records: int) -> None:
        with self._lock:
            self._took(records, self.now_ms())

    def put(self, records: int, taken_ms: float) -> None:
        """The plugin has taken them."""
        with self._lock:
            now_ms = self.now_ms()
            self._records_out.record(records, now_ms)
            self._plugin_time.record(taken_ms, now_ms)

    def active(self, records: int) -> None:
        """Read, and not covered by a commit."""
        with self._lock:
            self._set_active(records, self.now_ms())

    def partitions(self, count: int) -> None:
        with self._lock:
            self._partitions = count

    # Errors

    def error(self, *names: str, at: bool = False) -> None:
        """`at`: the time is that of the last error."""
        with self._lock:
            for name in names:
                self._errors[name] += 1
            if at:
                self._last_error_ms = self._wall_ms()

    def errors(self, counted: Mapping[str, int]) -> None:
        """Those that another process has counted (`ErrorCounts`)."""
        with self._lock:
            for name in ERROR_COUNTS:
                self._errors[name] += counted.get(name, 0)
            self._last_error_ms = max(self._last_error_ms, counted.get(LAST_ERROR, 0))

    # Looking

    def values(self) -> Values:
        fold = self.fold
        if fold is not None:
            fold()
        with self._lock:
            now_ms = self.now_ms()
            made: Values = {TASK: self._task_values(now_ms)}
            if self.kind == SOURCE:
                made[SOURCE_TASK] = self._source_values(now_ms)
            else:
                made[SINK_TASK] = self._sink_values(now_ms)
            made[ERRORS] = {**self._errors, LAST_ERROR: self._last_error_ms}
            return made

    # Inside: with the lock

    def _took(self, records: int, now_ms: float) -> None:
        self._records_in.record(records, now_ms)
        self._batch.record(records, now_ms)

    def _set_active(self, records: int, now_ms: float) -> None:
        """Below zero for a moment where records arrive before their poll is counted."""
        self._active_now = records
        self._active.record(max(0, records), now_ms)

    def _ratio(self, state: str, now_ms: float) -> float:
        spent = dict(self._spent)
        if self._since is not None:
            current, since_ms = self._since
            spent[current] = spent.get(current, 0.0) + now_ms - since_ms
        whole = sum(spent.values())
        return spent.get(state, 0.0) / whole if whole else 0.0

    def _task_values(self, now_ms: float) -> dict[str, float]:
        tried = self._commits.average(now_ms)
        return {
            "running-ratio": self._ratio("RUNNING", now_ms),
            "pause-ratio": self._ratio("PAUSED", now_ms),
            **_average_and_most("batch-size-avg", "batch-size-max", self._batch, now_ms),
            **_average_and_most("offset-commit-avg-time-ms", "offset-commit-max-time-ms", self._commit_time, now_ms),
            "offset-commit-success-percentage": 0.0 if tried is None else tried,
            "offset-commit-failure-percentage": 0.0 if tried is None else 1.0 - tried,
        }

    def _source_values(self, now_ms: float) -> dict[str, float]:
        least = self._transactions.smallest(now_ms)
        return {
            "source-record-poll-rate": self._records_in.rate(now_ms),
            "source-record-poll-total": self._records_in.total,
            "source-record-write-rate": self._records_out.rate(now_ms),
            "source-record-write-total": self._records_out.total,
            **self._active_values("source", now_ms),
            **_average_and_most("poll-batch-avg-time-ms", "poll-batch-max-time-ms", self._plugin_time, now_ms),
            **_average_and_most("transaction-size-avg", "transaction-size-max", self._transactions, now_ms),
            **({} if least is None else {"transaction-size-min": least}),
        }

    def _sink_values(self, now_ms: float) -> dict[str, float]:
        return {
            "sink-record-read-rate": self._records_in.rate(now_ms),
            "sink-record-read-total": self._records_in.total,
            "sink-record-send-rate": self._records_out.rate(now_ms),
            "sink-record-send-total": self._records_out.total,
            **_average_and_most("put-batch-avg-time-ms", "put-batch-max-time-ms", self._plugin_time, now_ms),
            **self._active_values("sink", now_ms),
            "partition-count": self._partitions,
            "offset-commit-seq-no": self._commit_number,
            "offset-commit-completion-rate": self._completed.rate(now_ms),
            "offset-commit-completion-total": self._completed.total,
        }

    def _active_values(self, kind: str, now_ms: float) -> dict[str, float]:
        name = f"{kind}-record-active-count"
        return {name: max(0, self._active_now), **_average_and_most(f"{name}-avg", f"{name}-max", self._active, now_ms)}


def _average_and_most(average: str, most: str, sensor: Sensor, now_ms: float) -> dict[str, float]:
    found = {average: sensor.average(now_ms), most: sensor.largest(now_ms)}
    return {name: value for name, value in found.items() if value is not None}

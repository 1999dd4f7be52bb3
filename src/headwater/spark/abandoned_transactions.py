"""What the exactly-once sink of a query that has ended leaves open is aborted: readers of committed records would stop
there for 15 minutes.

The sink itself ends what its tasks have reported when a batch fails (`writer/data_source_writers`). But tasks that are
killed, as by `query.stop()` in the middle of a batch, report to nobody. Spark tells the driver's process of the end of
each run of a query, and what that run has open then and not decided is aborted from here: at once, and once more when
killed tasks are sure to be gone. A process that ends does not wait for that: it looks once more and goes.

Another run of the query may be at work already, in this process or in another. Its transactions have the same names,
and are told from those of the run that has ended by their time-outs (`writer/run_timeouts`): they are never touched. A
query that is active again in this session takes care of itself. Owns a thread for each run that has just ended. What
goes wrong in a look is said, and the next look comes all the same; behind the last, transactions end by their time-out.
"""

import atexit
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.spark.exactly_once import Superseded, abandon_steps
from headwater.spark.writer.options import EXACTLY_ONCE, SinkOptions, parse_sink_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "headwater"
_WRITABLE: Final = "org.apache.spark.sql.connector.catalog.SupportsWrite"
_LOOKS_AFTER_S: Final = (0.0, 5.0)  # Spark gives a task that it kills two seconds
_EXIT_PATIENCE_S: Final = 10.0
_REPLACED: Final = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", Superseded("").what)
_NO_MORE_LOOKS: Final = "is not looked for, and ends by its time-out"
Sink = Callable[[], SinkOptions | None]
Abandon = Callable[[SinkOptions, str, str, Callable[[], bool]], None]  # of a query the run, unless it runs again


class AbandonedTransactions:
    """`find(query)` tells, of a query that has just started, how to ask for the options of its sink; None if it has
    another sink.
    """

    def __init__(
        self,
        find: Callable[[str], Sink | None],
        is_active: Callable[[str], bool],
        abandon: Abandon,
        looks_after_s: Sequence[float] = _LOOKS_AFTER_S,
    ) -> None:
        self._find = find
        self._is_active = is_active
        self._abandon = abandon
        self._looks_after_s = looks_after_s
        self._sinks: dict[str, Sink] = {}
        self._threads: set[threading.Thread] = set()
        self._leaving = threading.Event()
        atexit.register(self.leave, _EXIT_PATIENCE_S)

    def leave(self, patience_s: float) -> None:
        """At the end of this process: looks that are to come later are made now, or never."""
        self._leaving.set()
        self.wait(patience_s)

    def wait(self, patience_s: float) -> None:
        """For what is being aborted."""
        give_up_at = time.monotonic() + patience_s
        for thread in tuple(self._threads):
            thread.join(max(0.0, give_up_at - time.monotonic()))

    def query_started(self, query: str, run: str) -> None:
        try:
            sink = self._find(query)
        except Exception as error:  # noqa: BLE001 - a query must not fail for it
            _say(query, error, _NO_MORE_LOOKS)
            return
        if sink is not None:
            self._sinks[run] = sink

    def query_terminated(self, query: str, run: str, problem: str) -> None:
        sink = self._sinks.pop(run, None)
        if sink is None or any(word in problem for word in _REPLACED):
            return
        try:
            options = sink()
        except Exception:  # noqa: BLE001 - it has no plan: nothing was written
            return
        if options is None or options.delivery != EXACTLY_ONCE:
            return
        thread = threading.Thread(
            target=self._look, args=(query, run, options), name="headwater-abandoned", daemon=True
        )
        self._threads.add(thread)
        thread.start()

    def _look(self, query: str, run: str, options: SinkOptions) -> None:
        try:
            for number, after_s in enumerate(self._looks_after_s, 1):
                is_last = self._leaving.wait(after_s) or number == len(self._looks_after_s)
                try:
                    if self._is_active(query):
                        return
                    self._abandon(options, query, run, lambda: self._is_active(query))
                except Exception as error:  # noqa: BLE001
                    _say(query, error, _NO_MORE_LOOKS if is_last else "will be looked for again")
                if is_last:
                    return
        finally:
            self._threads.discard(threading.current_thread())


def abort_abandoned(options: SinkOptions, query: str, run: str, runs_again: Callable[[], bool]) -> None:
    from headwater.spark.writer.protocol_driver import ABORT_PATIENCE_S, ProtocolDriver
    from headwater.spark.writer.sink_clients import SinkClients

    clients = SinkClients(options, patience_s=ABORT_PATIENCE_S)
    driver = ProtocolDriver(options, query, clients, patience_s=ABORT_PATIENCE_S, runs_again=runs_again)
    try:
        driver.run(abandon_steps(run))
    finally:
        driver.close()
        clients.close()


def is_active(spark: "SparkSession", query: str) -> bool:
    """In this session. One that is stopped has no queries any more."""
    try:
        return spark.streams.get(query) is not None
    except Exception:  # noqa: BLE001
        return False


def sink_of(spark: "SparkSession", query: str) -> Sink | None:
    """Its options stand in the plan, which is there from the first batch on. PySpark has no name for either."""
    started: Any = spark.streams.get(query)
    execution = None if started is None else started._jsq.streamingQuery()
    if execution is None or not _is_headwater(spark, execution.sink()):
        return None
    return lambda: _options(execution)


def _is_headwater(spark: "SparkSession", sink: Any) -> bool:
    """Spark's older sinks, that of `foreachBatch` among them, have a name that must not be asked for: it raises."""
    jvm: Any = spark.sparkContext._jvm
    return bool(jvm.py4j.reflection.TypeUtil.isInstanceOf(_WRITABLE, sink)) and sink.name() == _FORMAT


def _options(execution: Any) -> SinkOptions | None:
    written = execution.logicalPlan().writeOptions()
    names = written.keys().toSeq()
    given = {names.apply(index): written.apply(names.apply(index)) for index in range(names.size())}
    try:
        return parse_sink_options(given, ["topic", "value"], streaming=True)
    except UserError:
        return None  # the query has failed for them, and said so


def _say(query: str, error: Exception, what_follows: str) -> None:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    sys.stderr.write(f"headwater sink: what query {query} has left open {what_follows}: {reason}\n")

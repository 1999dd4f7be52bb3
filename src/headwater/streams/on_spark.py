"""Slots on Spark. This file and `frames` alone know PySpark.

A Structured Streaming query supplies the slots: a micro-batch with one row per slot, and each row is a task of Spark's
that becomes a slot (`slot.host.run_slot`) for the time of a lease. Spark schedules, supervises, tries again and shows
them; no record of the application goes through its operators. At the end of a lease all slots commit and end, the batch
is done, and the query is run again, from the same checkpoint, with new slots, which go on with the same tasks. One run
per lease, and not a query that goes on for ever: that has begun its next batch when it is to end, and Spark would kill
its tasks; the pause between two leases is the same (0.35 to 0.5 s on two busy cores). The lead is in the driver
(`lead.runtime`); what it tells does not depend on batches.

    runtime = Runtime(spark)                       # slots for many applications
    orders = runtime.run(app)
    ...
    orders.stop(); runtime.stop()

A query that fails because a slot died (on `local[N]` Spark does not try tasks again) is started anew; the lead goes on
meanwhile.
"""

import base64
import logging
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions

from headwater.base.errors import UserError
from headwater.spark.sessions import is_local
from headwater.streams.frames import Feeds, feed
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.slot.program import Program, prepare
from headwater.streams.slot.settings import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.streams.dsl.app import App
    from headwater.streams.query.server import QueryServer

_log: Final = logging.getLogger("headwater.streams")
LEASE_S: Final = 600.0
_LOOK_S: Final = 0.25
_CORES_LOOK_S: Final = 5.0
_FAILURES_MAX: Final = 20  # of the query, in a row
_HEALTHY_S: Final = 60.0
_PAUSE_S: Final = 0.5
_END_PATIENCE_S: Final = 30.0
_PAUSE_MAX_S: Final = 10.0
_SCHEMA: Final = "slot long, records long, seconds double"


class SparkRun:
    """An application that runs on slots."""

    def __init__(self, application: ApplicationLead, runtime: "Runtime", *, owns_runtime: bool) -> None:
        self._application = application
        self._runtime = runtime
        self._owns_runtime = owns_runtime
        self.feeds: Feeds | None = None  # DataFrames that are written to its topics

    def ask_to_stop(self, error: UserError | None = None) -> None:
        """`error`: why, if it is none of its own doing; whoever waits is told."""
        self._application.ask_to_stop(error)

    def stop(self) -> None:
        """Commits and ends; no transaction is left open. Raises what ended the application, if something did."""
        self._application.ask_to_stop()
        try:
            self._application.wait()
        finally:
            if self.feeds is not None:
                self.feeds.close()
            self._runtime._slots.forget(self._application)
            if self._owns_runtime:
                self._runtime.stop()

    def wait_started(self, timeout: float | None = None) -> bool:
        """Until every task is open, or it has ended before; False if neither is so within `timeout` seconds. Raises
        what ended it.
        """
        return self._application.wait_started(timeout)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls it when the application has ended, in another thread; at once if it has."""
        self._application.on_end(callback)

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has ended; False if it has not within `timeout` seconds. Raises what ended it."""
        return self._application.wait(timeout)

    def status(self) -> dict[str, Any]:
        """Slots with their tasks and how many records they have read; tasks that wait for a slot."""
        return self._application.status

    @property
    def queries(self) -> "QueryServer | None":
        """Where the stores of all slots are asked, if the run was told to answer: `queries=PORT`."""
        return self._runtime.queries(self._application.name)

    @property
    def task_count(self) -> int:
        return sum(len(slot["tasks"]) for slot in self.status()["slots"])

    @property
    def running(self) -> bool:
        return self._application.running

    def __enter__(self) -> "SparkRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Runtime:
    """Slots on a SparkSession, for any number of applications. `slots`: if it is not given, one per core but one, also
    when executors come and go.
    """

    def __init__(self, spark: "SparkSession", *, slots: int | None = None, lease: float = LEASE_S) -> None:
        if lease <= 0:
            raise UserError(f"A lease cannot be {lease} seconds", "it is the time after which slots are renewed")
        self._spark = spark
        self._wanted = slots
        self._lease_s = lease
        self._stopping = threading.Event()
        self._until_idle = False
        context = spark.sparkContext
        master = str(context.master)
        self._local = is_local(master)
        host = "127.0.0.1" if self._local else str(spark.conf.get("spark.driver.host", "127.0.0.1"))
        bind = host if self._local else str(spark.conf.get("spark.driver.bindAddress", host))
        self._slots = SlotRuntime(slots_for(slots, context.defaultParallelism, master), host=bind)
        self._address = (host, self._slots.port)
        self._checkpoints = Path(tempfile.mkdtemp(prefix="headwater-slots-"))
        self._query: StreamingQuery | None = None
        self._thread = threading.Thread(target=self._supervise, name="headwater-spark-slots", daemon=True)
        self._thread.start()

    @property
    def slots(self) -> int:
        return self._slots.slots

    @property
    def is_over(self) -> bool:
        """It was stopped, or Spark is gone: it takes no applications any more."""
        return self._stopping.is_set()

    @property
    def query(self) -> "StreamingQuery | None":
        """The query that supplies the slots now: its progress has `observedMetrics` of the leases that have ended."""
        return self._query

    def run(
        self,
        app: "App",
        *,
        state_dir: str | Path = "headwater-state",
        wait: bool = True,
        **settings: Any,
    ) -> SparkRun:
        """Returns when all tasks are open, or at once without `wait`. `settings`: as of `run_here`."""
        return self._run(app, state_dir, settings, wait=wait, owned=False)

    def queries(self, application: str) -> "QueryServer | None":
        return self._slots.queries(application)

    def end_lease(self) -> None:
        """Renews the slots now: nothing is lost, and nothing moves."""
        self._slots.end_lease(late_ones=True)

    def stop(self) -> None:
        """Stops the applications that still run, and the slots. The session stays."""
        self._stopping.set()
        self._thread.join()

    def _run(self, app: "App", state_dir: str | Path, settings: dict[str, Any], *, wait: bool, owned: bool) -> SparkRun:
        if self._stopping.is_set():
            raise UserError("The runtime has been stopped", "it takes no applications any more", "Make another Runtime")
        client = dict(settings.pop("client", None) or {})
        if settings.get("queries") is not None and settings.get("queries_token") is None:
            settings = {**settings, "queries_token": secrets.token_urlsafe(32)}  # slots get it with the program
        chosen = RunSettings(app.brokers, Path(state_dir).absolute(), client=client, **settings)
        program = prepare(app, chosen)
        application = self._slots.run(program, pickled_program(program))
        started = app.current_run = SparkRun(application, self, owns_runtime=owned)
        if owned:
            self._until_idle = True
        if wait:
            application.wait_started()
        if app.feeds:
            try:
                started.feeds = feed(app, started, chosen, self._spark)
            except BaseException:
                application.ask_to_stop()
                application.join()
                raise
        return started

    # The supervisor

    def _supervise(self) -> None:
        failures, pause_s = 0, _PAUSE_S
        try:
            while not self._over():
                began = time.monotonic()
                error = self._follow(self._start_query())
                if error is None:
                    continue
                failures = 1 if time.monotonic() - began > _HEALTHY_S else failures + 1
                pause_s = _PAUSE_S if failures == 1 else min(pause_s * 2, _PAUSE_MAX_S)
                _log.warning(
                    "the query that supplies slots is started again failures=%s error=%s", failures, _short(error)
                )
                if failures >= _FAILURES_MAX:
                    self._slots.fail(
                        UserError(f"Spark's query that supplies slots failed {failures} times in a row", _short(error))
                    )
                    return
                self._stopping.wait(pause_s)
        except Exception as error:  # noqa: BLE001 - the JVM is gone, or its session: nobody can supply slots any more
            _log.warning("Spark does not answer any more error=%s", _short(error))
            self._slots.fail(UserError("Spark is gone", _short(error)))
        finally:
            self._stopping.set()
            self._end()

    def _over(self) -> bool:
        return self._stopping.is_set() or (self._until_idle and not self._slots.running)

    def _follow(self, query: "StreamingQuery") -> Exception | None:
        """Renews leases until the query ends, or must: what it failed with."""
        renew_at = time.monotonic() + self._lease_s
        look_at = time.monotonic() + _CORES_LOOK_S
        while not self._over():
            try:
                if query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # it takes parts of seconds
                    return None
            except StreamingQueryException as error:
                return error
            now = time.monotonic()
            if now >= look_at:
                look_at = now + _CORES_LOOK_S
                if self._cores_changed():
                    self._slots.end_lease(late_ones=True)  # of this batch, which wait for a core
                    self._await_end(query)
                    return None
            if now >= renew_at:
                renew_at = now + _END_PATIENCE_S  # if a slot does not hear it
                self._slots.end_lease(late_ones=True)  # of this batch, which wait for a core
        return None

    def _await_end(self, query: "StreamingQuery") -> None:
        """Slots that were told to end do, and the query with them; one that hangs is killed by Spark, and fenced by the
        leads.
        """
        try:
            query.awaitTermination(_END_PATIENCE_S)  # type: ignore[arg-type]
        except StreamingQueryException as error:
            _log.warning("the query that supplies slots ended badly error=%s", _short(error))
        except Exception as error:  # noqa: BLE001 - the JVM is gone, and the query with it
            _log.warning("Spark does not answer any more error=%s", _short(error))
            return
        query.stop()

    def _cores_changed(self) -> bool:
        """Where the number of slots was left to us and the cluster has grown or shrunk, the next query has another."""
        if self._wanted is not None or self._local:
            return False
        wanted = max(self._spark.sparkContext.defaultParallelism - 1, 1)
        changed = wanted != self._slots.slots
        self._slots.slots = wanted
        return changed

    def _start_query(self) -> "StreamingQuery":
        slots = self._slots.slots
        self._slots.begin_lease()
        rows = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", slots)
            .option("numPartitions", slots)
            .load()
            .select("value")
        )
        ended = rows.mapInArrow(_slot_function(self._address, self._slots.secret, slots), _SCHEMA)
        told = ended.observe(
            "headwater",
            functions.count("*").alias("slots"),
            functions.sum("records").alias("records"),
            functions.max("seconds").alias("lease_seconds"),
        )
        checkpoint = f"file://{self._checkpoints}/{slots}"  # how many rows a batch has is fixed there
        writer = told.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(once=True)
        self._query = query = writer.queryName(f"headwater slots {self._slots.port}").start()
        return query

    def _end(self) -> None:
        self._slots.close()
        if self._query is not None:
            self._await_end(self._query)
        self._slots.close_port()
        shutil.rmtree(self._checkpoints, ignore_errors=True)


def run_on_spark(
    app: "App",
    spark: "SparkSession",
    slots: int | None,
    lease: float,
    state_dir: str | Path,
    settings: dict[str, Any],
) -> SparkRun:
    """One application with slots of its own, which end with it."""
    runtime = Runtime(spark, slots=slots, lease=lease)
    try:
        return runtime._run(app, state_dir, settings, wait=True, owned=True)
    except BaseException:
        runtime.stop()
        raise


def slots_for(wanted: int | None, cores: int, master: str) -> int:
    """How many slots there are. A slot keeps its core for as long as it lives, so one core must stay free for
    everything else.
    """
    if wanted is None:
        wanted = cores - 1
        if wanted < 1:
            raise UserError(
                f"No core of {master} is left for a slot",
                f"it has {cores}, and one stays free for other work of the session",
                "Give it another core: local[2], or one more executor",
            )
    if wanted < 1:
        raise UserError(f"There cannot be {wanted} slots", "an application needs at least one")
    if wanted >= cores:
        raise UserError(
            f"{wanted} slots leave no core of {master} free",
            f"it has {cores}; slots keep theirs, and other work of the session would wait for ever",
            f"Ask for {max(cores - 1, 1)} slots, or give the session {wanted + 1} cores",
        )
    return wanted


def _short(error: Exception) -> str:
    """Without the stacks of the JVM."""
    return str(error).strip().splitlines()[0][:500] if str(error).strip() else type(error).__name__


def pickled_program(program: Program) -> str:
    """As slots are sent it: by cloudpickle, so that functions of notebooks and scripts go along."""
    try:
        pickled: bytes = cloudpickle.dumps(program)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise UserError(
            f"The application {program.name} cannot be sent to other processes",
            f"{type(error).__name__}: {error}",
            "Functions must not hold connections, locks or files; open them in a processor's init",
        ) from error
    return base64.b64encode(pickled).decode()


def _slot_function(
    address: tuple[str, int], secret: bytes, slots: int
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """What Spark's tasks run. It is pickled by reference to this module's functions, and needs nothing but this package
    there.
    """

    def lease(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import time

        import pyarrow as pa

        from headwater.streams.slot.host import run_slot

        for batch in batches:
            for value in batch.column("value").to_pylist():
                began = time.monotonic()
                number = value % slots
                records = run_slot(number, address, secret)
                row = {"slot": [number], "records": [records], "seconds": [time.monotonic() - began]}
                yield pa.RecordBatch.from_pydict(row)

    return lease

"""Slots on Spark. This file and `frames` alone know PySpark.

A query supplies the slots (`spark.slots.slot_supply`), and each runs `slot.host.run_slot` for the time of a lease; at
its end all slots commit and end, and new ones go on with the same tasks. The lead is in the driver (`lead.runtime`);
what it tells does not depend on batches.

    runtime = Runtime(spark)                       # slots for many applications
    orders = runtime.run(app)
    ...
    orders.stop(); runtime.stop()
"""

import base64
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

from headwater.base.errors import UserError
from headwater.spark.slots.slot_count import slots_for
from headwater.spark.slots.slot_supply import SlotSupply, addresses, cores_for
from headwater.streams.frames import Feeds, feed
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.slot.host import run_slot
from headwater.streams.slot.program import Program, prepare
from headwater.streams.slot.settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.streams.dsl.app import App
    from headwater.streams.query.server import QueryServer

LEASE_S: Final = 600.0


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

    def pause(self) -> None:
        """No further record is processed, and no punctuator is called, until `resume`. The application stays in its
        group, its slots keep their tasks, and what they have processed is committed.
        """
        self._application.pause(True)

    def resume(self) -> None:
        self._application.pause(False)

    @property
    def paused(self) -> bool:
        return self._application.paused

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
        count = slots_for(slots, cores_for(slots, spark), str(spark.sparkContext.master))
        self._slots = SlotRuntime(count, host=addresses(spark)[1])
        self._supply = SlotSupply(spark, self._slots, run_slot, wanted=slots, lease_s=lease)

    @property
    def slots(self) -> int:
        return self._slots.slots

    @property
    def is_over(self) -> bool:
        """It was stopped, or Spark is gone: it takes no applications any more."""
        return self._supply.stopping.is_set()

    @property
    def query(self) -> "StreamingQuery | None":
        """The query that supplies the slots now: its progress has `observedMetrics` of the leases that have ended."""
        return self._supply.query

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
        self._supply.stop()

    def _run(self, app: "App", state_dir: str | Path, settings: dict[str, Any], *, wait: bool, owned: bool) -> SparkRun:
        if self.is_over:
            raise _is_stopped()
        client = dict(settings.pop("client", None) or {})
        if settings.get("queries") is not None and settings.get("queries_token") is None:
            settings = {**settings, "queries_token": secrets.token_urlsafe(32)}  # slots get it with the program
        chosen = RunSettings(app.brokers, Path(state_dir).absolute(), client=client, **settings)
        program = prepare(app, chosen)
        application = self._slots.run(program, pickled_program(program))
        if self._supply.stopping.is_set():  # meanwhile: whoever ended it may not have seen the application
            application.ask_to_stop(_is_stopped())
        started = app.current_run = SparkRun(application, self, owns_runtime=owned)
        if owned:
            self._supply.until_idle = True
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


def _is_stopped() -> UserError:
    return UserError("The runtime has been stopped", "it takes no applications any more", "Make another Runtime")


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

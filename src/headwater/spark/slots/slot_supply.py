"""Spark's query that supplies slots, run again and again for as long as its keeper wants them. Alone here knows
PySpark.

A Structured Streaming query supplies the slots: a micro-batch with one row per slot, and each row is a task of Spark's
that becomes a slot (`run_slot`) for the time of a lease. Spark schedules, supervises, tries again and shows them; no
record goes through its operators. At the end of a lease all slots end, the batch is done, and the query is run again,
from the same checkpoint, with new slots. One run per lease, and not a query that goes on for ever: that has begun its
next batch when it is to end, and Spark would kill its tasks; the pause between two leases is the same (0.35 to 0.5 s on
two busy cores).

A query that fails because a slot died (on `local[N]` Spark does not try tasks again) is started anew; the keeper goes
on meanwhile. Where Spark does try again, it does so a few times for each task, and then ends them all: before it comes
to that the lease is renewed, since slots that end by themselves have committed what they did. The plan has the keeper's
address and secret in it, as a part of a pickled function, and nothing else.
"""

import logging
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions

from headwater.base.errors import UserError
from headwater.spark.sessions import is_local
from headwater.spark.slots.slot_count import SlotCount, attempts_of, is_worn_out

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log: Final = logging.getLogger("headwater.spark.slots")
_LOOK_S: Final = 0.25
_CORES_LOOK_S: Final = 1.0
_EXECUTORS_S: Final = 30.0
_FAILURES_MAX: Final = 20  # of the query, in a row
_HEALTHY_S: Final = 60.0
_PAUSE_S: Final = 0.5
_END_PATIENCE_S: Final = 30.0
_LEFT_S: Final = 2.0  # between the last word of a slot, which has let go of everything, and the end of its task
_PAUSE_MAX_S: Final = 10.0
_SCHEMA: Final = "slot long, records long, seconds double"

Address = tuple[str, int]
RunSlot = Callable[[int, Address, bytes], int]


class SlotKeeper(Protocol):
    """Who has a port for slots, and work for them. `slots`: how many there are, changed where a cluster grows."""

    slots: int

    @property
    def port(self) -> int: ...

    @property
    def secret(self) -> bytes: ...

    @property
    def running(self) -> bool:
        """Whether something needs slots."""

    @property
    def present(self) -> int:
        """How many slots are there at the moment."""

    @property
    def losses(self) -> int:
        """How often the slot that was lost most often has been lost since the lease began."""

    def begin_lease(self) -> None: ...

    def end_lease(self, *, late_ones: bool = False) -> None: ...

    def fail(self, error: UserError) -> None:
        """There will be no slots any more."""

    def close(self) -> None:
        """Ends what runs in slots, and tells them to end."""

    def close_port(self) -> None:
        """No slot is left, or nobody waits for those that are."""


def addresses(spark: "SparkSession") -> tuple[str, str]:
    """Where slots find the driver, and where the driver listens for them."""
    if is_local(str(spark.sparkContext.master)):
        return "127.0.0.1", "127.0.0.1"
    host = str(spark.conf.get("spark.driver.host", "127.0.0.1"))
    return host, str(spark.conf.get("spark.driver.bindAddress", host))


def cores_for(wanted: int | None, spark: "SparkSession", patience_s: float = _EXECUTORS_S) -> int:
    """The cores of a session. Executors register some time after it has begun, and until then Spark takes two for
    granted: those that `wanted` slots need are waited for, as long as Spark would wait with its first job.
    """
    context = spark.sparkContext
    give_up_at = time.monotonic() + patience_s
    while wanted is not None and context.defaultParallelism <= wanted and not is_local(str(context.master)):
        if time.monotonic() >= give_up_at:
            break
        time.sleep(_LOOK_S)
    return int(context.defaultParallelism)


class SlotSupply:
    """`run_slot(number, address, secret)` is what each slot does, a function of a module: how many records it has read.
    `wanted`: if it is not given, one slot per core but one, also when executors come and go (`SlotCount`). With
    `until_idle` it ends when nothing needs slots any more.
    """

    def __init__(
        self, spark: "SparkSession", keeper: SlotKeeper, run_slot: RunSlot, *, wanted: int | None, lease_s: float
    ) -> None:
        self._spark, self._slots, self._run_slot = spark, keeper, run_slot
        self._wanted, self._lease_s = wanted, lease_s
        self._count = SlotCount(keeper.slots)
        self._address = (addresses(spark)[0], keeper.port)
        self._local = is_local(str(spark.sparkContext.master))
        self._attempts = attempts_of(
            str(spark.sparkContext.master), spark.sparkContext.getConf().get("spark.task.maxFailures")
        )
        self.stopping = threading.Event()
        self.until_idle = False
        self._checkpoints = Path(tempfile.mkdtemp(prefix="headwater-slots-"))
        self.query: StreamingQuery | None = None
        self._thread = threading.Thread(target=self._supervise, name="headwater-spark-slots", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended: it was stopped, or Spark is gone."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.stopping.set()
        self._thread.join()

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
                    "the query that supplies slots is started again failures=%s error=%s", failures, short(error)
                )
                if failures >= _FAILURES_MAX:
                    self._slots.fail(
                        UserError(f"Spark's query that supplies slots failed {failures} times in a row", short(error))
                    )
                    return
                self.stopping.wait(pause_s)
        except Exception as error:  # noqa: BLE001 - the JVM is gone, or its session: nobody can supply slots any more
            _log.warning("Spark does not answer any more error=%s", short(error))
            self._slots.fail(UserError("Spark is gone", short(error)))
        finally:
            self.stopping.set()
            self._end()

    def _over(self) -> bool:
        return self.stopping.is_set() or (self.until_idle and not self._slots.running)

    def _follow(self, query: "StreamingQuery") -> Exception | None:
        """Renews leases until the query ends, or must: what it failed with. A slot that does not end with its lease,
        because something in it hangs, is killed by Spark: what else runs in slots would wait for it, for ever.
        """
        told_at: float | None = None
        renew_at = time.monotonic() + self._lease_s
        look_at = time.monotonic() + _CORES_LOOK_S
        while not self._over():
            try:
                if query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # it takes parts of seconds
                    return None
            except StreamingQueryException as error:
                return error
            now = time.monotonic()
            renewed = is_worn_out(self._slots.losses, self._attempts)
            if now >= look_at:
                look_at = now + _CORES_LOOK_S
                renewed |= self._cores_changed()
            if renewed:
                self._slots.end_lease(late_ones=True)  # of this batch, which wait for a core
                self._await_end(query)
                return None
            if told_at is None and now >= renew_at:
                told_at = now
                self._slots.end_lease(late_ones=True)  # of this batch, which wait for a core
            if told_at is not None and now >= told_at + _END_PATIENCE_S:
                _log.warning("slots do not end with their lease, and are killed slots=%s", self._slots.present)
                self._await_end(query, patience_s=0.0)
                return None
        return None

    def _await_end(self, query: "StreamingQuery", patience_s: float = _END_PATIENCE_S) -> None:
        """Slots that were told to end do, and the query with them; one that hangs is killed by Spark, and fenced by the
        leads. Where none is left that could end, because their executors are gone, Spark need not start any.
        """
        give_up_at = time.monotonic() + patience_s
        left_at = math.inf
        try:
            while not query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # it takes parts of seconds
                now = time.monotonic()
                left_at = math.inf if self._slots.present else min(left_at, now)
                if now > min(give_up_at, left_at + _LEFT_S):
                    break
        except StreamingQueryException as error:
            _log.warning("the query that supplies slots ended badly error=%s", short(error))
        except Exception as error:  # noqa: BLE001 - the JVM is gone, and the query with it
            _log.warning("Spark does not answer any more error=%s", short(error))
            return
        query.stop()

    def _cores_changed(self) -> bool:
        """Where the number of slots was left to us and the cluster has grown or shrunk, the next query has another."""
        if self._wanted is not None or self._local:
            return False
        changed = self._count.look(self._spark.sparkContext.defaultParallelism, time.monotonic())
        self._slots.slots = self._count.slots
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
        ended = rows.mapInArrow(_slot_function(self._run_slot, self._address, self._slots.secret, slots), _SCHEMA)
        told = ended.observe(
            "headwater",
            functions.count("*").alias("slots"),
            functions.sum("records").alias("records"),
            functions.max("seconds").alias("lease_seconds"),
        )
        checkpoint = f"file://{self._checkpoints}/{slots}"  # how many rows a batch has is fixed there
        writer = told.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(once=True)
        self.query = query = writer.queryName(f"headwater slots {self._slots.port}").start()
        return query

    def _end(self) -> None:
        self._slots.close()
        if self.query is not None:
            self._await_end(self.query)
        self._slots.close_port()
        shutil.rmtree(self._checkpoints, ignore_errors=True)


def short(error: Exception) -> str:
    """Without the stacks of the JVM."""
    return str(error).strip().splitlines()[0][:500] if str(error).strip() else type(error).__name__


def _slot_function(
    run_slot: RunSlot, address: Address, secret: bytes, slots: int
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """What Spark's tasks run. `run_slot` is pickled by reference, so it needs nothing but this package there."""

    def lease(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import time

        import pyarrow as pa

        for batch in batches:
            for value in batch.column("value").to_pylist():
                began = time.monotonic()
                number = value % slots
                records = run_slot(number, address, secret)
                row = {"slot": [number], "records": [records], "seconds": [time.monotonic() - began]}
                yield pa.RecordBatch.from_pydict(row)

    return lease

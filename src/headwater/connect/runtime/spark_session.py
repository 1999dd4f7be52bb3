"""The one Spark session of a worker: begun by the first connector that needs it, stopped with the worker.

What it is made of stands in the worker's properties alone: `spark.master` and every other `spark.*`, jars and packages
among them; and it knows the data sources that installed packages register. A session whose JVM is gone is forgotten,
and the next task that asks begins another one.
"""

import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.connect.errors import ConnectError, Interrupted
from headwater.connect.plugins import data_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("headwater.connect")
PREFIX: Final = "spark."
CLOSE_S: Final = 30.0
_MASTER: Final = "spark.master"
_FAILURES_MAX: Final = 4  # of one task of Spark's, as on a cluster


class WorkerSpark:
    """For all threads of a worker. `props` are the worker's, references resolved."""

    def __init__(self, props: Mapping[str, str], name: str) -> None:
        self._options = {key: value for key, value in props.items() if key.startswith(PREFIX)}
        self._name = name
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._is_own = False
        self._closed = False
        self.place: str | None = None  # where its work is done
        self.has_slots = False  # its tasks are tried again on one machine, too

    def session(self) -> "SparkSession":
        with self._lock:
            if self._closed:
                raise Interrupted("The worker stops: its Spark session is over")
            if self._session is not None and not is_alive(self._session):
                logger.error("event=spark-session-lost application=%r", self.place)
                from headwater.spark.sessions import end_jvm

                end_jvm()
                self._session = None
            if self._session is None:
                self._session = self._begin()
            return self._session

    def _begin(self) -> "SparkSession":
        if find_spec("pyspark") is None:
            raise ConnectError("This connector needs Spark: pip install 'headwater[spark]' where the worker runs")
        from pyspark import SparkContext

        from headwater.spark.sessions import master_with_retries, session

        options = {name: value for name, value in self._options.items() if name != _MASTER}
        self._is_own = SparkContext._active_spark_context is None
        try:
            master = self._options.get(_MASTER)
            if master is not None and self.has_slots:
                master = master_with_retries(master, _FAILURES_MAX)
            made = session(self._name, master=master, **options)
        except UserError as error:
            raise ConnectError(f"The worker's Spark session cannot be begun: {error}") from error
        for source in data_sources():
            try:
                made.dataSource.register(source)
            except Exception as error:  # noqa: BLE001 - somebody else's package: the others are there all the same
                logger.error("event=data-source-left-out class=%r error=%r", source, str(error)[:500])
        context = made.sparkContext
        self.place = f"spark {context.master} {context.applicationId}"
        logger.info("event=spark-session-begun master=%r application=%r", context.master, context.applicationId)
        return made

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """No session begins afterwards. The end of one is waited for, but not for ever: a JVM may hang, or be about to
        begin.
        """
        self._closed = True
        ending = threading.Thread(target=self._end, name="connect-spark-end", daemon=True)
        ending.start()
        ending.join(timeout_s)
        if ending.is_alive():
            logger.error("event=spark-session-left application=%r reason=it-does-not-stop", self.place)

    def _end(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None and self._is_own and is_alive(session):
            session.stop()


def is_alive(session: "SparkSession") -> bool:
    """Whether there is a JVM that answers, and its context runs."""
    try:
        context: Any = session.sparkContext._jsc
        return context is not None and not context.sc().isStopped()
    except Exception:  # noqa: BLE001 - whatever a gateway says whose other end is gone
        return False

"""Persistent queries on Spark: one session and one runtime of slots for all of them, each query an application in it.

The session is opened by the first query that starts, in a thread of its own, so that whoever is told to stop meanwhile
need not wait for the JVM. Where it cannot be opened, every query that waits is told why, and the next start tries
again; so it is when Spark has gone: all queries end with that reason, and the first that is started again brings
another JVM. `close` ends the JVM that was started here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.base.errors import UserError
from headwater.sql.plan.session import PersistentQuery
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.query_host import InProcessHost, QueryHost, QueryRun, StoreProgress

if TYPE_CHECKING:
    from headwater.streams.on_spark import Runtime, SparkRun

logger = logging.getLogger("headwater.sql")
_LOOK_S: Final = 0.1  # how often whoever waits looks whether it is to stop
_CLOSE_PATIENCE_S: Final = 90.0  # for a session that is still being opened


@dataclass(frozen=True, slots=True)
class _Opened:
    runtime: Runtime
    is_ours: bool  # its JVM was started here, and ends here


class SparkHost:
    def __init__(self, config: SqlServerConfig) -> None:
        if importlib.util.find_spec("pyspark") is None:
            raise UserError(
                "PySpark is not installed",
                "spark.master is set, so queries run on Spark",
                "pip install 'headwater[spark]'",
            )
        self._config = config
        self._lock = threading.Lock()
        self._opening: Future[_Opened] | None = None
        self._closed = False

    def start(self, query: PersistentQuery, stopping: threading.Event) -> QueryRun | None:
        opened = self._opened(stopping)
        if opened is None:
            return None
        run = opened.runtime.run(
            query.app,
            state_dir=Path(self._config.text("ksql.streams.state.dir")),
            commit_interval_ms=self._config.number("ksql.streams.commit.interval.ms"),
            client=self._config.query_client,
            leave_on_stop=False,
            wait=False,
        )
        try:
            while not run.wait_started(_LOOK_S) and not stopping.is_set():
                pass
        except BaseException:
            _end_quietly(run)
            raise
        return run

    def restoring(self, query: PersistentQuery) -> list[StoreProgress]:  # noqa: ARG002
        return []  # executors restore

    def close(self) -> None:
        with self._lock:
            self._closed = True
            opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            opened = opening.result(_CLOSE_PATIENCE_S)
        except Exception as error:  # noqa: BLE001  there is nothing to close then; whoever waited for it was told
            logger.info("event=spark_never_came error=%r", str(error))
            return
        _close(opened)

    def _opened(self, stopping: threading.Event) -> _Opened | None:
        """None: it was told to stop first. Raises what kept the session from being opened."""
        opening = self._future()
        while not stopping.is_set():
            if wait([opening], _LOOK_S).done:
                return opening.result()
        return None

    def _future(self) -> Future[_Opened]:
        with self._lock:
            if self._closed:
                raise UserError("The server stops", "it starts no queries any more")
            known, former = self._opening, None
            if known is not None and known.done() and known.exception() is None:
                former = known.result() if known.result().runtime.is_over else None
            if known is None or former is not None or (known.done() and known.exception() is not None):
                known = self._opening = Future()
                threading.Thread(target=self._fulfil, args=(known, former), name="sql-spark", daemon=True).start()
            return known

    def _fulfil(self, opening: Future[_Opened], former: _Opened | None) -> None:
        try:
            if former is not None:
                _close(former)
            opening.set_result(self._open())
        except BaseException as error:  # noqa: BLE001  whoever waits is told
            opening.set_exception(error)

    def _open(self) -> _Opened:
        from headwater.spark import sessions
        from headwater.streams.on_spark import Runtime

        master = self._config.text("spark.master")
        logger.info("event=spark_starts master=%s", master)
        is_ours = not sessions.has_jvm()
        name = f"headwater sql {self._config.service_id}"
        try:
            session = sessions.session(name, master=sessions.master_with_retries(master), **self._config.spark)
            opened = _Opened(Runtime(session), is_ours)
        except BaseException:
            if is_ours:
                sessions.end_jvm()
            raise
        logger.info("event=spark_runs master=%s slots=%d", master, opened.runtime.slots)
        return opened


def _close(opened: _Opened) -> None:
    from headwater.spark import sessions

    opened.runtime.stop()
    if opened.is_ours:
        sessions.end_jvm()
    logger.info("event=spark_ended")


def _end_quietly(run: SparkRun) -> None:
    """What ended it is raised already."""
    with contextlib.suppress(Exception):
        run.stop()


def host_for(config: SqlServerConfig) -> QueryHost:
    """By `spark.master`. Raises UserError where PySpark is missing."""
    return SparkHost(config) if config.text("spark.master") else InProcessHost(config)

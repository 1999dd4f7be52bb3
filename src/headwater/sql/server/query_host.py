"""Where persistent queries run: in the process of the server, or on Spark (`spark_host`)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.sql.plan.session import PersistentQuery
from headwater.sql.server.config import SqlServerConfig


class StoreProgress(NamedTuple):
    """One partition of a store that is being restored: how far its changelog is read, and where it ends."""

    store: str
    partition: int
    position: int
    end: int


class QueryRun(Protocol):
    """A query that runs."""

    def on_end(self, callback: Callable[[], None], /) -> None:
        """Calls it when the run has ended, in another thread; at once if it has."""

    def stop(self) -> None:
        """Commits and ends. Raises what ended the run, if something did."""


class QueryHost(Protocol):
    """Safe for threads, which wait here: never on the loop."""

    def start(self, query: PersistentQuery, stopping: threading.Event) -> QueryRun | None:
        """Returns when all state is restored; earlier, perhaps with None, once `stopping` is set."""

    def restoring(self, query: PersistentQuery) -> list[StoreProgress]:
        """The stores of a query that starts, as far as they are restored; empty where that is not known."""

    def close(self) -> None:
        """When no query runs any more."""


class InProcessHost:
    def __init__(self, config: SqlServerConfig) -> None:
        self._config = config

    def start(self, query: PersistentQuery, stopping: threading.Event) -> QueryRun:
        return query.app.run_here(
            stopping=stopping,
            state_dir=Path(self._config.text("ksql.streams.state.dir")),
            commit_interval_ms=self._config.number("ksql.streams.commit.interval.ms"),
            client=self._config.query_client,
            leave_on_stop=False,
        )

    def restoring(self, query: PersistentQuery) -> list[StoreProgress]:
        from headwater.streams.lead.local_run import LocalRun  # a server without queries does without

        run = query.app.current_run
        return [StoreProgress(*each) for each in run.restoring()] if isinstance(run, LocalRun) else []

    def close(self) -> None:
        pass

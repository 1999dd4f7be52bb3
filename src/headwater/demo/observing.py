"""How far the demo has come: from the broker (lag of each group, records in topics), the queries, the Streams
application, the files and SQLite.
"""

import contextlib
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.demo.view import Output, Section, Snapshot
from headwater.demo.visits import NAME, PAGES, most_read

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.demo.visitors import Visitors
    from headwater.streams.lead.local_run import LocalRun

_LATEST: Final = -1
_LAST_WINDOW: Final = "SELECT max(window_start) FROM sections WHERE window_start <= datetime('now', '-10 seconds')"
_SECTIONS: Final = (
    "SELECT section, views, visitors, load_p95_ms FROM sections WHERE window_start = ? ORDER BY views DESC, section"
)


class Observer:
    """Owns a connection to the broker. `look` asks everybody once."""

    def __init__(
        self, servers: str, directory: Path, topics: tuple[str, str, str], partitions: int, streams: "LocalRun"
    ) -> None:
        """`topics`: of views, of sections, of visits."""
        from headwater.client import Admin

        self._admin = Admin(bootstrap_servers=servers)
        self._directory = directory
        self._views, self._sections, self._visits = (
            [TopicPartition(topic, number) for number in range(partitions)] for topic in topics
        )
        self._streams = streams
        self._started_s = time.monotonic()
        self._rows: dict[str, dict[int, int]] = {}

    def close(self) -> None:
        self._admin.close()

    def look(self, visitors: "Visitors", queries: "list[StreamingQuery]", state: str) -> Snapshot:
        if visitors.error is not None:
            raise UserError("The visitors cannot reach the broker", str(visitors.error))
        if not self._streams.running:
            self._streams.wait()  # which raises what ended it
        ends = self._ends(self._views)
        window, sections = self._last_window()
        return Snapshot(
            elapsed_s=time.monotonic() - self._started_s,
            state=state,
            sent=visitors.sent,
            rate_per_s=visitors.rate_per_s,
            outputs=[*(self._output(query, ends) for query in queries), self._of_streams(ends)],
            window=window,
            sections=sections,
            most_read=most_read(self._streams.store(PAGES).all()),
        )

    def _output(self, query: "StreamingQuery", ends: dict[TopicPartition, int]) -> Output:
        name = query.name or ""
        seen = self._rows.setdefault(name, {})
        for progress in query.recentProgress:
            seen[progress.batchId] = progress.numInputRows
        batch_id = max(seen, default=None)
        return Output(name, batch_id, sum(seen.values()), self._lag(f"demo-{name}", ends), self._holds(name))

    def _of_streams(self, ends: dict[TopicPartition, int]) -> Output:
        lag = self._lag(NAME, ends)
        done = 0 if lag is None else sum(ends.values()) - lag
        visits = sum(self._ends(self._visits).values())
        return Output("streams", None, done, lag, f"{visits:,} records in {self._visits[0].topic}", "running")

    def _lag(self, group: str, ends: dict[TopicPartition, int]) -> int | None:
        try:
            committed = self._admin.list_group_offsets(group, list(ends))
        except KafkaError:
            return None
        if not committed:
            return None
        return lag_of(ends, {each: position.offset for each, position in committed.items()})

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._admin.list_offsets(dict.fromkeys(partitions, _LATEST))
        return {each: answer.offset for each, answer in found.items() if not isinstance(answer, KafkaError)}

    def _holds(self, name: str) -> str:
        if name == "parquet":
            files = sum(1 for _ in (self._directory / "views").glob("topic=*/partition=*/*.parquet"))
            return f"{files} files in {self._directory / 'views'}"
        if name == "topic":
            return f"{sum(self._ends(self._sections).values()):,} records in {self._sections[0].topic}"
        return f"{self._directory / 'results.db'}"

    def _last_window(self) -> tuple[str, list[Section]]:
        path = self._directory / "results.db"
        if not path.exists():
            return "", []
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)) as database:
            try:
                (window,) = database.execute(_LAST_WINDOW).fetchone()
                rows = database.execute(_SECTIONS, (window,)).fetchall()
            except sqlite3.OperationalError:  # the table is not made yet
                return "", []
        return (str(window).split(".")[0], [Section(*row) for row in rows]) if window else ("", [])


def lag_of(ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> int:
    """The ends were asked for first: a group may have committed further meanwhile."""
    return sum(max(0, end - committed.get(each, 0)) for each, end in ends.items())

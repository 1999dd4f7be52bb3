"""The consumer groups that follow queries hear of the end of a batch when it is done, whenever the next one may come.

A reader is told so only when the next batch is asked for (`data_source_readers`): with a trigger of an hour, the lag of
a batch that is done would stay for an hour. Spark's notices of progress come to the driver at once. So when a query has
been quiet for a second, its groups are told where its last batch ended: only forwards, because the reader tells them,
too, and may have come first.

The same notices tell when a query has ended, and what its sink may have left open is aborted
(`abandoned_transactions`).

Owns a timer for each query that has just made progress, and a connection while it tells. What goes wrong here is said
and nothing more: the offsets that count are Spark's, and the reader tells the group again.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.spark import stream_offsets
from headwater.spark.abandoned_transactions import AbandonedTransactions, abort_abandoned, is_active, sink_of
from headwater.spark.admin import commit_group_offsets, open_admin
from headwater.spark.options import SourceOptions, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_S: Final = 1.0
_PATIENCE_MS: Final = 10_000  # Spark's other notices wait meanwhile
_FORMAT: Final = "headwater"
logger = logging.getLogger("headwater.spark")
Ends = Callable[[], Sequence[str | None]]
_followed: set[str] = set()  # the sessions of this process that have a committer


def add_query_listener(spark: "SparkSession") -> None:
    """Once for each session. One of Spark Connect has its queries in another process: there the readers alone tell.

    PySpark's public listener would do as well, and asks the JVM for every field of each notice, tens of milliseconds
    for a batch. So `QueryListener` takes them as they come, by a name of PySpark's that may change: then this is said,
    and queries run as before.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return
    try:
        name = f"{spark.sparkContext.applicationId} {session.sessionUUID()}"
        if name not in _followed:
            committer = GroupOffsetCommitter(lambda query: sources_of(spark, query), commit_ends)
            abandoned = AbandonedTransactions(
                lambda query: sink_of(spark, query), lambda query: is_active(spark, query), abort_abandoned
            )
            spark.streams.addListener(QueryListener(committer, abandoned))  # type: ignore[arg-type]
            _followed.add(name)
    except Exception as error:  # noqa: BLE001 - a nicety must never keep a session from being made
        _warn_not_committed("queries", error)


def _warn_not_committed(what: str, error: Exception) -> None:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    sys.stderr.write(f"headwater source: groups follow {what} only from trigger to trigger: {reason}\n")


class GroupOffsetCommitter:
    """`sources(query)` gives the options of a query's sources, in their order and None for those of other formats."""

    def __init__(
        self,
        sources: Callable[[str], Sequence[SourceOptions | None]],
        tell: Callable[[SourceOptions, Mapping[TopicPartition, int]], None],
        quiet_s: float = QUIET_S,
    ) -> None:
        self._sources = sources
        self._tell = tell
        self._quiet_s = quiet_s
        self._lock = threading.Lock()
        self._queries: dict[str, Sequence[SourceOptions | None]] = {}
        self._waiting: dict[str, tuple[threading.Timer, Ends]] = {}

    @property
    def has_groups(self) -> bool:
        return bool(self._queries)

    def query_started(self, query: str, run: str) -> None:
        found = self._sources(query)
        if any(each is not None and each.group_id is not None for each in found):
            with self._lock:
                self._queries[run] = found

    def query_progressed(self, run: str, ends: Ends) -> None:
        """`ends` gives where the batch ended for each source, as JSON. It is asked when the query is quiet, not
        before.
        """
        with self._lock:
            if run not in self._queries:
                return
            self._forget(run)
            timer = threading.Timer(self._quiet_s, self._quiet, (run,))
            timer.daemon = True
            self._waiting[run] = timer, ends
            timer.start()

    def query_terminated(self, run: str) -> None:
        self._quiet(run)
        with self._lock:
            self._queries.pop(run, None)

    def _quiet(self, run: str) -> None:
        """Nothing that goes wrong leaves here: it would end a thread of Spark's, or be printed by one of ours when
        nobody can mend it.
        """
        with self._lock:
            ask = self._forget(run)
            sources = self._queries.get(run, ())
        try:
            ends = ask() if ask is not None else []
        except Exception as error:  # noqa: BLE001 - the session has been stopped: the JVM that knows is gone
            logger.debug("event=ends-not-known run=%s reason=%r", run, str(error))
            return
        try:
            self._tell_all(sources, ends)
        except Exception as error:  # noqa: BLE001
            _warn_not_committed(f"run {run}", error)

    def _tell_all(self, sources: Sequence[SourceOptions | None], ends: Sequence[str | None]) -> None:
        if len(sources) != len(ends):
            return  # there is nothing to tell, or Spark counts otherwise one day
        for options, end in zip(sources, ends, strict=True):
            if options is not None and options.group_id is not None and end:
                self._tell(options, stream_offsets.from_json(end))

    def _forget(self, run: str) -> Ends | None:
        timer, ends = self._waiting.pop(run, (None, None))
        if timer is not None:
            timer.cancel()
        return ends


class QueryListener:
    """Spark's notices of its queries, as they come from the JVM: PySpark's own listener asks it for every field of
    each, one by one, which takes tens of milliseconds for a batch.
    """

    def __init__(self, committer: GroupOffsetCommitter, abandoned: AbandonedTransactions) -> None:
        self._committer = committer
        self._abandoned = abandoned

    @property
    def _jlistener(self) -> Any:
        """What `addListener` takes of a listener."""
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        query, run = event.id().toString(), event.runId().toString()
        self._abandoned.query_started(query, run)
        self._committer.query_started(query, run)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if self._committer.has_groups:
            progress = event.progress()
            self._committer.query_progressed(
                progress.runId().toString(), lambda: [source.endOffset() for source in progress.sources()]
            )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        run = event.runId().toString()
        problem = event.exception()
        self._abandoned.query_terminated(event.id().toString(), run, str(problem.get()) if problem.isDefined() else "")
        self._committer.query_terminated(run)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def sources_of(spark: "SparkSession", query: str) -> Sequence[SourceOptions | None]:
    """From the plan of a query that has just been started. PySpark has no name for it, so what Spark names otherwise
    one day is said.
    """
    try:
        started: Any = spark.streams.get(query)
        return [_options(leaf) for leaf in streaming_leaves(started._jsq.streamingQuery().analyzedPlan())]
    except Exception as error:  # noqa: BLE001 - a query must not fail for it
        _warn_not_committed(f"query {query}", error)
        return ()


def streaming_leaves(plan: Any) -> list[Any]:
    """One for each source, in their order, as progress tells of them: a table that a stream is joined with is no
    source, and a frame that stands in the plan twice, as in a union with itself, is read once.
    """
    leaves = plan.collectLeaves()
    found: list[Any] = []
    for leaf in map(leaves.apply, range(leaves.size())):
        if leaf.isStreaming() and leaf not in found:  # equal as the JVM has it
            found.append(leaf)
    return found


def _options(leaf: Any) -> SourceOptions | None:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2" or leaf.sourceName() != _FORMAT:
        return None
    try:
        return parse_source_options(dict(leaf.extraOptions().asCaseSensitiveMap()), streaming=True)
    except UserError:
        return None  # the query fails for them, and says so


def commit_ends(options: SourceOptions, ends: Mapping[TopicPartition, int]) -> None:
    group = options.group_id
    assert group is not None
    try:
        with open_admin(options.bootstrap_servers, options.client, _PATIENCE_MS) as admin:
            known = admin.list_group_offsets(group, list(ends))
            told = {each: found.offset for each, found in known.items() if found is not None}
            if further := newer_offsets(ends, told):
                commit_group_offsets(admin, group, further)
    except (KafkaError, UserError) as error:
        sys.stderr.write(f"headwater source: the offsets of group {group!r} were not committed: {error}\n")


def newer_offsets(ends: Mapping[TopicPartition, int], told: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """What the group has not heard of yet. It is never set back: what is behind was told by a reader since."""
    return {each: offset for each, offset in ends.items() if offset > told.get(each, -1)}

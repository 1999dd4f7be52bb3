"""`App`: the name of an application, its defaults, and the graph that its streams and tables make."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.base.extras import STREAMS, require_extra
from headwater.streams.dsl.application_config import checked_config, internal_topic_settings
from headwater.streams.dsl.frames import NOTHING, FrameFeed, from_df
from headwater.streams.dsl.global_table import GlobalTable
from headwater.streams.dsl.materialized import StoreLike, keep
from headwater.streams.dsl.record_cache import cache_setting, checked_bytes
from headwater.streams.dsl.store_types import default_store_type
from headwater.streams.dsl.stores import check_store, global_store
from headwater.streams.dsl.stream import Stream
from headwater.streams.dsl.table import Table
from headwater.streams.dsl.timestamps import extractor, extractor_of_global
from headwater.streams.engine.failures import ErrorPolicy, Verdict
from headwater.streams.engine.table_source import TableSource
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.model.processor import Supplier
from headwater.streams.model.time import TimestampExtractor, fail_on_invalid_timestamp
from headwater.streams.plan.building import build
from headwater.streams.plan.graph import Graph, StateStoreNode, check_supplier
from headwater.streams.plan.sources import StreamSourceNode, check_pattern, check_reset
from headwater.streams.plan.tables import GlobalStoreNode, TableSourceNode
from headwater.streams.serdes.resolving import SerdeLike, resolve, resolve_optional
from headwater.streams.topology.describe import describe
from headwater.streams.topology.name_rules import check_topic
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SourceNode, Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.streams.lead.local_run import LocalRun
    from headwater.streams.on_spark import SparkRun
    from headwater.streams.query.local import LocalStore
    from headwater.streams.testing.driver import Driver

_LOCAL: Final = "localhost:9092"


class App:
    """An application of streams. `name` is its id: the consumer group, and the beginning of its internal topics' names.

    `key` and `value` are the serdes where nothing else is said: text and JSON. `on_error` is what happens with records
    that cannot be decoded, processed or encoded: `fail`, `skip`, `dead_letter`, or an `ErrorPolicy` with one of these
    for each. Records that windows leave out because they are late go to the topic `late_records_to`, if there is one;
    they are counted anyway.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: str | None = None,
        key: SerdeLike = "text",
        value: SerdeLike = "json",
        timestamp: Callable[..., Any] = fail_on_invalid_timestamp,
        on_error: "Verdict | ErrorPolicy" = "fail",
        dead_letter_topic: str | None = None,
        late_records_to: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if not name:
            raise UserError(
                "An application needs a name", "it is its consumer group and begins the names of its topics"
            )
        self.name = name
        self.brokers = brokers or _LOCAL
        self._brokers_are_given = brokers is not None
        self.default_key = resolve(key)
        self.default_value = resolve(value)
        self.extractor: TimestampExtractor = extractor(timestamp) or fail_on_invalid_timestamp
        self.config = checked_config(config)  # Kafka Streams' settings, by their names
        self.internal_topics = internal_topic_settings(self.config)
        self.store_type = default_store_type(self.config)
        self.cache_max_bytes = cache_setting(self.config)
        if isinstance(on_error, ErrorPolicy):
            self.errors = on_error
        else:
            self.errors = ErrorPolicy(on_error, on_error, on_error, dead_letter_topic)
        if late_records_to == "":
            raise UserError(
                "late_records_to names no topic", "it is empty", "Leave it out where late records are only counted"
            )
        self.late_records_to = late_records_to
        self.graph = Graph()
        self.feeds: list[FrameFeed] = []  # DataFrames that are written to topics while it runs
        self._built: tuple[int, Topology] | None = None
        self._run: LocalRun | None = None
        self.current_run: LocalRun | SparkRun | None = None

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        timestamp: Callable[..., Any] | None = None,
        reset: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """The records of one or several topics, or of all whose names match a pattern."""
        if bool(topics) == (pattern is not None):
            raise UserError("A stream reads topics or a pattern", f"it was given {topics!r} and {pattern!r}")
        for topic in topics:
            check_topic(topic, "stream")
        topics = tuple(dict.fromkeys(topics))
        check_pattern(pattern)
        check_reset(reset)
        key_serde, value_serde = resolve_optional(key), resolve_optional(value)
        source = self.graph.name_or_new(name, "KSTREAM-SOURCE-")
        node = StreamSourceNode(source, topics, pattern, key_serde, value_serde, extractor(timestamp), reset)
        self.graph.add(self.graph.root, node)
        return Stream(self, node, source, key_serde, value_serde, frozenset({source}), False)

    def table(
        self,
        topic: str,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        store: StoreLike = None,
        timestamp: Callable[..., Any] | None = None,
        reset: str | None = None,
        name: str | None = None,
    ) -> Table:
        """The latest value per key of a topic."""
        check_topic(topic, "table")
        check_reset(reset)
        kept = keep(self.graph, store, f"{topic}-", resolve_optional(key), resolve_optional(value))
        source_name = self.graph.name_or_new(name, "KSTREAM-SOURCE-", "-source")
        node_name = self.graph.name_or_new(name, "KTABLE-SOURCE-")
        supplier = TableSource(kept.store_name, kept.queryable_name)
        node = TableSourceNode(
            node_name,
            source_name,
            topic,
            kept.key,
            kept.value,
            extractor(timestamp),
            reset,
            supplier,
            kept.key_value(expires=True),
        )
        self.graph.add(self.graph.root, node)
        sources = frozenset({source_name})
        return Table(self, node, node_name, kept.key, kept.value, sources, kept.queryable_name, supplier)

    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        store: StoreLike = None,
        timestamp: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """The latest value per key of a topic, all of it in every task. `timestamp` is taken and not asked, as in Kafka
        Streams: rows have the timestamps of their records.
        """
        check_topic(topic, "global_table")
        kept = keep(self.graph, store, f"{topic}-", resolve_optional(key), resolve_optional(value))
        if kept.versioned:
            raise UserError("A global table cannot be versioned", f"{topic} was given history_ms")
        source_name = self.graph.name_or_new(name, "KSTREAM-SOURCE-", "-source")
        node_name = self.graph.name_or_new(name, "KTABLE-SOURCE-")
        supplier = TableSource(kept.store_name, kept.store_name)
        source = SourceNode(source_name, (topic,), None, kept.key, kept.value, extractor_of_global(timestamp, topic))
        node = GlobalStoreNode(node_name, source, kept.key_value(logged=False, caching=False), supplier)
        self.graph.add(self.graph.root, node)
        return GlobalTable(self, node, kept.key, kept.value, kept.store_name, kept.queryable_name)

    def add_global_store(
        self,
        store: StorePlan,
        topic: str,
        processor: Supplier,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        timestamp: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        """A store that a processor of your own makes of all records of a topic, all of it in every task: others read it
        by its name, and processors of global stores may change it. It has no changelog: each start gives the records of
        the topic to the processor again. `timestamp` is not asked, as for global tables.
        """
        check_topic(topic, "add_global_store")
        source_name = self.graph.name_or_new(name, "KSTREAM-SOURCE-", "-source")
        node_name = self.graph.name_or_new(name, "KTABLE-SOURCE-")
        serdes = resolve_optional(key), resolve_optional(value)
        source = SourceNode(source_name, (topic,), None, *serdes, extractor_of_global(timestamp, topic))
        node = GlobalStoreNode(node_name, source, global_store(store), check_supplier(processor))
        self.graph.add(self.graph.root, node)

    def from_df(
        self,
        frame: "DataFrame | Callable[[SparkSession], DataFrame]",
        name: str,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        key_column: str | None = None,
        timestamp: Callable[..., Any] | None = None,
        partitions: int | None = None,
        checkpoint: str | None = None,
        options: Mapping[str, str] = NOTHING,
    ) -> Stream:
        """The rows of a DataFrame, streaming or not, as a stream: written to the topic `<app>-<name>-df` while the
        application runs, exactly once.

        `frame`: or a function of the session that gives it. `key_column` is the key, and the other columns together are
        the value; or there are columns `key` and `value` (and `headers`) alone. `timestamp`: as of `stream`; without
        one, records have the time of their writing. `partitions`: of the topic. `checkpoint`: a directory for that of
        the query that writes, instead of one in `state_dir`.
        """
        return from_df(
            self,
            frame,
            name,
            key=key,
            value=value,
            key_column=key_column,
            timestamp=timestamp,
            partitions=partitions,
            checkpoint=checkpoint,
            options=options,
        )

    def add_store(self, store: StorePlan) -> None:
        """A store for processors, which name it in `stores=[...]`."""
        check_store(store)
        self.graph.add(self.graph.root, StateStoreNode(store))

    @property
    def names_brokers(self) -> bool:
        """Whether somebody has said which brokers; if not, the command line asks those that its other commands ask."""
        return self._brokers_are_given or self.brokers != _LOCAL

    def topology(self) -> Topology:
        """What the graph has become; built again after each change."""
        if self._built is None or self._built[0] != self.graph.changed:
            self._built = (self.graph.changed, build(self.graph))
        return self._built[1]

    def describe(self) -> str:
        """The topology in Kafka Streams' text form."""
        return describe(self.topology())

    def describe_svg(self) -> str:
        """The topology as a picture: write it to a file, or show it in a notebook with `IPython.display.SVG`."""
        from headwater.streams.topology.drawing import draw

        return draw(self.topology())

    def settings(self, **changes: Any) -> TaskSettings:
        """What the tasks of this application share."""
        return TaskSettings(
            self.name,
            self.default_key,
            self.default_value,
            self.extractor,
            self.errors,
            store_type=self.store_type,
            late_records_topic=self.late_records_to,
            **changes,
        )

    def test(
        self,
        *,
        partitions: int = 1,
        now_ms: int = 0,
        cache_max_bytes: int | None = None,
        commit_each_record: bool = True,
    ) -> "Driver":
        """A driver for tests: no broker, no JVM.

        `cache_max_bytes`: of the record cache, by default as the application's settings say. It is flushed with each
        commit, which is after each record, as in Kafka Streams' test driver; with `commit_each_record=False` it is when
        the test says `driver.commit()`.
        """
        from headwater.streams.testing.driver import Driver

        cache = self.cache_max_bytes if cache_max_bytes is None else checked_bytes("cache_max_bytes", cache_max_bytes)
        return Driver(
            self,
            partitions=partitions,
            now_ms=now_ms,
            cache_max_bytes=cache,
            commit_each_record=commit_each_record,
        )

    def run_here(
        self,
        *,
        state_dir: str | Path = "headwater-state",
        commit_interval_ms: int = 100,
        processing_guarantee: str = "exactly_once_v2",
        queries: int | None = None,
        client: Mapping[str, Any] | None = None,
        stopping: threading.Event | None = None,
        **settings: Any,
    ) -> "LocalRun":
        """Runs in this process, in a thread of its own, until `.stop()`. Returns when all state is restored.

        `stopping`: an event that ends the run when another thread sets it, also while state is being restored.

        `queries`: a port for interactive queries over HTTP, 0 for any that is free; `run.queries` has the URL and the
        secret.

        `client`: settings of the Kafka clients by their names; `settings`: those of `slot.settings.RunSettings`.
        """
        require_extra("streams", "An application that runs", STREAMS)
        from headwater.streams.lead.local_run import LocalRun
        from headwater.streams.slot.settings import RunSettings

        chosen = RunSettings(
            self.brokers,
            Path(state_dir),
            commit_interval_ms,
            processing_guarantee,
            queries=queries,
            client=dict(client or {}),
            **settings,
        )
        self.current_run = LocalRun(self, chosen, stopping)  # whoever asks sees how its state is restored
        self._run = self.current_run.start()
        if self.feeds:
            from headwater.streams.frames import feed

            try:
                self._run.on_end(feed(self, self._run, chosen, None).close)
            except BaseException:
                self._run.stop()
                raise
        return self._run

    def run(
        self,
        spark: "SparkSession",
        *,
        slots: int | None = None,
        lease: float = 600.0,
        state_dir: str | Path = "headwater-state",
        **settings: Any,
    ) -> "SparkRun":
        """Runs in slots that Spark supplies, until `.stop()`. Returns when all state is restored.

        `slots`: one per core but one, if it is not given. `lease`: how many seconds a slot stays before another goes on
        in its place. `state_dir`: on each machine. `settings`: as of `run_here`.
        """
        require_extra("streams", "An application that runs", STREAMS)
        from headwater.streams.on_spark import run_on_spark

        return run_on_spark(self, spark, slots, lease, state_dir, settings)

    def refuse_change(self, why: str) -> None:
        """Of an application that runs: what is added would not be in its tasks."""
        if self.current_run is not None and self.current_run.running:
            raise UserError(
                f"The application {self.name} runs already",
                why,
                "Add it before the application starts, or stop the application",
            )

    def store(self, name: str) -> "LocalStore":
        """A store of the application that runs here, to read, as of the last commit that is written."""
        if self._run is None:
            raise UserError(f"The application {self.name} does not run here", "its stores are read while it does")
        return self._run.store(name)

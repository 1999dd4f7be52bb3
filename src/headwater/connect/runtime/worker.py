"""What all connectors of a worker share: its config, catalog, providers and offsets; and how tasks are made and
ended.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from headwater.client import Admin
from headwater.connect.api import SinkConnector, SourceConnector, SparkSinkTask
from headwater.connect.config.providers import Providers
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.sensors import Windows
from headwater.connect.metrics.task_metrics import TaskMetrics
from headwater.connect.metrics.worker_metrics import WorkerMetrics
from headwater.connect.plugins import Catalog, Kind, Plugin
from headwater.connect.runtime.offsets import ConnectorOffsets, OffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.plugin_calls import PluginCalls
from headwater.connect.runtime.plugin_texts import plugin_texts
from headwater.connect.runtime.sink import SinkWorkerTask
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.spark_conversion import Conversion
from headwater.connect.runtime.spark_session import WorkerSpark
from headwater.connect.runtime.spark_sink import QueryPlan, SparkSinkWorkerTask
from headwater.connect.runtime.task import State, TaskHandle, TaskId, WorkerTask, monotonic_ms, wall_ms

logger = logging.getLogger("headwater.connect")

PLUGIN_CALL_S: Final = 60.0
_CONVERTERS: Final = (
    "key.converter",
    "value.converter",
    "header.converter",
)  # of a worker's properties, all that executors see


class Slots(Protocol):
    """Where tasks run that are not threads of the worker's process."""

    def task(
        self,
        task_id: TaskId,
        plugin: Plugin,
        given: Mapping[str, str],
        generation: int,
        *,
        isolated: bool,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> TaskHandle:
        """`given`: the config with its references to secrets, which are resolved where the task runs."""

    def shut_down(self) -> None: ...


class Worker:
    def __init__(
        self,
        config: WorkerConfig,
        store: OffsetStore,
        catalog: Catalog | None = None,
        worker_id: str = "127.0.0.1:8083",
    ) -> None:
        self.config = config
        self.store = store
        self.catalog = catalog if catalog is not None else Catalog(config["plugin.allowlist"])
        self.providers = Providers(config.props)
        self.worker_id = worker_id
        self.calls = PluginCalls(PLUGIN_CALL_S)
        self._resolved = self.providers.resolved(config.props)
        self.slots: Slots | None = None
        self.generations: dict[TaskId, int] = {}  # for which set of its connector's tasks each is, in a group
        windows = Windows(config["metrics.num.samples"], config["metrics.sample.window.ms"])
        self.metrics = WorkerMetrics(monotonic_ms, windows)
        self.spark = WorkerSpark(self._resolved, f"connect {config.props.get('group.id', 'standalone')}")

    def call(self, function: Callable[..., Any], *arguments: Any, late: Callable[[], Any] | None = None) -> Any:
        """A connector's method, whether it is a coroutine function or not. Raises ConnectError if it does not
        return.
        """
        return self.calls.run(function, *arguments, late=late)

    def stop_connector(self, connector: SourceConnector | SinkConnector) -> None:
        self.calls.run(connector.stop, limit_s=self.graceful_s)

    @property
    def graceful_s(self) -> float:
        return float(self.config["task.shutdown.graceful.timeout.ms"]) / 1000

    def offsets_of(self, connector: str, props: Mapping[str, str]) -> ConnectorOffsets:
        del props  # a worker alone has one file
        return ConnectorOffsets(self.store, connector)

    def client(self, kind: str, props: Mapping[str, str]) -> dict[str, str]:
        return self.providers.resolved(self.config.client(kind, props))

    def admin(self, props: Mapping[str, str]) -> Admin:
        return Admin(self.client("admin", props))

    def cluster_id(self) -> str | None:
        with Admin({**self.client("admin", {}), "default.api.timeout.ms": "15000"}) as admin:
            return admin.describe_cluster().cluster_id

    def make_task(
        self,
        task_id: TaskId,
        plugin: Plugin,
        given: Mapping[str, str],
        props: Mapping[str, str],
        config: dict[str, Any],
        secrets: frozenset[str],
        *,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> TaskHandle:
        """In a slot, if the worker has some and the task needs no session. `props` are `given` with references
        resolved.
        """
        startup = self.metrics.tasks.begun()
        try:
            made = self._placed_task(task_id, plugin, given, props, config, secrets, paused=paused, on_topic=on_topic)
        except BaseException:
            startup.state(State.FAILED)
            raise
        made.startup = startup
        made.plugins = plugin_texts(self.catalog, plugin, props, self._resolved)
        return made

    def _placed_task(
        self,
        task_id: TaskId,
        plugin: Plugin,
        given: Mapping[str, str],
        props: Mapping[str, str],
        config: dict[str, Any],
        secrets: frozenset[str],
        *,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> TaskHandle:
        isolated = config["task.isolation"] == "slot"
        if self.slots is not None and not plugin.cls.needs_spark:
            topic_seen = on_topic if self.config["topic.tracking.enable"] else lambda _topic: None
            generation = self.generations.get(task_id, 0)
            return self.slots.task(
                task_id, plugin, given, generation, isolated=isolated, paused=paused, on_topic=topic_seen
            )
        if isolated:
            raise ConnectError(
                "task.isolation=slot: this connector's tasks are queries of the worker's Spark session"
                if plugin.cls.needs_spark
                else "task.isolation=slot needs a worker with slots: task.slots and spark.master in its properties"
            )
        return self.task_here(task_id, plugin, props, config, secrets, paused=paused, on_topic=on_topic)

    def task_here(
        self,
        task_id: TaskId,
        plugin: Plugin,
        props: Mapping[str, str],
        config: dict[str, Any],
        secrets: frozenset[str],
        *,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> WorkerTask:
        """A task of this process."""
        made = self._new_task(task_id, plugin, props, config, secrets, paused=paused, on_topic=on_topic)
        made.version = plugin.version
        made.metrics = TaskMetrics(made.kind, monotonic_ms, wall_ms, self.metrics.windows)
        made.worker_spark = self.spark
        return made

    def close(self) -> None:
        """When its tasks have ended."""
        if self.slots is not None:
            self.slots.shut_down()
        self.spark.close()

    def _new_task(
        self,
        task_id: TaskId,
        plugin: Plugin,
        props: Mapping[str, str],
        config: dict[str, Any],
        secrets: frozenset[str],
        *,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> WorkerTask:
        flush_interval_s = self.config["offset.flush.interval.ms"] / 1000
        topic_seen = on_topic if self.config["topic.tracking.enable"] else lambda _topic: None

        def pipeline() -> Pipeline:
            return Pipeline(self.catalog, props, config, self._resolved)

        if plugin.kind is Kind.SOURCE:
            return self.source_task(
                task_id,
                plugin.cls.task_class,
                pipeline,
                props,
                config,
                self.offsets_of(task_id.connector, props),
                self.client("producer", props),
                self.client("admin", props),
                flush_interval_s=flush_interval_s,
                flush_timeout_s=self.config["offset.flush.timeout.ms"] / 1000,
                topic_creation=self.config["topic.creation.enable"],
                on_topic=topic_seen,
                secrets=secrets,
                paused=paused,
            )
        if issubclass(plugin.cls.task_class, SparkSinkTask):
            return self._spark_sink(task_id, plugin, props, config, secrets, paused=paused, on_topic=topic_seen)
        return SinkWorkerTask(
            task_id,
            plugin.cls.task_class,
            pipeline,
            props,
            config,
            self.client("consumer", props),
            self.client("producer", props),
            self.client("admin", props),
            flush_interval_s=flush_interval_s,
            on_topic=topic_seen,
            secrets=secrets,
            paused=paused,
        )

    def _spark_sink(
        self,
        task_id: TaskId,
        plugin: Plugin,
        props: Mapping[str, str],
        config: dict[str, Any],
        secrets: frozenset[str],
        *,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> WorkerTask:
        conversion = Conversion.of(
            task_id,
            props,
            config,
            worker={name: value for name, value in self._resolved.items() if name.startswith(_CONVERTERS)},
            allowed=tuple(self.config["plugin.allowlist"]),
            secrets=secrets,
            producer=self.client("producer", props),
            admin=self.client("admin", props),
        )
        own = plugin.config_def.parse(props)
        plan = QueryPlan(
            own["checkpoint.location"], own["batch.interval.ms"], own["batch.records.max"], own["value.schema"]
        )
        return SparkSinkWorkerTask(
            task_id,
            plugin.cls.task_class,
            conversion,
            self.client("consumer", props),
            plan,
            restart=config["errors.restart"],
            on_topic=on_topic,
            secrets=secrets,
            paused=paused,
        )

    def source_task(self, task_id: TaskId, *arguments: Any, **keywords: Any) -> SourceWorkerTask:
        """At least once; workers that can do more make another kind of task here."""
        return SourceWorkerTask(task_id, *arguments, **keywords)

    def end_tasks(self, tasks: Sequence[TaskHandle]) -> None:
        """All at once, and waited for together; one that does not end is given up, which the log says."""
        for task in tasks:
            task.begin_stop()
        until = time.monotonic() + self.graceful_s
        for task in tasks:
            if not task.join(max(0.0, until - time.monotonic())):
                task.cancel()
                logger.error("event=task-left connector=%r task=%d reason=it-does-not-stop", *task.id)

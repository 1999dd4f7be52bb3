"""What all connectors of a worker share: its config, catalog, providers and offsets; and how tasks are made and
ended.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from headwater.client import Admin
from headwater.connect.api import SinkConnector, SourceConnector, SparkSinkTask
from headwater.connect.config.providers import Providers
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.connector_config.common import common_def
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


class TaskSpec(NamedTuple):
    """What a task is made of."""

    id: TaskId
    plugin: Plugin
    given: Mapping[str, str]  # its config with references to secrets, as it is stored and shown
    props: Mapping[str, str]  # the same, resolved
    config: dict[str, Any]  # of these, what every connector has, parsed
    secrets: frozenset[str]
    paused: bool
    on_topic: Callable[[str], None]


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

    def restarts(self, config: Mapping[str, str]) -> bool:
        """`errors.restart` of a connector; its default, if what the config refers to cannot be had."""
        key = common_def(self.catalog)["errors.restart"]
        if key.name not in config:
            return bool(key.default)
        try:
            return bool(key.parse(self.providers.resolved({key.name: config[key.name]})[key.name]))
        except ConnectError:
            return bool(key.default)

    def stop_connector(self, connector: SourceConnector | SinkConnector) -> None:
        self.calls.run(connector.stop, limit_s=self.graceful_s, ends=True)

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

    def make_task(self, spec: TaskSpec) -> TaskHandle:
        """In a slot, if the worker has some and the task needs no session."""
        startup = self.metrics.tasks.begun()
        try:
            made = self._placed_task(spec)
        except BaseException:
            startup.state(State.FAILED)
            raise
        made.startup = startup
        made.plugins = plugin_texts(self.catalog, spec.plugin, spec.props, self._resolved)
        return made

    def _placed_task(self, spec: TaskSpec) -> TaskHandle:
        isolated = spec.config["task.isolation"] == "slot"
        if self.slots is not None and not spec.plugin.cls.needs_spark:
            generation = self.generations.get(spec.id, 0)
            return self.slots.task(
                spec.id, spec.plugin, spec.given, generation,
                isolated=isolated, paused=spec.paused, on_topic=self._topic_seen(spec),
            )  # fmt: skip
        if isolated:
            raise ConnectError(
                "task.isolation=slot: this connector's tasks are queries of the worker's Spark session"
                if spec.plugin.cls.needs_spark
                else "task.isolation=slot needs a worker with slots: task.slots and spark.master in its properties"
            )
        return self.task_here(spec)

    def task_here(self, spec: TaskSpec) -> WorkerTask:
        """A task of this process."""
        made = self._new_task(spec)
        made.version = spec.plugin.version
        made.metrics = TaskMetrics(made.kind, monotonic_ms, wall_ms, self.metrics.windows)
        made.worker_spark = self.spark
        return made

    def close(self) -> None:
        """When its tasks have ended."""
        if self.slots is not None:
            self.slots.shut_down()
        self.spark.close()

    def _topic_seen(self, spec: TaskSpec) -> Callable[[str], None]:
        return spec.on_topic if self.config["topic.tracking.enable"] else lambda _topic: None

    def _new_task(self, spec: TaskSpec) -> WorkerTask:
        props, task_class = spec.props, spec.plugin.cls.task_class
        flush_interval_s = self.config["offset.flush.interval.ms"] / 1000

        def pipeline() -> Pipeline:
            return Pipeline(self.catalog, props, spec.config, self._resolved)

        if spec.plugin.kind is Kind.SOURCE:
            return self.source_task(
                spec.id,
                task_class,
                pipeline,
                props,
                spec.config,
                self.offsets_of(spec.id.connector, props),
                self.client("producer", props),
                self.client("admin", props),
                flush_interval_s=flush_interval_s,
                flush_timeout_s=self.config["offset.flush.timeout.ms"] / 1000,
                topic_creation=self.config["topic.creation.enable"],
                on_topic=self._topic_seen(spec),
                secrets=spec.secrets,
                paused=spec.paused,
            )
        if issubclass(task_class, SparkSinkTask):
            return self._spark_sink(spec)
        return SinkWorkerTask(
            spec.id,
            task_class,
            pipeline,
            props,
            spec.config,
            self.client("consumer", props),
            self.client("producer", props),
            self.client("admin", props),
            flush_interval_s=flush_interval_s,
            on_topic=self._topic_seen(spec),
            secrets=spec.secrets,
            paused=spec.paused,
        )

    def _spark_sink(self, spec: TaskSpec) -> WorkerTask:
        conversion = Conversion.of(
            spec.id,
            spec.props,
            spec.config,
            worker={name: value for name, value in self._resolved.items() if name.startswith(_CONVERTERS)},
            allowed=tuple(self.config["plugin.allowlist"]),
            secrets=spec.secrets,
            producer=self.client("producer", spec.props),
            admin=self.client("admin", spec.props),
        )
        own = spec.plugin.config_def.parse(spec.props)
        plan = QueryPlan(
            own["checkpoint.location"], own["batch.interval.ms"], own["batch.records.max"], own["value.schema"]
        )
        return SparkSinkWorkerTask(
            spec.id,
            spec.plugin.cls.task_class,
            conversion,
            self.client("consumer", spec.props),
            plan,
            restart=spec.config["errors.restart"],
            on_topic=self._topic_seen(spec),
            secrets=spec.secrets,
            paused=spec.paused,
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

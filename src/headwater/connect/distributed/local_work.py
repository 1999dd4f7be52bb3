"""What this worker runs: connectors and tasks, brought to what the group assigned and the config topic says.

What is is compared with what should be, again and again: first something is stopped, then something is started. A
connector that has failed, or a task that could not even be made, is started again like a task that has failed
(`task.Failures`), as long as it is this worker's.
Owned by the herder, which calls one method at a time. Every change of a state is told to the status topic.
"""

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from headwater.base.errors import KafkaError
from headwater.connect.api import SinkConnector, SourceConnector
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.secrets import forms_of, redacted, secrets_in
from headwater.connect.connector_config.common import connector_def
from headwater.connect.distributed.assignor import CONNECTOR, Resources
from headwater.connect.distributed.config_records import Restart
from headwater.connect.distributed.config_state import Config, ConfigState
from headwater.connect.distributed.status_records import ConnectorStatus, Status, StatusRecord, TaskStatus, TopicUse
from headwater.connect.distributed.transactional_worker import TransactionalWorker
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.exposition import RunningConnector, RunningTask
from headwater.connect.plugins import Plugin
from headwater.connect.runtime.herder import unresolved
from headwater.connect.runtime.task import Failures, State, TaskHandle, TaskId, running_task
from headwater.connect.runtime.worker import TaskSpec

logger = logging.getLogger("headwater.connect")


class Surroundings(Protocol):
    """The rest of the herder."""

    @property
    def generation(self) -> int: ...

    def tell(self, *records: StatusRecord) -> None: ...

    def publish(self, connector: str, tasks: list[dict[str, str]]) -> None:
        """New configs of a connector's tasks, to the config topic. Raises ConnectError; it is tried again then."""

    def reconfigure(self, connector: "Context") -> None:
        """The connector wants its tasks configured anew. For any thread."""

    def connector_failed(self, connector: "Context", error: Exception) -> None:
        """For any thread."""


@dataclass(slots=True)
class LocalConnector:
    name: str
    config: Config
    made: int  # which connector of this name it is: one may be deleted and made again at once
    target: State
    targeted: int  # how often it was told its target
    state: State = State.UNASSIGNED
    plugin: Plugin | None = None
    connector: SourceConnector | SinkConnector | None = None
    context: "Context | None" = None
    secrets: frozenset[str] = frozenset()
    unpublished: bool = False  # its tasks are to be asked for, and written down if they are others
    failures: Failures = field(default_factory=Failures)
    retry_at_s: float | None = None  # it has failed, and is started again then


@dataclass(slots=True)
class LocalTask:
    made_for: tuple[int, Config]  # the generation of the connector's tasks, and the connector's config
    task: TaskHandle | None  # None: it could not even be made
    failures: Failures = field(default_factory=Failures)  # to make it
    retry_at_s: float | None = None  # it is tried again then


class Context:
    """Of one start of a connector. `closed`: it was stopped since, and what it says is not about the next one."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self._around, self.name = around, name
        self.closed = False

    def request_task_reconfiguration(self) -> None:
        self._around.reconfigure(self)

    def raise_error(self, error: Exception) -> None:
        self._around.connector_failed(self, error)


class LocalWork:
    def __init__(self, worker: TransactionalWorker, around: Surroundings) -> None:
        self._worker, self._around = worker, around
        self._connectors: dict[str, LocalConnector] = {}
        self._tasks: dict[TaskId, LocalTask] = {}

    # To what should be

    def stop_what_is_not(self, assigned: Resources, state: ConfigState) -> None:
        """All that is another's now, is gone, or has another config."""
        gone = [
            task for task, local in self._tasks.items() if task not in assigned or not _is_current(task, local, state)
        ]
        self._stop_tasks(gone, state)
        for name, local in list(self._connectors.items()):
            if TaskId(name, CONNECTOR) not in assigned or not _is_still(local, state):
                self._drop_connector(local, state)

    def start_what_is_not(
        self, assigned: Resources, state: ConfigState, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        """`goes_on`: each start may take a minute; whether the next one is still to be done."""
        for name, number in sorted(assigned):
            if number == CONNECTOR and name in state.configs and goes_on():
                self._bring_connector(name, state)
        for task in sorted(assigned):
            if 0 <= task.number < len(state.tasks.get(task.connector, ())) and goes_on():
                self._bring_task(task, state)

    def publish_tasks(self, state: ConfigState, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Whether something is left to be published."""
        for local in self._connectors.values():
            if local.unpublished and local.connector is not None and goes_on():
                self._publish(local, state)
        return any(each.unpublished for each in self._connectors.values())

    def restart_failed(self, state: ConfigState, goes_on: Callable[[], bool] = lambda: True) -> float | None:
        """Starts the connectors again, and makes the tasks, whose pause is over. How long the next one waits (s), if
        there is one.
        """
        for local in self._connectors.values():
            if local.retry_at_s is not None and local.retry_at_s <= time.monotonic() and goes_on():
                logger.warning(
                    "event=connector-restarting connector=%r failures=%d", local.name, local.failures.in_a_row
                )
                self._stop_connector(local)
                self._start_connector(local, state)
        for task, unmade in list(self._tasks.items()):
            if unmade.retry_at_s is not None and unmade.retry_at_s <= time.monotonic() and goes_on():
                logger.warning(
                    "event=task-restarting connector=%r task=%d failures=%d", *task, unmade.failures.in_a_row
                )
                self._make_task(task, state, unmade.failures)
        times = [each.retry_at_s for each in self._connectors.values()]
        times += [each.retry_at_s for each in self._tasks.values()]
        waits = [each for each in times if each is not None]
        return max(0.0, min(waits) - time.monotonic()) if waits else None

    def stop_all(self, state: ConfigState) -> None:
        self._stop_tasks(list(self._tasks), state)
        for local in list(self._connectors.values()):
            self._drop_connector(local, state)

    # Looking: for any thread

    def running(self) -> tuple[list[RunningConnector], list[RunningTask]]:
        connectors = []
        for each in list(self._connectors.values()):
            plugin, state = each.plugin, each.state
            if state is State.STOPPED:
                continue
            texts = (None, None, None) if plugin is None else (plugin.name, str(plugin.kind), plugin.version)
            connectors.append(RunningConnector(each.name, state, *texts))
        tasks = [each.task for each in list(self._tasks.values()) if each.task is not None]
        return connectors, [running_task(task) for task in tasks]

    # Single wishes

    def restart(self, wish: Restart, state: ConfigState) -> None:
        local = self._connectors.get(wish.connector)
        chosen = local is not None and (not wish.only_failed or local.state is State.FAILED)
        if local is not None and chosen and local.target is not State.STOPPED:
            self._stop_connector(local)
            local.failures = Failures()
            self._start_connector(local, state)
        if wish.include_tasks:
            own = {task: local.task for task, local in self._tasks.items() if task.connector == wish.connector}
            failed = [task for task, running in own.items() if running is None or running.state is State.FAILED]
            self._restart_tasks(failed if wish.only_failed else list(own), state)

    def restart_task(self, task: TaskId, state: ConfigState) -> None:
        if task in self._tasks:  # else it was given up since it was asked for
            self._restart_tasks([task], state)

    def _restart_tasks(self, tasks: list[TaskId], state: ConfigState) -> None:
        self._stop_tasks(tasks, state)
        for task in tasks:
            if 0 <= task.number < len(state.tasks.get(task.connector, ())):
                self._bring_task(task, state)

    def reconfigure(self, connector: Context) -> None:
        if not connector.closed:
            self._connectors[connector.name].unpublished = True

    def connector_failed(self, connector: Context, error: Exception) -> None:
        if not connector.closed:
            self._failed(self._connectors[connector.name], error)

    # Connectors

    def _bring_connector(self, name: str, state: ConfigState) -> None:
        local, target, targeted = self._connectors.get(name), state.target(name), state.targeted.get(name, 0)
        if local is None:
            made = LocalConnector(name, state.configs[name], state.made[name], target, targeted)
            self._connectors[name] = made
            self._start_connector(made, state)
            return
        is_told, local.targeted = targeted != local.targeted, targeted
        if local.target is target:  # it may have been another meanwhile: a stop takes the tasks away
            local.unpublished = local.unpublished or (is_told and target is State.RUNNING)
            return
        before, local.target = local.target, target
        if target is State.STOPPED:
            self._stop_connector(local)
            self._now(local, State.STOPPED)
        elif before is State.STOPPED:
            local.failures = Failures()
            self._start_connector(local, state)
        elif local.state is not State.FAILED:
            self._now(local, target)
            local.unpublished = local.unpublished or target is State.RUNNING

    def _start_connector(self, local: LocalConnector, state: ConfigState) -> None:
        if local.target is State.STOPPED:
            self._now(local, State.STOPPED)
            return
        local.failures.begin()
        startup = self._worker.metrics.connectors.begun()
        try:
            local.plugin = self._worker.catalog.connector(local.config.get("connector.class", ""))
            given: set[str] = set()
            resolved = self._worker.providers.resolved(local.config, given)
            definition = self._definition(local.plugin)
            local.secrets = frozenset(secrets_in(local.config, resolved, definition) | forms_of(given))
            made: SourceConnector | SinkConnector = self._worker.call(local.plugin.make)
            local.context = made.context = Context(self._around, local.name)
            self._worker.call(made.start, resolved, late=made.stop)
            local.connector = made
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its connector's status
            startup.state(State.FAILED)
            self._close_context(local)
            self._failed(local, error)
            return
        startup.state(local.target)
        self._now(local, local.target)
        local.unpublished = True
        self._publish(local, state)

    def _publish(self, local: LocalConnector, state: ConfigState) -> None:
        try:
            wanted = self._task_configs(local)
        except Exception as error:  # noqa: BLE001
            local.unpublished = False
            self._failed(local, error)
            return
        name = local.name
        if state.tasks.get(name) == tuple(wanted) and state.applied.get(name) == local.config:
            local.unpublished = False
            return
        try:
            self._around.publish(name, wanted)
            local.unpublished = False
        except (ConnectError, KafkaError, TimeoutError) as error:
            logger.info("event=tasks-not-published connector=%r reason=%r", name, str(error)[:500])

    def _task_configs(self, local: LocalConnector) -> list[dict[str, str]]:
        """With references to secrets as the connector's config has them."""
        assert local.plugin is not None
        assert local.connector is not None
        resolved = self._worker.providers.resolved(local.config)
        config = connector_def(self._worker.catalog, local.plugin.kind).parse(resolved)
        asked = self._worker.call(local.connector.task_configs, config["tasks.max"])
        if len(asked) > config["tasks.max"] and config["tasks.max.enforce"]:
            raise ConnectError(
                f"The connector {local.name} has generated {len(asked)} tasks, which is greater than {config['tasks.max']}, "
                "the maximum number of tasks it is configured to create"
            )
        named = {"task.class": task_class_of(local.plugin)}
        return [unresolved({**each, **named}, resolved, local.config) for each in asked]

    def _definition(self, plugin: Plugin) -> ConfigDef:
        return connector_def(self._worker.catalog, plugin.kind) + plugin.config_def

    def _drop_connector(self, local: LocalConnector, state: ConfigState) -> None:
        self._stop_connector(local)
        del self._connectors[local.name]
        if local.name in state.configs:
            self._now(local, State.UNASSIGNED)
        else:
            self._around.tell(ConnectorStatus(local.name, None))

    def _stop_connector(self, local: LocalConnector) -> None:
        connector, local.connector = local.connector, None
        local.unpublished, local.retry_at_s = False, None
        self._close_context(local)
        if connector is not None:
            try:
                self._worker.stop_connector(connector)
            except Exception as error:  # noqa: BLE001
                told = redacted(str(error), local.secrets)
                logger.warning("event=stop-failed connector=%r error=%r", local.name, told)

    def _close_context(self, local: LocalConnector) -> None:
        context, local.context = local.context, None
        if context is not None:
            context.closed = True

    def _now(self, local: LocalConnector, state: State, trace: str | None = None) -> None:
        local.state = state
        version = local.plugin.version if local.plugin is not None else None
        status = Status(state, self._worker.worker_id, self._around.generation, trace, version)
        self._around.tell(ConnectorStatus(local.name, status))

    def _failed(self, local: LocalConnector, error: Exception) -> None:
        logger.error(
            "event=connector-failed connector=%r error=%r", local.name, redacted(str(error), local.secrets)[:2000]
        )
        if local.retry_at_s is None:
            local.retry_at_s = self._again_at_s(local.config, local.failures)
        told = local.failures.told("connector") if local.retry_at_s is not None else ""
        self._now(local, State.FAILED, redacted(told + "".join(traceback.format_exception(error)), local.secrets))

    def _again_at_s(self, config: Config, failures: Failures) -> float | None:
        """When what has failed once more is tried again; None: it is not."""
        if not self._worker.restarts(config):
            return None
        failures.count()
        return time.monotonic() + failures.delay_s

    # Tasks

    def _bring_task(self, task: TaskId, state: ConfigState) -> None:
        if state.target(task.connector) is State.STOPPED:
            return
        local = self._tasks.get(task)
        if local is None:
            self._make_task(task, state, Failures())
        elif local.task is not None:
            paused = state.target(task.connector) is State.PAUSED
            if local.task.paused != paused:
                local.task.set_paused(paused)

    def _make_task(self, task: TaskId, state: ConfigState, failures: Failures) -> None:
        paused = state.target(task.connector) is State.PAUSED
        made_for = (state.generations[task.connector], state.configs[task.connector])
        secrets: frozenset[str] = frozenset()
        failures.begin()
        try:
            plugin = self._worker.catalog.connector(made_for[1].get("connector.class", ""))
            config = {**made_for[1], **state.tasks[task.connector][task.number]}
            given: set[str] = set()
            resolved = self._worker.providers.resolved(config, given)
            secrets = frozenset(secrets_in(config, resolved, self._definition(plugin)) | forms_of(given))
            parsed = connector_def(self._worker.catalog, plugin.kind).parse(resolved)
            self._worker.generations[task] = made_for[0]
            made = self._worker.make_task(
                TaskSpec(task, plugin, config, resolved, parsed, secrets, paused, self._topic_seen(task))
            )
        except Exception as error:  # noqa: BLE001
            again_at_s = self._again_at_s(made_for[1], failures)
            self._tasks[task] = LocalTask(made_for, None, failures, again_at_s)
            told = failures.told("task") if again_at_s is not None else ""
            trace = redacted(told + "".join(traceback.format_exception(error)), secrets)
            self._tell_task(task, State.FAILED, trace, None)
            return
        self._tasks[task] = LocalTask(made_for, made)
        made.on_state = self._task_changed
        made.start()

    def _task_changed(self, task: TaskHandle) -> None:
        """By the task's thread."""
        trace = task.trace if task.state is State.FAILED else None
        self._tell_task(task.id, task.state, trace, task.version, task.runs_on)

    def _tell_task(
        self, task: TaskId, state: State, trace: str | None, version: str | None, runs_on: str | None = None
    ) -> None:
        status = Status(state, self._worker.worker_id, self._around.generation, trace, version, runs_on)
        self._around.tell(TaskStatus(task, status))

    def _topic_seen(self, task: TaskId) -> Callable[[str], None]:
        return lambda topic: self._around.tell(
            TopicUse(topic, task.connector, task.number, time.time_ns() // 1_000_000)
        )

    def _stop_tasks(self, tasks: list[TaskId], state: ConfigState) -> None:
        running = [local.task for task in tasks if (local := self._tasks.pop(task, None)) is not None and local.task]
        for each in running:
            each.on_state = None  # what they say from now on is said below
        self._worker.end_tasks(running)
        for task in tasks:
            if task.number < len(state.tasks.get(task.connector, ())):
                self._tell_task(task, State.UNASSIGNED, None, None)
            else:
                self._around.tell(TaskStatus(task, None))


def _is_still(local: LocalConnector, state: ConfigState) -> bool:
    return state.configs.get(local.name) == local.config and state.made[local.name] == local.made


def _is_current(task: TaskId, local: LocalTask, state: ConfigState) -> bool:
    if task.number >= len(state.tasks.get(task.connector, ())):
        return False
    return local.made_for[0] == state.generations[task.connector]


def task_class_of(plugin: Plugin) -> str:
    """Java's, as Apache's workers would write it, where the connector is one of theirs."""
    if plugin.name.startswith("org.apache.kafka.connect."):
        return f"{plugin.name.removesuffix('Connector')}Task"
    cls: Any = plugin.cls.task_class
    return f"{cls.__module__}.{cls.__qualname__}"

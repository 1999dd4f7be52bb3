"""The herder of a standalone worker: which connectors there are, in which state, and the calls that change that.

One lock around all of it: a call that changes something waits for the one before, whose plugins have a limited time.
Tasks run in threads of their own and never take the lock. A connector that has failed is started again like a task
(`task.Failures`), by a timer, unless it is stopped, changed or deleted meanwhile. Connectors live in memory; those of
the command line come back with the next start, those made over REST do not.
"""

import logging
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headwater.connect.api import SinkConnector, SourceConnector
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.secrets import forms_of, kept, redacted, secrets_in, shown
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connector_config.validation import Validation
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.exposition import RunningConnector, RunningTask
from headwater.connect.plugins import Plugin
from headwater.connect.runtime.config_checks import ConfigChecks
from headwater.connect.runtime.offset_calls import OffsetCalls
from headwater.connect.runtime.refusals import NOT_STOPPED, AlreadyExists, BadRequest, NotFound
from headwater.connect.runtime.task import Failures, State, TaskHandle, TaskId, running_task, status_of
from headwater.connect.runtime.worker import TaskSpec, Worker

logger = logging.getLogger("headwater.connect")

CONNECTORS_MAX: Final = 1000
_CLOSE_PATIENCE_S: Final = 5.0
TARGETS: Final = {"STARTED": State.RUNNING, "RUNNING": State.RUNNING, "PAUSED": State.PAUSED, "STOPPED": State.STOPPED}


@dataclass(slots=True)
class Running:
    """One connector. `config` is as it was given, references unresolved."""

    name: str
    config: dict[str, str]
    plugin: Plugin
    definition: ConfigDef
    target: State = State.RUNNING
    state: State = State.UNASSIGNED
    trace: str | None = None
    connector: SourceConnector | SinkConnector | None = None
    context: "_Context | None" = None
    tasks: list[TaskHandle] = field(default_factory=list)
    task_configs: list[dict[str, str]] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    secrets: frozenset[str] = frozenset()
    failures: Failures = field(default_factory=Failures)
    retry: threading.Timer | None = None  # it has failed, and this starts it again


class _AskedTasks(NamedTuple):
    """What a connector wants its tasks to be."""

    configs: list[dict[str, str]]  # as they are kept and shown
    props: list[dict[str, str]]  # the same, resolved
    config: dict[str, Any]  # of these, what every connector has, parsed


class _Context:
    """Of one start of a connector. `closed`: it was stopped since, and its failure is not that of the next one."""

    def __init__(self, herder: "StandaloneHerder", name: str) -> None:
        self._herder, self._name = herder, name
        self.closed = False

    def request_task_reconfiguration(self) -> None:
        threading.Thread(target=self._herder.reconfigure, args=(self._name,), daemon=True).start()

    def raise_error(self, error: Exception) -> None:
        if not self.closed:
            self._herder.connector_failed(self._name, error)


class StandaloneHerder:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._lock = threading.RLock()
        self._running: dict[str, Running] = {}
        self._offsets = OffsetCalls(worker)
        self._checks = ConfigChecks(worker)
        self._closed = False

    # Looking

    def names(self) -> list[str]:
        return list(self._running)

    def get(self, name: str) -> Running:
        found = self._running.get(name)
        if found is None:
            raise NotFound(f"Connector {name} not found")
        return found

    def info(self, name: str) -> dict[str, Any]:
        found = self.get(name)
        return {
            "name": name,
            "config": self.config(name),
            "tasks": [{"connector": name, "task": each.id.number} for each in found.tasks],
            "type": str(found.plugin.kind),
        }

    def config(self, name: str) -> dict[str, str]:
        found = self.get(name)
        return shown(found.config, found.definition)

    def status(self, name: str) -> dict[str, Any]:
        found = self.get(name)
        connector: dict[str, Any] = {"state": str(found.state), "worker_id": self.worker.worker_id}
        if found.state is State.FAILED and found.trace is not None:
            connector["trace"] = found.trace
        tasks = [status_of(each, self.worker.worker_id) for each in found.tasks]
        version = found.plugin.version
        return {
            "name": name,
            "connector": connector | {"version": version},
            "tasks": tasks,
            "type": str(found.plugin.kind),
        }

    def task(self, name: str, number: int) -> TaskHandle:
        found = self.get(name)
        if not 0 <= number < len(found.tasks):
            raise NotFound(f"Task {name}-{number} not found")
        return found.tasks[number]

    def task_status(self, name: str, number: int) -> dict[str, Any]:
        return dict(status_of(self.task(name, number), self.worker.worker_id))

    def tasks(self, name: str) -> list[dict[str, Any]]:
        found = self.get(name)
        configs = (shown(each, found.definition) for each in found.task_configs)
        return [{"id": {"connector": name, "task": number}, "config": each} for number, each in enumerate(configs)]

    def topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": sorted(self.get(name).topics)}}

    def reset_topics(self, name: str) -> None:
        self.get(name).topics.clear()

    def running_here(self) -> tuple[list[RunningConnector], list[RunningTask]]:
        """For the worker's metrics. What is stopped does not run."""
        found = [each for each in list(self._running.values()) if each.state is not State.STOPPED]
        connectors = [
            RunningConnector(each.name, each.state, each.plugin.name, str(each.plugin.kind), each.plugin.version)
            for each in found
        ]
        return connectors, [running_task(task) for each in found for task in list(each.tasks)]

    def validated(self, config: Mapping[str, str]) -> Validation:
        return self._checks.validated(config)

    # Changing

    def create(
        self, name: str, config: Mapping[str, str], target: State = State.RUNNING, *, replace: bool = False
    ) -> bool:
        """Whether it was made; False: it was there and has this config now."""
        with self._lock:
            before = self._running.get(name)
            if before is not None and not replace:
                raise AlreadyExists(f"Connector {name} already exists")
            if before is None and len(self._running) >= CONNECTORS_MAX:
                raise BadRequest(f"There are {CONNECTORS_MAX} connectors already")
            given = kept(config, before.config if before is not None else {})
            given = {**given, "name": name}
            self._checks.check(given)
            plugin = self.worker.catalog.connector(given["connector.class"])
            if before is not None:
                if before.plugin.kind is not plugin.kind:
                    raise BadRequest(f"Connector {name} is a {before.plugin.kind}; it cannot become a {plugin.kind}")
                self._stop(before)
            definition = connector_def(self.worker.catalog, plugin.kind) + plugin.config_def
            made = Running(name, given, plugin, definition, before.target if before is not None else target)
            if before is not None:
                made.topics |= before.topics  # until somebody resets them
            self._running[name] = made
            self._start(made)
            return before is None

    def patch(self, name: str, changes: Mapping[str, str | None]) -> None:
        with self._lock:
            merged = {
                **self.get(name).config,
                **kept({k: v for k, v in changes.items() if v is not None}, self.get(name).config),
            }
            for removed in (key for key, value in changes.items() if value is None):
                merged.pop(removed, None)
            self.create(name, merged, replace=True)

    def delete(self, name: str) -> None:
        with self._lock:
            self._stop(self.get(name))
            del self._running[name]

    def set_target(self, name: str, target: State) -> None:
        with self._lock:
            found = self.get(name)
            before, found.target = found.target, target
            if target is State.STOPPED:
                self._stop(found)
                found.task_configs = []
                found.state = State.STOPPED
            elif before is State.STOPPED:
                self._stop(found)
                found.failures = Failures()
                self._start(found)
            else:
                for task in found.tasks:
                    task.set_paused(target is State.PAUSED)
                if found.state is not State.FAILED:
                    found.state = target

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
        """The status as it is when the restart begins, with RESTARTING where something is restarted."""
        with self._lock:
            found = self.get(name)
            plan = self.status(name)
            connector_too = not only_failed or found.state is State.FAILED
            chosen = [each for each in found.tasks if include_tasks and (not only_failed or each.state is State.FAILED)]
            if connector_too:
                plan["connector"]["state"] = str(State.RESTARTING)
            for each in plan["tasks"]:
                if any(task.id.number == each["id"] for task in chosen):
                    each["state"] = str(State.RESTARTING)
            if found.target is State.STOPPED:
                return plan
            if connector_too:
                found.failures = Failures()
                self._restart_connector(found)
            self._restart_tasks(found, [task.id.number for task in chosen if task in found.tasks])
            return plan

    def restart_task(self, name: str, number: int) -> None:
        with self._lock:
            self.task(name, number)
            self._restart_tasks(self.get(name), [number])

    def reconfigure(self, name: str) -> None:
        with self._lock:
            found = self._running.get(name)
            if found is None or found.connector is None or found.target is State.STOPPED:
                return
            self._bring_tasks(found)

    def connector_failed(self, name: str, error: Exception) -> None:
        found = self._running.get(name)
        if found is not None and found.target is not State.STOPPED:
            self._failed(found, error)

    def require_stopped(self, name: str) -> Running:
        found = self.get(name)
        if found.state is not State.STOPPED or found.tasks:
            raise BadRequest(NOT_STOPPED.replace("{name}", name))
        return found

    def read_offsets(self, name: str) -> list[dict[str, Any]]:
        return self._offsets.read(self.get(name))

    def alter_offsets(self, name: str, body: Any) -> str:
        with self._lock:
            return self._offsets.alter(self.require_stopped(name), body)

    def reset_offsets(self, name: str) -> str:
        with self._lock:
            return self._offsets.reset(self.require_stopped(name))

    def tell_loggers(self, logger_name: str, level: str) -> None:
        """Every worker's; here is one only, whose door has set it."""

    def close(self) -> None:
        """Waits for a change that is under way, but not for a plugin that hangs in it."""
        self._closed = True
        held = self._lock.acquire(timeout=_CLOSE_PATIENCE_S)
        if not held:
            self.worker.calls.abandon()
            held = self._lock.acquire(timeout=_CLOSE_PATIENCE_S)
        if not held:
            logger.error("event=closing-without-the-lock reason=a-change-does-not-end")
        try:
            running = list(self._running.values())
            tasks = [task for found in running for task in found.tasks]
            for found in running:
                found.tasks = []
            self.worker.end_tasks(tasks)
            for found in running:
                self._stop_connector(found)
            self.worker.close()
        finally:
            if held:
                self._lock.release()

    # Inside

    def _start(self, found: Running) -> None:
        if found.target is State.STOPPED:
            found.state = State.STOPPED
            return
        found.failures.begin()
        startup = self.worker.metrics.connectors.begun()
        try:
            given: set[str] = set()
            resolved = self.worker.providers.resolved(found.config, given)
            found.secrets = frozenset(secrets_in(found.config, resolved, found.definition) | forms_of(given))
            found.connector = self._started(found, resolved)
            found.state, found.trace = found.target, None
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its connector's status
            startup.state(State.FAILED)
            self._failed(found, error)
            return
        startup.state(found.state)
        self._bring_tasks(found)

    def _started(self, found: Running, resolved: dict[str, str]) -> SourceConnector | SinkConnector:
        made: SourceConnector | SinkConnector = self.worker.call(found.plugin.make)
        found.context = made.context = _Context(self, found.name)
        self.worker.call(made.start, resolved, late=made.stop)
        return made

    def _bring_tasks(self, found: Running) -> None:
        """To what the connector wants; if it cannot say that, or wants the same, those that are there run on."""
        try:
            asked = self._asked_tasks(found)
        except Exception as error:  # noqa: BLE001
            self._failed(found, error)
            return
        if not found.tasks or asked.configs != found.task_configs:
            self._stop_tasks(found)
            self._run_tasks(found, asked)

    def _asked_tasks(self, found: Running) -> "_AskedTasks":
        assert found.connector is not None
        resolved = self.worker.providers.resolved(found.config)
        config = connector_def(self.worker.catalog, found.plugin.kind).parse(resolved)
        task_class = found.plugin.cls.task_class
        named = {"task.class": f"{task_class.__module__}.{task_class.__qualname__}"}
        asked = self.worker.call(found.connector.task_configs, config["tasks.max"])
        if len(asked) > config["tasks.max"] and config["tasks.max.enforce"]:
            raise ConnectError(
                f"The connector {found.name} has generated {len(asked)} tasks, which is greater than {config['tasks.max']}, "
                "the maximum number of tasks it is configured to create"
            )
        props = [{**resolved, **each, **named} for each in asked]
        return _AskedTasks([unresolved(each, resolved, found.config) for each in props], props, config)

    def _run_tasks(self, found: Running, asked: "_AskedTasks") -> None:
        try:
            found.task_configs = asked.configs
            found.tasks = [
                self._make_task(found, number, asked.configs[number], each, asked.config)
                for number, each in enumerate(asked.props)
            ]
        except Exception as error:  # noqa: BLE001
            self._failed(found, error)
            return
        for task in found.tasks:
            task.start()

    def _failed(self, found: Running, error: Exception) -> None:
        """By any thread, with or without the lock."""
        if found.retry is None and self.worker.restarts(found.config):
            found.failures.count()
            self._restart_later(found)
        told = found.failures.told("connector") if found.retry is not None else ""
        found.trace = redacted(told + "".join(traceback.format_exception(error)), found.secrets)
        found.state = State.FAILED
        logger.error(
            "event=connector-failed connector=%r error=%r", found.name, redacted(str(error), found.secrets)[:2000]
        )

    def _restart_later(self, found: Running) -> None:
        def restart() -> None:
            with self._lock:
                if self._closed or found.retry is not timer:
                    return
                found.retry = None
                if found.state is State.FAILED:
                    logger.warning(
                        "event=connector-restarting connector=%r failures=%d", found.name, found.failures.in_a_row
                    )
                    self._restart_connector(found)

        timer = threading.Timer(found.failures.delay_s, restart)
        timer.daemon = True
        found.retry = timer
        timer.start()

    def _stop_tasks(self, found: Running) -> None:
        tasks, found.tasks = found.tasks, []
        self.worker.end_tasks(tasks)

    def _stop(self, found: Running) -> None:
        self._stop_tasks(found)
        self._stop_connector(found)

    def _stop_connector(self, found: Running) -> None:
        retry, found.retry = found.retry, None
        if retry is not None:
            retry.cancel()
        context, found.context = found.context, None
        if context is not None:
            context.closed = True
        connector, found.connector = found.connector, None
        if connector is not None:
            try:
                self.worker.stop_connector(connector)
            except Exception as error:  # noqa: BLE001
                logger.warning(
                    "event=stop-failed connector=%r error=%r", found.name, redacted(str(error), found.secrets)
                )

    def _restart_connector(self, found: Running) -> None:
        """The connector object alone; its tasks go on, unless it wants others."""
        self._stop_connector(found)
        self._start(found)

    def _restart_tasks(self, found: Running, numbers: list[int]) -> None:
        """If one cannot be made, because a secret is gone, say, all are left as they are: the caller is told."""
        made = []
        for number in numbers:
            given = {**found.config, **found.task_configs[number]}
            resolved = self.worker.providers.resolved(given)
            config = connector_def(self.worker.catalog, found.plugin.kind).parse(resolved)
            made.append(self._make_task(found, number, given, resolved, config))
        self.worker.end_tasks([found.tasks[number] for number in numbers])
        for number, task in zip(numbers, made, strict=True):
            found.tasks[number] = task
            task.start()

    def _make_task(
        self, found: Running, number: int, given: Mapping[str, str], props: Mapping[str, str], config: dict[str, Any]
    ) -> TaskHandle:
        paused = found.target is State.PAUSED
        return self.worker.make_task(
            TaskSpec(
                TaskId(found.name, number), found.plugin, given, props, config, found.secrets, paused, found.topics.add
            )
        )


def unresolved(task: Mapping[str, str], resolved: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """A task's config with the references that the connector's config has: what may be kept and shown."""
    return {
        name: config[name] if name in config and resolved.get(name) == value else value for name, value in task.items()
    }

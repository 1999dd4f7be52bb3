"""The herder of a distributed worker: answers REST calls from what the topics say, and keeps what runs here as it
should be.

Threads: callers of REST (any), the membership's, the config log's, and the herder's own, which alone changes
`LocalWork` (a worker that the group has forgotten stops everything in the membership's thread, under the same lock).
Changes are written by the leader; a worker that does not lead raises `Elsewhere`, and the door hands the call on. What
was written is done by whoever owns it when the config log has told it.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.base.security.tls import ContextSource
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.secrets import kept, shown
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connector_config.validation import Delivery, Validation
from headwater.connect.distributed.assignor import Resources
from headwater.connect.distributed.config_records import ConnectorConfig, LoggerLevel, Restart, TargetState, TasksCommit
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.group_protocol import Assignment, MemberState
from headwater.connect.distributed.leader import REBALANCING, Leader
from headwater.connect.distributed.local_work import Context, LocalWork
from headwater.connect.distributed.peers import ask_leader
from headwater.connect.distributed.signature_check import SignatureCheck
from headwater.connect.distributed.status_records import ConnectorStatus, Status, StatusRecord, TaskStatus, TopicUse
from headwater.connect.distributed.stores import Command, ConfigStore, StatusStore
from headwater.connect.distributed.transactional_worker import TransactionalWorker
from headwater.connect.distributed.worker_membership import Membership
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.exposition import RunningConnector, RunningTask
from headwater.connect.plugins import Kind
from headwater.connect.runtime.config_checks import ConfigChecks
from headwater.connect.runtime.herder import CONNECTORS_MAX, Running
from headwater.connect.runtime.offset_calls import OffsetCalls
from headwater.connect.runtime.refusals import (
    NOT_STOPPED,
    AlreadyExists,
    BadRequest,
    Conflict,
    Elsewhere,
    NotFound,
)
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.transactional_source import TransactionalTask, superseded

logger = logging.getLogger("headwater.connect")

_GROUP_S: Final = 60.0  # for a leader to be known
_AGAIN_S: Final = 1.0
_IDLE_S: Final = 60.0
Wish = Restart | TaskId | Context | tuple[Context, Exception]


class DistributedHerder:
    """`membership` and `leader` are set before `start`."""

    membership: Membership
    leader: Leader

    def __init__(
        self,
        worker: TransactionalWorker,
        configs: ConfigStore,
        statuses: StatusStore,
        on_refused: Callable[[KafkaError], None],
        on_logger: Callable[[str, str], None],
    ) -> None:
        self.worker = worker
        self._configs, self._statuses = configs, statuses
        self._on_refused, self._on_logger = on_refused, on_logger
        worker.permission = self
        self._offsets = OffsetCalls(worker)
        self._checks = ConfigChecks(worker, Delivery.EXACTLY_ONCE if worker.exactly_once else Delivery.AT_LEAST_ONCE)
        self._work = LocalWork(worker, self)
        self._working = threading.RLock()  # around LocalWork
        self._known = threading.Condition()  # around the next four
        self._assignment: Assignment | None = None
        self._held: Resources = frozenset()
        self._leads = False
        self._wishes: list[Wish] = []
        self.generation = -1
        self.peers_tls: ContextSource | None = None  # whom to trust where workers call each other over https://
        self.signatures = SignatureCheck(configs, lambda: self._leads)
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-herder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends what runs here, then leaves the group."""
        self._closed.set()
        self._wake.set()
        self.worker.calls.abandon()
        self._thread.join()
        with self._working:
            self._work.stop_all(self._configs.snapshot())
        self.membership.close()
        self.worker.close()

    # Looking

    def names(self) -> list[str]:
        return sorted(self._configs.snapshot().configs)

    def _state_of(self, name: str) -> ConfigState:
        state = self._configs.snapshot()
        if name not in state.configs:
            raise NotFound(f"Connector {name} not found")
        return state

    def _kind(self, config: Mapping[str, str]) -> Kind | None:
        """None: the class is not known to this worker."""
        try:
            return self.worker.catalog.connector(config.get("connector.class", "")).kind
        except ConnectError:
            return None

    def _definition(self, config: Mapping[str, str]) -> ConfigDef:
        try:
            plugin = self.worker.catalog.connector(config.get("connector.class", ""))
        except ConnectError:
            return connector_def(self.worker.catalog, Kind.SOURCE)
        return connector_def(self.worker.catalog, plugin.kind) + plugin.config_def

    def config(self, name: str) -> dict[str, str]:
        config = dict(self._state_of(name).configs[name])
        return shown(config, self._definition(config))

    def info(self, name: str) -> dict[str, Any]:
        state = self._state_of(name)
        return {
            "name": name,
            "config": self.config(name),
            "tasks": [{"connector": name, "task": each.number} for each in state.task_ids(name)],
            "type": str(self._kind(state.configs[name]) or "unknown"),
        }

    def status(self, name: str) -> dict[str, Any]:
        state, connector = self._state_of(name), self._statuses.connector(name)
        if connector is None:
            raise NotFound(f"No status found for connector {name}")
        tasks = [_shown_status(status, id=task.number) for task, status in self._statuses.tasks(name).items()]
        kind = str(self._kind(state.configs[name]) or "unknown")
        return {"name": name, "connector": _shown_status(connector), "tasks": tasks, "type": kind}

    def tasks(self, name: str) -> list[dict[str, Any]]:
        state = self._state_of(name)
        definition = self._definition(state.configs[name])
        configs = (shown(dict(each), definition) for each in state.tasks.get(name, ()))
        return [{"id": {"connector": name, "task": number}, "config": each} for number, each in enumerate(configs)]

    def task_status(self, name: str, number: int) -> dict[str, Any]:
        status = self._statuses.task(TaskId(name, number))
        if status is None:
            raise NotFound(f"No status found for task {name}-{number}")
        return _shown_status(status, id=number)

    def topics(self, name: str) -> dict[str, Any]:
        self._state_of(name)
        return {name: {"topics": self._statuses.topics(name)}}

    def reset_topics(self, name: str) -> None:
        self._state_of(name)
        self._statuses.put(*(TopicUse(topic, name) for topic in self._statuses.topics(name)))
        self._statuses.log.read_to_end(_GROUP_S)

    def running_here(self) -> tuple[list[RunningConnector], list[RunningTask]]:
        return self._work.running()

    def validated(self, config: Mapping[str, str]) -> Validation:
        return self._checks.validated(config)

    # Changing: where this worker leads

    def _require_lead(self) -> None:
        """Waits for a leader; raises Elsewhere if it is another."""
        with self._known:
            if not self._known.wait_for(lambda: self._assignment is not None or self._closed.is_set(), _GROUP_S):
                raise Conflict(REBALANCING)
            if self._assignment is None:
                raise Conflict(REBALANCING)
            if not self._leads:
                raise Elsewhere(self._assignment.leader_url)

    def create(
        self, name: str, config: Mapping[str, str], target: State = State.RUNNING, *, replace: bool = False
    ) -> bool:
        """Whether it was made; False: it was there and has this config now."""
        self._require_lead()
        with self.leader.lock:
            self.leader.claim()
            state = self._configs.refreshed()
            before = state.configs.get(name)
            if before is not None and not replace:
                raise AlreadyExists(f"Connector {name} already exists")
            if before is None and len(state.configs) >= CONNECTORS_MAX:
                raise BadRequest(f"There are {CONNECTORS_MAX} connectors already")
            given = {**kept(config, before or {}), "name": name}
            self._checks.check(given)
            kind, was = self._kind(given), self._kind(before) if before is not None else None
            if was is not None and was is not kind:
                raise BadRequest(f"Connector {name} is a {was}; it cannot become a {kind}")
            first = [TargetState(name, target)] if before is None and target is not State.RUNNING else []
            self.leader.write(*first, ConnectorConfig(name, given))
            return before is None

    def patch(self, name: str, changes: Mapping[str, str | None]) -> None:
        self._require_lead()
        with self.leader.lock:
            before = self._refreshed(name).configs[name]
            merged = {**before, **kept({key: each for key, each in changes.items() if each is not None}, before)}
            for removed in (key for key, value in changes.items() if value is None):
                merged.pop(removed, None)
            self.create(name, merged, replace=True)

    def delete(self, name: str) -> None:
        self._require_lead()
        with self.leader.lock:
            state = self._refreshed(name)
            self.leader.write(ConnectorConfig(name, None), TargetState(name, None))
            forgotten: list[StatusRecord] = [ConnectorStatus(name, None)]
            forgotten += [TaskStatus(task, None) for task in {*self._statuses.tasks(name), *state.task_ids(name)}]
            forgotten += [TopicUse(topic, name) for topic in self._statuses.topics(name)]
            self._statuses.put(*forgotten)  # before there can be another of that name

    def set_target(self, name: str, target: State) -> None:
        self._require_lead()
        with self.leader.lock:
            self._refreshed(name)
            without = [TasksCommit(name, 0)] if target is State.STOPPED else []
            self.leader.write(*without, TargetState(name, target))

    def _refreshed(self, name: str) -> ConfigState:
        self.leader.claim()
        state = self._configs.refreshed()
        if name not in state.configs:
            raise NotFound(f"Connector {name} not found")
        return state

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]:
        """The status as it is when the restart begins, with RESTARTING where something is restarted."""
        self._require_lead()
        with self.leader.lock:
            self._refreshed(name)
            plan = self.status(name)
            for each in (plan["connector"], *(plan["tasks"] if include_tasks else ())):
                if not only_failed or each["state"] == State.FAILED:
                    each["state"] = str(State.RESTARTING)
                    each.pop("trace", None)
            self.leader.write(Restart(name, include_tasks, only_failed))
        return plan

    def restart_task(self, name: str, number: int) -> None:
        task = TaskId(name, number)
        if number >= len(self._state_of(name).tasks.get(name, ())):
            raise NotFound(f"Task {name}-{number} not found")
        if task in self._held:
            self._wish(task)
            return
        self._require_lead()
        owner = self.leader.url_of(task)
        if owner is None:
            raise Conflict(REBALANCING)
        raise Elsewhere(owner)

    def tell_loggers(self, logger_name: str, level: str) -> None:
        self._require_lead()
        self.leader.write(LoggerLevel(logger_name, level))

    # Offsets

    def read_offsets(self, name: str) -> list[dict[str, Any]]:
        found = self._running(self._state_of(name), name)
        if found.plugin.kind is Kind.SOURCE:
            self.worker.store_of(found.config).refresh()
        return self._offsets.read(found)

    def alter_offsets(self, name: str, body: Any) -> str:
        return self._with_offsets(name, lambda found: self._offsets.alter(found, body))

    def reset_offsets(self, name: str) -> str:
        return self._with_offsets(name, self._offsets.reset)

    def _with_offsets(self, name: str, change: Callable[[Running], str]) -> str:
        self._require_lead()
        with self.leader.lock:
            state = self._refreshed(name)
            if state.target(name) is not State.STOPPED or state.tasks.get(name):
                raise BadRequest(NOT_STOPPED.replace("{name}", name))
            found = self._running(state, name)
            if found.plugin.kind is Kind.SOURCE:
                if self.worker.exactly_once:
                    self.leader.fence(name, always=True)
                self.worker.store_of(found.config).refresh()
            return change(found)

    def _running(self, state: ConfigState, name: str) -> Running:
        config = dict(state.configs[name])
        plugin = self.worker.catalog.connector(config.get("connector.class", ""))
        return Running(name, config, plugin, self._definition(config), state.target(name))

    # Between workers

    def put_tasks(self, name: str, tasks: list[dict[str, str]]) -> None:
        self._require_lead()
        self.leader.put_tasks(name, tasks)

    def fence(self, name: str) -> None:
        self._require_lead()
        self.leader.fence(name)

    # For the membership

    def held(self) -> Resources:
        return self._held

    def decide(self, members: Mapping[str, MemberState], leader: str) -> Mapping[str, Assignment]:
        return self.leader.decide(members, leader)

    def assigned(self, assignment: Assignment, *, leads: bool, generation: int) -> None:
        logger.info(
            "event=assigned generation=%d leads=%s assigned=%d revoked=%d delay_ms=%d",
            generation, leads, len(assignment.assigned), len(assignment.revoked), assignment.delay_ms,
        )  # fmt: skip
        with self._known:
            self._assignment, self._leads, self.generation = assignment, leads, generation
            self._held = assignment.assigned | assignment.revoked
            self._known.notify_all()
        self.leader.elected(leads)
        self._wake.set()

    def lost(self) -> None:
        with self._known:
            self._assignment, self._leads = None, False
        self.leader.elected(False)
        with self._working:
            self._work.stop_all(self._configs.snapshot())
            self._held = frozenset()

    def refused(self, error: KafkaError) -> None:
        self._on_refused(error)

    # For what runs here

    def tell(self, *records: StatusRecord) -> None:
        self._statuses.put(*records)

    def publish(self, connector: str, tasks: list[dict[str, str]]) -> None:
        with self._known:
            assignment, leads = self._assignment, self._leads
        if assignment is None:
            raise ConnectError("No leader is known")
        if leads:
            self.leader.put_tasks(connector, tasks)
        else:
            ask_leader(
                assignment.leader_url,
                "POST",
                connector,
                "tasks",
                tasks,
                self._configs.snapshot().session_key,
                self.peers_tls,
            )

    def reconfigure(self, connector: Context) -> None:
        self._wish(connector)

    def connector_failed(self, connector: Context, error: Exception) -> None:
        self._wish((connector, error))

    def before_producer(self, task: TransactionalTask) -> None:
        name = task.id.connector
        while True:
            self._check_current(task)
            if name not in self._configs.snapshot().unfenced:
                return
            try:
                with self._known:
                    assignment, leads = self._assignment, self._leads
                if assignment is not None and leads:
                    self.leader.fence(name)
                elif assignment is not None:
                    key = self._configs.snapshot().session_key
                    ask_leader(assignment.leader_url, "PUT", name, "fence", [], key, self.peers_tls)
            except (ConnectError, KafkaError) as error:
                logger.info("event=not-fenced-yet connector=%r task=%d reason=%r", *task.id, str(error)[:500])
                if task.stopping.wait(_AGAIN_S):
                    raise superseded(task) from None

    def after_producer(self, task: TransactionalTask) -> None:
        self._check_current(task)

    def _check_current(self, task: TransactionalTask) -> None:
        state = self._configs.refreshed()
        current = state.generations.get(task.id.connector) == task.generation
        if _is_over(task) or not current or task.id.connector not in state.configs:
            raise superseded(task)
        if not self.membership.is_member():
            raise ConnectError(f"The group does not know this worker any more: the task {task.id} may run elsewhere")
        if _is_over(task):  # ended meanwhile: that answer may wait for the next generation
            raise superseded(task)

    # In the herder's thread

    def news(self, commands: list[Command]) -> None:
        """By the config log's thread."""
        for each in commands:
            if isinstance(each, LoggerLevel):
                self._on_logger(each.logger, each.level)
            else:
                self._wish(each)
        self._wake.set()

    def _wish(self, wish: Wish) -> None:
        with self._known:
            self._wishes.append(wish)
        self._wake.set()

    def _run(self) -> None:
        wait_s = _IDLE_S
        while not self._closed.is_set():
            self._wake.wait(wait_s)
            self._wake.clear()
            if self._closed.is_set():
                return
            try:
                wait_s = self._step()
            except Exception:
                logger.exception("event=herder-failed")
                wait_s = _AGAIN_S

    def _step(self) -> float:
        """Brings what runs here to what it should be. When (in s) it is to be looked at again at the latest."""
        wait_s = _AGAIN_S if self._lead() else _IDLE_S
        with self._working:
            with self._known:
                assignment, generation = self._assignment, self.generation
            if assignment is None:
                return wait_s

            def goes_on() -> bool:
                with self._known:
                    is_ours = self._assignment is not None and self.generation == generation
                return is_ours and not self._closed.is_set()

            state = self._configs.snapshot()
            self._work.stop_what_is_not(assignment.assigned, state)
            with self._known:
                if self._assignment is not assignment:
                    self._wake.set()
                    return wait_s
                self._held = assignment.assigned
                wishes, self._wishes = self._wishes, []
            if assignment.revoked:
                self._assignment_done(assignment)
            try:
                self._work.start_what_is_not(assignment.assigned, state, goes_on)
                while wishes and goes_on():
                    self._grant(wishes.pop(0), state)
            finally:
                with self._known:
                    self._wishes[:0] = wishes  # of a step that has failed: they were promised
            restart_s = self._work.restart_failed(state, goes_on)
            if self._work.publish_tasks(self._configs.snapshot(), goes_on):
                wait_s = _AGAIN_S
            return wait_s if restart_s is None else min(wait_s, restart_s)

    def _assignment_done(self, assignment: Assignment) -> None:
        """What was to be given up is: the group may give it to others."""
        with self._known:
            if self._assignment is assignment:
                self._assignment = Assignment(assignment.leader, assignment.leader_url, assignment.assigned)
        self.membership.rejoin()

    def _lead(self) -> bool:
        if not self._leads:
            return False
        try:
            self.leader.claim()
            self.leader.keep_session_key()
        except (ConnectError, KafkaError) as error:
            logger.info("event=not-leading-yet reason=%r", str(error)[:500])
            return True
        if self.leader.is_out_of_date(self._configs.snapshot()):
            self.membership.rejoin()
        return False

    def _grant(self, wish: Wish, state: ConfigState) -> None:
        if isinstance(wish, Restart):
            self._work.restart(wish, state)
        elif isinstance(wish, TaskId):
            self._work.restart_task(wish, state)
        elif isinstance(wish, Context):
            self._work.reconfigure(wish)
        else:
            self._work.connector_failed(*wish)


def _is_over(task: TransactionalTask) -> bool:
    return task.stopping.is_set() or task.cancelled


def _shown_status(status: Status, **first: Any) -> dict[str, Any]:
    made = {**first, "state": str(status.state), "worker_id": status.worker_id, "version": status.version}
    made |= {"runs_on": status.runs_on} if status.runs_on is not None else {}
    return made | ({"trace": status.trace} if status.trace is not None else {})

"""What the config topic says, record by record: connectors, their targets and tasks, and which of them have to be
fenced. Pure.

A set of task configs counts when its commit comes, and only if none of it is missing: compaction, or a leader that died
while it wrote, may leave half a set (`inconsistent`), and then the connector has no tasks until it is configured anew.
Owned by who reads the topic; others get `snapshot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    Restart,
    SessionKey,
    TargetState,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from headwater.connect.runtime.task import State, TaskId

Config = Mapping[str, str]


@dataclass(slots=True)
class ConfigState:
    next_offset: int = 0  # of the config topic: everything before it is in here
    session_key: SessionKey | None = None
    configs: dict[str, Config] = field(default_factory=dict)
    targets: dict[str, State] = field(default_factory=dict)
    tasks: dict[str, tuple[Config, ...]] = field(default_factory=dict)
    targeted: dict[str, int] = field(default_factory=dict)  # how often a connector was told to run, pause or stop
    made: dict[str, int] = field(default_factory=dict)  # how often there was a new connector of this name
    generations: dict[str, int] = field(default_factory=dict)  # how many sets of tasks a connector has had
    applied: dict[str, Config] = field(default_factory=dict)  # the config for which the tasks were made
    task_counts: dict[str, int] = field(default_factory=dict)  # of the last fencing
    unfenced: set[str] = field(default_factory=set)  # new tasks since then
    inconsistent: set[str] = field(default_factory=set)
    _deferred: dict[str, dict[int, Config]] = field(default_factory=dict)

    def snapshot(self) -> "ConfigState":
        """One that does not change any more."""
        return replace(
            self,
            configs=dict(self.configs),
            targets=dict(self.targets),
            tasks=dict(self.tasks),
            targeted=dict(self.targeted),
            made=dict(self.made),
            generations=dict(self.generations),
            applied=dict(self.applied),
            task_counts=dict(self.task_counts),
            unfenced=set(self.unfenced),
            inconsistent=set(self.inconsistent),
            _deferred={},
        )

    def target(self, connector: str) -> State:
        return self.targets.get(connector, State.RUNNING)

    def task_ids(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, number) for number in range(len(self.tasks.get(connector, ())))]

    def apply(self, record: ConfigRecord) -> None:
        match record:
            case ConnectorConfig(name, None):
                self._forget(name)
            case ConnectorConfig(name, config):
                assert config is not None
                if name not in self.configs:
                    self.made[name] = self.made.get(name, 0) + 1
                self.configs[name] = config
            case TargetState(name, None):
                self.targets.pop(name, None)
            case TargetState(name, state):
                assert state is not None
                self.targets[name] = state
                self.targeted[name] = self.targeted.get(name, 0) + 1
            case TaskConfig(task, config):
                self._deferred.setdefault(task.connector, {})[task.number] = config
            case TasksCommit(name, count):
                self._commit(name, count)
            case TaskCount(name, count):
                self.task_counts[name] = count
                self.unfenced.discard(name)
            case SessionKey():
                self.session_key = record
            case Restart() | LoggerLevel():
                pass  # nothing that stays

    def _commit(self, name: str, count: int) -> None:
        deferred = self._deferred.pop(name, {})
        if name not in self.configs:
            self._forget(name)  # deleted before: what compaction left of it
            return
        if not set(range(count)) <= deferred.keys():
            self.inconsistent.add(name)
            self.tasks.pop(name, None)
            return
        self.inconsistent.discard(name)
        self.tasks[name] = tuple(deferred[number] for number in range(count))
        self.generations[name] = self.generations.get(name, 0) + 1
        self.applied[name] = self.configs[name]
        self.unfenced.add(name)

    def _forget(self, name: str) -> None:
        """The count of the last fencing stays: a connector of the same name has to fence those tasks."""
        for known in (self.configs, self.tasks, self.applied, self._deferred):
            known.pop(name, None)
        self.inconsistent.discard(name)

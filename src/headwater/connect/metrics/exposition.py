"""Prometheus text of one worker, from what it runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headwater.connect.metrics import names
from headwater.connect.metrics.names import GROUPS, RESTARTS, prometheus_name
from headwater.connect.metrics.task_metrics import Values
from headwater.connect.metrics.worker_metrics import WorkerMetrics

_COUNTED_STATES = ("running", "paused", "failed", "unassigned", "restarting")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PluginTexts:
    """What does not change while a task runs: classes and versions, by the names of `connector-task-metrics`; and
    (alias, class, version) of its transforms and predicates.
    """

    task: Mapping[str, str] = field(default_factory=dict)
    transforms: tuple[tuple[str, str, str], ...] = ()
    predicates: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RunningConnector:
    name: str
    state: str
    plugin_class: str | None
    kind: str | None
    version: str | None


@dataclass(frozen=True, slots=True)
class RunningTask:
    connector: str
    number: int
    state: str
    restarts: int
    values: Values
    plugins: PluginTexts


def exposition(worker: WorkerMetrics, connectors: Iterable[RunningConnector], tasks: Iterable[RunningTask]) -> str:
    text = _Text()
    connectors, tasks = list(connectors), list(tasks)
    counts = {"connector-count": float(len(connectors)), "task-count": float(len(tasks))}
    text.add_all(names.WORKER, (), {**counts, **worker.connectors.values("connector"), **worker.tasks.values("task")})
    if worker.rebalances is not None:
        text.add_all(names.REBALANCE, (), worker.rebalances.values())
        text.info(names.REBALANCE, (), worker.rebalances.texts)
    for connector in connectors:
        _connector(text, connector, [task for task in tasks if task.connector == connector.name])
    elsewhere = {task.connector for task in tasks} - {each.name for each in connectors}
    for name in sorted(elsewhere):
        _task_counts(text, name, [task for task in tasks if task.connector == name])
    for task in tasks:
        _task(text, task)
    return text.made()


def _connector(text: "_Text", connector: RunningConnector, tasks: list[RunningTask]) -> None:
    labels = (("connector", connector.name),)
    text.status(names.CONNECTOR, labels, connector.state)
    found = {
        "connector-class": connector.plugin_class,
        "connector-type": connector.kind,
        "connector-version": connector.version,
    }
    text.info(names.CONNECTOR, labels, {name: value for name, value in found.items() if value is not None})
    _task_counts(text, connector.name, tasks)


def _task_counts(text: "_Text", connector: str, tasks: list[RunningTask]) -> None:
    """Of the tasks on this worker, wherever the connector itself is."""
    states = [task.state.lower() for task in tasks]
    counts = {f"connector-{state}-task-count": float(states.count(state)) for state in _COUNTED_STATES}
    text.add_all(
        names.CONNECTOR_TASKS, (("connector", connector),), {"connector-total-task-count": float(len(tasks)), **counts}
    )


def _task(text: "_Text", task: RunningTask) -> None:
    labels = (("connector", task.connector), ("task", str(task.number)))
    text.status(names.TASK, labels, task.state)
    text.info(names.TASK, labels, task.plugins.task)
    for kind, plugins in (("transform", task.plugins.transforms), ("predicate", task.plugins.predicates)):
        group = names.TRANSFORM if kind == "transform" else names.PREDICATE
        for alias, plugin_class, version in plugins:
            text.info(group, (*labels, (kind, alias)), {f"{kind}-class": plugin_class, f"{kind}-version": version})
    for group, values in task.values.items():
        text.add_all(group, labels, values)
    text.add(RESTARTS, "counter", labels, task.restarts)


class _Text:
    """Lines by metric: those of one metric stand together."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add_all(self, group: str, labels: Labels, values: Mapping[str, float]) -> None:
        """Names that are not in the table are left out: a slot of another version may tell of some."""
        known = GROUPS[group]
        for name in (*known.gauges, *known.counters):
            value = values.get(name)
            if value is not None:
                self.add(prometheus_name(group, name), "gauge" if name in known.gauges else "counter", labels, value)

    def status(self, group: str, labels: Labels, state: str) -> None:
        self.add(f"{GROUPS[group].prefix}_status", "gauge", (*labels, ("status", state.lower())), 1)

    def info(self, group: str, labels: Labels, texts: Mapping[str, str]) -> None:
        known = GROUPS[group].texts
        more = tuple((name.replace("-", "_"), texts[name]) for name in known if name in texts)
        if more:
            self.add(f"{GROUPS[group].prefix}_info", "gauge", (*labels, *more), 1)

    def add(self, name: str, kind: str, labels: Labels, value: float) -> None:
        lines = self._lines.setdefault(name, [f"# TYPE {name} {kind}"])
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        number = int(value) if float(value).is_integer() else value
        lines.append(f"{name}{{{shown}}} {number}" if shown else f"{name} {number}")

    def made(self) -> str:
        return "\n".join(self._all()) + "\n"

    def _all(self) -> Iterator[str]:
        for lines in self._lines.values():
            yield from lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""What a slot needs of an application to run its tasks: the plan without the DSL that made it. It travels to other
processes, pickled.

`prepare` makes it, together with the topics that the application needs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.streams.engine.failures import dead_letter_topic
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.plan.sources import EARLIEST, RESET_SETTING
from headwater.streams.slot.changelogs import changelogs_of
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.upgrade_check import check_upgrade
from headwater.streams.stores.combined_state import check_installed
from headwater.streams.topics.internal import (
    ensure_exists,
    ensure_frame_inputs,
    ensure_frame_outputs,
    ensure_topics,
    partitions_of,
)
from headwater.streams.topics.patterns import topics_of_patterns, with_topics_named
from headwater.streams.topics.plan import TopicPlan, external_topics, partitioned_outputs, plan_topics
from headwater.streams.topology.topology import SubTopology

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    sub_topologies: list[SubTopology]
    topics: TopicPlan
    task_settings: TaskSettings
    settings: RunSettings
    partitioned_outputs: frozenset[str]
    reset: str = EARLIEST
    """Where inputs begin that have no committed offset, and no word of their own about it."""

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return [f"{sub}_{partition}" for sub, count in self.topics.tasks.items() for partition in range(count)]

    @property
    def stateful_tasks(self) -> list[str]:
        """Those whose state is restored from changelogs."""
        stateful = {plan.number for plan in self.sub_topologies if changelogs_of(plan, 0, self.name)}
        return [task for task in self.tasks if int(task.partition("_")[0]) in stateful]

    def state_directory(self, cluster_id: str | None) -> Path:
        """Of all tasks of the application on this machine; each has a directory in it."""
        return self.settings.state_dir / self.name / (cluster_id or "cluster")


def prepare(app: "App", settings: RunSettings) -> Program:
    """Makes the internal topics that are missing. Raises UserError where topics of users are."""
    topology = app.topology()
    check_installed({plan.spec.lies_in(app.store_type) for plan in topology.stores.values()})
    with Admin(settings.for_admins) as admin:
        ensure_frame_inputs(admin, topology)
        of_patterns: set[str] = set()
        if any(source.pattern is not None for source in topology.sources()):
            names = [topic.name for topic in admin.list_topics()]
            of_patterns = topics_of_patterns(topology, app.name, names)
            topology = with_topics_named(topology, app.name, names)
        known = partitions_of(admin, external_topics(topology))
        topics = plan_topics(app.name, topology, known, app.internal_topics)
        topics.of_patterns = of_patterns
        state = settings.state_dir / app.name / (admin.describe_cluster().cluster_id or "cluster")
        with_patterns = app.topology()  # what matches them may change
        check_upgrade(
            admin,
            lambda: RangeReader({**settings.for_consumers, "isolation.level": "read_committed"}),
            app.name,
            with_patterns,
            state,
            allowed=settings.allow_state_loss,
        )
        ensure_topics(admin, topics.internal)
        ensure_frame_outputs(admin, topics.frames)
        if app.errors.writes_dead_letters:
            ensure_exists(admin, dead_letter_topic(app.errors, app.name))
        if app.late_records_to is not None:
            ensure_exists(admin, app.late_records_to)
    outputs = frozenset(partitioned_outputs(topology))
    cache = app.cache_max_bytes if settings.cache_max_bytes is None else settings.cache_max_bytes
    task_settings = app.settings(emit_interval_ms=settings.emit_interval_ms, cache_max_bytes=cache)
    reset = settings.client.get(RESET_SETTING, app.config.get(RESET_SETTING))
    return Program(app.name, topology.sub_topologies(), topics, task_settings, settings, outputs, reset or EARLIEST)

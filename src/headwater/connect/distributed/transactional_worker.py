"""The worker of a group: its source tasks write records and offsets in one transaction, where that is enabled."""

from typing import Any

from headwater.client import Producer
from headwater.connect.config.distributed import says_enabled
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.stores import KafkaOffsetStore
from headwater.connect.plugins import Catalog
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.transactional_source import ExactlyOnceSourceTask, Permission
from headwater.connect.runtime.worker import Worker


def transactional_id(group: str, task: TaskId) -> str:
    return f"{group}-{task.connector}-{task.number}"


class FollowingSourceTask(SourceWorkerTask):
    """At least once; goes on where the worker that ran it before has got to."""

    def __init__(self, store: KafkaOffsetStore, task_id: TaskId, *arguments: Any, **keywords: Any) -> None:
        super().__init__(task_id, *arguments, **keywords)
        self._store = store

    def _begin(self, producer: Producer) -> None:
        del producer
        self._store.refresh()


class TransactionalWorker(Worker):
    """`permission` and `generations` are set by the herder: the latter says for which set of a connector's tasks each is."""

    permission: Permission

    def __init__(self, config: WorkerConfig, store: KafkaOffsetStore, catalog: Catalog | None = None) -> None:
        super().__init__(config, store, catalog)
        self.offset_store = store
        self.group: str = config["group.id"]
        self.exactly_once = says_enabled(config)
        self.generations: dict[TaskId, int] = {}

    def source_task(self, task_id: TaskId, *arguments: Any, **keywords: Any) -> SourceWorkerTask:
        if not self.exactly_once:
            return FollowingSourceTask(self.offset_store, task_id, *arguments, **keywords)
        return ExactlyOnceSourceTask(
            task_id,
            *arguments,
            transactional_id=transactional_id(self.group, task_id),
            offsets_topic=self.offset_store.topic,
            permission=self.permission,
            generation=self.generations[task_id],
            **keywords,
        )

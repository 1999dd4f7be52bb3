"""The worker of a group: its source tasks write records and offsets in one transaction, where that is enabled."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from headwater.base.errors import UserError
from headwater.client import Admin, Producer
from headwater.connect.config.distributed import says_enabled, topic_settings
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.stores import ConnectorOffsetStore, KafkaOffsetStore
from headwater.connect.distributed.topic_log import Settings, ensure_topic
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog
from headwater.connect.runtime.offsets import ConnectorOffsets
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.transactional_source import ExactlyOnceSourceTask, Permission
from headwater.connect.runtime.worker import Worker


def transactional_id(group: str, task: TaskId) -> str:
    return f"{group}-{task.connector}-{task.number}"


def stores_of_connectors(
    config: WorkerConfig, consumer: Settings, producer: Producer, admin: Admin, opened: Callable[[Any], Any]
) -> Callable[[str], KafkaOffsetStore]:
    """Opens topics of connectors' own offsets: as large as the worker's, with its settings. `opened` is told what is to
    be closed in the end.
    """

    def open_topic(topic: str) -> KafkaOffsetStore:
        partitions, replicas = config["offset.storage.partitions"], config["offset.storage.replication.factor"]
        try:
            ensure_topic(admin, topic, partitions, replicas, topic_settings(config, "offset"))
        except UserError as error:
            raise ConnectError(str(error)) from None
        made = KafkaOffsetStore(topic, consumer, producer, admin)
        try:
            made.start()
        except BaseException:
            made.close()
            raise
        opened(made)
        return made

    return open_topic


class FollowingSourceTask(SourceWorkerTask):
    """At least once; goes on where the worker that ran it before has got to."""

    def __init__(
        self, store: KafkaOffsetStore | ConnectorOffsetStore, task_id: TaskId, *arguments: Any, **keywords: Any
    ) -> None:
        super().__init__(task_id, *arguments, **keywords)
        self._store = store

    def _begin(self, producer: Producer) -> None:
        del producer
        self._store.refresh()


class TransactionalWorker(Worker):
    """`permission` is set by the herder."""

    permission: Permission

    def __init__(
        self,
        config: WorkerConfig,
        store: KafkaOffsetStore,
        catalog: Catalog | None = None,
        open_store: Callable[[str], KafkaOffsetStore] | None = None,
    ) -> None:
        super().__init__(config, store, catalog)
        self._open_store = open_store
        self._own_stores: dict[str, ConnectorOffsetStore] = {}  # by topic; several connectors may name one
        self._opening = threading.Lock()
        self.offset_store = store
        self.group: str = config["group.id"]
        self.exactly_once = says_enabled(config)

    def store_of(self, props: Mapping[str, str]) -> KafkaOffsetStore | ConnectorOffsetStore:
        """Where a connector's offsets are: in `offsets.storage.topic` of its own, made and read by who first reads it,
        not here.
        """
        topic = props.get("offsets.storage.topic", "").strip()
        if not topic or topic == self.offset_store.topic:
            return self.offset_store
        with self._opening:
            if topic not in self._own_stores:
                assert self._open_store is not None, "workers of a group can open topics"
                self._own_stores[topic] = ConnectorOffsetStore(topic, self._open_store, self.offset_store)
            return self._own_stores[topic]

    def offsets_of(self, connector: str, props: Mapping[str, str]) -> ConnectorOffsets:
        return ConnectorOffsets(self.store_of(props), connector)

    def source_task(self, task_id: TaskId, *arguments: Any, **keywords: Any) -> SourceWorkerTask:
        props: Mapping[str, str] = arguments[2]
        store = self.store_of(props)
        if not self.exactly_once:
            return FollowingSourceTask(store, task_id, *arguments, **keywords)
        return ExactlyOnceSourceTask(
            task_id,
            *arguments,
            transactional_id=transactional_id(self.group, task_id),
            store=store,
            permission=self.permission,
            generation=self.generations[task_id],
            **keywords,
        )

"""A slot of a worker of a group: what the worker's tasks need, in the slot's own process.

Source offsets are read from their topic, which is followed from the first task on that needs it; statuses, fencing and
the group stay the worker's. Tasks write with the transactional ids that they would have in the worker.
"""

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

from headwater.client import Admin, Producer
from headwater.connect.config.distributed import distributed_config
from headwater.connect.config.providers import Providers
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.stores import READ_S, KafkaOffsetStore
from headwater.connect.distributed.topic_log import Settings, TopicLog
from headwater.connect.distributed.transactional_worker import TransactionalWorker, stores_of_connectors
from headwater.connect.runtime.task import TaskId, WorkerTask
from headwater.connect.runtime.transactional_source import Permission, TransactionalTask
from headwater.connect.slots.slot_host import Ask, run_in_slot
from headwater.connect.slots.slot_task import SlotTask
from headwater.connect.slots.task_messages import Begin, Serve
from headwater.connect.slots.task_slots import Answerer


class RemotePermission:
    """Of one run: the worker says whether its task may write."""

    def __init__(self, run: int, ask: Ask) -> None:
        self._run, self._ask = run, ask

    def before_producer(self, task: TransactionalTask) -> None:
        del task
        self._ask(self._run, "before_producer")

    def after_producer(self, task: TransactionalTask) -> None:
        del task
        self._ask(self._run, "after_producer")


def permission_answers(permission: Permission) -> dict[str, Answerer]:
    """The worker's side of `RemotePermission`."""

    def before_producer(task: SlotTask, _run: int, _arguments: list[Any]) -> list[Any]:
        permission.before_producer(task)
        return []

    def after_producer(task: SlotTask, _run: int, _arguments: list[Any]) -> list[Any]:
        permission.after_producer(task)
        return []

    return {"before_producer": before_producer, "after_producer": after_producer}


class FollowedOffsetStore(KafkaOffsetStore):
    """Read from its beginning by the first that refreshes it."""

    def __init__(self, topic: str, consumer: Settings, producer: Producer, admin: Admin) -> None:
        super().__init__(topic, consumer, producer, admin)
        self._make_log = functools.partial(TopicLog, topic, consumer, admin, self._take)
        self._starting = threading.Lock()
        self._started = False

    def refresh(self) -> None:
        with self._starting:
            if not self._started:
                self._start()
                return
        super().refresh()

    def _start(self) -> None:
        try:
            self.log.start(READ_S)
        except BaseException:
            self.log.close()
            self.log = self._make_log()  # the next one begins anew
            raise
        self._started = True


class DistributedSlot:
    def __init__(self, serve: Serve, ask: Ask) -> None:
        config = distributed_config(serve.props)
        providers = Providers(config.props)

        def settings(kind: str) -> dict[str, str]:
            return providers.resolved(config.client(kind, {}))

        self._closing: list[Any] = []
        self._ask, self._making = ask, threading.Lock()
        with contextlib.ExitStack() as opened:  # each task that begins here tries again where this fails
            opened.callback(self.close)
            self.worker = self._made(config, settings)
            opened.pop_all()

    def _made(self, config: WorkerConfig, settings: Callable[[str], dict[str, str]]) -> TransactionalWorker:
        admin = self._opened(Admin(settings("admin")))
        producer = self._opened(Producer({**settings("producer"), "acks": "all"}))
        consumer = settings("consumer")
        offsets = self._opened(FollowedOffsetStore(config["offset.storage.topic"], consumer, producer, admin))
        own = stores_of_connectors(config, consumer, producer, admin, self._opened)
        return TransactionalWorker(config, offsets, None, own)

    def _opened(self, made: Any) -> Any:
        self._closing.append(made)
        return made

    def task(self, begin: Begin, make: Callable[[], WorkerTask]) -> WorkerTask:
        with self._making:
            self.worker.permission = RemotePermission(begin.run, self._ask)
            self.worker.generations[TaskId(begin.connector, begin.number)] = begin.generation
            made = make()
        made.worker_spark = None  # the session is in the worker's process
        return made

    def close(self) -> None:
        for each in reversed(self._closing):
            each.close()


def run_slot(number: int, address: tuple[str, int], secret: bytes) -> int:
    """What Spark's tasks run."""
    return run_in_slot(number, address, secret, DistributedSlot)

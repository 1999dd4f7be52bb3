"""A slot of a worker alone: source offsets are in the worker's file, and are asked for over the connection."""

import base64
import threading
from collections.abc import Callable, Mapping
from typing import Any

from headwater.connect.config.worker import WorkerConfig
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore, OffsetStore
from headwater.connect.runtime.task import WorkerTask
from headwater.connect.runtime.worker import Worker
from headwater.connect.slots.slot_host import Ask, run_in_slot
from headwater.connect.slots.slot_task import SlotTask
from headwater.connect.slots.task_messages import Begin, Serve
from headwater.connect.slots.task_slots import Answerer


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class RemoteOffsetStore:
    """The worker's store, seen from one run of a task: a run that the worker has given up writes nothing."""

    def __init__(self, run: int, ask: Ask) -> None:
        self._run, self._ask = run, ask

    def get(self, key: bytes) -> bytes | None:
        (found,) = self._ask(self._run, "get_offset", _text(key))
        return _data(found)

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        self._ask(self._run, "set_offsets", [[_text(key), _text(value)] for key, value in changes.items()])

    def all(self) -> dict[bytes, bytes]:
        rows = self._ask(self._run, "all_offsets")
        return {base64.b64decode(key): base64.b64decode(value) for key, value in rows}


def offset_answers(store: OffsetStore) -> dict[str, Answerer]:
    """The worker's side of `RemoteOffsetStore`. Answers are given in threads of their own: a write may be late, and is
    left out if its run is over by then, for another may have gone on, or a user may have set offsets.
    """

    def get_offset(task: SlotTask, run: int, arguments: list[Any]) -> list[Any]:
        del task, run
        return [_text(store.get(base64.b64decode(arguments[0])))]

    def set_offsets(task: SlotTask, run: int, arguments: list[Any]) -> list[Any]:
        changes = {base64.b64decode(key): _data(value) for key, value in arguments[0]}
        task.commit(run, lambda: store.set(changes))
        return []

    def all_offsets(task: SlotTask, run: int, arguments: list[Any]) -> list[Any]:
        del task, run, arguments
        return [[_text(key), _text(value)] for key, value in store.all().items()]

    return {"get_offset": get_offset, "set_offsets": set_offsets, "all_offsets": all_offsets}


class _Worker(Worker):
    run_store: OffsetStore

    def offsets_of(self, connector: str, props: Mapping[str, str]) -> ConnectorOffsets:
        del props
        return ConnectorOffsets(self.run_store, connector)


class StandaloneSlot:
    def __init__(self, serve: Serve, ask: Ask) -> None:
        self.worker = _Worker(WorkerConfig(serve.props), MemoryOffsetStore())
        self._ask, self._making = ask, threading.Lock()

    def task(self, begin: Begin, make: Callable[[], WorkerTask]) -> WorkerTask:
        with self._making:
            self.worker.run_store = RemoteOffsetStore(begin.run, self._ask)
            made = make()
        made.worker_spark = None  # the session is in the worker's process
        return made

    def close(self) -> None:
        """Tasks have clients of their own, and nothing else is open."""


def run_slot(number: int, address: tuple[str, int], secret: bytes) -> int:
    """What Spark's tasks run."""
    return run_in_slot(number, address, secret, StandaloneSlot)

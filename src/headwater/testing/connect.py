"""A test kit for connectors of one's own: a source or sink alone in memory, or in a worker against an embedded broker.

    source = SourceKit(NumbersConnector, {"topic": "t"})
    assert [record.value for record in source.poll()] == [1, 2, 3]
    source.commit()                       # what was polled has arrived
    source.restart()                      # a new task, which goes on where the last commit was

    sink = SinkKit(TableConnector, {"table": "t"})
    sink.put("value", key="k")
    assert sink.commit() == 1             # the offset that the task allowed

    with Broker() as broker, ConnectWorker(broker.bootstrap_servers, {"Numbers": NumbersConnector}) as worker:
        worker.create("n", {"connector.class": "Numbers", "topic": "t"})
        worker.until(lambda: worker.status("n")["tasks"][0]["state"] == "RUNNING")

Faults are the test's own: `source.crash()` and `sink.crash()` lose the task without `stop`, and what was not committed
comes again; a broker is killed and started; a `put` that must fail is made to by the sink's own target.
"""

import asyncio
import inspect
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.connect.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.data.record import SinkRecord, SourceRecord
from headwater.connect.data.schema import Schema
from headwater.connect.plugins import Catalog, connector_plugin
from headwater.connect.runtime.herder import StandaloneHerder
from headwater.connect.runtime.offsets import ConnectorOffsets, FileOffsetStore, MemoryOffsetStore
from headwater.connect.runtime.worker import Worker

_PATIENCE_S: Final = 60.0
_NAME: Final = "kit"


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    result = function(*arguments)
    if not inspect.isawaitable(result):
        return result

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited())


class _Context:
    stopping = False
    transaction_context = None

    def __init__(self, offsets: ConnectorOffsets, config: Mapping[str, str], spark: Any) -> None:
        self.offset_reader, self.config, self._spark = offsets, config, spark

    def request_commit(self) -> None: ...

    def spark(self) -> Any:
        assert self._spark is not None, "SourceKit(..., spark=session) gives the task its Spark session"
        return self._spark


class SourceKit:
    """One source connector with its first task, and offsets in memory. `spark`: the session of a connector that asks
    for one.
    """

    def __init__(self, connector: type[SourceConnector], config: Mapping[str, str], *, spark: Any = None) -> None:
        self._spark = spark
        self.connector = connector()
        _call(self.connector.start, {"name": _NAME, **config})
        self.task_configs = self.connector.task_configs(int(config.get("tasks.max", "1")))
        self.offsets = ConnectorOffsets(MemoryOffsetStore(), _NAME)
        self._polled: list[SourceRecord] = []
        self._start()

    def _start(self) -> None:
        self.task: SourceTask = self.connector.task_class()
        self.task.context = _Context(self.offsets, self.task_configs[0], self._spark)
        _call(self.task.start, self.task_configs[0])

    def poll(self) -> list[SourceRecord]:
        found: list[SourceRecord] = list(_call(self.task.poll) or ())
        self._polled += found
        return found

    def commit(self) -> None:
        """All that was polled is in Kafka, and its offsets are safe."""
        polled, self._polled = self._polled, []
        for record in polled:
            _call(self.task.commit_record, record, None)
            if record.source_partition is not None and record.source_offset is not None:
                self.offsets.write([(record.source_partition, record.source_offset)])
        _call(self.task.commit)

    def crash(self) -> None:
        """A new task without a word to the old one; what was not committed comes again."""
        self._polled = []
        self._start()

    def restart(self) -> None:
        self.close()
        self._polled = []
        self._start()

    def close(self) -> None:
        _call(self.task.stop)
        _call(self.task.close)


class _SinkContext:
    def __init__(self, kit: "SinkKit", config: Mapping[str, str]) -> None:
        self._kit, self.config = kit, config
        self.timeout_ms: int | None = None
        self.commit_requested = False

    def assignment(self) -> set[TopicPartition]:
        return {self._kit.partition}

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._kit.next_offset = offsets[self._kit.partition]

    def timeout(self, milliseconds: int) -> None:
        self.timeout_ms = milliseconds

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        self.commit_requested = True

    def report(self, record: SinkRecord, error: Exception) -> None:
        self._kit.reported.append((record, error))

    def flush_reports(self) -> None: ...


class SinkKit:
    """One sink connector with its first task and one partition. `reported` are the records that it gave up."""

    def __init__(self, connector: type[SinkConnector], config: Mapping[str, str], *, topic: str = "t") -> None:
        self.connector = connector()
        _call(self.connector.start, {"name": _NAME, **config})
        self.task_config = self.connector.task_configs(1)[0]
        self.partition = TopicPartition(topic, 0)
        self.next_offset = 0
        self._committed = 0
        self.reported: list[tuple[SinkRecord, Exception]] = []
        self._start()

    def _start(self) -> None:
        self.task: SinkTask = self.connector.task_class()
        self.context = self.task.context = _SinkContext(self, self.task_config)
        _call(self.task.start, self.task_config)
        _call(self.task.open, [self.partition])

    def record(
        self, value: Any, *, schema: Schema | None = None, key: Any = None, key_schema: Schema | None = None
    ) -> SinkRecord:
        made = SinkRecord(
            topic=self.partition.topic,
            partition=0,
            key_schema=key_schema,
            key=key,
            value_schema=schema,
            value=value,
            offset=self.next_offset,
        )
        self.next_offset += 1
        return made

    def put(self, *values: Any, key: Any = None) -> None:
        """Values, or records made by `record`."""
        _call(self.task.put, [each if isinstance(each, SinkRecord) else self.record(each, key=key) for each in values])

    def commit(self) -> int | None:
        """The offset that may be committed; None: nothing may be."""
        allowed: Mapping[TopicPartition, int] = _call(self.task.pre_commit, {self.partition: self.next_offset})
        found = allowed.get(self.partition)
        self._committed = self._committed if found is None else found
        return found

    def crash(self) -> None:
        """A new task without a word to the old one. The next record has the offset of the last commit, or the one that
        the task asks for.
        """
        self.next_offset = self._committed
        self._start()

    def restart(self) -> None:
        self.close()
        self.next_offset = self._committed
        self._start()

    def close(self) -> None:
        _call(self.task.close, [self.partition])
        _call(self.task.stop)


class ConnectWorker:
    """A standalone worker in this process, without its REST door. `plugins` are connectors by short name."""

    def __init__(
        self,
        bootstrap_servers: str,
        plugins: Mapping[str, type[SourceConnector] | type[SinkConnector]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headwater-connect-")
        file = str(Path(self._folder.name, "offsets"))
        given = {
            "bootstrap.servers": bootstrap_servers,
            "key.converter": "StringConverter",
            "value.converter": "StringConverter",
            "offset.flush.interval.ms": "200",
            "task.shutdown.graceful.timeout.ms": "30000",
            "offset.storage.file.filename": file,
            **(settings or {}),
        }
        catalog = Catalog()
        for name, connector in (plugins or {}).items():
            catalog.add(*connector_plugin(connector, name))
        config = WorkerConfig(given)
        self.herder = StandaloneHerder(Worker(config, FileOffsetStore(config["offset.storage.file.filename"]), catalog))

    def create(self, name: str, config: Mapping[str, str]) -> None:
        self.herder.create(name, config)

    def status(self, name: str) -> dict[str, Any]:
        return self.herder.status(name)

    def until(self, condition: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
        """Waits for what a test expects, and fails if it does not come."""
        pause = threading.Event()
        deadline = time.monotonic() + patience_s
        while not condition():
            assert time.monotonic() < deadline, "what the test waits for did not come"
            pause.wait(0.02)

    def close(self) -> None:
        self.herder.close()
        self._folder.cleanup()

    def __enter__(self) -> "ConnectWorker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

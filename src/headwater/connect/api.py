"""What one writes to make a connector: a connector class, a task class, and the contexts they are given.

A method may be a coroutine function: the task's thread runs it. The order of a task's life: `start`, then `poll` (a
source) or `open` and `put` (a sink) again and again, then `stop`; all in one thread. Only `stop` of a source task may
come while `poll` waits, from another thread.

    class Numbers(SourceConnector):
        config_def = ConfigDef(text("topic", REQUIRED, HIGH, "Where numbers go."))
        task_class = NumbersTask

    class NumbersTask(SourceTask):
        def start(self, props): ...
        def poll(self): return [SourceRecord(topic=..., value=1, source_partition={}, source_offset={"next": 1})]
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from headwater._version import VERSION
from headwater.base.ids import TopicPartition
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.data.record import SinkRecord, SourceRecord

Offsets = Mapping[TopicPartition, int]  # the next offset to read of each partition
SourceOffsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


class OffsetReader(Protocol):
    """Where a source has got to, as committed offsets tell."""

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None: ...

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]: ...

    def all(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Every partition that has an offset, with it. Java's reader has no such question."""


class ConnectorContext(Protocol):
    def request_task_reconfiguration(self) -> None:
        """The tasks are to be configured anew: `task_configs` will be asked."""

    def raise_error(self, error: Exception) -> None:
        """The connector has failed, in a thread of its own."""


class TransactionContext(Protocol):
    """Where transactions end, for a source that says so itself (`transaction.boundary=connector`). Records of a
    transaction that was aborted are not seen by readers of committed records, but their offsets count: they do not come
    again.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """After this record; without one, after what the current `poll` returns."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class SourceTaskContext(Protocol):
    @property
    def transaction_context(self) -> TransactionContext | None:
        """None unless the source sets the boundaries of transactions."""

    @property
    def offset_reader(self) -> OffsetReader: ...

    @property
    def config(self) -> Mapping[str, str]: ...

    @property
    def stopping(self) -> bool: ...

    def request_commit(self) -> None:
        """Offsets are to be written soon, of what has been given so far; `commit` tells when."""

    def spark(self) -> Any:
        """The worker's SparkSession. It begins with the first that asks, which takes seconds."""


class SinkTaskContext(Protocol):
    @property
    def config(self) -> Mapping[str, str]: ...

    def assignment(self) -> set[TopicPartition]: ...

    def offset(self, offsets: Offsets) -> None:
        """Go back (or on) to these offsets before the next `put`."""

    def timeout(self, milliseconds: int) -> None:
        """How long to wait before a `put` that raised `RetriableError` is repeated."""

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None: ...

    def report(self, record: SinkRecord, error: Exception) -> None:
        """A record that cannot be taken: to the dead letter topic and the log, or raised, by `errors.tolerance`."""

    def flush_reports(self) -> None:
        """What was reported is safe when this returns, or it raises. For a sink that keeps offsets in its target:
        before it writes them.
        """


class _Connector:
    """Both kinds. `props` are texts, references to secrets resolved."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = VERSION
    aliases: ClassVar[tuple[str, ...]] = ()  # other names of the class, Java's among them
    doc: ClassVar[str] = ""
    needs_spark: ClassVar[bool] = (
        False  # its tasks ask for the worker's Spark session, and stay in the worker's process
    )
    context: ConnectorContext
    props: Mapping[str, str]
    spark: Callable[[], Any]  # the worker's Spark session, for a connector that needs it when its offsets are set

    def start(self, props: Mapping[str, str]) -> Any:
        self.props = props

    def stop(self) -> Any:
        """Ends what `start` began."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """A config per task, at most `max_tasks`. As it stands: one task with the connector's own config."""
        del max_tasks
        return [dict(self.props)]

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        """Checks of several properties together: errors are added to what `config_def` found."""


class SourceConnector(_Connector):
    """`exactly_once`: whether a task that goes on from its committed offsets gives each record once, and neither misses
    any.
    """

    task_class: "ClassVar[type[SourceTask]]"
    exactly_once: ClassVar[bool] = True
    sets_transaction_boundaries: ClassVar[bool] = False
    # A property without which it reads the worker's stdin, which workers of a group do not share.
    stdin_without: ClassVar[str | None] = None

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        """Checks offsets that somebody wants to set (None: delete); raises ConnectError if they make no sense.
        True: they are known to be good."""
        del props, offsets
        return False


class SinkConnector(_Connector):
    task_class: "ClassVar[type[SinkTask]]"

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        del props, offsets
        return False

    def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
        """All offsets are to be forgotten; `known` are the partitions of which the group has one."""
        return self.alter_offsets(props, dict.fromkeys(known))


class SourceTask:
    context: SourceTaskContext

    def start(self, props: Mapping[str, str]) -> Any:
        """Begins; `context.offset_reader` knows where the last run ended."""

    def poll(self) -> Any:
        """The next records (a list, any iterable, or a `SourceRun`, which is cheaper), or None if there are none now.
        It may wait, but not for long."""
        raise NotImplementedError

    def commit(self) -> Any:
        """Offsets were written: of each source partition the newest one behind which every record is in Kafka."""

    def commit_record(self, record: SourceRecord, metadata: Any) -> Any:
        """One record is in Kafka (`metadata`), or was dropped by a transform or as an error (None)."""

    def stop(self) -> Any:
        """Ends; a `poll` that waits is to return. The one method that another thread may call."""

    def close(self) -> Any:
        """Lets go of what `start` and `poll` opened; by the task's own thread, after its last poll."""


class SinkTask:
    context: SinkTaskContext
    # Whether `put` looks at the values of a `SinkRun` as Arrow's columns (`ArrowColumn`):
    # asked when `start` has returned.
    takes_columns: bool = False

    def start(self, props: Mapping[str, str]) -> Any: ...

    def open(self, partitions: Sequence[TopicPartition]) -> Any:
        """These partitions are this task's from now on."""

    def put(self, records: Sequence[SinkRecord]) -> Any:
        """Takes records, maybe into a buffer: a list, or a `SinkRun`, which has their values as columns too.
        `RetriableError`: the same records come again a little later."""
        raise NotImplementedError

    def flush(self, offsets: Offsets) -> Any:
        """Whatever was put is to be safe when this returns. `RetriableError`: what was put since the last commit comes
        again."""

    def pre_commit(self, offsets: Offsets) -> Any:
        """The offsets that may be committed; fewer, if less is safe. As it stands: flushes, and gives all."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> Any:
        """These partitions are another's from now on."""

    def stop(self) -> Any: ...


class SparkSinkTask(SinkTask):
    """A sink that gets whole batches as data frames: the worker runs a streaming query of Spark's in which converters
    and transforms are a step, and calls `write` on the driver, batch by batch. A batch that is not through comes again
    with the same number and the same records. `start` and `stop` frame it; nothing else of a `SinkTask` is called.
    """

    def prepare(self, spark: Any) -> Any:
        """Before each start of the query, with the worker's session: also behind a pause, and by another worker."""

    def begin(self, spark: Any, ends: Callable[[], Offsets]) -> Any:
        """As `prepare`, of a sink that is to begin behind what is there already (`auto.offset.reset=latest`): a
        checkpoint without a batch should get these ends of the partitions. Spark keeps nothing of where the first batch
        begins, and would begin at later ends when it tries that again.
        """

    def write(self, frame: Any, batch_id: int) -> Any:
        """`frame` has the fields of the values as columns, or the column `value`."""
        raise NotImplementedError

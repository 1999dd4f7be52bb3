"""`format("headwater-sqlite")` and `format("headwater-postgres")`: what Spark asks of a writer, answered by a store.

Spark makes the writer on the driver before each batch and sends it to the tasks; `commit` and `abort` run on the driver
in another process, with another writer; a task that failed has None for its message.
"""

import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headwater.base.errors import UserError
from headwater.spark.sinks.options import parse_postgres_options, parse_sqlite_options
from headwater.spark.sinks.staging import Attempt, Batch, Store, commit_batch, write_task

if TYPE_CHECKING:
    import pyarrow

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class Message(WriterCommitMessage):
    """From a task to the driver."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt


def _write(store: Store, rows: Iterator["pyarrow.RecordBatch"]) -> Message:
    context = TaskContext.get()
    assert context is not None, "rows are written in tasks"
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    batch = None if query_id is None or batch_id is None else Batch(query_id, int(batch_id))
    return Message(write_task(store, batch, uuid4().hex, socket.gethostname(), rows))


def _attempts(messages: Sequence[WriterCommitMessage | None]) -> list[Attempt]:
    return [message.attempt for message in messages if isinstance(message, Message)]


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Message:
        return _write(self._store, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_batch(self._store, _attempts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._store.discard(_attempts(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> Message:
        return _write(self._store, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        attempts = _attempts(messages)
        assert all(each.batch is not None and each.batch.batch_id == batchId for each in attempts), (
            "tasks know the batch"
        )
        commit_batch(self._store, attempts)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._store.discard(_attempts(messages))


class _SinkDataSource(DataSource):
    def store(self, schema: StructType) -> Store:
        raise NotImplementedError

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(self._prepared(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(self._prepared(schema, overwrite))

    def _prepared(self, schema: StructType, overwrite: bool) -> Store:
        if overwrite:
            raise UserError(
                f"{self.name()} does not overwrite a table",
                'mode("overwrite") or the output mode complete was asked for',
                "Use append; with the option keys, rows replace those with equal keys",
            )
        store = self.store(schema)
        store.prepare()
        return store


class SqliteDataSource(_SinkDataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater-sqlite"

    def store(self, schema: StructType) -> Store:
        from headwater.spark.sinks.sqlite import SqliteStore

        return SqliteStore(parse_sqlite_options(self.options, schema))


class PostgresDataSource(_SinkDataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater-postgres"

    def store(self, schema: StructType) -> Store:
        from headwater.spark.sinks.postgres import PostgresStore

        return PostgresStore(parse_postgres_options(self.options, schema))

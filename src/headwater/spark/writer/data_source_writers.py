"""The stream writer as Spark sees it: tasks that write and report, a driver that commits their reports.

Spark makes it anew on the driver before each batch, in each task, and for each commit, so it holds options only. The
query and the batch come from the task's context, and with the reports to the driver.
"""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headwater.base.errors import KafkaError, UserError
from headwater.client.producer.producer import Producer
from headwater.spark.exactly_once import Report, abort_steps, commit_steps, task_steps
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.protocol_driver import ABORT_PATIENCE_S, ProtocolDriver
from headwater.spark.writer.rows import send_rows
from headwater.spark.writer.sink_clients import SinkClients, cached_clients

if TYPE_CHECKING:
    import pyarrow

    from headwater.client.producer.arrow import TableDelivery


class TaskReport(WriterCommitMessage):
    def __init__(self, query: str, report: Report | None) -> None:
        self.query = query
        self.report = report


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        query, run, batch, task = _place()
        rows = encoded_rows(self._options, iterator)
        driver = ProtocolDriver(self._options, query, cached_clients(self._options), rows, run_id=run)
        report: Report | None = None
        try:
            report = driver.run(task_steps(batch, task))
            for _ in iterator:  # a task that had nothing to write leaves nothing behind in its input, either
                pass
        except BaseException:
            if report is not None:  # its transaction waits for a driver that never hears of it
                _abort(self._options, query, [report])
            raise
        finally:
            driver.close()
        return TaskReport(query, report)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        reports = [message.report for message in messages]
        if not reports:
            return
        driver = ProtocolDriver(self._options, messages[0].query, cached_clients(self._options))
        try:
            driver.run(commit_steps(batchId, reports))
        finally:
            driver.close()

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803
        """After a task or the commit has failed: there is no message of tasks that did. What they opened they have
        aborted.
        """
        told = [message for message in messages if message is not None]
        if told:
            _abort(self._options, told[0].query, [message.report for message in told])


class AtLeastOnceWriter(DataSourceStreamArrowWriter):
    """Rows are written when a task has them; a task that runs again writes them again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        write_plainly(self._options, encoded_rows(self._options, iterator))
        return TaskReport("", None)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        pass


class BatchWriter(DataSourceArrowWriter):
    """A batch is written once, at least."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        write_plainly(self._options, encoded_rows(self._options, iterator))
        return TaskReport("", None)


def encoded_rows(options: SinkOptions, rows: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
    """With keys and values as bytes."""
    if not options.encodings:
        return rows
    from headwater.spark.serdes.encoding import encoded_batches

    return encoded_batches(options.encodings, rows)


def write_plainly(options: SinkOptions, rows: Iterator["pyarrow.RecordBatch"]) -> None:
    """Raises the error of any row that no broker took: `flush` alone would not."""
    sent: deque[TableDelivery] = deque()
    with Producer({**options.client, "bootstrap.servers": options.bootstrap_servers}) as producer:
        for batch in rows:
            sent.extend(send_rows(producer, batch, options.topic))
            while sent and sent[0].done():
                sent.popleft().result()
        producer.flush()
        for each in sent:
            each.result()


def _abort(options: SinkOptions, query: str, reports: Sequence[Report]) -> None:
    """Within ten seconds or not at all: what failed before matters more, and is to be told."""
    clients = SinkClients(options, patience_s=ABORT_PATIENCE_S)
    driver = ProtocolDriver(options, query, clients, patience_s=ABORT_PATIENCE_S)
    try:
        driver.run(abort_steps(reports))
    except KafkaError as error:
        sys.stderr.write(f"headwater sink: transactions of a failed batch end by their time-out: {error}\n")
    finally:
        driver.close()
        clients.close()


def _place() -> tuple[str, str, int, int]:
    """The query, its run, the batch and the task that this is. Spark runs all jobs of a run as one group, by the run's
    id.
    """
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    run = context.getLocalProperty("spark.jobGroup.id") if context is not None else None
    if context is None or query is None or batch is None:
        raise UserError("Exactly-once needs a streaming query", "this task does not belong to one")
    return query, run or "", int(batch), context.partitionId()

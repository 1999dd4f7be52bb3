"""The stream writer as Spark sees it: tasks that write and report, a driver that commits their reports.

Spark makes it anew on the driver before each batch, in each task, and for each commit, so it holds options only. The
query and the batch come from the task's context, and with the reports to the driver.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headwater.base.errors import UserError
from headwater.client.producer.producer import Producer
from headwater.spark.exactly_once import Report, commit_steps, task_steps
from headwater.spark.writer.asking import kept_clients
from headwater.spark.writer.hands import Hands
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.rows import send_rows

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
        query, batch, task = _place()
        hands = Hands(self._options, query, kept_clients(self._options), iterator)
        try:
            report = hands.run(task_steps(batch, task))
        finally:
            hands.close()
        for _ in iterator:  # a task that had nothing to write leaves nothing behind in its input, either
            pass
        return TaskReport(query, report)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        reports = [message.report for message in messages]
        if not reports:
            return
        hands = Hands(self._options, messages[0].query, kept_clients(self._options))
        try:
            hands.run(commit_steps(batchId, reports))
        finally:
            hands.close()

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Nothing: what is open is aborted by those who run the batch again, or by its time-out."""


class AtLeastOnceWriter(DataSourceStreamArrowWriter):
    """Rows are written when a task has them; a task that runs again writes them again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pyarrow.RecordBatch"]) -> WriterCommitMessage:
        write_plainly(self._options, iterator)
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
        write_plainly(self._options, iterator)
        return TaskReport("", None)


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


def _place() -> tuple[str, int, int]:
    """The query, the batch and the task that this is."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if context is None or query is None or batch is None:
        raise UserError("Exactly-once needs a streaming query", "this task does not belong to one")
    return query, int(batch), context.partitionId()

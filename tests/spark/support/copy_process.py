"""A query from topic to topic, exactly once, as a process of its own for tests that kill it, or that it kills itself.

`python -m spark.support.copy_process` with JSON: servers, topic, checkpoint, partitions (the tasks that write), and
`die`: "" or the step of the driver's commit before which this process, its JVM and its workers die, all at once, in the
first batch that has it. "WriteDecision" is a first decision, with the transactions of all tasks open, "between" in the
middle of a batch's EndTxns. It says `started`, and then `batch N` for each batch that is done.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.streaming import StreamingQuery

import headwater.spark
from headwater.spark import exactly_once as protocol
from headwater.spark.data_source import HeadwaterDataSource
from headwater.spark.exactly_once import commit_steps
from headwater.spark.writer.data_source_writers import ExactlyOnceWriter
from headwater.spark.writer.options import parse_sink_options
from headwater.spark.writer.protocol_driver import ProtocolDriver
from headwater.spark.writer.sink_clients import cached_clients

STARTS = 5
SLOW_START = "Python worker failed to connect back"  # Spark gives it ten seconds, which a busy machine exceeds
STEPS = ("WriteDecision", "End", "between", "settled")


class MortalDriver(ProtocolDriver):
    """Spark's Python process that commits a batch gets this by value, with the two numbers in it."""

    die = ""
    group = 0
    open = 0  # transactions that were asked for before a decision

    def _do(self, step: Any) -> Any:
        name = type(step).__name__
        if name == "AllOpen":
            self.open = len(step.producers)
        if name == "WriteDecision" and step.decision.settled:
            name = "settled"
        elif name == "WriteDecision" and self.open < len(step.decision.entries):
            name = "amended"
        if name == "CommitAll" and self.die == "between":
            super()._do(protocol.CommitAll(step.producers[:1]))
            self._die()
        if name == self.die:
            self._die()
        return super()._do(step)

    def _die(self) -> None:
        os.killpg(self.group, signal.SIGKILL)
        os._exit(1)


class MortalWriter(ExactlyOnceWriter):
    die = ""
    group = 0

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        driver = MortalDriver(self._options, messages[0].query, cached_clients(self._options))
        driver.die, driver.group = self.die, self.group
        try:
            driver.run(commit_steps(batchId, [message.report for message in messages]))
        finally:
            driver.close()


def mortal_source(die: str, group: int) -> type[HeadwaterDataSource]:
    class MortalSource(HeadwaterDataSource):
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            writer = MortalWriter(parse_sink_options(self.options, schema.names, streaming=True))
            super().streamWriter(schema, overwrite)  # makes the topics
            writer.die, writer.group = die, group
            return writer

    return MortalSource


def main() -> None:
    told = json.loads(sys.argv[1])
    # Some attempts for each task: a worker that is killed must not end the query.
    spark = headwater.spark.session("copy", master="local[2,4]", spark_sql_shuffle_partitions=2)
    if told["die"]:
        spark.dataSource.register(mortal_source(told["die"], os.getpgid(0)))
    servers = {"kafka.bootstrap.servers": told["servers"]}
    records = spark.readStream.format("headwater").options(**servers).option("subscribe", told["topic"])
    frame = records.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 150).load()
    copies = frame.repartition(told["partitions"]).selectExpr("key", "concat('copy of ', cast(value as string)) value")
    writer = copies.writeStream.format("headwater").options(**servers).option("topic", f"{told['topic']}.target")
    writer = writer.option("checkpointLocation", told["checkpoint"]).trigger(processingTime="0 seconds")
    say("started")
    for _ in range(STARTS):
        error = follow(writer.start())
        if SLOW_START not in error:
            break
    sys.stderr.write(f"the query has ended: {error}\n")
    sys.exit(3)


def follow(query: StreamingQuery) -> str:
    """Tells the batches of a query until it ends -> why it did."""
    told_last = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress.batchId > told_last:
            told_last = progress.batchId
            say(f"batch {told_last}")
        time.sleep(0.1)
    return str(query.exception())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The demo's queries as a process of their own, for tests that kill it: `python -m spark.support.pipeline_process`
with JSON: servers, directory, master, the executors to wait for and options of their JVMs, until_now, and the URL of a
PostgreSQL that gets the page views as well, or ""."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headwater.spark
from headwater.demo import demo_run, pipeline


def main() -> None:
    told = json.loads(sys.argv[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, Any] = {"spark_executor_memory": "512m", "spark_sql_shuffle_partitions": 2}
    settings["spark_executor_extraJavaOptions"] = told["executor_options"]
    spark = headwater.spark.session("tests", master=told["master"], spark_driver_host="127.0.0.1", **settings)
    if told["executors"]:
        _wait_for_executors(spark, told["executors"])
    directory = Path(told["directory"])
    queries = demo_run.start_queries(spark, told["servers"], directory, until_now=told["until_now"])
    if told["postgres"]:
        records = spark.readStream.format("headwater").option("kafka.bootstrap.servers", told["servers"])
        records = records.option("subscribe", demo_run.VIEWS).option("startingOffsets", "earliest")
        views = pipeline.page_views(records.option("maxOffsetsPerTrigger", 400).load())
        writer = views.writeStream.format("headwater-postgres").option("url", told["postgres"]).option("table", "views")
        writer = writer.option("checkpointLocation", str(directory / "checkpoints/postgres"))
        trigger: dict[str, Any] = {"availableNow": True} if told["until_now"] else {"processingTime": "0 seconds"}
        queries.append(demo_run.start(writer.trigger(**trigger)))
    sys.stdout.write("started\n")
    sys.stdout.flush()
    for query in queries:
        query.awaitTermination()
    spark.stop()


def _wait_for_executors(spark: SparkSession, count: int) -> None:
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    while len(tracker.getExecutorInfos()) < count + 1:  # the driver is among them
        time.sleep(0.1)


if __name__ == "__main__":
    main()

"""A Spark driver that measures one thing and prints it as JSON: `python -m bench.spark_driver WHAT JSON` (see
`bench.spark`).

What is measured first is measured again before it counts: the JVM compiles what it has seen often.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import headwater.spark
from bench.brokers import ROOT, cpu_seconds
from bench.client import value_of
from bench.spark_floor import FLOOR, FloorSource

FORMATS = ("headwater", "kafka")
ROUNDS = 3
BATCH_ROUNDS = 2  # that count, of each source; each begins a query anew, which takes seconds
SMALL_ROWS = 100
PAUSE_S = 0.02
AVRO_ROUNDS = 6
JARS = ROOT / "tests/spark/connector/target/lib"
AVRO_JARS = ROOT / "tests/spark/avro/target/lib"
PATIENCE_S = 300


class Driver:
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        settings: dict[str, Any] = {
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.streaming.numRecentProgressUpdates": 2000,
            "spark.executor.memory": "512m",
        }
        if told["master"].startswith("local"):
            settings["spark.jars"] = ",".join(
                str(jar) for folder in (JARS, AVRO_JARS) for jar in sorted(folder.glob("*.jar"))
            )
        self.spark = headwater.spark.session("bench", master=told["master"], **settings)

    def close(self) -> None:
        self.spark.stop()

    def options(self, topic: str = "") -> dict[str, Any]:
        return {"kafka.bootstrap.servers": self.told["servers"], "subscribe": topic or self.told["topic"]}

    # What can be asked for

    def source(self, formats: tuple[str, ...] = FORMATS) -> dict[str, float]:
        found: dict[str, float] = {}
        count = self.told["count"]
        for name in formats:
            rows = self.spark.read.format(name).options(**self.options()).load().count()
            assert rows == count, f"{name}: {rows} rows of {count}"
        for _ in range(ROUNDS):
            for name in formats:
                frame = self.spark.read.format(name).options(**self.options()).load()
                windows = frame.selectExpr("window(timestamp, '1 second') w")
                for what, written in (("noop", frame), ("window", windows.groupBy("w").count())):
                    began = time.perf_counter()
                    written.write.format("noop").mode("overwrite").save()
                    pace = count / (time.perf_counter() - began)
                    found[f"{what} {name}"] = max(found.get(f"{what} {name}", 0), pace)
        return found

    def from_avro(self) -> dict[str, float]:
        """Records by CPU second of the JVM out of Avro by Spark's own function; its counterpart makes them, and they
        stay in memory.
        """
        import psutil
        from pyspark.sql import functions as f
        from pyspark.sql.avro.functions import from_avro, to_avro

        schema, count = self.told["schema"], self.told["count"]
        visit = f.struct(
            f.col("id"),
            f.concat(f.lit("user"), f.col("id") % 1000).alias("user"),
            f.when(f.col("id") % 3 == 0, f.concat(f.lit("/page/"), "id")).alias("page"),
            (f.col("id") / 3).alias("seconds"),
            (f.col("id") % 2 == 0).alias("returning"),
            f.timestamp_millis(f.col("id") + 1_700_000_000_000).alias("at"),
        )
        rows = self.spark.range(count).select(to_avro(visit, schema).alias("value")).cache()
        assert rows.count() == count
        (jvm,) = (each.pid for each in psutil.Process().children(recursive=True) if each.name() == "java")
        best = 0.0
        for _ in range(AVRO_ROUNDS):
            before_s = cpu_seconds(jvm)
            visits = rows.select(from_avro("value", schema).alias("visit")).select("visit.*")
            visits.write.format("noop").mode("overwrite").save()
            best = max(best, count / (cpu_seconds(jvm) - before_s))
        return {"from_avro": best}

    def cluster(self) -> dict[str, float]:
        executors = self.spark.sparkContext._jsc.sc().statusTracker()
        deadline_s = time.monotonic() + PATIENCE_S
        while len(executors.getExecutorInfos()) - 1 < self.told["workers"] and time.monotonic() < deadline_s:
            time.sleep(0.1)
        return self.source(("headwater",))

    def micro_batches(self) -> dict[str, float]:
        """Small batches without a pause between them, in turns, while a producer writes all the time.

        A round of each is not counted: a JVM that has just started takes twice as long for a batch as it does 200
        batches later. Nor is it done with compiling then, so every other round is in the reverse order.
        """
        taken_ms: dict[str, list[float]] = {name: [] for name in (*FORMATS, FLOOR)}
        self.spark.dataSource.register(FloorSource)
        stopped = threading.Event()
        writer = threading.Thread(target=self._write_until, args=(stopped,))
        writer.start()
        try:
            for name, number in turns(tuple(taken_ms), BATCH_ROUNDS):
                taken = self._batches(name, -(-self.told["count"] // BATCH_ROUNDS), f"{name}-{number}")
                if number:
                    taken_ms[name] += taken
        finally:
            stopped.set()
            writer.join()
        return {f"p{share} {name}": at_share(taken, share) for name, taken in taken_ms.items() for share in (50, 99)}

    def sink(self) -> dict[str, float]:
        """Both in turns; of the rounds after the first, each one's best. The first batch of a query is not counted."""
        found: dict[str, float] = {}
        for number in range(self.told["rounds"]):
            for delivery, target in self.told["targets"].items():
                pace = self._delivered(delivery, target, f"{delivery}-{number}")
                if number:
                    found[delivery] = max(found.get(delivery, 0), pace)
        return found

    # How

    def _start(self, writer: Any, name: str, **trigger: Any) -> Any:
        checkpoint = Path(self.told["folder"]) / name
        return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()

    def _delivered(self, delivery: str, target: str, name: str) -> float:
        """The rows per second of one query that copies all there is."""
        frame = self.spark.readStream.format("headwater").options(**self.options())
        frame = frame.options(startingOffsets="earliest", maxOffsetsPerTrigger=self.told["batch"]).load()
        writer = frame.selectExpr("value").writeStream.format("headwater").option("topic", target)
        writer = writer.option("kafka.bootstrap.servers", self.told["servers"]).option("delivery", delivery)
        query = self._start(writer, name, availableNow=True)
        assert query.awaitTermination(PATIENCE_S), "not done"
        batches = [each for each in query.recentProgress if each.numInputRows][1:]
        seconds: float = sum(each.durationMs["triggerExecution"] for each in batches) / 1000
        return sum(each.numInputRows for each in batches) / seconds

    def _batches(self, name: str, count: int, query_name: str) -> list[float]:
        """How long `count` batches took, after a few that are not counted."""
        frame = self.spark.readStream.format(name).options(**self.options()).load()
        query = self._start(frame.writeStream.format("noop"), query_name, processingTime="0 seconds")
        skipped = max(5, count // 10)
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s and query.isActive:
            taken = [each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows]
            if len(taken) >= count + skipped:
                query.stop()
                return taken[skipped:]
            time.sleep(0.2)
        raise AssertionError(f"{name}: too few batches; {query.exception()}")

    def _write_until(self, stopped: threading.Event) -> None:
        from headwater.client import Producer

        value = value_of(100)
        with Producer(bootstrap_servers=self.told["servers"]) as producer:
            while not stopped.wait(PAUSE_S):
                for _ in range(SMALL_ROWS):
                    producer.send(self.told["topic"], value)


def turns(names: tuple[str, ...], rounds: int) -> list[tuple[str, int]]:
    """Who is measured when, each with the number of its round: round 0 warms up, the order is reversed every time."""
    return [(name, number) for number in range(rounds + 1) for name in (names[::-1] if number % 2 else names)]


def at_share(taken: list[float], percent: int) -> float:
    """The value that so many percent of all do not exceed."""
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main(arguments: list[str]) -> None:
    what, told = arguments
    driver = Driver(json.loads(told))
    try:
        found = getattr(driver, what.replace("-", "_"))()
    finally:
        driver.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])

"""A driver with a SparkSession that runs streams applications as it is told: one JSON object per line of its standard
input, one line in answer.

    {"run": "steady", "servers": ..., "state": ..., "store": "lmdb", "lease": 600.0}   -> {"open": status}
    the same with "frame": "counted"     the counts also go through a DataFrame (`.df`) into that topic
    {"status": "steady"}                                                               -> status
    {"stop": "steady"}                                                                 -> {"stopped": ...}

Started by `streams_drivers`.
"""

import json
import sys
from typing import Any

import headwater.spark
from headwater.streams import App, Context, Processor, Record, Stream, key_value_store, tumbling


class Latest(Processor):
    """Forwards what it has seen of each key, whenever stream time has gone on by 50 ms:
    schedules must survive leases.
    """

    def init(self, context: Context) -> None:
        self.context = context
        self.seen = context.store("seen")
        context.schedule(50, "stream", self.tell)

    def process(self, record: Record) -> None:
        self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)

    def tell(self, now_ms: int) -> None:
        for key, count in list(self.seen.all()):
            self.context.forward(Record(key, f"{count}@{now_ms}", now_ms, ()))


def make_app(name: str, brokers: str = "nowhere:1", store: str = "lmdb") -> App:
    return make_streams(name, brokers, store)[0]


def make_streams(name: str, brokers: str, store: str) -> tuple[App, Stream]:
    """Counts of keys, windows that tell their counts when they close, and a punctuator: reads `in`, writes
    `<name>-out`. `store`: where all its rows lie. -> the application, and its counts
    """
    app = App(name, brokers=brokers, key="text", value="text", config={"default.dsl.store": store})
    words = app.stream("in")
    counts = words.group_by_key().count(store="counts").to_stream().map_values(lambda count: f"n{count}")
    windows = words.group_by_key().windowed_by(tumbling(20, grace=10)).count(store="windows")
    closed = (
        windows.suppress(until_window_closes=True)
        .to_stream()
        .map(lambda window, count: (window.key, f"w{window.start}:{count}"))
    )
    app.add_store(key_value_store("seen", value="long", store_type=store))
    seen = words.process(Latest, stores=["seen"])
    for stream in (counts, closed, seen):
        stream.to(f"{name}-out")
    return app, counts


class ThroughFrame:
    """A query that writes what comes out of the application to a topic, exactly once. One that has failed, because
    brokers or executors were away for too long, is started again when it is tended, as whoever runs it would do.
    """

    def __init__(self, counts: Stream, spark: Any, servers: str, topic: str, state: str) -> None:
        frame = counts.df(spark, name=topic)
        writer = frame.select("key", "value").writeStream.format("headwater")
        writer = writer.option("kafka.bootstrap.servers", servers).option("topic", topic)
        self._writer = writer.option("checkpointLocation", f"{state}/checkpoint-{topic}")
        self._query: Any = None

    def tend(self) -> None:
        if self._query is not None and self._query.isActive:
            return
        if self._query is not None:
            print(f"the query is started again: {self._query.exception()}", file=sys.stderr)
        try:
            self._query = self._writer.start()
        except Exception as error:  # noqa: BLE001 - the next time, then
            print(f"the query does not start: {error}", file=sys.stderr)

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()


def main(master: str, settings: str) -> None:
    spark = headwater.spark.session("streams", master=master, **json.loads(settings))
    runs: dict[str, Any] = {}
    queries: dict[str, ThroughFrame] = {}
    for line in sys.stdin:
        told = json.loads(line)
        for query in queries.values():
            query.tend()
        if "run" in told:
            name = told["run"]
            app, counts = make_streams(name, told["servers"], told["store"])
            if "frame" in told:
                queries[name] = ThroughFrame(counts, spark, told["servers"], told["frame"], told["state"])
            runs[name] = app.run(spark, state_dir=told["state"], lease=told["lease"], commit_interval_ms=20)
            answer: Any = {"open": runs[name].status()}
        elif "status" in told:
            answer = runs[told["status"]].status()
        else:
            run = runs.pop(told["stop"])
            run.stop()
            if told["stop"] in queries:
                queries.pop(told["stop"]).stop()
            answer = {"stopped": run.status()}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A driver with a SparkSession that runs streams applications as it is told: one JSON object per line of its standard
input, one line in answer.

    {"run": "steady", "servers": ..., "state": ..., "store": "lmdb", "lease": 600.0}   -> {"open": status}
    {"status": "steady"}                                                               -> status
    {"stop": "steady"}                                                                 -> {"stopped": ...}

Started by `streams_drivers`.
"""

import json
import sys
from typing import Any

import headwater.spark
from headwater.streams import App, Context, Processor, Record, key_value_store, tumbling


class Latest(Processor):
    """Forwards what it has seen of each key, whenever stream time has gone on by 50 ms: schedules must survive leases."""

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
    """Counts of keys, windows that tell their counts when they close, and a punctuator: reads `in`, writes
    `<name>-out`. `store`: where all its rows lie.
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
    return app


def main(master: str, java_options: str) -> None:
    options: dict[str, Any] = {"spark.driver.extraJavaOptions": java_options} if java_options else {}
    spark = headwater.spark.session("streams", master=master, **options)
    runs: dict[str, Any] = {}
    for line in sys.stdin:
        told = json.loads(line)
        if "run" in told:
            name = told["run"]
            app = make_app(name, told["servers"], told["store"])
            runs[name] = app.run(spark, state_dir=told["state"], lease=told["lease"], commit_interval_ms=20)
            answer: Any = {"open": runs[name].status()}
        elif "status" in told:
            answer = runs[told["status"]].status()
        else:
            run = runs.pop(told["stop"])
            run.stop()
            answer = {"stopped": run.status()}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

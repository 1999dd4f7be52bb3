"""The topologies of `streams_apps` in Quix Streams, where it is installed: `python streams_quix.py SCENARIO BROKERS
APPLICATION STATE COMMIT_MS`.

No import of this repository: it runs under another interpreter. Quix Streams has no table of latest rows; `join_asof`
comes nearest.
"""

import sys
from datetime import timedelta
from typing import Any


def main() -> None:
    from quixstreams import Application

    scenario, brokers, application, state, commit_ms = sys.argv[1:6]
    app = Application(
        broker_address=brokers,
        consumer_group=application,
        state_dir=state,
        auto_offset_reset="earliest",
        commit_interval=int(commit_ms) / 1000,
        processing_guarantee="exactly-once",
        loglevel="ERROR",
    )

    def topic(name: str, value: str = "str") -> Any:
        return app.topic(f"{application}.{name}", key_deserializer="str", key_serializer="str", value_deserializer="str", value_serializer=value)  # fmt: skip

    stream, out = app.dataframe(topic("in")), topic("out", "int" if scenario in ("count", "windowed") else "str")
    if scenario == "count":

        def more(_: Any, store: Any) -> int:
            total = store.get("n", 0) + 1
            store.set("n", total)
            return int(total)

        stream = stream.apply(more, stateful=True)
    elif scenario == "windowed":
        stream = stream.tumbling_window(timedelta(minutes=1)).count().current().apply(lambda row: row["value"])
    elif scenario == "table":
        stream = stream.join_asof(app.dataframe(topic("other")), how="inner", on_merge=lambda left, right: left + "/" + right, grace_ms=timedelta(days=7))  # fmt: skip
    elif scenario == "stream":
        stream = stream.join_interval(app.dataframe(topic("other")), how="inner", on_merge=lambda left, right: left + "/" + right, backward_ms=5_000, forward_ms=5_000, grace_ms=10_000)  # fmt: skip
    else:
        stream = stream.apply(lambda value: value.upper() + "!")
    stream.to_topic(out)
    print("ready", flush=True)
    app.run()


if __name__ == "__main__":
    main()

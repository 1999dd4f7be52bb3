"""The topologies that are measured, for `headwater.streams`; StreamsPeer.java and streams_quix.py have the same.

`python -m bench.streams_apps SCENARIO BROKERS APPLICATION STATE COMMIT_MS CACHE_BYTES` runs one until its input closes.
"""

import sys

from headwater.streams import App, JoinWindows, tumbling

WINDOW = "1m"
APART_MS = 5_000


def make(scenario: str, brokers: str | None, application: str) -> App:
    app = App(application, brokers=brokers, value="text")
    stream = app.stream(f"{application}.in")
    out = f"{application}.out"
    match scenario:
        case "count":
            stream.group_by_key().count(store="counts").to_stream().to(out)
        case "windowed":
            stream.group_by_key().windowed_by(tumbling(WINDOW)).count(store="counts").to_stream().to(out)
        case "table":
            rows = app.table(f"{application}.other", store="rows")
            stream.join(rows, lambda left, right: left + "/" + right).to(out)
        case "stream":
            other = app.stream(f"{application}.other")
            stream.join(other, lambda left, right: left + "/" + right, window=JoinWindows.of(APART_MS)).to(out)
        case "function":
            stream.map_values(lambda value: value.upper() + "!").to(out)
        case _:
            raise ValueError(scenario)
    return app


def main() -> None:
    scenario, brokers, application, state, commit_ms, cache_bytes = sys.argv[1:7]
    app = make(scenario, brokers, application)
    with app.run_here(state_dir=state, commit_interval_ms=int(commit_ms), cache_max_bytes=int(cache_bytes)):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

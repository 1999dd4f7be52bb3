"""The topologies that are measured, for `headwater.streams`; StreamsPeer.java and streams_quix.py have the same.

`python -m bench.streams_apps SCENARIO BROKERS APPLICATION STATE COMMIT_MS CACHE_BYTES` runs one until its input closes.
"""

import sys
import time

from headwater.streams import App, Context, JoinWindows, Processor, Record, tumbling

WINDOW = "1m"
APART_MS = 5_000
TICK_MS = 50


class Clock(Processor):
    """Tells by how many milliseconds it is called late, under the name of its task."""

    def init(self, context: Context) -> None:
        self.context = context
        self._due_ms = context.wall_clock_ms + TICK_MS
        context.schedule(TICK_MS, "wall", self._tick)

    def process(self, record: Record) -> None:
        """It is there for the clock."""

    def _tick(self, now_ms: int) -> None:
        late_ms = time.time() * 1000 - self._due_ms
        self.context.forward(Record(self.context.task_id, f"{late_ms:.1f}", now_ms, ()))
        self._due_ms += TICK_MS * ((now_ms - self._due_ms) // TICK_MS + 1)


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
        case "punctuators":
            stream.group_by_key().count(store="counts").to_stream().to(out)
            stream.process(Clock).to(f"{application}.late")
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

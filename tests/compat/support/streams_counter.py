"""A process that counts by a key taken from the value, through a repartition topic, until SIGTERM: `streams_counter.py
BROKERS STATE STORES [CACHE_BYTES]`.

Prints "open" when its tasks are open, and how it ended: "stopped", or the name of the error.
"""

import signal
import sys
import threading

from headwater.streams import App


def make_app(brokers: str, stores: str = "lmdb") -> App:
    """`stores`: where they lie."""
    app = App("counter", brokers=brokers, key="text", value="text", config={"default.dsl.store": stores})
    words = app.stream("words").select_key(lambda _, word: word)
    words.group_by_key().count(store="counts").to_stream().to("counts")
    return app


def main(brokers: str, state_dir: str, stores: str, cache_bytes: str = "0") -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        app = make_app(brokers, stores)
        run = app.run_here(
            state_dir=state_dir,
            commit_interval_ms=20,
            repartition_purge_interval_ms=500,
            cache_max_bytes=int(cache_bytes),
        )
        print("open", flush=True)
        while not stop.wait(0.05) and run.running:
            pass
        run.stop()
    except Exception as error:  # noqa: BLE001 - the test reads its name
        print(type(error).__name__, error, flush=True)
        sys.exit(1)
    print("stopped", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`python -m bench.streams_load BROKERS TOPIC RECORDS_S SECONDS KEYS`: records at a pace, every 50 ms, for the
applications of `streams_apps`.
"""

import sys
import time

import numpy as np
import pyarrow as pa

from headwater.client.producer.producer import Producer

TURN_S = 0.05


def main() -> None:
    brokers, topic = sys.argv[1:3]
    records_s, seconds, keys = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    dice = np.random.default_rng(5)
    count = max(int(records_s * TURN_S), 1)
    values = pa.array([b"value-%014d" % number for number in range(count)], pa.binary())
    with Producer(bootstrap_servers=brokers) as producer:
        began = time.perf_counter()
        for turn in range(int(seconds / TURN_S)):
            numbers = dice.integers(0, keys, count).tolist()
            named = pa.array([b"key-%07d" % number for number in numbers], pa.binary())
            producer.send_arrow(pa.table({"key": named, "value": values}), topic, key="key")
            time.sleep(max(began + (turn + 1) * TURN_S - time.perf_counter(), 0))
        producer.flush()


if __name__ == "__main__":
    main()

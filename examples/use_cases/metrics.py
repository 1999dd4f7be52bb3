"""Metrics: machines report how they are, and the numbers of all of them are a table.

A day of them is kept (`retention.ms`): metrics are looked at when they are fresh. The table comes as columns straight
from the topic; there is no consumer group, for whoever looks, looks at all.
"""

import json
import os
import signal
import socket
import sys
import time

from common import BOOTSTRAP, ensure_topic

from headwater.client import Producer, read

TOPIC = "metrics"


def measured() -> dict[str, float]:
    with open("/proc/meminfo") as file:
        memory = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return {
        "load": os.getloadavg()[0],
        "memory_used": round(1 - memory["MemAvailable"] / memory["MemTotal"], 3),
        "processes": float(sum(name.isdigit() for name in os.listdir("/proc"))),
    }


def report(every_s: float) -> None:
    told: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: told.append(number))
    host = socket.gethostname()
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        while not told:
            for name, value in measured().items():
                producer.send(TOPIC, json.dumps({"host": host, "name": name, "value": value}), key=host)
            producer.flush()
            time.sleep(every_s)


def show() -> None:
    table = read(TOPIC, last="10m", decode={"value": "json"}, bootstrap_servers=BOOTSTRAP).to_arrow()
    if not table.num_rows:
        sys.exit("nobody has reported in the last ten minutes")
    by_name: dict[tuple[str, str], list[float]] = {}
    for row in table["value"].to_pylist():
        by_name.setdefault((row["host"], row["name"]), []).append(row["value"])
    print(f"{'host':<20} {'metric':<14} {'now':>8} {'least':>8} {'most':>8}")
    for (host, name), found in sorted(by_name.items()):
        print(f"{host:<20} {name:<14} {found[-1]:>8.2f} {min(found):>8.2f} {max(found):>8.2f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["report", *every]:
            ensure_topic(TOPIC, retention_ms=str(24 * 3600 * 1000))
            report(float(every[0]) if every else 1.0)
        case ["show"]:
            ensure_topic(TOPIC, retention_ms=str(24 * 3600 * 1000))
            show()
        case _:
            sys.exit("metrics.py report [SECONDS] | metrics.py show")

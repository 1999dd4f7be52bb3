"""The rows about Python's clients: ours beside confluent-kafka, aiokafka and kafka-python, against one broker in one
run.

Each client runs in a process of its own (`clients_produce`, `clients_consume`), in turns. The limit of the Arrow rows
is confluent-kafka, of the plain rows the better of aiokafka and kafka-python. What is produced is checked by the log
end offsets; the readers count what they read.
"""

import subprocess
import sys
from collections.abc import Callable

from bench import codec
from bench.brokers import ROOT
from bench.report import MORE, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario, check

PARTITIONS = 4
LOADS = [(100, 1_000_000), (1000, 200_000)]  # bytes of a value, records
SLOW_SHARE = 10  # aiokafka and kafka-python get a tenth of the records: their pace does not change with the number
OURS = ("plain", "arrow")
OTHERS = ("confluent-kafka", "aiokafka", "kafka-python")
SLOW = ("aiokafka", "kafka-python")
NAMES = {"produce": {"plain": "send", "arrow": "send_arrow"}, "consume": {"plain": "poll", "arrow": "poll_arrow"}}


def row(what: str, way: str, size: int) -> str:
    return f"client-{what}-{way}-{size}b"


def run(what: str, client: str, bench: Bench, topic: str, count: int, size: int) -> float:
    """Records a second of one client in a process of its own."""
    place = [f"127.0.0.1:{bench.port()}", topic, str(PARTITIONS), str(count)]
    module = f"bench.clients_{what}"
    command = [sys.executable, "-m", module, client, *place, *([str(size)] if what == "produce" else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise Broken(f"{client}: {done.stderr.strip()[-500:]}")
    return float(done.stdout)


def figures(what: str, size: int, found: dict[str, float]) -> Figures:
    """Ours, each beside the one it is held against."""
    others = ", ".join(f"{name} {found[name]:,.0f}" for name in OTHERS)
    limits = {"plain": max(found[name] for name in SLOW), "arrow": found["confluent-kafka"]}
    return {row(what, way, size): Figure(found[NAMES[what][way]], limits[way], others) for way in OURS}


def produce(size: int, records: int) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        found = {}
        for client in (*NAMES["produce"].values(), *OTHERS):
            count = bench.count(records // SLOW_SHARE if client in SLOW else records)
            with bench.topic(PARTITIONS) as topic:
                found[client] = run("produce", client, bench, topic, count, size)
                check(f"records in the log by {client}", bench.produced(topic, PARTITIONS), count)
        return figures("produce", size, found)

    return measure


def consume(size: int, records: int) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        count = bench.count(records)
        with bench.topic(PARTITIONS) as topic:
            run("produce", "send_arrow", bench, topic, count, size)
            check("records in the log", bench.produced(topic, PARTITIONS), count)
            found = {
                client: run("consume", client, bench, topic, count // SLOW_SHARE if client in SLOW else count, size)
                for client in (*NAMES["consume"].values(), *OTHERS)
            }
        return figures("consume", size, found)

    return measure


def kinds(what: str, size: int) -> tuple[Kind, ...]:
    names = NAMES[what]
    others = "the better of aiokafka and kafka-python"
    arrow_target = 3 if size == 100 else None
    return (
        Kind(row(what, "plain", size), f"{names['plain']}, {size} B", "records/s", MORE, others, 1, of_limit=True),
        Kind(
            row(what, "arrow", size),
            f"{names['arrow']}, {size} B",
            "records/s",
            MORE,
            "confluent-kafka",
            arrow_target,
            of_limit=True,
        ),
    )


def client_scenarios() -> list[Scenario]:
    found = [
        Scenario(kinds(what, size), measure(size, records), 2, about_broker=False)
        for size, records in LOADS
        for what, measure in (("produce", produce), ("consume", consume))
    ]
    alone = Scenario(tuple(codec.KINDS), lambda bench: codec.measure(bench.scale), 2, False, False)
    return [*found, alone]

"""`python -m bench [--only ROW ...] [--quick] [--peers] [--write-docs]`: measures, prints, writes bench/results/."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import limits
from bench.brokers import ROOT, Start, apache_kafka, headwater
from bench.replay import BUILD, program
from bench.report import (
    Figure,
    best,
    make_row,
    markdown_table,
    merged,
    read_json,
    text_table,
    write_docs,
    write_json,
)
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario
from bench.scenarios import scenarios

RESULTS = ROOT / "bench/results"
TOUCH_MB = 6144


def parse(arguments: list[str], rows: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures the broker beside this machine's limits."
    )
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=rows, help="only these rows: " + ", ".join(rows))
    parser.add_argument(
        "--quick", action="store_true", help="one short round of each: shows that it works, not how fast"
    )
    parser.add_argument("--peers", action="store_true", help="the same rows against Apache Kafka, in the same run")
    parser.add_argument("--only-peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="other rows stay as the last run left them")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/PERFORMANCE.md")
    return parser.parse_args(arguments)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(name: str, start: Start, chosen: list[Scenario], folder: Path, *, quick: bool) -> Figures:
    """Every chosen row for one broker. A row that breaks is reported and left out; the rest goes on."""
    bench = Bench(start, folder, scale=0.2 if quick else 1.0)
    folder.mkdir()
    found: Figures = {}
    for scenario in chosen:
        if not scenario.needs_broker:
            found |= measure_one(name, bench, scenario, 1 if quick else scenario.rounds)
    if any(scenario.needs_broker for scenario in chosen):
        with start(bench.directory()) as broker:
            bench.broker = broker
            for scenario in chosen:
                if scenario.needs_broker:
                    found |= measure_one(name, bench, scenario, 1 if quick else scenario.rounds)
    return found


def measure_one(name: str, bench: Bench, scenario: Scenario, rounds: int) -> Figures:
    figures: dict[str, list[Figure]] = {kind.row: [] for kind in scenario.kinds}
    began = time.perf_counter()
    try:
        if scenario.needs_broker and rounds > 1:
            scenario.measure(bench)  # not counted: the first round finds caches, compilers and allocators cold
        for _ in range(rounds):
            for row, figure in scenario.measure(bench).items():
                figures[row].append(figure)
    except (Broken, OSError, subprocess.SubprocessError) as error:
        say(f"  {name}: {', '.join(figures)}: failed: {error}")
        return {}
    found = {kind.row: best(kind, figures[kind.row]) for kind in scenario.kinds}
    for row, figure in found.items():
        say(
            f"  {name}: {row} = {figure.value:,.2f}, limit {figure.limit or 0:,.2f} ({time.perf_counter() - began:.1f} s)"
        )
    return found


def environment(load_at_start: float) -> dict[str, str]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=10
    )
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return {
        "commit": commit.stdout.strip() or "unknown",
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{memory_gb:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "load of others at the start": f"{load_at_start:.1f}",
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def main() -> int:
    everything = scenarios()
    kinds = {kind.row: kind for scenario in everything for kind in scenario.kinds}
    options = parse(sys.argv[1:], list(kinds))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything started here is ended on the way out
    wanted = set(options.only or kinds)
    chosen = [scenario for scenario in everything if wanted & {kind.row for kind in scenario.kinds}]
    load_at_start = os.getloadavg()[0]
    program()
    BUILD.mkdir(exist_ok=True)
    ours: Figures = {}
    peers: Figures = {}
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="run-") as folder:
        first, second = limits.touch_page_cache(folder, 512 if options.quick else TOUCH_MB)
        say(f"page cache: {first:,.0f} MB/s on first touch, {second:,.0f} MB/s afterwards")
        if not options.only_peer:
            ours = measure("headwater", headwater, chosen, Path(folder) / "headwater", quick=options.quick)
        if options.peers or options.only_peer:
            rivals = [scenario for scenario in chosen if scenario.about_broker]
            peers = measure("Apache Kafka", apache_kafka, rivals, Path(folder) / "apache", quick=options.quick)
    rows = [make_row(kind, ours.get(row), peers.get(row)) for row, kind in kinds.items() if row in wanted]
    print(text_table(rows))
    if options.keep:
        rows = merged(rows, read_json(RESULTS / "latest.json"), list(kinds))
    RESULTS.mkdir(exist_ok=True)
    write_json(RESULTS / "latest.json", rows)
    (RESULTS / "environment.json").write_text(json.dumps(environment(load_at_start), indent=1) + "\n")
    if options.write_docs:
        write_docs(ROOT / "docs/PERFORMANCE.md", markdown_table(rows, kinds, environment(load_at_start)))
    return 0 if all(row.value is not None for row in rows if row.row in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())

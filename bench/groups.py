"""The rows about groups and transactions. Registered by `rows.scenarios`."""

import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import limits
from bench.brokers import ROOT
from bench.replay import replay
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken, Calls, frame, string
from bench.rows import Bench, Figures, Scenario, check

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS = 8, 9, 10, 16
PARTITIONS = 900
INITIAL_DELAY_MS = 3000  # group.initial.rebalance.delay.ms, the default of both brokers
COMMITTING_GROUPS = 200
LOADED_GROUPS = 10_000
TRANSACTION_RECORDS, TRANSACTION_VALUE_BYTES, PRODUCERS = 1000, 1000, 4
TRANSACTION_ROUNDS = 8  # short ones: a ratio of two loads needs a quiet moment for each of them
READY_TIMEOUT_S = 60


def offset_commit(group: str, topic: str, offset: int) -> bytes:
    """Version 2, from no member: what a standalone consumer sends."""
    partition = struct.pack(">iq", 0, offset) + string("")
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + partition
    return frame(OFFSET_COMMIT, 2, string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + topics)


def offset_fetch(group: str, topic: str) -> bytes:
    return frame(OFFSET_FETCH, 1, string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, 0))


def committed(calls: Calls, group: str, topic: str) -> int:
    body = calls.call(offset_fetch(group, topic))
    at = 4 + 2 + len(topic) + 4 + 4
    offset: int = struct.unpack_from(">q", body, at)[0]
    return offset


def groups_listed(calls: Calls) -> int:
    """How many groups there are; -1 while some are not loaded yet."""
    body = calls.call(frame(LIST_GROUPS, 0, b""))
    error, count = struct.unpack_from(">hi", body)
    return -1 if error else count


def wait_for_coordinator(calls: Calls, topic: str) -> None:
    """The internal topic is made on the first question for a coordinator."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        calls.call(frame(FIND_COORDINATOR, 0, string("bench")))
        answer = calls.call(offset_commit("bench-ready", topic, 1))
        if struct.unpack_from(">h", answer, len(answer) - 2)[0] == 0:
            return
        time.sleep(0.05)
    raise Broken("no coordinator for groups")


def client(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.group_client", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def join(members: int) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        with bench.topic(PARTITIONS) as topic:
            with Calls(bench.port()) as calls:
                wait_for_coordinator(calls, topic)
            took_ms = client("join", bench.port(), topic, members, PARTITIONS)["ms"]
        return {f"join-{members}": Figure(took_ms, INITIAL_DELAY_MS)}

    return measure


def commits(bench: Bench) -> Figures:
    with bench.topic(1) as topic:
        frames = [offset_commit(f"bench-{index}", topic, 7) for index in range(COMMITTING_GROUPS)]
        path = bench.frames("commits", frames)
        with Calls(bench.port()) as calls:
            wait_for_coordinator(calls, topic)
        with limits.bare_server_of_many() as (port, _):
            bare = replay(port, path, connections=50, depth=1, seconds=bench.seconds(2))
        done = replay(bench.port(), path, connections=50, depth=1, seconds=bench.seconds(3))
        with Calls(bench.port()) as calls:
            check("the offset of a group", committed(calls, f"bench-{COMMITTING_GROUPS - 1}", topic), 7)
    return {"commits": Figure(done.requests_s, bare.requests_s, f"p99 {done.p99_us / 1e3:.2f} ms")}


def transactions(name: str, kind: str) -> Callable[[Bench], Figures]:
    """Plain and transactional in turns, by producers that both wait for every 1,000 records."""

    def records_s(bench: Bench, transaction: int) -> float:
        with bench.topic(PRODUCERS) as topic:
            load = (bench.count(200_000), TRANSACTION_VALUE_BYTES, PRODUCERS, transaction)
            found = client("produce", bench.port(), topic, kind, *load)
        return found["records"] / found["seconds"]

    def measure(bench: Bench) -> Figures:
        plain = records_s(bench, 0)
        return {name: Figure(records_s(bench, TRANSACTION_RECORDS), plain)}

    return measure


def load_groups(bench: Bench) -> Figures:
    """10,000 groups with an offset each; then a clean restart, until ListGroups names them all."""
    directory = bench.directory()
    with bench.start(directory) as broker, Calls(broker.port) as calls:
        calls.create_topic("loaded", 1)
        wait_for_coordinator(calls, "loaded")
        path = bench.frames("groups", [offset_commit(f"group-{index}", "loaded", 7) for index in range(LOADED_GROUPS)])
        replay(broker.port, path, connections=1, depth=4, seconds=60, requests=LOADED_GROUPS)
        check("groups", groups_listed(calls), LOADED_GROUPS + 1)
    taken = [restart(bench, directory) for _ in range(2)]
    ready_ms, loaded_ms = min(taken, key=lambda one: one[1])
    return {"load-10000-groups": Figure(loaded_ms, limits.interpreter_start_ms(), f"ready after {ready_ms:,.0f} ms")}


def restart(bench: Bench, directory: Path) -> tuple[float, float]:
    """Milliseconds from the start of the process to ready, and to the last group."""
    with bench.start(directory) as broker:
        since_ready = time.perf_counter()
        with Calls(broker.port) as calls:
            while groups_listed(calls) != LOADED_GROUPS + 1:
                if time.perf_counter() - since_ready > READY_TIMEOUT_S:
                    raise Broken(f"{groups_listed(calls)} of {LOADED_GROUPS} groups after {READY_TIMEOUT_S} s")
                time.sleep(0.005)
            loaded_ms = broker.ready_ms + (time.perf_counter() - since_ready) * 1e3
            check("the offset of a group", committed(calls, f"group-{LOADED_GROUPS - 1}", "loaded"), 7)
    return broker.ready_ms, loaded_ms


def group_scenarios() -> list[Scenario]:
    started = "a Python that starts and does nothing"
    found = [
        Scenario(
            (Kind("load-10000-groups", "start to 10,000 groups loaded", "ms", LESS, started, 2000),),
            load_groups,
            1,
            False,
        )
    ]
    for members in (1, 10, 50):
        title = f"join to assignment, {members} members, {PARTITIONS} partitions"
        kind = Kind(f"join-{members}", title, "ms", LESS, "the initial delay")
        found.append(Scenario((kind,), join(members), 1))
    found.append(
        Scenario((Kind("commits", "offset commits, 50 connections", "commits/s", MORE, "a bare echo"),), commits, 3)
    )
    clients = (("transactions-1000", "librdkafka"), ("transactions-1000-own", "headwater"))
    for name, client_kind in clients:
        title = f"transactions of 1,000 records, {client_kind}"
        target = Kind(name, title, "records/s", MORE, "the same without transactions", 0.9, of_limit=True)
        found.append(Scenario((target,), transactions(name, client_kind), TRANSACTION_ROUNDS))
    return found

"""What becomes of partitions on a Spark standalone cluster of this machine when an executor is killed, when a worker
comes, and when the driver is killed and started again.

Two workers of two cores, three slots: so one executor has two of them, and the other one a core that is free. The
executor with two is killed, then the whole worker that has most; another worker comes, on whose executor a slot starts
that waited in Spark's queue. Records come as in `streams_in_time`, and a result is of a record that was sent after the
kill. A driver is counted from the kill, and another one is started at once: its interpreter, its JVM and its executors
are in it, and so is what a bare application of Spark needs until it has run tasks in Python (`spark_first_task`): that
is measured before, as the limit. All JVMs have the archive of Spark's classes (`headwater.spark.class_archive`), which
is made before if there is none. `python -m bench.streams_on_cluster MASTER BROKERS APPLICATION STATE` is the driver.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.brokers import ROOT, die_with_parent
from bench.report import LESS, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario
from bench.spark_first_task import first_task_ms
from bench.streams import PARTITIONS
from bench.streams_apps import make
from bench.streams_in_time import COMMIT_MS, Beats, Results, topics_of
from bench.streams_state import on_own_broker

WORKERS: Final = 2
CORES: Final = 2
SLOTS: Final = 3
PATIENCE_S: Final = 600.0
SETTLED_S: Final = 1.0
EXECUTOR: Final = "CoarseGrainedExecutorBackend"

Slots = dict[int, tuple[int, list[int]]]  # number -> process, partitions


class Driver:
    """A process with a session that runs the application, and tells its status when it is asked."""

    def __init__(self, command: list[str], home: Path, said: Path) -> None:
        self._said = said
        with said.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "SPARK_HOME": str(home)}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=output, text=True, start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip

    def wait_ready(self) -> None:
        self._line("ready")

    def slots(self) -> Slots:
        """With the partitions whose tasks are open."""
        assert self._process.stdin is not None
        self._process.stdin.write("status\n")
        self._process.stdin.flush()
        status: dict[str, Any] = json.loads(self._line("{"))
        found: Slots = {each["slot"]: (int(each["process"].rpartition(":")[2]), []) for each in status["slots"]}
        for each in status["tasks"]:
            if each["state"] == "running" and each["slot"] in found:
                found[each["slot"]][1].append(int(each["task"].rpartition("_")[2]))
        return found

    def kill(self) -> None:
        """Python alone: its JVM notices, and ends, and so do the executors."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """Stops the application; whoever does not end is killed, with what it has started."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
            self._process.communicate(timeout=60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(ValueError):
            self._process.communicate()

    def _line(self, begin: str) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(begin):
            raise Broken(f"the driver said {line!r}: {self.said()}")
        return line

    def said(self) -> str:
        return self._said.read_text(errors="replace")[-800:]


class Measured:
    def __init__(self, cluster: Any, start: Any, results: Results) -> None:
        """`start` starts a driver."""
        self._cluster, self._start, self._results = cluster, start, results
        self._floor_ms = first_task_ms(cluster.master, cluster.home, WORKERS * CORES)
        self.driver: Driver = start()
        self.driver.wait_ready()

    # What is asked for

    def lost_executor(self) -> Figures:
        self._all_open(SLOTS)
        slots = self.driver.slots()
        executor, on_it = max(self._by_executor(slots).items(), key=lambda found: len(found[1]))
        lost = [partition for number in on_it for partition in slots[number][1]]
        others = sorted(set(range(PARTITIONS)) - set(lost))
        if not lost or not others:
            raise Broken(f"the executor that is to be killed has partitions {lost} of {PARTITIONS}")
        os.kill(executor, signal.SIGKILL)
        killed = time.perf_counter()
        back = self._came_after(killed, lost, "partitions of an executor that was killed did not go on")
        self._results.until(lambda: time.perf_counter() > back + SETTLED_S, "time stands still")
        paused = max(self._results.longest_pause(each, killed, back) for each in others)
        every = f"commit every {COMMIT_MS} ms"
        return {
            "streams-lost-executor": Figure(
                (back - killed) * 1e3,
                None,
                f"{len(on_it)} of {SLOTS} slots, {len(lost)} of {PARTITIONS} partitions, {every}",
            ),
            "streams-lost-executor-others": Figure(paused * 1e3, None, f"{len(others)} partitions, {every}"),
        }

    def new_worker(self) -> Figures:
        self._all_open(SLOTS)
        mine = {number: self._below(self._cluster.worker(number)) for number in range(WORKERS)}
        slots = self.driver.slots()
        most = max(mine, key=lambda number: sum(process in mine[number] for process, _ in slots.values()))
        self._cluster.kill_worker(most)
        killed = time.perf_counter()
        self._came_after(killed, range(PARTITIONS), "partitions of a worker that was killed did not go on")
        added, began = self._cluster.add_worker(), time.perf_counter()
        found: list[int] = []

        def has_tasks() -> bool:
            here = self._below(self._cluster.worker(added))
            found[:] = [each for process, owned in self.driver.slots().values() if process in here for each in owned]
            return bool(found)

        self._results.until(has_tasks, "a worker that came got no tasks")
        owned = time.perf_counter()
        joined = self._came_after(owned, found, "tasks that moved to a worker did not go on")
        also = f"{len(found)} of {PARTITIONS} partitions, with its JVM and that of its executor"
        return {"streams-new-worker": Figure((joined - began) * 1e3, None, also)}

    def lost_driver(self) -> Figures:
        self._all_open(1)
        self.driver.kill()
        killed = time.perf_counter()
        former, self.driver = self.driver, self._start()
        try:
            back = self._came_after(killed, range(PARTITIONS), "the application of a killed driver did not go on")
        except Broken as error:
            raise Broken(f"{error}: {self.driver.said()}") from error
        self.driver.wait_ready()
        former.close()
        also = f"{PARTITIONS} partitions, with its JVM and its executors"
        return {"streams-lost-driver": Figure((back - killed) * 1e3, self._floor_ms, also)}

    # How

    def _all_open(self, slots: int) -> None:
        """And every partition gives results."""

        def is_so() -> bool:
            found = self.driver.slots().values()
            return len(found) >= slots and sum(len(owned) for _, owned in found) == PARTITIONS

        self._results.until(is_so, "not all tasks are open")
        now = time.perf_counter()
        self._came_after(now, range(PARTITIONS), "the application gives no results")

    def _came_after(self, moment: float, partitions: Iterable[int], what: str) -> float:
        """When all of them had a result of a record that was sent after that."""
        wanted = list(partitions)
        self._results.until(lambda: all(self._results.first_sent_after(moment, each) for each in wanted), what)
        return max(self._results.first_sent_after(moment, each) or 0.0 for each in wanted)

    def _by_executor(self, slots: Slots) -> dict[int, list[int]]:
        """The slots of each executor, by its process."""
        import psutil

        found: dict[int, list[int]] = {}
        for number, (process, _) in slots.items():
            for above in psutil.Process(process).parents():
                if EXECUTOR in " ".join(above.cmdline()):
                    found.setdefault(above.pid, []).append(number)
                    break
        return found

    def _below(self, process: int) -> set[int]:
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            return {each.pid for each in psutil.Process(process).children(recursive=True)}
        return set()


@contextmanager
def measured(bench: Bench) -> Iterator[Measured]:
    from tests.spark.support.standalone import StandaloneCluster

    from headwater.spark.class_archive import archive_options, find_archive
    from headwater.spark.make_class_archive import make_archive
    from headwater.spark.sessions import QUICK_JAVA, data_home

    archive = find_archive(data_home(os.environ)) or make_archive(data_home(os.environ))
    java = f"{archive_options(archive)} {QUICK_JAVA}"
    bench._used += 1
    name = f"bench-cluster-{bench._used}"
    folder = bench.folder / name
    with (
        topics_of(bench, name, "in", "out") as brokers,
        StandaloneCluster(folder, WORKERS, java_options=java, cores=CORES) as cluster,
    ):
        command = [
            sys.executable,
            "-m",
            "bench.streams_on_cluster",
            cluster.master,
            brokers,
            name,
            str(folder / "state"),
        ]
        beats = Beats(brokers, f"{name}.in")
        results = Results(brokers, f"{name}.out", beats, PATIENCE_S)
        started: list[Driver] = []

        def start() -> Driver:
            started.append(Driver(command, cluster.home, folder / "driver.said"))
            return started[-1]

        try:
            application = Measured(cluster, start, results)
            beats.start()
            yield application
        finally:
            beats.stopping.set()
            if beats.is_alive():
                beats.join()
            for driver in started:
                driver.close()
            results.close()


def losses(bench: Bench) -> Figures:
    with measured(bench) as application:
        return application.lost_executor() | application.new_worker()


def restart(bench: Bench) -> Figures:
    with measured(bench) as application:
        return application.lost_driver()


def on_cluster_scenarios() -> list[Scenario]:
    def row(name: str, title: str, target_ms: int) -> Kind:
        return Kind(f"streams-{name}", f"Streams on a Spark cluster: {title}", "ms", LESS, "", target_ms)

    executors = (
        row("lost-executor", "partitions of a killed executor go on", 3_000),
        row("lost-executor-others", "the others pause meanwhile", 200),
        row("new-worker", "a new worker has tasks", 15_000),
    )
    driver = (row("lost-driver", "a killed driver, started again, processes", 15_000),)
    return [
        Scenario(executors, on_own_broker(losses), 1, needs_broker=False, about_broker=False),
        Scenario(driver, on_own_broker(restart), 1, needs_broker=False, about_broker=False),
    ]


def open_session(master: str) -> Any:
    """As `headwater stream run` has it, for small executors."""
    import headwater.spark
    from headwater.spark.sessions import slot_settings

    return headwater.spark.session("bench", master=master, **{"spark.executor.memory": "512m", **slot_settings(master)})


def main(master: str, brokers: str, name: str, state: str) -> None:
    spark = open_session(master)
    while spark.sparkContext.defaultParallelism < WORKERS * CORES:  # executors that start: a run waits for 30 s only
        time.sleep(0.05)
    run = make("count", brokers, name).run(spark, slots=SLOTS, state_dir=state, commit_interval_ms=COMMIT_MS)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(run.status()), flush=True)
    run.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Kills and stops of whatever a streams application on Spark stands on: slots, executors, the driver, brokers.

Each blow is one process that dies (SIGKILL) or stands still for a while (SIGSTOP). Choices come from a seed; what
processes make of them differs from run to run.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from chaos.support.cluster import Cluster
from spark.support import executors
from spark.support.streams_drivers import Driver

SLOT_STOPPED_S: Final = (0.2, 13.0)  # a slot that says nothing for ten seconds is given up
OTHERS_STOPPED_S: Final = (0.5, 8.0)  # a broker loses its session after four
WEIGHTS: Final = {
    "slot killed": 10,
    "slot stopped": 4,
    "executor killed": 4,
    "executor stopped": 2,
    "driver killed": 2,
    "driver stopped": 2,
    "broker killed": 5,
    "broker stopped": 4,
}


class Storm:
    def __init__(
        self,
        cluster: Cluster,
        dice: random.Random,
        folder: Path,
        spark: dict[str, str],
        send: Callable[[int], None],
        **run: Any,
    ) -> None:
        """`send` so many records. `run`: what each driver is told to run."""
        self.counts: Counter[str] = Counter()
        self._cluster, self._dice, self._folder = cluster, dice, folder
        self._spark, self._send, self._run = spark, send, run
        self._old: list[Driver] = []
        self._lives = 0
        self.driver = self._start()

    @property
    def blows(self) -> int:
        return self.counts.total()

    def _start(self) -> Driver:
        self._lives += 1
        driver = Driver(self._folder / f"driver-{self._lives}.log", master=executors.MASTER, **self._spark)
        try:
            driver.ask(**self._run)
        except BaseException:
            driver.close()
            raise
        return driver

    def blow(self) -> str:
        """-> what was hit; nothing where the victim was not there at that moment."""
        kind = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        victim, how = kind.split()
        self._send(self._dice.randrange(20, 80))
        hit = getattr(self, f"_{victim}")(how == "killed")
        self._send(self._dice.randrange(20, 80))
        if not hit:
            return ""
        self.counts[kind] += 1
        return kind

    def _slot(self, killed: bool) -> bool:
        processes = sorted(self.driver.processes(self._run["run"]).values())
        return bool(processes) and self._hit(self._dice.choice(processes), killed, SLOT_STOPPED_S)

    def _executor(self, killed: bool) -> bool:
        found = sorted(executors.executors(self.driver.pid))
        return bool(found) and self._hit(self._dice.choice(found), killed, OTHERS_STOPPED_S)

    def _driver(self, killed: bool) -> bool:
        if not killed:
            return self._hit(self.driver.pid, False, OTHERS_STOPPED_S)
        self.driver.kill()  # its JVM notices, and goes on for a moment beside the next one
        self._old.append(self.driver)
        self._send(30)
        self.driver = self._start()
        self._end_old()
        return True

    def _broker(self, killed: bool) -> bool:
        number = self._dice.choice(sorted(self._cluster.members))
        if killed:
            self._cluster.kill(number)
            self._send(30)
            self._cluster.start(number)
        else:
            self._cluster.pause(number)
            self._send(30)
            time.sleep(self._dice.uniform(*OTHERS_STOPPED_S))
            self._cluster.resume(number)
        return True

    def _hit(self, pid: int, killed: bool, stopped_s: tuple[float, float]) -> bool:
        """False: it has ended by itself."""
        try:
            os.kill(pid, signal.SIGKILL if killed else signal.SIGSTOP)
        except ProcessLookupError:
            return False
        if not killed:
            self._send(30)
            time.sleep(self._dice.uniform(*stopped_s))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return True

    def _end_old(self) -> None:
        while self._old:
            self._old.pop().close()

    def close(self) -> None:
        self._end_old()
        self.driver.close()

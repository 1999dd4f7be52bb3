"""Faults one after the other on a cluster of real processes, drawn from a seed that is printed: kills, clean stops,
brokers that stand still, links that are cut, disks that are full, servers of the ensemble that die.

At most one broker is down or cut off from ZooKeeper at a time, so that clients that wait for two in sync can go on.
`calm` ends all of it.
"""

import errno
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.support.cluster import Cluster
from compat.support.faults import Faults


class Storm:
    def __init__(self, cluster: Cluster, topics: list[str], seed: int) -> None:
        self.cluster, self.topics = cluster, topics
        self.dice = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._disks: dict[int, Faults] = {}

    def prepare_disks(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each broker is started anew, with a disk that can be full."""
        for number in self.cluster.members:
            self._disks[number] = faults = Faults(directory / f"disk-{number}")
            faults.only(self.cluster.members[number].log_dir)
            self._stop(number)
            self._start(number, monkeypatch)

    def _start(self, number: int, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        with pytest.MonkeyPatch.context() if monkeypatch is None else monkeypatch.context() as patch:
            for name, value in self._disks[number].environment().items() if number in self._disks else ():
                patch.setenv(name, value)
            self.cluster.start(number)

    def _stop(self, number: int) -> None:
        self.cluster.stop(number)

    def blow(self) -> str:
        """One fault, from its beginning to its end; which one it was."""
        kinds: dict[Callable[[int], None], int] = {
            self._kill: 10, self._restart: 2, self._pause: 2, self._cut_between: 2, self._cut_from_zookeeper: 2,
            self._fill: 2, self._kill_server: 1,
        }  # fmt: skip
        fault = self.dice.choices(list(kinds), list(kinds.values()))[0]
        topic = self.dice.choice(self.topics)
        leaders = [state[0] for state in self.cluster.describe(topic).values() if state[0] in self.cluster.members]
        number = self.dice.choice([*leaders, *self.cluster.members])
        fault(number)
        name = fault.__name__.removeprefix("_")
        self.counts[name] += 1
        return name

    def _kill(self, number: int) -> None:
        time.sleep(self.dice.uniform(0, 0.5))
        self.cluster.kill(number)
        time.sleep(self.dice.choice((0, 0.2, 1, 4)))
        self._start(number)

    def _restart(self, number: int) -> None:
        self._stop(number)
        time.sleep(self.dice.choice((0, 1, 3)))
        self._start(number)

    def _pause(self, number: int) -> None:
        self.cluster.pause(number)
        time.sleep(self.dice.choice((0.3, 1.5, 6)))
        self.cluster.resume(number)

    def _cut_between(self, number: int) -> None:
        other = self.dice.choice([each for each in self.cluster.members if each != number])
        self.cluster.cut_between(number, other)
        time.sleep(self.dice.uniform(0.3, 5))
        self.cluster.heal()

    def _cut_from_zookeeper(self, number: int) -> None:
        self.cluster.cut_from_zookeeper(number)
        time.sleep(self.dice.uniform(0.3, 6))
        self.cluster.heal()

    def _fill(self, number: int) -> None:
        if number in self._disks:
            self._disks[number].set(write_error=errno.ENOSPC)
            time.sleep(self.dice.uniform(0.3, 3))
            self._disks[number].set(write_error=0)

    def _kill_server(self, number: int) -> None:
        self.cluster.kill_server(number % len(self.cluster.servers))
        time.sleep(self.dice.uniform(0.3, 3))
        self.cluster.start_servers()

    def calm(self) -> None:
        for faults in self._disks.values():
            faults.set(write_error=0)
        self.cluster.heal()
        self.cluster.start_servers()
        for number, member in self.cluster.members.items():
            if member.process is None:
                self._start(number)
        for topic in self.topics:
            self.cluster.await_in_sync(topic)

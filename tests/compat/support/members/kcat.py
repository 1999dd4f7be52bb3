"""`kcat -G`: a member in a process of its own, which can be killed. It commits by itself and takes no orders."""

import re
import signal
import subprocess
import threading

from compat.support.members.base import WAIT_S, Got, Member, Place
from compat.support.members.confluent import configuration

LINE = re.compile(r"(.+?) (\d+) (\d+) (.*)")
REBALANCED = re.compile(r"% Group .* rebalanced \(memberid .*\): (assigned|revoked): ?(.*)")
PLACE = re.compile(r"(\S+) \[(\d+)\]")


class KcatMember(Member):
    name = "kcat"
    assignors = ("range", "roundrobin")  # its rebalance callback knows no incremental changes

    def open(self) -> None:
        config = configuration(self.bootstrap, self.joining)
        del config["bootstrap.servers"], config["log_level"], config["group.protocol"], config["group.id"]
        settings = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in config.items()
        ]
        topics = [self.joining.pattern] if self.joining.pattern else list(self.joining.topics)
        command = ["kcat", "-b", self.bootstrap, "-u", "-f", "%t %p %o %s\\n"]
        for setting in settings:
            command += ["-X", setting]
        self._process = subprocess.Popen(
            [*command, "-G", self.joining.group, *topics], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_events)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := LINE.fullmatch(line.rstrip("\n")):
                topic, partition, offset, value = found.groups()
                self.received.append(Got(topic, int(partition), int(offset), value.encode()))

    def _read_events(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := REBALANCED.match(line):
                places = frozenset((topic, int(partition)) for topic, partition in PLACE.findall(found[2]))
                self.event(found[1], places)
                cooperative = "cooperative" in self.joining.assignor
                before = self.assignment if cooperative else frozenset()
                self.assignment = before | places if found[1] == "assigned" else before - places
            elif "ERROR" in line:
                self.errors.append(line.strip())

    def close(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.closed:
            return
        self.closed = True
        self._process.send_signal(number)
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            for thread in self._threads:
                thread.join()
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None
                pipe.close()

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        raise NotImplementedError

    def committed(self, *places: Place) -> dict[Place, int | None]:
        raise NotImplementedError

    def seek(self, place: Place, offset: int) -> None:
        raise NotImplementedError

    def pause(self, *places: Place) -> None:
        raise NotImplementedError

    def resume(self, *places: Place) -> None:
        raise NotImplementedError

"""The Java consumer, in the JVM of Groups.java. `remain` ends it as a kill does: the group is not told."""

import threading
from typing import Any

from compat.support.members.base import WAIT_S, Got, Member, Place

PACKAGE = "org.apache.kafka.clients.consumer."
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class JavaMember(Member):
    name = "java"

    def open(self) -> None:
        joining = self.joining
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": joining.group,
            "group.protocol": joining.protocol,
            "auto.offset.reset": joining.reset,
            "enable.auto.commit": bool(joining.auto_commit_ms),
            "auto.commit.interval.ms": joining.auto_commit_ms or 5000,
            "isolation.level": "read_committed" if joining.committed else "read_uncommitted",
            "metadata.max.age.ms": joining.metadata_ms,
            "reconnect.backoff.max.ms": 500,
            "fetch.max.wait.ms": 100,
        }
        if joining.instance is not None:
            config["group.instance.id"] = joining.instance
        if joining.protocol == "classic":
            config["partition.assignment.strategy"] = PACKAGE + ASSIGNORS[joining.assignor]
            config["session.timeout.ms"] = joining.session_ms
            config["heartbeat.interval.ms"] = joining.heartbeat_ms
        elif joining.remote is not None:
            config["group.remote.assignor"] = joining.remote
        self._handle: str = self.java.call("join", config=config, topics=list(joining.topics), pattern=joining.pattern)[
            "handle"
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self._look()

    def _look(self) -> None:
        state = self.java.call("state", handle=self._handle)
        for topic, partition, offset, value in state["received"]:
            self.received.append(Got(topic, partition, offset, value.encode()))
        for kind, places in state["events"]:
            self.event(kind, [(topic, partition) for topic, partition in places])
        self.errors += state["errors"]
        self.assignment = frozenset((topic, partition) for topic, partition in state["assignment"])

    def close(self) -> None:
        self._end("leave")

    def remain(self) -> None:
        self._end("remain")

    def _end(self, op: str) -> None:
        if not self.closed:
            self.closed = True
            self._stop.set()
            self._thread.join(WAIT_S)
            self._tell(op)

    def _tell(self, op: str, **arguments: Any) -> Any:
        return self.java.call(op, handle=self._handle, **arguments)

    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        self._tell("commit", offsets=None if offsets is None else _offsets(offsets))

    def commit_soon(self, *offsets: dict[Place, int]) -> None:
        self._tell("commitSoon", offsets=[_offsets(one) for one in offsets])

    def committed(self, *places: Place) -> dict[Place, int | None]:
        found = self._tell("committed", places=[list(place) for place in places])["committed"]
        return {(topic, partition): offset for topic, partition, offset in found}

    def seek(self, place: Place, offset: int) -> None:
        self._tell("seek", place=list(place), offset=offset)

    def pause(self, *places: Place) -> None:
        self._tell("pause", places=[list(place) for place in places])

    def resume(self, *places: Place) -> None:
        self._tell("resume", places=[list(place) for place in places])


def _offsets(offsets: dict[Place, int]) -> list[list[object]]:
    return [[*place, offset] for place, offset in offsets.items()]

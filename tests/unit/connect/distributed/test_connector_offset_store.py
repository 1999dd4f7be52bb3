"""A connector's own offsets topic over the worker's: which counts, and in which order both are written."""

from collections.abc import Mapping

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.distributed.stores import ConnectorOffsetStore


class Half:
    """One of the two topics, in memory; `log` is shared."""

    def __init__(self, topic: str, log: list[tuple[str, str, object]], **entries: str) -> None:
        self.topic, self._log = topic, log
        self.entries = {name.encode(): value.encode() for name, value in entries.items()}
        self.is_gone = False

    def refresh(self) -> None:
        self._log.append((self.topic, "refresh", None))

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def all(self) -> dict[bytes, bytes]:
        return dict(self.entries)

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        self._log.append((self.topic, "set", dict(changes)))

    def send(self, changes: Mapping[bytes, bytes]) -> None:
        if self.is_gone:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
        self._log.append((self.topic, "send", dict(changes)))


def stores() -> tuple[ConnectorOffsetStore, Half, list[tuple[str, str, object]]]:
    log: list[tuple[str, str, object]] = []
    workers = Half("workers", log, a="old", b="there")
    own = Half("own", log, a="new")
    return ConnectorOffsetStore(own, workers), workers, log  # type: ignore[arg-type]


def test_what_the_connectors_topic_has_counts() -> None:
    store, _, log = stores()
    assert (store.get(b"a"), store.get(b"b"), store.get(b"c")) == (b"new", b"there", None)
    assert store.all() == {b"a": b"new", b"b": b"there"}
    assert store.topic == "own"
    store.refresh()
    assert {topic for topic, _, _ in log} == {"own", "workers"}


def test_tombstones_are_in_the_workers_topic_first_and_offsets_last() -> None:
    store, _, log = stores()
    store.set({b"a": b"newer", b"b": None})
    assert log == [
        ("workers", "set", {b"b": None}),
        ("own", "set", {b"a": b"newer", b"b": None}),
        ("workers", "send", {b"a": b"newer"}),
    ]


def test_a_copy_that_cannot_be_written_is_told_and_nothing_more() -> None:
    store, workers, log = stores()
    workers.is_gone = True
    store.set({b"a": b"newer"})
    assert log == [("own", "set", {b"a": b"newer"})]

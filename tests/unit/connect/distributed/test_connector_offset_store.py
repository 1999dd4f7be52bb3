"""A connector's own offsets topic over the worker's: which counts, and in which order both are written."""

from collections.abc import Callable, Mapping

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.distributed.stores import ConnectorOffsetStore, KafkaOffsetStore
from headwater.connect.errors import ConnectError, RetriableError


class Half:
    """One of the two topics, in memory; `log` is shared."""

    def __init__(self, topic: str, log: list[tuple[str, str, object]], **entries: str) -> None:
        self.topic, self._log = topic, log
        self.entries = {name.encode(): value.encode() for name, value in entries.items()}

    def refresh(self) -> None:
        self._log.append((self.topic, "refresh", None))

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def all(self) -> dict[bytes, bytes]:
        return dict(self.entries)

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        self._log.append((self.topic, "set", dict(changes)))

    def send(self, changes: Mapping[bytes, bytes]) -> None:
        self._log.append((self.topic, "send", dict(changes)))


def stores() -> tuple[ConnectorOffsetStore, Half, list[tuple[str, str, object]]]:
    log: list[tuple[str, str, object]] = []
    workers = Half("workers", log, a="old", b="there")
    own = Half("own", log, a="new")
    return ConnectorOffsetStore("own", lambda _topic: own, workers), workers, log  # type: ignore[arg-type,return-value]


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


class Copying:
    """A producer whose sends are refused at once, time out, or fail later."""

    def __init__(self, raised: Exception | None) -> None:
        self._raised = raised

    def send(self, *_arguments: object, on_delivery: Callable[..., None], **_rest: object) -> None:
        if self._raised is not None:
            raise self._raised
        on_delivery(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), None)


@pytest.mark.parametrize("raised", [KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), TimeoutError("no"), None])
def test_a_copy_that_cannot_be_written_is_told_and_nothing_more(
    raised: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[tuple[str, str, object]] = []
    workers = KafkaOffsetStore("workers", {}, Copying(raised), None)  # type: ignore[arg-type]
    store = ConnectorOffsetStore("own", lambda _topic: Half("own", log), workers)  # type: ignore[arg-type,return-value]
    with caplog.at_level("WARNING", "headwater.connect"):
        store.set({b"a": b"newer"})
    assert log == [("own", "set", {b"a": b"newer"})]
    assert "event=offsets-not-copied topic='workers'" in caplog.text


def test_the_connectors_topic_is_opened_by_who_reads_it_and_again_after_a_failure() -> None:
    opened: list[str] = []

    def opening(topic: str) -> Half:
        opened.append(topic)
        if len(opened) == 1:
            raise ConnectError("out of reach")
        return Half(topic, [], a="new")

    store = ConnectorOffsetStore("own", opening, Half("workers", []))  # type: ignore[arg-type]
    assert (store.topic, opened) == ("own", [])
    with pytest.raises(ConnectError):
        store.refresh()
    store.refresh()
    assert store.get(b"a") == b"new"
    assert opened == ["own", "own"]


class Delivery:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def result(self, _timeout_s: float) -> None:
        raise self._error


class Refusing:
    def __init__(self, error: Exception, *, at_once: bool) -> None:
        self._error, self._at_once = error, at_once

    def send(self, *_record: object, **_rest: object) -> Delivery:
        if self._at_once:
            raise self._error
        return Delivery(self._error)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TimeoutError("not done within 60 s"), True),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no"), True),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no"), True),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"), False),
    ],
)
def test_offsets_that_brokers_did_not_take_may_be_written_again(error: Exception, again: bool, at_once: bool) -> None:
    store = KafkaOffsetStore("workers", {}, Refusing(error, at_once=at_once), None)  # type: ignore[arg-type]
    with pytest.raises(ConnectError, match="Cannot write the offsets to the topic workers") as raised:
        store.set({b"a": b"1"})
    assert isinstance(raised.value, RetriableError) is again

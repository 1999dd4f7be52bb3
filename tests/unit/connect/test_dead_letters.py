"""What a record is like in the dead letter topic: as it was, and why it is there."""

import logging
from typing import Any

import pytest

from headwater.client import ConsumerRecord
from headwater.connect.errors import ConnectError, DataError
from headwater.connect.runtime import dead_letters
from headwater.connect.runtime.dead_letters import DeadLetters
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Failure, Stage

CONFIG = {
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.context.headers.enable": True,
    "errors.deadletterqueue.topic.replication.factor": 1,
}


class Broker:
    """An admin client and a producer."""

    def __init__(self, _settings: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.flushes = 0

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_error: object) -> None: ...

    def create_topics(self, _topics: Any) -> dict[str, None]:
        return {"dead": None}

    def send(self, topic: str, value: bytes, **more: Any) -> None:
        self.sent.append({"topic": topic, "value": value, **more})

    def flush(self) -> None:
        self.flushes += 1


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> DeadLetters:
    for name in ("Admin", "Producer"):
        monkeypatch.setattr(dead_letters, name, Broker)
    return DeadLetters(TaskId("c", 3), CONFIG, {}, {}, lambda text: text)


def reported(dead: DeadLetters, time_ms: int, *headers: tuple[str, bytes]) -> dict[str, Any]:
    record = ConsumerRecord("t", 1, 7, time_ms, 0, b"k", b"v", headers, -1)
    dead.report(Failure(Stage.VALUE_CONVERTER, "a.B", DataError("no"), record, 1))
    return dead._producer.sent[-1]  # type: ignore[attr-defined, no-any-return]


def test_a_dead_letter_has_the_time_of_its_record(dead: DeadLetters) -> None:
    """So that who reads it again has it where it belongs."""
    sent = reported(dead, 1_700_000_000_000, ("h", b"1"))
    assert (sent["topic"], sent["value"], sent["key"], sent["timestamp_ms"]) == ("dead", b"v", b"k", 1_700_000_000_000)
    assert sent["headers"][0] == ("h", b"1")
    assert dict(sent["headers"])["__connect.errors.offset"] == b"7"
    assert reported(dead, -1)["timestamp_ms"] is None


def test_a_dead_letter_that_dies_again_says_where_it_came_from_first(dead: DeadLetters) -> None:
    sent = reported(dead, 0, ("__connect.errors.topic", b"before"))
    assert [value for name, value in sent["headers"] if name == "__connect.errors.topic"] == [b"before", b"t"]
    assert dict(sent["headers"])["__connect.errors.task.id"] == b"3"


def test_a_dead_letter_that_is_lost_is_told(dead: DeadLetters, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "headwater.connect"):
        reported(dead, 0)["on_delivery"](None, object())
        assert caplog.records == []
        reported(dead, 0)["on_delivery"](OSError("full"), None)
    assert "dead-letter-lost" in caplog.text


def test_a_dead_letter_that_is_lost_fails_its_task_before_anything_is_committed(dead: DeadLetters) -> None:
    """Its record was in no topic and no target, and its offset was committed."""
    dead.flush()
    assert dead._producer.flushes == 0  # type: ignore[attr-defined]
    reported(dead, 0)["on_delivery"](OSError("full"), None)
    with pytest.raises(ConnectError, match="dead letter topic 'dead': full"):
        dead.flush()
    reported(dead, 0)["on_delivery"](None, object())
    dead.flush()
    assert dead._producer.flushes == 2  # type: ignore[attr-defined]

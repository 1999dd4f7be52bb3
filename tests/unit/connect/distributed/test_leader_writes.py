"""A leader whose write has failed, because brokers were away, say: it leads all the same."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.distributed import stores
from headwater.connect.distributed.config_records import ConnectorConfig
from headwater.connect.distributed.leader import Leader
from headwater.connect.distributed.stores import ConfigStore
from headwater.connect.distributed.topic_log import TopicLog
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.refusals import BadRequest, Conflict

NOBODY: Any = None
RECORD = ConnectorConfig("c", {})


class Delivery:
    def result(self, _timeout_s: float) -> None:
        raise TimeoutError("not done within 60 s")


class Brokers:
    """What producers meet: `trouble` is raised at the end of a transaction; without transactions nothing arrives."""

    def __init__(self) -> None:
        self.trouble: KafkaError | None = None
        self.producers = 0
        self.written = 0

    def __call__(self, _settings: object) -> "Brokers":
        self.producers += 1
        return self

    def init_transactions(self) -> None: ...

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        yield
        if self.trouble is not None:
            raise self.trouble

    def send(self, *_record: object, **_more: object) -> Delivery:
        self.written += 1
        return Delivery()

    def close(self, _timeout_s: float) -> None: ...


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(stores, "Producer", made)
    monkeypatch.setattr(TopicLog, "read_to_end", lambda *_: None)
    return made


def leader(transactional_id: str | None = "t") -> Leader:
    store = ConfigStore("t", {}, {}, NOBODY, lambda _commands: None, transactional_id)
    made = Leader(store, NOBODY, "g", lambda: True, delay_max_ms=0, key_ttl_ms=1000)
    made.elected(True)
    return made


def test_the_write_behind_one_that_failed_is_done(brokers: Brokers) -> None:
    """It was refused: 409, this worker does not lead its group any more."""
    leading = leader()
    brokers.trouble = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    with pytest.raises(ConnectError, match="Failed to write to the config topic"):
        leading.write(RECORD)
    brokers.trouble = None
    leading.write(RECORD)
    assert (brokers.producers, brokers.written) == (2, 2)


def test_a_leader_that_was_fenced_says_so(brokers: Brokers) -> None:
    brokers.trouble = KafkaError(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(Conflict, match="Another worker leads the group now"):
        leader().write(RECORD)


@pytest.mark.usefixtures("brokers")
def test_a_write_without_transactions_that_does_not_arrive_is_told() -> None:
    """It was an error of ours, and the herder's thread did nothing else as long as it lasted."""
    with pytest.raises(ConnectError, match="Failed to write to the config topic: not done within 60 s"):
        leader(None).write(RECORD)


@pytest.mark.parametrize("record", [ConnectorConfig("half \ud800", {}), ConnectorConfig("c", {"a": "half \ud800"})])
def test_a_config_with_half_a_character_is_refused(brokers: Brokers, record: ConnectorConfig) -> None:
    """It was a 500 without a reason."""
    with pytest.raises(BadRequest, match="no text in UTF-8"):
        leader().write(record)
    assert brokers.written == 0

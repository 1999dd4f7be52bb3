"""Shards are read a little in each turn, beside each other, and whoever fails does not keep the others from it."""

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.errors import KafkaError
from headwater.broker.coordinators.loading import RECORDS_PER_TURN, Loading, replay_log
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest


class Turns:
    """A loop whose turns are made by hand."""

    def __init__(self) -> None:
        self.planned: list[Callable[[], None]] = []
        self.loading = Loading(self)  # type: ignore[arg-type]
        self.said: list[str] = []

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> None:
        assert delay_ms == 0
        self.planned.append(function)

    def load(self, name: str, *counts: int, fails: bool = False) -> None:
        def steps() -> Iterator[int]:
            for count in counts:
                self.said.append(name)
                yield count
            if fails:
                raise AssertionError("a broken record")
            self.said.append(f"{name} is loaded")

        self.loading.begin(steps())

    def turn(self) -> list[str]:
        """What was done in one turn: what is planned in it is for the next."""
        self.said.clear()
        planned, self.planned = self.planned, []
        for function in planned:
            function()
        return list(self.said)


@pytest.fixture(name="turns")
def turns_fixture() -> Turns:
    return Turns()


def test_nothing_is_read_before_the_next_turn(turns: Turns) -> None:
    turns.load("a", 1)
    assert turns.said == []
    assert turns.turn() == ["a", "a is loaded"]
    assert turns.turn() == []


def test_a_turn_takes_no_more_than_its_share_over_all_shards(turns: Turns) -> None:
    half = RECORDS_PER_TURN // 2
    turns.load("large", half, half, half)
    turns.load("small", half)
    turns.load("third", half)
    assert turns.turn() == ["large", "small"]
    assert turns.turn() == ["third", "large"], "they take turns"
    assert turns.turn() == ["small is loaded", "third is loaded", "large", "large is loaded"]


def test_one_that_fails_does_not_keep_the_others_from_loading(turns: Turns) -> None:
    turns.load("broken", 1, fails=True)
    turns.load("sound", 1)
    assert turns.turn() == ["broken", "sound", "sound is loaded"]
    turns.load("later", 1)
    assert turns.turn() == ["later", "later is loaded"]


class Seen:
    """A shard that only notes what it is told."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        assert producer is None
        self.keys.append(record.key)

    def replay_marker(self, producer: Producer, *, committed: bool) -> None:
        raise AssertionError((producer, committed))


def test_a_large_batch_is_cut_and_what_is_appended_meanwhile_is_read_too(lab: Any) -> None:
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    large = 5 * RECORDS_PER_TURN // 2
    lab.append("orders", 0, large)
    seen = Seen()
    ends: list[int] = []

    def load() -> Iterator[int]:
        ends.append((yield from replay_log(lab.broker.partition("orders", 0).log, seen, 0)))

    steps = load()
    assert next(steps) <= RECORDS_PER_TURN
    assert 0 < len(seen.keys) <= RECORDS_PER_TURN
    lab.append("orders", 0, 3)
    assert max(steps) <= RECORDS_PER_TURN
    assert ends == [large + 3]
    assert len(seen.keys) == large + 3


def test_a_disk_that_cannot_be_read_keeps_no_file_open(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again for as long as it takes: what a deleted log holds open is room that nobody gets back."""
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.append("orders", 0, 1)
    log = lab.broker.partition("orders", 0).log
    before = lab.disk.open_references

    def broken(*_arguments: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(type(log.active.open_file()), "pread", broken)
    with pytest.raises(OSError, match="Input/output error"):
        next(replay_log(log, Seen(), 0))
    assert lab.disk.open_references == before


@pytest.mark.parametrize("batches_left", range(3))
@pytest.mark.parametrize("is_recent", [True, False])
def test_a_file_that_somebody_has_cut_is_told_and_its_rest_not_passed_over(
    lab: Any, batches_left: int, is_recent: bool
) -> None:
    """One that was cut at the end of a batch was taken for whole, or read for ever."""
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    for _ in range(3):
        lab.append("orders", 0, 1)
    log = lab.broker.partition("orders", 0).log
    log.active.open_file().truncate(batches_left * log.active.size_bytes // 3)
    if not is_recent:
        log.active.recent.clear()
    seen = Seen()
    with pytest.raises(KafkaError, match="orders-0: the segment of offset 0 is shorter than it was"):
        next(replay_log(log, seen, 0))
    assert seen.keys == []


def test_a_file_that_is_emptied_while_it_is_read_is_not_read_for_ever(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.append("orders", 0, 1)
    log = lab.broker.partition("orders", 0).log
    reads: list[object] = []

    def empty(*arguments: object) -> bytes:
        reads.append(arguments)
        assert len(reads) < 10, "for ever"
        return b""

    monkeypatch.setattr(type(log.active.open_file()), "pread", empty)
    with pytest.raises(KafkaError, match="orders-0: its file ends before offset 0"):
        next(replay_log(log, Seen(), 0))

"""When a range that is read is said to be silent: without a broker, by a clock that the test moves."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.ranges import RangeReader

PARTITION = TopicPartition("t", 0)


class Reader(RangeReader):
    """What its turns find: the position behind each, and how many records came."""

    def __init__(self, turns: list[tuple[int, int]]) -> None:
        self.now = 0.0
        self._turns = iter(turns)
        self._closed = True
        self._network: Any = None
        self._core: Any = SimpleNamespace(
            assign_range=lambda *_: None,
            wait_for_news=lambda *_: 50.0,
            session=SimpleNamespace(view=SimpleNamespace(leader_of=lambda _: None)),
        )
        self._engine: Any = SimpleNamespace(
            submit=lambda call: call(), run=self._pass, kernel=SimpleNamespace(clock=lambda: self.now)
        )

    def _pass(self, seconds: float) -> None:
        self.now += seconds

    def _turn(self, partition: TopicPartition, take: Any) -> tuple[int, int, int]:
        position, came = next(self._turns)
        return position, came, 0

    def read(self, end: int) -> Any:
        return self._range(PARTITION, 0, end, lambda: (lambda: 0, lambda: "records"), "raise")


def test_a_range_from_which_nothing_comes_is_an_error() -> None:
    with pytest.raises(KafkaError, match="nothing came from 7 on"):
        list(Reader([(7, 0)] * 5).read(100))


def test_a_range_that_goes_on_over_aborted_batches_is_not_silent() -> None:
    """Records that nobody sees may fill a log for longer than a silence may last."""
    turns = [(position, 0) for position in range(0, 1_000, 100)]
    assert list(Reader([*turns, (1_000, 3)]).read(1_000)) == ["records"]


def test_the_time_that_its_reader_takes_is_not_the_silence_of_the_log() -> None:
    reader = Reader([(500, 3), (500, 0), (1_000, 3)])
    found = 0
    for _ in reader.read(1_000):
        found += 1
        reader.now += 600  # with what came: nothing was asked for meanwhile
    assert found == 2

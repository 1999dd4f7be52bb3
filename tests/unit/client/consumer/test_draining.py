"""What one poll takes of many small batches: how often records are copied on the way, and whose lists they are."""

from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch
from unit.client.consumer.fake_log import FakeConsumer, one_broker

P0 = TopicPartition("orders", 0)


class Piece(list[Any]):
    """Records that count what is copied whenever a list of others is joined with them."""

    copied = 0

    def __radd__(self, before: list[Any]) -> list[Any]:
        Piece.copied += len(before)
        return [*before, *self]


@pytest.fixture
def consumer() -> FakeConsumer:
    world, logs = one_broker()
    for at in range(200):
        logs.append(P0, [b"%d" % at])
    made = FakeConsumer(world, auto_offset_reset="earliest")
    made.assign(P0)
    return made


def test_taking_many_small_batches_does_not_copy_what_was_taken_again_and_again(
    consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll of 40,000 records, each a batch, took 6.4 s: the time grew with the square of their number."""
    peek = CompletedFetch.peek
    monkeypatch.setattr(CompletedFetch, "peek", lambda fetch, limit: Piece(peek(fetch, limit)))
    monkeypatch.setattr(Piece, "copied", 0)
    assert [record.offset for record in consumer.poll(limit=1000)] == list(range(200))
    assert Piece.copied <= 200


def test_the_lists_of_a_fetch_stay_as_they_are(consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[Any]] = []
    peek = CompletedFetch.peek

    def seen(fetch: CompletedFetch, limit: int) -> list[Any]:
        given.append(peek(fetch, limit))
        return given[-1]

    monkeypatch.setattr(CompletedFetch, "peek", seen)
    assert len(consumer.poll(limit=1000)) == 200
    assert {len(each) for each in given} <= {0, 1}

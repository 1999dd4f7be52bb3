"""Chunks that become records: when it is their turn, and in the same order."""

import random

from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.partition_group import PartitionGroup, PartitionQueue
from headwater.streams.model.record import InputRecord, Record


def _decode(raw: InputRecord, _partition_time: int) -> Record | None:
    """Every fifth is left out."""
    return None if raw.offset % 5 == 4 else Record(raw.key, raw.value, raw.timestamp, raw.headers)


def _chunk(topic: str, begin: int, times: list[int]) -> Chunk:
    cells: list[bytes | None] = [b"%d" % each for each in times]
    return Chunk(topic, 0, list(range(begin, begin + len(times))), times, cells, cells)


def _group() -> PartitionGroup:
    group = PartitionGroup()
    for topic in ("a", "b"):
        group.register(PartitionQueue((topic, 0), _decode))
    return group


def test_records_of_a_chunk_are_made_when_it_is_their_turn() -> None:
    """Twenty thousand at once took 100 ms, in which no punctuator was called."""
    group, chunk = _group(), _chunk("a", 0, list(range(20_000)))
    group.add_later(("a", 0), chunk)
    assert len(chunk) >= 19_900
    assert group.buffered == 20_000
    assert group.poll() is not None
    assert len(chunk) >= 19_900


def test_chunks_and_records_are_merged_as_records_are() -> None:
    for seed in range(30):
        dice = random.Random(seed)
        by_records, by_chunks = _group(), _group()
        begins = {"a": 0, "b": 0}
        found: list[list[tuple[str, int]]] = [[], []]
        for _ in range(12):
            topic = dice.choice("ab")
            times = [dice.randrange(20) for _ in range(dice.choice([0, 1, 3, 64, 65, 130]))]
            given = _chunk(topic, begins[topic], times)
            begins[topic] += len(times)
            by_records.add((topic, 0), list(given.records()))
            if dice.random() < 0.8:
                by_chunks.add_later((topic, 0), given)
            else:
                by_chunks.add((topic, 0), given.records())
            for _ in range(dice.randrange(100)):
                for group, told in zip((by_records, by_chunks), found, strict=True):
                    polled = group.poll()
                    if polled is not None:
                        told.append((polled[1].topic, polled[1].offset))
            assert by_records.buffered == by_chunks.buffered
            assert by_records.positions() == by_chunks.positions()
        assert found[0] == found[1]
        assert by_records.buffered == by_chunks.buffered

"""Random fetches, many of them damaged, on the compiled hot path of Fetch and on the general way, while the logs
change: the same answers.
"""

import random
from typing import Any

import pytest

from headwater.base.errors import KafkaError
from headwater.server import hot_fetch
from unit.server.support.damage import damaged_at
from unit.server.test_hot_fetch import (
    _CLIENT_ID_ENDS_AT,
    FIRST_TOPIC_ID,
    NOW_MS,
    TOPICS,
    VERSIONS,
    Pair,
    Side,
    append,
    batch,
    both,
    pair,
    request,
)

__all__ = ["pair"]

pytestmark = pytest.mark.skipif(not hot_fetch.COMPILED, reason="the hot path is not compiled")

ASKED = [(name, index) for name, (_, count) in TOPICS.items() for index in range(count)]


def change(chance: random.Random, sides: tuple[Side, Side]) -> None:
    """Something happens to one partition, on both sides."""
    at = chance.randrange(4)
    match chance.randrange(14):
        case 0:
            offset = chance.choice(borders(sides[1], at))
            for side in sides:
                side.partitions[at].log.delete_records_before(offset)
        case 1:
            for side in sides:
                for segment in side.partitions[at].log.segments:
                    segment.let_go()
        case 2:
            offset = sides[1].partitions[at].log.log_end_offset
            for side in sides:
                side.partitions[at].confirm(offset)  # from here on the high watermark stays behind
        case 3:
            for side in sides:
                side.partitions[at].confirm((1 << 63) - 1)
        case 4:
            transaction(chance, sides, at)
        case 5:
            for side in sides:
                side.clock.advance(50)
        case _:
            append(sides, at, batch(chance.randint(1, 4), chance.choice((0, 50, 400, 1000))))


def transaction(chance: random.Random, sides: tuple[Side, Side], at: int) -> None:
    producer_id = chance.randrange(3)
    data = batch(chance.randint(1, 3), producer_id=producer_id, producer_epoch=0, transactional=True)
    is_end = chance.random() < 0.5
    committed = chance.random() < 0.7
    for side in sides:
        partition = side.partitions[at]
        if is_end and producer_id in partition.log.producers.producers:
            partition.append_marker(producer_id, 0, 0, committed, NOW_MS)
        else:
            partition.append_internal(memoryview(bytearray(data)), NOW_MS)


def borders(side: Side, at: int) -> list[int]:
    log = side.partitions[at].log
    known = [offset for segment in log.segments for offset in (segment.base_offset, *segment.recent)]
    return [offset for offset in known if offset >= log.log_start_offset] or [log.log_end_offset]


def random_request(chance: random.Random, side: Side, version: int, session: tuple[int, int]) -> bytes:
    asked = []
    for name, index in sorted(
        chance.sample(ASKED, chance.choice((0, 1, 1, 1, 2, 4) if session[1] > 0 else (1, 1, 2, 4)))
    ):
        at = ASKED.index((name, index))
        log = side.partitions[at].log
        ends = (log.log_start_offset, log.log_end_offset, side.partitions[at].high_watermark)
        near = chance.choice((*ends, chance.choice(borders(side, at)), chance.randint(0, log.log_end_offset)))
        asked.append((name, index, near + chance.choice((0,) * 20 + (1, -1))))
    fields: dict[str, Any] = {}
    if chance.random() < 0.2:
        fields["current_leader_epoch"] = chance.choice((0, 0, 1))
    if version >= 12 and chance.random() < 0.2:
        fields["last_fetched_epoch"] = chance.choice((0, 0, 1))
    return request(
        *asked,
        version=version,
        max_bytes=chance.choice((1 << 20, 1 << 20, 3000, 100, 0)),
        partition_max_bytes=chance.choice((1 << 20, 1 << 20, 2000, 100, 0)),
        min_bytes=chance.choice((1, 1, 0, 2000)),
        wait_ms=chance.choice((500, 0)),
        isolation=chance.choice((0, 1)),
        session=session,
        forgotten=(chance.choice(ASKED),) if chance.random() < 0.05 else (),
        rack=chance.choice(("",) * 20 + ("here",)),
        **fields,
    )


def damaged(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(_CLIENT_ID_ENDS_AT, len(data))
    return damaged_at(chance, data, at)


def next_session(chance: random.Random, side: Side, version: int) -> tuple[int, int]:
    known = [
        each for each in side.fetch_sessions._sessions.values() if each.uses_topic_ids == (version >= FIRST_TOPIC_ID)
    ]
    if version < 7 or not known or chance.random() < 0.3:
        return (0, chance.choice((-1, -1, -1, 0))) if version >= 7 else (0, -1)
    session = chance.choice(known)
    return session.session_id, session.epoch + chance.choice((0,) * 15 + (1, -1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "config", [{}, {"segment_bytes": 5000, "index_interval_bytes": 300}], ids=["one segment", "many segments"]
)
def test_random_fetches_mean_the_same_on_both_ways(pair: Pair, config: dict[str, int], seed: int) -> None:
    chance = random.Random(seed)
    sides = pair(**config)
    versions = [chance.choice(VERSIONS), chance.choice((11, 12)), chance.choice((13, 17, 18))]
    for _ in range(400):
        if chance.random() < 0.5:
            try:
                change(chance, sides)
            except KafkaError as problem:
                pytest.fail(f"a change was refused: {problem}")
        version = chance.choice(versions)
        frame = random_request(chance, sides[1], version, next_session(chance, sides[1], version))
        both(sides, damaged(chance, frame) if chance.random() < 0.15 else frame)
    assert sides[0].answered_compiled > 30

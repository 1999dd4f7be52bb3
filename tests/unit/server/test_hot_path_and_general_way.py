"""Random frames, many of them damaged, on both hot paths of Produce and on the general way: the same answers, the same
log.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import ConnectionContext
from headwater.log.producer_state import ProducerStates
from headwater.replication.partition import Partition
from headwater.server.dispatch import begin
from unit.server.support.damage import damaged_at
from unit.server.test_hot_path import NOW_MS, TOPIC, VERSIONS, Side, batch, changed, frame

_CLIENT_ID_ENDS_AT = 16  # the hot paths do not look at it, so that one which is not UTF-8 means nothing to them
_CLOSED = b"the connection is closed"


class General:
    """What the general way wants to see of a broker."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.authorizer = None
        self.now_ms = side.now_ms
        self.scheduler = side.log.context.scheduler
        self.schema_policies: dict[bytes, object] = {}

    def partition(self, topic: str, index: int) -> Partition:
        if topic != TOPIC or index != 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.side.partition

    def partition_of(self, topic_id: bytes, index: int) -> Partition:
        if bytes(topic_id) not in self.side.partitions_by_topic_id or index != 0:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.side.partition

    def handle(self, data: bytes) -> bytes:
        try:
            begun = begin(self, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), memoryview(bytearray(data)))  # type: ignore[arg-type]
        except KafkaError:
            return _CLOSED
        return b"" if begun.result is None else b"".join(bytes(chunk) for chunk in begun.frame(begun.result))


def random_batch(chance: random.Random, states: ProducerStates) -> bytearray:
    if chance.random() < 0.1:
        field, bits = chance.choice(
            (("attributes", 15), ("record_count", 31), ("batch_length", 31), ("max_timestamp", 63))
        )
        return changed(**{field: chance.choice((0, 1, -1, 5, 8, 16, (1 << bits) - 1, -1 << bits))})
    fields: dict[str, Any] = {}
    if chance.random() < 0.5:
        producer_id = chance.randint(0, 2)
        known = states.producers.get(producer_id)
        sequence = (known.next_sequence if known else 0) + chance.choice((0,) * 10 + (1, 3))
        epoch = max(0, (known.epoch if known else 0) + chance.choice((0,) * 20 + (1, -1)))
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        fields["transactional"] = chance.random() < 0.03
    timestamp = NOW_MS + chance.choice((0,) * 8 + (-10, 10, 1 << 41, -NOW_MS - 1))
    return batch(chance.choice((1, 1, 2, 9)), chance.choice((0, 10, 700)), timestamp=timestamp, **fields)


def damaged(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(
        _CLIENT_ID_ENDS_AT + 3, len(data) if chance.random() < 0.3 else 60
    )  # the transaction stays null
    return damaged_at(chance, data, at)


@pytest.fixture
def sides(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Side]]:
    made = []
    for name in ("compiled", "python", "general"):
        (tmp_path / name).mkdir()
        made.append(Side(tmp_path / name, compiled=name == "compiled", **request.param))
    yield made
    for side in made:
        side.manager.abandon()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sides", [{}, {"segment_bytes": 9000, "index_interval_bytes": 500}], indirect=True, ids=str)
def test_random_frames_mean_the_same_on_every_way(sides: list[Side], seed: int) -> None:
    chance = random.Random(seed)
    ways = [General(side) for side in sides]
    versions = chance.sample(VERSIONS, 3)
    data = b""
    for _ in range(250):
        if not data or chance.random() > 0.08:  # else the same once more
            acks = chance.choice((1, 1, -1, 0, 2))
            data = frame(random_batch(chance, sides[2].log.producers), chance.choice(versions), acks=acks)
        if chance.random() < 0.15:
            data = damaged(chance, data)
        answers = [None if way is ways[2] else way.side.handle(data) for way in ways]
        answers = [way.handle(data) if answer is None else answer for way, answer in zip(ways, answers, strict=True)]
        assert answers[0] == answers[1] == answers[2], data.hex()
    compiled, python, general = (side.state() for side in sides)
    assert compiled == python
    assert python == general

"""The compiled hot path of OffsetCommit against the one in Python: the same reading, the same bytes in the log, the
same memory.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.handlers import offset_commit_frames as pure
from headwater.coordinator.groups.plain_commits import Part
from headwater.server import hot_path
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from unit.server.test_hot_path import NOW_MS, Side, batch

VERSIONS = range(2, 11)
TOPIC_ID = bytes(range(16))

pytestmark = pytest.mark.skipif(not hot_path.COMPILED, reason="the hot path is not compiled")

if hot_path.COMPILED:
    from headwater.server import _produce as compiled


def frame(version: int, *parts: tuple[int, int, int, str | None], client: str | None = "tests", **fields: Any) -> bytes:
    asked = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
        )
        for index, offset, epoch, metadata in parts
    ]
    topic = OffsetCommitRequestTopic(name=fields.pop("topic", "orders"), topic_id=TOPIC_ID, partitions=asked)
    message = OffsetCommitRequest(**{"group_id": "group", "topics": [topic], **fields})
    return encode_request_header(8, version, 77, client) + b"".join(message.encode(version))


def read(way: Any, data: bytes, version: int, end: int | None = None) -> Any:
    view = memoryview(bytearray(data))
    return way.read_commit(view, 8, len(view) if end is None else end, version, 77)


GOOD: list[tuple[tuple[tuple[int, int, int, str | None], ...], dict[str, Any]]] = [
    (((0, 5, 3, "m"),), {}),
    (((0, 5, -1, None), (7, (1 << 63) - 1, 2, "é😀"), (-1, -1, -1, "")), {"member_id": "somebody"}),
    (tuple((index, index, index, "x" * index) for index in range(126)), {"generation_id_or_member_epoch": 9}),
    (((1, 2, 3, "x" * 126),), {"group_id": "gruppe-ä", "topic": "o" * 126, "client": None}),
    (((1, 2, 3, ""),), {"group_id": "", "topic": "", "client": "", "group_instance_id": "inst"}),
    (((1, 2, 3, ""),), {"group_instance_id": ""}),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", range(len(GOOD)))
def test_what_is_plainly_fine_is_read_alike(version: int, case: int) -> None:
    parts, fields = GOOD[case]
    if version < 7:
        fields = {name: value for name, value in fields.items() if name != "group_instance_id"}
    data = frame(version, *parts, **fields)
    found = read(compiled, data, version)
    assert found is not None
    assert found == read(pure, data, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_damaged_is_read_alike_or_handed_on(version: int) -> None:
    chance = random.Random(version)
    good = [frame(version, (0, 5, 3, "m")), frame(version, (0, 5, -1, None), (7, 8, 2, "é"), member_id="somebody")]
    for data in good:
        for end in range(8, len(data)):
            assert read(compiled, data, version, end) is None
    taken = 0
    for _ in range(3000):
        damaged = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(8, len(damaged))
            match chance.randrange(3):
                case 0:
                    damaged[at] = chance.choice((0, 1, 2, 127, 128, 255, damaged[at] ^ 1 << chance.randrange(8)))
                case 1:
                    del damaged[at]
                case _:
                    damaged.insert(at, chance.choice((0, 1, 128, 255)))
        found = read(compiled, bytes(damaged), version)
        if found is not None:
            taken += 1
            assert found == read(pure, bytes(damaged), version), damaged.hex()
    assert taken > 100


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (4, frame(4, (0, 5, 3, "m"), retention_time_ms=0)),
        (9, frame(9)),
        (9, frame(9, (0, 5, 3, "x" * 127))),
        (9, frame(9, (0, 5, 3, "m"), group_id="g" * 127)),
        (9, frame(9, *[(0, 5, 3, "m")] * 127)),
        (7, frame(7, *[(0, 5, 3, "m")] * 1001)),
        (9, frame(9, (0, 5, 3, "m"), topics=[])),
        (9, frame(9, (0, 5, 3, "m"), client="é")),
        (9, frame(9, (0, 5, 3, "m")) + b"\0"),
    ],
)
def test_what_is_not_is_handed_on(version: int, data: bytes) -> None:
    assert read(compiled, data, version) is None


@pytest.mark.parametrize("version", [-1, 0, 1, 11, 1 << 40])
def test_versions_that_are_not_served(version: int) -> None:
    assert read(compiled, frame(9, (0, 5, 3, "m")), version) is None


@pytest.mark.parametrize(("at", "end"), [(-1, 10), (10, 9), (0, 1 << 40), (1 << 40, 1 << 41)])
def test_places_outside_the_buffer(at: int, end: int) -> None:
    assert compiled.read_commit(memoryview(bytearray(40)), at, end, 9, 77) is None


# Writing


@pytest.fixture
def sides(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Side, Side]]:
    made = []
    for name in ("compiled", "python"):
        (tmp_path / name).mkdir()
        config = {"cleanup_compact": True, **getattr(request, "param", {})}
        made.append(Side(tmp_path / name, compiled=name == "compiled", **config))
    yield made[0], made[1]
    for side in made:
        side.manager.abandon()


def append(sides: tuple[Side, Side], *parts: Part, group: str = "group", topic: str = "orders", **odd: Any) -> bool:
    """Whether the compiled way took it; if not, the other is taken there too, and both must be the same in the end."""
    given = (group, topic, odd.get("topic_id", TOPIC_ID), list(parts), odd.get("now_ms", NOW_MS))
    first: int = compiled.append_commit(sides[0].partition, *given)
    was_taken = first >= 0
    if not was_taken:
        first = pure.append_commit(sides[0].partition, *given)
    assert first == pure.append_commit(sides[1].partition, *given)
    assert sides[0].state() == sides[1].state()
    return was_taken


def begin(sides: tuple[Side, Side]) -> None:
    """The first batch opens the segment."""
    assert not append(sides, (0, 1, -1, ""))


def test_the_same_bytes(sides: tuple[Side, Side]) -> None:
    begin(sides)
    assert append(sides, (0, 5, 3, "m"))
    assert append(sides, (0, 5, 3, "m"), topic_id=bytes(16))
    assert append(sides, (2**31 - 1, 2**63 - 1, 2**31 - 1, "é😀"), (0, -(2**63), -(2**31), ""), group="gruppe-ä")
    assert append(sides, *[(index, index, index, "x" * (index % 127)) for index in range(1000)])
    for size in (0, 1, 50, 63, 64, 100, 8000, 32_000):  # lengths of one, two and three bytes
        assert append(sides, (0, 5, 3, "m"), group="g" * size)
        assert append(sides, (0, 5, 3, "m"), topic="t" * size)


@pytest.mark.parametrize("sides", [{"segment_bytes": 5000, "index_interval_bytes": 300}], indirect=True)
def test_index_entries_and_segments(sides: tuple[Side, Side]) -> None:
    begin(sides)
    taken = [append(sides, (0, offset, 3, "m"), now_ms=NOW_MS + offset) for offset in range(200)]
    assert len(sides[0].log.segments) > 3
    assert taken.count(False) < 10


def test_who_waits_is_told(sides: tuple[Side, Side]) -> None:
    begin(sides)
    for side in sides:
        side.partition.waiters[side] = None
    for _ in range(3):
        assert append(sides, (0, 5, 3, "m"))
    assert sides[0].woken == [0, 0, 0], "whatever they wait for"


@pytest.mark.parametrize(
    "sides", [{"log_append_time": True}, {"codec": 3}, {"max_message_bytes": 100}], indirect=True, ids=str
)
def test_settings_that_need_a_closer_look(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.log.append_own(memoryview(batch(1, 1)), 0, NOW_MS)
    before = sides[0].state()
    assert compiled.append_commit(sides[0].partition, "group", "orders", TOPIC_ID, [(0, 5, 3, "m")], NOW_MS) == -1
    assert sides[0].state() == before


def test_what_does_not_simply_go_at_the_end_of_the_open_segment(sides: tuple[Side, Side]) -> None:
    begin(sides)
    for change in (
        lambda side: side.partition.confirm(side.log.log_end_offset),  # another replica
        lambda side: side.partition.confirm((1 << 63) - 1),
        lambda side: setattr(side.partition, "leader_epoch", 1),
        lambda side: setattr(side.log.active, "last_offset_max", side.log.log_end_offset),
        lambda side: side.log.active.let_go(),
        lambda side: setattr(side.log.active, "limit_bytes", -1),
    ):
        append(sides, (0, 5, 3, "m"))
        for side in sides:
            change(side)
        append(sides, (0, 5, 3, "m"), (1, 5, 3, "m"))
    assert len(sides[0].log.segments) == 2


def test_a_log_that_has_failed_takes_nothing(sides: tuple[Side, Side]) -> None:
    begin(sides)
    sides[0].log.fail(OSError("gone"))
    before = sides[0].state()
    assert compiled.append_commit(sides[0].partition, "group", "orders", TOPIC_ID, [(0, 5, 3, "m")], NOW_MS) == -1
    assert sides[0].state() == before


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [(0, 5, 3, "x" * 127)],
        [(0, 5, 3, "m")] * 1001,
    ],
    ids=len,
)
def test_parts_that_are_not_plainly_fine(sides: tuple[Side, Side], parts: list[Part]) -> None:
    begin(sides)
    before = sides[0].state()
    assert compiled.append_commit(sides[0].partition, "group", "orders", TOPIC_ID, parts, NOW_MS) == -1
    assert compiled.append_commit(object(), "group", "orders", TOPIC_ID, [(0, 5, 3, "m")], NOW_MS) == -1
    assert compiled.append_commit(sides[0].partition, "g" * 40_000, "orders", TOPIC_ID, [(0, 5, 3, "m")], NOW_MS) == -1
    assert sides[0].state() == before


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("group", "orders", TOPIC_ID, [(0, 5, 3, "m")]),
        (b"group", "orders", TOPIC_ID, [(0, 5, 3, "m")], NOW_MS),
        ("group", "orders", b"short", [(0, 5, 3, "m")], NOW_MS),
        ("group", "orders", TOPIC_ID, ((0, 5, 3, "m"),), NOW_MS),
        ("group", "orders", TOPIC_ID, [(0, 5, "m")], NOW_MS),
        ("group", "orders", TOPIC_ID, [(0, 5, 3, None)], NOW_MS),
    ],
    ids=str,
)
def test_calls_that_are_wrong_are_told_so(sides: tuple[Side, Side], given: tuple[Any, ...]) -> None:
    begin(sides)
    before = sides[0].state()
    with pytest.raises(TypeError):
        compiled.append_commit(sides[0].partition, *given)
    with pytest.raises(TypeError):
        compiled.read_commit(b"")
    assert sides[0].state() == before

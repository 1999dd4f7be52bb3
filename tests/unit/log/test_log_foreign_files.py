"""Files that somebody has put into a partition's directory: a log goes on without them, says so, and touches none."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log import loading, names
from headwater.log.log import Log

if TYPE_CHECKING:
    from unit.log.conftest import World

FOREIGN = (
    "notes.log",
    "0.log",  # Apache Kafka writes twenty digits too
    "99999999999999999999.log",  # no offset is so large
    "backup of 00000000000000000000.log",
    "00000000000000000000.log.gz.deleted",
    "notes.index",
    "notes.timeindex",
    "notes.txnindex",
    "notes.snapshot",
    "notes.swap",
    "notes.log.swap",
    "notes.log.cleaned",
    "notes.deleted",
    "notes.tmp",
)
WAYS: dict[str, Callable[["World"], Log]] = {
    "closed": lambda world: world.reopen(),
    "killed": lambda world: world.kill(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_none_of_a_log_is_left_alone(
    world: "World", name: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`notes.log` was taken for a segment, and the broker did not start; `notes.tmp` was removed."""
    log = world.create(segment_bytes=300)
    for _ in range(10):
        world.append(log, size=100)
    path = f"{world.directory}/{name}"
    world.disk.write_file(path, b"mine")
    log = WAYS[way](world)
    assert world.opened
    assert world.contents(log) == list(range(10))
    assert world.disk.read_file(path) == b"mine"
    assert caplog.text.count(f"event=file-ignored path={path!r}") == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_a_crash_has_left_of_the_log_itself_still_goes(
    world: "World", way: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.append(world.create())
    segment = names.segment_name(7)
    leftovers = [
        f"{segment}{names.LOG}{names.DELETED}",
        f"{segment}{names.SNAPSHOT}{names.DELETED}",
        f"{segment}{names.TRANSACTION_INDEX}{names.CLEANED}",
        f"{segment}{names.SNAPSHOT}{names.TEMPORARY}",
        f"{names.LEADER_EPOCH_CHECKPOINT}{names.TEMPORARY}",
        f"{names.PARTITION_METADATA}{names.TEMPORARY}",
    ]
    for name in leftovers:
        world.disk.write_file(f"{world.directory}/{name}", b"rest")
    WAYS[way](world)
    assert not set(leftovers) & set(world.files())
    assert "event=file-ignored" not in caplog.text


def test_a_log_that_cannot_be_opened_for_whatever_reason_keeps_no_other_from_it(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a clean shutdown only errors of the disk were expected, and any other ended the broker."""
    world.append(world.create())
    world.append(world.manager.create(TopicPartition("other", 0), TopicId(bytes(16))))
    world.disk.run()
    world.manager.close()
    real = loading.load_log

    def failing(context: object, partition: TopicPartition, *rest: object, **named: object) -> Log:
        if partition == world.partition:
            raise ValueError("something that nobody has thought of")
        return real(context, partition, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("headwater.log.opening.load_log", failing)
    manager = world.open()
    assert world.opened
    assert list(manager.logs) == [TopicPartition("other", 0)]

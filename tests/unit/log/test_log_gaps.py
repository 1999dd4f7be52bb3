"""Gaps in a directory that Apache Kafka made, found before the topics were known: none is forgotten until somebody has
judged it.

Its cleaner may have left them out, past any recovery point that was written down. In a directory of our own nobody has
to ask what the topic is (`test_log_recovery.py`).
"""

import errno
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.log import opening, truncation
from headwater.log.config import LogConfig
from headwater.log.log import Log
from headwater.log.manager import ManagerSettings
from headwater.log.recovery import recover

if TYPE_CHECKING:
    from conftest import World


class InterruptedProcess(BaseException):
    """It ends there."""


@pytest.fixture(name="gapped")
def gapped_fixture(world: "World") -> Log:
    """[0] [2, 3]: what the first segment had behind 0 did not reach the device."""
    return lose_the_end_of_the_first_segment(world)


def lose_the_end_of_the_first_segment(world: "World") -> Log:
    world.disk.write_file("/data/meta.properties", b"version=1\nnode.id=0\ncluster.id=cluster\n")
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100)
    file = world.disk.open(f"{world.directory}/{0:020d}.log")
    file.truncate(log.segments[0].find(1))
    file.release()
    world.settings = ManagerSettings(topics_are_known=False)
    log = world.kill()
    assert world.contents(log) == [0, 2, 3]
    return log


def cut(world: "World") -> list[int]:
    world.manager.cut_at_gaps()
    return world.contents(world.manager.logs[world.partition])


@pytest.mark.parametrize(("is_compacted", "expected"), [(False, [0]), (True, [0, 2, 3])])
def test_in_a_cluster_a_gap_is_judged_when_the_topics_are_known(
    world: "World", gapped: Log, is_compacted: bool, expected: list[int]
) -> None:
    """A follower went on behind the gap, was in sync with a hole in its log, and could lead with it."""
    world.config = LogConfig(segment_bytes=400, cleanup_compact=is_compacted)
    assert cut(world) == expected
    assert gapped.log_end_offset == expected[-1] + 1


def test_a_gap_that_cannot_be_cut_keeps_its_log_from_being_used(
    world: "World", gapped: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_log: object, _offset: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(truncation, "place_of", refused)
    world.manager.cut_at_gaps()
    with pytest.raises(KafkaError):
        world.append(gapped, size=100)


def test_a_broker_that_is_stopped_before_the_topics_are_known_finds_the_gap_again(world: "World", gapped: Log) -> None:
    """Its registration waits for the end of its last session: then somebody stops it, and starts it once more."""
    assert world.contents(world.reopen()) == [0, 2, 3]
    assert cut(world) == [0]


def test_what_is_flushed_behind_a_gap_does_not_hide_it(world: "World", gapped: Log) -> None:
    gapped.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert gapped.recovery_point == 4
    world.crash()
    assert cut(world) == [0]


def test_a_gap_is_known_while_others_are_cut(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut may write a checkpoint, for all logs of the directory; after that the process was killed."""
    other = TopicPartition("topic", 1)
    log = world.create(other, segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100)
    file = world.disk.open(f"/data/topic-1/{0:020d}.log")
    file.truncate(log.segments[0].find(1))
    file.release()
    lose_the_end_of_the_first_segment(world)
    for each in world.manager.logs.values():
        each.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    truncate_to = Log.truncate_to
    cuts: list[TopicPartition] = []

    def die_at_the_second(cut_log: Log, offset: int) -> None:
        if cuts:
            raise InterruptedProcess
        cuts.append(cut_log.partition)
        truncate_to(cut_log, offset)
        world.manager.write_checkpoints()
        world.disk.run()

    monkeypatch.setattr(Log, "truncate_to", die_at_the_second)
    with pytest.raises(InterruptedProcess):
        world.manager.cut_at_gaps()
    monkeypatch.undo()
    world.kill()
    world.manager.cut_at_gaps()
    assert [world.contents(each) for each in world.manager.logs.values()] == [[0], [0]]


def test_once_it_is_cut_the_next_shutdown_is_a_clean_one(world: "World", gapped: Log) -> None:
    assert cut(world) == [0]
    world.append(gapped, size=100)
    assert world.contents(world.reopen()) == [0, 1]
    assert world.manager.clean_start


def test_what_compaction_left_is_no_gap_though_the_topic_is_compacted_no_more(world: "World") -> None:
    """The policy was changed, and the recovery point on the device was older than the compaction. Only this replica had
    the records.
    """
    lose_the_end_of_the_first_segment(world)
    world.manager.cleaner.clean_to[world.partition] = 2
    world.manager.checkpoint_cleaner(world.manager.logs[world.partition])
    world.disk.run()
    assert world.contents(world.kill()) == [0, 2, 3]
    assert cut(world) == [0, 2, 3]


@pytest.mark.parametrize("topics_are_known", [True, False])
def test_a_gap_below_the_beginning_of_the_log_is_none(world: "World", topics_are_known: bool) -> None:
    """Those records were deleted, and nobody misses them."""
    lose_the_end_of_the_first_segment(world).delete_records_before(2)
    world.manager.write_checkpoints()
    world.disk.run()
    world.settings = ManagerSettings(topics_are_known=topics_are_known)
    log = world.kill()
    assert (log.log_start_offset, cut(world)) == (2, [2, 3])


def test_a_log_that_begins_in_the_gap_begins_there_still(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, 2, 50)
    log.delete_records_before(3)
    world.manager.write_checkpoints()
    world.disk.run()
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    file = world.disk.open(f"{world.directory}/{0:020d}.log")
    file.truncate(log.segments[0].find(2))
    file.release()
    world.settings = ManagerSettings(topics_are_known=False)
    log = world.kill()
    world.manager.cut_at_gaps()
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    world.append(log)
    assert world.contents(log) == [3]


def test_in_a_directory_of_our_own_a_gap_is_judged_before_the_topics_are_known(world: "World") -> None:
    own = world.disk.read_file("/data/meta.properties")
    lose_the_end_of_the_first_segment(world)
    world.disk.write_file("/data/meta.properties", own)
    assert world.contents(world.kill()) == [0]


def test_how_far_a_deleted_log_was_compacted_excuses_no_gap_of_the_next_one_of_its_name(world: "World") -> None:
    log = world.create(segment_bytes=400, file_delete_delay_ms=0)
    world.append(log, size=100)
    world.manager.cleaner.clean_to[world.partition] = 1 << 20
    world.manager.checkpoint_cleaner(log)
    world.disk.run()
    world.manager.delete(world.partition)
    world.pass_time(1)
    lose_the_end_of_the_first_segment(world)
    assert cut(world) == [0]


@pytest.mark.parametrize(("is_compacted", "expected"), [(False, [0]), (True, [0, 2, 3])])
def test_a_log_that_is_opened_late_is_judged_then(
    world: "World", monkeypatch: pytest.MonkeyPatch, is_compacted: bool, expected: list[int]
) -> None:
    lose_the_end_of_the_first_segment(world)
    monkeypatch.setattr(opening, "recover", _refuse)
    world.disk.kill()
    world.open()
    assert world.partition not in world.manager.logs
    world.config = LogConfig(segment_bytes=400, cleanup_compact=is_compacted)
    world.manager.cut_at_gaps()
    monkeypatch.setattr(opening, "recover", recover)
    world.manager.tick(0, 0)
    world.manager.tick(0, 60_000)
    assert world.contents(world.manager.logs[world.partition]) == expected


def test_how_far_a_log_is_on_the_device_is_known_while_it_cannot_be_opened(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the beginning, it would be cut where old records were compacted away or are damaged."""
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    file = world.disk.open(f"{world.directory}/{0:020d}.log")
    file.truncate(log.segments[0].find(1))
    file.release()
    monkeypatch.setattr(opening, "recover", _refuse)
    world.disk.kill()
    world.open()
    assert world.partition not in world.manager.logs
    world.manager.write_checkpoints()
    world.disk.run()
    monkeypatch.undo()
    assert world.contents(world.kill()) == [0, 2, 3]


def test_what_was_known_of_a_log_that_could_not_be_opened_is_not_told_of_the_next_of_its_name(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create()
    for _ in range(4):
        world.append(log, size=100)
    log.flush()
    world.disk.run()
    log.delete_records_before(3)
    world.manager.write_checkpoints()
    world.disk.run()
    monkeypatch.setattr(opening, "recover", _refuse)
    world.disk.kill()
    world.open()
    for name in world.disk.list_directory(world.directory):
        world.disk.remove(f"{world.directory}/{name}")
    world.disk.remove(world.directory)
    world.append(world.create(), size=100)
    monkeypatch.undo()
    log = world.kill()
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 1, 0)


def _refuse(*_: object) -> None:
    raise OSError(24, "Too many open files")

"""The power goes in the midst of a truncation, or after one that there was no room to write down:
no hole may be left.
"""

import errno
from typing import Final

import pytest

from headwater.base.errors import KafkaError
from headwater.log import names
from headwater.log.log import Log
from headwater.sim.disk import SimFile
from headwater.sim.dying import DyingDisk, DyingError
from unit.log.conftest import World

SEEDS: Final = range(5)  # what a power loss takes differs


class DyingWorld(World):
    disk: DyingDisk

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.disk = DyingDisk(seed)
        self.disk.now_ms = self.clock.now_ms()
        self.open()
        self.log = _filled(self)


def _filled(world: World) -> Log:
    """Offsets 0 to 39, ten to a segment, all of it on the device and in the checkpoint."""
    log = world.create(segment_bytes=10 * len(world.batch(size=50)), index_interval_bytes=200)
    for _ in range(40):
        world.append(log, size=50)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert log.base_offsets == [0, 10, 20, 30]
    assert log.recovery_point == 40
    return log


def no_room(_size: int, path: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


def assert_has_no_hole(world: World, offset: int) -> None:
    log = world.crash()
    end = log.log_end_offset
    assert offset <= end <= 40
    assert world.contents(log) == list(range(end))
    assert world.append(log, epoch=7) == end
    assert world.contents(world.kill()) == list(range(end + 1))


@pytest.mark.parametrize("offset", [35, 30, 25, 12, 5, 0])
@pytest.mark.parametrize("is_full", [True, False])
def test_a_power_loss_at_any_step_of_a_truncation_leaves_no_hole(
    offset: int, is_full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that was kept came back cut, and those behind it as they had been: below the recovery point nobody
    looked.
    """
    steps = 0
    died = True
    while died:
        for seed in SEEDS:
            world = DyingWorld(seed)
            with monkeypatch.context() as patch:
                if is_full:
                    patch.setattr(world.disk, "take_space", no_room)
                world.disk.left = steps
                try:
                    world.log.truncate_to(offset)
                    died = False
                except DyingError:
                    died = True
            world.disk.left = None
            assert_has_no_hole(world, offset)
        steps += 1


@pytest.mark.parametrize("seed", range(30))
def test_truncations_that_found_no_room_leave_no_hole(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes further back, and no file tells of any."""
    world = DyingWorld(seed)
    monkeypatch.setattr(world.disk, "take_space", no_room)
    for offset in (35, 25, 12):
        world.log.truncate_to(offset)
    monkeypatch.undo()
    assert_has_no_hole(world, 12)


def test_only_a_truncation_that_takes_segments_away_waits_for_the_device(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _filled(world)
    synced: list[str] = []
    monkeypatch.setattr(world.disk, "sync_directory_now", synced.append)
    log.truncate_to(35)
    assert synced == []
    log.truncate_to(25)
    assert synced == [world.directory]


@pytest.mark.parametrize("offset", [25, 12, 0])
def test_without_a_descriptor_for_the_sync_no_segment_goes(
    world: World, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _filled(world)

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", failing)
        with pytest.raises(KafkaError):
            log.truncate_to(offset)
    assert log.failed is None
    assert world.contents(log) == list(range(40))
    references = world.disk.open_references
    log.truncate_to(offset)
    assert world.contents(log) == list(range(offset))
    assert world.disk.open_references < references


def test_the_descriptor_for_the_sync_is_free_when_it_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that the log has, a flush that is under way may hold each."""
    log = _filled(world)
    for segment in log.segments:
        segment.open_file().retain()
    before, at_sync = world.disk.open_references, []
    monkeypatch.setattr(world.disk, "sync_directory_now", lambda _path: at_sync.append(world.disk.open_references))
    log.truncate_to(12)
    assert at_sync == [before - 2]  # the two segments' own


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOSPC])
def test_a_sync_that_cannot_be_done_now_does_not_fail_the_log(
    world: World, error: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = _filled(world)

    def failing(path: str) -> None:
        raise OSError(error, "not now", path)

    monkeypatch.setattr(world.disk, "sync_directory_now", failing)
    log.truncate_to(12)
    assert (log.failed, world.contents(log)) == (None, list(range(12)))
    assert "event=directory-not-synced" in caplog.text


def test_a_sync_that_fails_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on the device then, nobody knows: who asked takes the log out of use."""
    log = _filled(world)

    def failing(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(world.disk, "sync_directory_now", failing)
    with pytest.raises(OSError, match="Input/output error"):
        log.truncate_to(12)


@pytest.mark.parametrize("offset", [25, 20])
@pytest.mark.parametrize("count", range(12))
def test_whichever_file_cannot_be_opened_nothing_has_changed_or_all_is_cut(
    count: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To load the producers others were opened in the place of the one to be cut; those behind it were gone when it was
    opened again.
    """
    world = World()
    world.open_files_max = 1
    log = _filled(world)
    world.disk.run()
    world.manager.close()
    log = world.open().logs[world.partition]
    for snapshot in (10, 20, 30):
        world.disk.remove(f"{world.directory}/{names.snapshot_name(snapshot)}")
    opened, open_file = 0, world.disk.open

    def limited(path: str, *, create: bool = False) -> SimFile:
        nonlocal opened
        opened += 1
        if opened > count:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", limited)
        try:
            log.truncate_to(offset)
            end = offset
        except KafkaError:
            end = 40
    assert log.failed is None
    assert world.contents(log) == list(range(end))
    log.truncate_to(offset)
    assert world.append(log, epoch=7) == offset


def test_a_log_begins_again_on_a_disk_that_has_room_only_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had no segment any more when there was no room for a new one, and its directory went offline."""
    world = World()
    log = _filled(world)
    open_file = world.disk.open

    def crowded(path: str, *, create: bool = False) -> SimFile:
        if create and any(name.endswith(names.DELETED) for name in world.files()):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", crowded)
        log.truncate_fully(100)
    assert log.failed is None
    assert world.append(log, epoch=7) == 100
    world.pass_time(log.config.file_delete_delay_ms)
    assert world.contents(world.kill()) == [100]

"""How far each changelog of a task is read, while it is restored."""

from headwater.streams.slot.changelogs import RestoreProgress
from headwater.streams.stores.state import ChangelogPartition


def test_changelogs_are_read_one_after_the_other() -> None:
    one, two = ChangelogPartition("one", 3), ChangelogPartition("two", 3)
    progress = RestoreProgress(offsets_total=15, begins={one: 100, two: 7}, ends={one: 110, two: 12})
    assert list(progress.positions()) == [(one, 100, 110), (two, 7, 12)]
    progress.offsets = 4
    assert list(progress.positions()) == [(one, 104, 110), (two, 7, 12)]
    progress.offsets = 13
    assert list(progress.positions()) == [(one, 110, 110), (two, 10, 12)]
    progress.offsets = 15
    assert [position == end for _, position, end in progress.positions()] == [True, True]

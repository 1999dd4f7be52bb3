"""What lies in the log directories at the start: logs, what is to be removed, and moves between directories that a
crash cut short.

How names tell how far a move had come is in `directory_swap`. A copy that was not finished is removed, and the move
begins again. While a directory is offline nothing is removed and nothing is made of a copy, because the other half may
be there.

A partition that stands in two directories, without a mark that says which is the older, is refused on a broker alone.
In a cluster this happens when a directory comes back that was offline: meanwhile the replica was made anew in another
one. The one with the later leader epoch, or else the longer one, stays; the other is kept aside. The broker must not be
trusted to have lost nothing then.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.base.ports import Disk, Random
from headwater.log import names
from headwater.log.checkpoint import CheckpointError, parse_epochs, read_if_present
from headwater.log.directory import LogDirectory
from headwater.log.directory_swap import partition_of_marker

_NO_EPOCH: Final = -1

logger = logging.getLogger("headwater.log")


@dataclass(frozen=True, slots=True)
class Copy:
    directory: LogDirectory
    name: str
    partition: TopicPartition | None
    unique: str

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.name}"


@dataclass(slots=True)
class Found:
    homes: dict[TopicPartition, list[LogDirectory]] = field(default_factory=dict)
    removable: list[str] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    moves: list[tuple[TopicPartition, LogDirectory]] = field(default_factory=list)  # to begin again, and to where
    had_to_choose: bool = False


def look(disk: Disk, directories: list[LogDirectory]) -> Found:
    """A directory that cannot be read goes offline."""
    found = Found()
    for directory in directories:
        try:
            entries = disk.list_directory(directory.path)
        except OSError as error:
            directory.take_offline(error)
            continue
        for name in entries:
            _sort_in(disk, found, directory, name)
    return found


def _sort_in(disk: Disk, found: Found, directory: LogDirectory, name: str) -> None:
    path = f"{directory.path}/{name}"
    partition = names.parse_partition_directory(name)
    future = names.parse_future_directory(name)
    if names.is_deleted_directory(name):
        found.removable.append(path)
    elif future is not None:
        marker = read_if_present(disk, f"{path}/{names.MOVED_FROM}")
        of_marker = None if marker is None else partition_of_marker(marker)
        found.copies.append(Copy(directory, name, of_marker or future[0], future[1]))
    elif names.is_set_aside_directory(name):
        logger.warning("event=directory-ignored path=%s", path)
    elif partition is not None and disk.is_directory(path):
        found.homes.setdefault(partition, []).append(directory)


def finish_moves(disk: Disk, found: Found, *, all_are_here: bool) -> None:
    """Puts a copy in place whose original has gone already; others are to be removed. Raises OSError."""
    for copy in found.copies:
        partition = copy.partition
        is_paired = any(path.endswith(f".{copy.unique}-delete") for path in found.removable)
        if partition is not None and partition not in found.homes and is_paired:
            disk.rename(copy.path, f"{copy.directory.path}/{partition}")
            disk.sync_directory_now(copy.directory.path)
            found.homes[partition] = [copy.directory]
            logger.warning("event=log-move-finished partition=%s in=%s", partition, copy.directory.path)
        elif not all_are_here:
            logger.warning("event=directory-ignored path=%s reason='the original may be offline'", copy.path)
        else:
            found.removable.append(copy.path)
            if partition in found.homes:
                found.moves.append((partition, copy.directory))
    if not all_are_here:
        found.removable.clear()


def settle_duplicates(disk: Disk, random: Random, found: Found, *, may_choose: bool) -> None:
    """Afterwards each partition has one home. Raises UserError, OSError."""
    for partition, homes in found.homes.items():
        if len(homes) == 1:
            continue
        marked = [home for home in homes if disk.exists(f"{home.path}/{partition}/{names.MOVED_FROM}")]
        if len(marked) == 1:
            winner, name = marked[0], names.deleted_directory_name
        elif may_choose:
            winner, name = (
                max(homes, key=lambda home: _age(disk, f"{home.path}/{partition}")),
                names.stray_directory_name,
            )
            found.had_to_choose = True
        else:
            raise UserError(
                f"Partition {partition} is in two log directories",
                " and ".join(home.path for home in homes),
                "move the wrong one away",
            )
        disk.sync_directory_now(winner.path)
        for loser in homes:
            if loser is not winner:
                aside = f"{loser.path}/{name(partition, random.bytes(16).hex())}"
                logger.warning("event=log-was-twice partition=%s kept=%s aside=%s", partition, winner.path, aside)
                disk.rename(f"{loser.path}/{partition}", aside)
                if name is names.deleted_directory_name:
                    found.removable.append(aside)
        homes[:] = [winner]


def _age(disk: Disk, path: str) -> tuple[int, int, int]:
    """The latest leader epoch, where the last segment begins, and its size: the larger, the later."""
    epoch = _NO_EPOCH
    try:
        epochs = parse_epochs(read_if_present(disk, f"{path}/{names.LEADER_EPOCH_CHECKPOINT}") or b"0\n0\n")
        epoch = epochs[-1][0] if epochs else _NO_EPOCH
    except CheckpointError:
        pass
    logs = [name for name in names.own_files(disk.list_directory(path)) if name.endswith(names.LOG)]
    if not logs:
        return epoch, -1, 0
    return epoch, names.offset_of(logs[-1]), disk.file_size(f"{path}/{logs[-1]}")

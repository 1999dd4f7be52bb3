"""What a crash in the middle of a compaction has left in a partition's directory, and what becomes of it. As Kafka does
it.

While any file `b.*.cleaned` is there, the result that begins at offset b was not whole, and nothing from b on has been
swapped: all `.cleaned` files go, and `.swap` files from b on with them. Every other `.swap` is a result that is whole:
what it covers goes, and it is put in its place. Doing it twice does no harm.
"""

from headwater.base.ports import Disk
from headwater.log import names
from headwater.log.compaction.job import SUFFIXES
from headwater.log.scan import NOTHING_CHECKED, scan_segment


def finish_swaps(disk: Disk, directory: str) -> None:
    """Raises OSError."""
    entries = names.own_files(disk.list_directory(directory))
    cleaned = [name for name in entries if name.endswith(names.CLEANED)]
    swaps = [name for name in entries if name.endswith(names.SWAP)]
    if not cleaned and not swaps:
        return
    if cleaned:
        unfinished = min(names.offset_of(name) for name in cleaned)
        void = [name for name in swaps if names.offset_of(name) >= unfinished]
        swaps = [name for name in swaps if names.offset_of(name) < unfinished]
        for name in [*void, *cleaned]:  # what tells them to be void goes last
            disk.remove(f"{directory}/{name}")
    for name in swaps:
        if name.endswith(names.LOG + names.SWAP):
            _remove_covered(disk, directory, entries, name)
    for name in sorted(swaps, key=_log_first):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(names.SWAP)}")


def _log_first(name: str) -> tuple[int, bool]:
    """An index that is in place beside a log that is not would be taken for one that the result covers."""
    return names.offset_of(name), not name.endswith(names.LOG + names.SWAP)


def _remove_covered(disk: Disk, directory: str, entries: list[str], swap: str) -> None:
    base_offset = names.offset_of(swap)
    file = disk.open(f"{directory}/{swap}")
    try:
        end_offset = scan_segment(file, base_offset, NOTHING_CHECKED, 4096).next_offset
    finally:
        file.release()
    for name in entries:
        if name.endswith(SUFFIXES) and base_offset <= names.offset_of(name) < max(end_offset, base_offset + 1):
            disk.remove(f"{directory}/{name}")

"""The offset and time index of a segment, made again from its records.

One walk over the headers gives both. Where it meets damage it cannot go on; what the old indexes say of the records
behind that is kept as far as it can be compared, because those can still be read, and nothing else leads to them. Pure,
but for reading the file.
"""

from dataclasses import dataclass

from headwater.base.ports import File
from headwater.log import offset_index, time_index
from headwater.log.scan import NOTHING_CHECKED, last_offset_at, scan_segment


@dataclass(frozen=True, slots=True)
class Rebuilt:
    offset_entries: bytearray
    time_entries: bytearray
    damage: str | None  # why the walk ended before the segment did


def rebuild(file: File, base_offset: int, interval_bytes: int, old_offsets: bytes, old_times: bytes) -> Rebuilt:
    """`old_offsets` and `old_times` are the entries of the indexes that are given up; empty where there are none.
    Raises OSError.
    """
    scan = scan_segment(file, base_offset, NOTHING_CHECKED, interval_bytes)
    offsets, times = scan.offset_entries, scan.time_entries
    if scan.problem is None:
        return Rebuilt(offsets, times, None)
    relative_end = scan.next_offset - base_offset
    for relative, position in offset_index.ENTRY.iter_unpack(old_offsets):
        if (
            position >= scan.valid_bytes
            and relative >= relative_end
            and last_offset_at(file, position) == base_offset + relative
        ):
            offsets += offset_index.ENTRY.pack(relative, position)
    latest = time_index.ENTRY.unpack_from(times, len(times) - time_index.ENTRY_BYTES)[0] if times else -1
    for timestamp, relative in time_index.ENTRY.iter_unpack(old_times):
        if relative >= relative_end and timestamp > latest:
            latest = timestamp
            times += time_index.ENTRY.pack(timestamp, relative)
    return Rebuilt(offsets, times, f"at position {scan.valid_bytes} stands {scan.problem}")

"""The work of one cleaning: a function of a job and the directory it names, run in a worker process.

First the map of keys is made from the dirty segments, as far as memory allows. Then all segments from the log's first
to where the map ends are filtered, group by group, into files with the suffix `.cleaned`. Those are read back and
checked as a whole, synced, and left for the loop to swap in. Nothing else in the directory is touched. A cleaning that
fails takes its files away.
"""

from collections.abc import Iterator
from typing import Final

from headwater.base.ports import Buffer, Disk, File
from headwater.log import names
from headwater.log.compaction.decisions import SegmentFacts, grouped
from headwater.log.compaction.filtering import BATCH_BYTES_MAX, BatchFilter
from headwater.log.compaction.job import SUFFIXES, Cleaned, CleanedSegment, CleaningJob, remove_cleaned
from headwater.log.compaction.offset_map import OffsetMap
from headwater.log.compaction.transaction_walk import TransactionWalk
from headwater.log.index_file import rewrite_entries
from headwater.log.scan import problem_of, scan_segment
from headwater.log.transaction_index import AbortedTransaction, TransactionIndex
from headwater.records.batch import HEADER_BYTES, BatchHeader, read_header
from headwater.records.reader import read_records
from headwater.records.record import corrupt

CHUNK_BYTES: Final = 1 << 20


def clean(disk: Disk, job: CleaningJob) -> Cleaned:
    """Raises OSError, and KafkaError where a batch cannot be read."""
    run = _Cleaning(disk, job)
    try:
        return run.run()
    except BaseException:
        remove_cleaned(disk, job.directory, [segment.base_offset for segment in job.segments])
        raise


class _Cleaning:
    def __init__(self, disk: Disk, job: CleaningJob) -> None:
        self._disk = disk
        self._job = job
        self._result = Cleaned(job.first_dirty_offset, [])

    def run(self) -> Cleaned:
        job, result = self._job, self._result
        offset_map = self._map()
        result.key_count = len(offset_map.offsets)
        result.end_offset = offset_map.end_offset
        sources = [segment for segment in job.segments if segment.base_offset < offset_map.end_offset]
        batches = BatchFilter(
            offset_map,
            TransactionWalk(job.aborted),
            job.producers,
            job.epoch_starts,
            sources[-1].end_offset if sources else 0,
            job.now_ms,
            job.delete_retention_ms,
        )
        for group in grouped(sources, job.segment_bytes, job.segment_index_bytes):
            result.segments.append(self._clean_group(group, batches))
        if result.segments:
            self._disk.sync_directory_now(job.directory)
        return result

    def _map(self) -> OffsetMap:
        """The keys of the dirty segments. If all of them fit, it ends where the last segment does."""
        job = self._job
        offset_map = OffsetMap(job.map_bytes, job.first_dirty_offset)
        transactions = TransactionWalk(entry for entry in job.aborted if entry.last_offset >= job.first_dirty_offset)
        for segment in job.segments:
            if segment.end_offset <= job.first_dirty_offset:
                continue
            for header, batch in self._batches(segment):
                if header.last_offset < job.first_dirty_offset:
                    continue
                if header.is_control:
                    transactions.on_control(header, read_records(batch, BATCH_BYTES_MAX))
                elif not transactions.on_data(header) and header.record_count:
                    offset_map.add(read_records(batch, BATCH_BYTES_MAX))
                offset_map.end_offset = header.last_offset + 1
                if offset_map.is_full:
                    return offset_map
            offset_map.end_offset = segment.end_offset
        return offset_map

    def _batches(self, segment: SegmentFacts) -> Iterator[tuple[BatchHeader, memoryview]]:
        file = self._disk.open(self._path(segment.base_offset, names.LOG))
        try:
            position, next_offset = 0, segment.base_offset
            while position < segment.size_bytes:
                chunk = _whole_batches(file, position, segment.size_bytes)
                self._moved(len(chunk))
                at = 0
                while at + HEADER_BYTES <= len(chunk):
                    header = read_header(chunk, at)
                    problem = problem_of(header, next_offset, segment.size_bytes - position - at, segment.base_offset)
                    if problem is not None:
                        raise corrupt(f"{file.path} at position {position + at}: {problem}")
                    if at + header.size_bytes > len(chunk):
                        break
                    yield header, chunk[at : at + header.size_bytes]
                    next_offset = header.last_offset + 1
                    at += header.size_bytes
                position += at
        finally:
            file.release()

    def _clean_group(self, group: list[SegmentFacts], batches: BatchFilter) -> CleanedSegment:
        base_offset = group[0].base_offset
        remove_cleaned(self._disk, self._job.directory, [base_offset])
        file = self._disk.open(self._path(base_offset, names.LOG + names.CLEANED), create=True)
        try:
            for segment in group:
                self._filter(segment, batches, file)
            size_bytes = file.size()
            self._write_indexes(base_offset, file, batches.transactions.take_index())
            self._disk.sync_now(file)
        finally:
            file.release()
        return CleanedSegment(base_offset, size_bytes, tuple(segment.base_offset for segment in group))

    def _filter(self, segment: SegmentFacts, batches: BatchFilter, out: File) -> None:
        result = self._result
        pending = bytearray()
        for header, batch in self._batches(segment):
            result.bytes_read += header.size_bytes
            result.records_read += header.record_count
            kept: Buffer | None = batches.apply(header, batch)
            if kept is not None:
                result.records_kept += read_header(kept).record_count
                pending += kept
            if len(pending) >= CHUNK_BYTES:
                self._write(out, pending)
                pending = bytearray()
        self._write(out, pending)

    def _write(self, out: File, data: bytearray) -> None:
        if data:
            out.append(bytes(data))
            self._result.bytes_written += len(data)
            self._moved(len(data))

    def _write_indexes(self, base_offset: int, file: File, aborted: list[AbortedTransaction]) -> None:
        """From what is in the file now: a last look at it before it takes the place of others."""
        scan = scan_segment(file, base_offset, 0, self._job.index_interval_bytes)
        if scan.problem is not None:
            raise corrupt(f"{file.path}: {scan.problem}")
        index = TransactionIndex(self._path(base_offset, names.TRANSACTION_INDEX + names.CLEANED))
        index.aborted = aborted
        rewrite_entries(self._disk, self._path(base_offset, names.OFFSET_INDEX + names.CLEANED), scan.offset_entries)
        rewrite_entries(self._disk, self._path(base_offset, names.TIME_INDEX + names.CLEANED), scan.time_entries)
        index.rewrite(self._disk)
        for suffix in SUFFIXES[:-1]:
            self._sync(self._path(base_offset, suffix + names.CLEANED))

    def _sync(self, path: str) -> None:
        if self._disk.exists(path):
            file = self._disk.open(path)
            try:
                self._disk.sync_now(file)
            finally:
                file.release()

    def _moved(self, size_bytes: int) -> None:
        self._job.pace(size_bytes)

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._job.directory}/{names.segment_name(base_offset)}{suffix}"


def _whole_batches(file: File, position: int, end: int) -> memoryview:
    """A chunk that holds at least the first batch from `position` on, if the file does."""
    chunk = file.pread(position, min(CHUNK_BYTES, end - position))
    if len(chunk) < HEADER_BYTES:
        raise corrupt(f"{file.path} at position {position}: {len(chunk)} bytes, too few for a batch")
    size_bytes = read_header(chunk).size_bytes
    if len(chunk) < size_bytes <= end - position:
        chunk = file.pread(position, size_bytes)
    return memoryview(chunk)

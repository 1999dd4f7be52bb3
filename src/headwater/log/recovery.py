"""Puts a partition's directory in order after a crash: a function of the directory, run in a worker process if it is
big.

From the segment that was active at the recovery point on, every batch past that point is checked (header, order, CRC),
indexes are rebuilt, producer state and leader epochs are collected again. At the first bad batch the log ends: the rest
of that segment is cut off, later segments are set aside as `.deleted`. Usually that is a torn tail that was never
acknowledged as durable; if whole batches lie behind the bad one, the report says how many bytes went. What is below the
recovery point is not read, except to rebuild an index or a state that is missing; and a segment there that is damaged
is left as it is.

Doing it twice does no harm: a crash during recovery is just another crash.
"""

from bisect import bisect_left

from headwater.base.ports import FULL, Disk
from headwater.log import names
from headwater.log.appending import note_producer
from headwater.log.checkpoint import CheckpointError, Epochs, format_epochs, parse_epochs
from headwater.log.compaction.crash_recovery import finish_swaps
from headwater.log.index_file import rewrite_entries
from headwater.log.leader_epochs import EpochList
from headwater.log.producer_state import ProducerStates, SnapshotError
from headwater.log.scan import scan_segment
from headwater.log.transaction_index import TransactionIndex
from headwater.records.batch import BatchHeader


class Recovered:
    """Where the log ends now, and what a person should know. Comes back from the worker process."""

    __slots__ = ("bytes_cut", "gap_offset", "log_end_offset", "report", "unwritten_epochs")

    def __init__(self, log_end_offset: int) -> None:
        self.log_end_offset = log_end_offset
        self.bytes_cut = 0
        self.gap_offset = -1  # where the first gap begins that was left, since compaction may have made it
        self.report: list[str] = []
        self.unwritten_epochs: Epochs | None = None  # if there was no room for them: what the file has is not believed


class _Recovery:
    """One run of `recover`: the state that is collected from batch to batch."""

    def __init__(self, disk: Disk, directory: str, log_start_offset: int) -> None:
        self.disk = disk
        self.directory = directory
        self.log_start_offset = log_start_offset
        self.states = ProducerStates()
        self.states_offset = -1  # of the snapshot that they were loaded from
        self.epochs = EpochList([])
        self.epochs_path = f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}"
        self.epochs_text: bytes | None = None
        self.epochs_lost = False
        self.latest_epoch = -1  # of the batches scanned so far, from the recovery point's segment on
        self.aborted = TransactionIndex("")
        self.is_behind_damage = False  # the segment before has lost something
        self.result = Recovered(log_start_offset)

    def path(self, offset: int, suffix: str) -> str:
        return f"{self.directory}/{names.segment_name(offset)}{suffix}"

    def load_epochs(self, entries: list[str]) -> None:
        if names.LEADER_EPOCH_CHECKPOINT in entries:
            try:
                self.epochs_text = self.disk.read_file(self.epochs_path)
                self.epochs = EpochList(parse_epochs(self.epochs_text))
                return
            except CheckpointError as error:
                self.result.report.append(f"leader epochs rebuilt: {error}")
        self.epochs_lost = True

    def save_epochs(self) -> None:
        """Only if they are others: on a full disk there may be no room to write the same once more."""
        text = format_epochs(self.epochs.entries)
        if text != self.epochs_text:
            try:
                self.disk.write_file(self.epochs_path, text, durable=False)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self.result.unwritten_epochs = self.epochs.entries
                self.result.report.append("no room for the leader epochs")

    def load_snapshot(self, bases: list[int], snapshots: list[int], first: int) -> int:
        """Loads the producers' state as of a segment's beginning; which segment that is, `first` or one before it.

        Only snapshots at a segment's beginning serve: the indexes of all that is scanned are written anew, also that
        of aborted transactions, which needs the state from the first batch on.
        """
        for at in range(first, -1, -1):
            if bases[at] in snapshots:
                try:
                    data = self.disk.read_file(self.path(bases[at], names.SNAPSHOT))
                    self.states = ProducerStates.from_snapshot(data)
                    self.states_offset = bases[at]
                    return at
                except SnapshotError as error:
                    self.result.report.append(f"snapshot {bases[at]} not used: {error}")
        return 0

    def recall_producers(self, offset: int, snapshots: list[int]) -> None:
        """What a damaged segment held of them is in the snapshot behind it."""
        self.is_behind_damage = False
        if offset in snapshots:
            try:
                self.states = ProducerStates.from_snapshot(self.disk.read_file(self.path(offset, names.SNAPSHOT)))
            except SnapshotError as error:
                self.result.report.append(f"snapshot {offset} not used: {error}")

    def on_batch(self, header: BatchHeader, batch: memoryview | None) -> None:
        if header.partition_leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        aborted = note_producer(self.states, header, batch)
        if aborted is not None:
            self.aborted.aborted.append(aborted)

    def scan(self, base_offset: int, recovery_point: int, interval_bytes: int, end_offset: int | None) -> int:
        """Scans one segment, cuts its bad tail off and writes its indexes anew. Where the next one begins.

        `end_offset`: all of it was synced, and it ends there. If it is damaged all the same, it is left as it is.
        """
        self.aborted = TransactionIndex(self.path(base_offset, names.TRANSACTION_INDEX))
        file = self.disk.open(self.path(base_offset, names.LOG))
        try:
            scan = scan_segment(file, base_offset, recovery_point, interval_bytes, self.on_batch, self.latest_epoch)
            self.latest_epoch = scan.latest_epoch if end_offset is None else -1
            if scan.problem is not None and end_offset is not None:
                self.result.report.append(
                    f"{names.segment_name(base_offset)}.log is damaged at position {scan.valid_bytes}: {scan.problem}"
                )
                self.is_behind_damage = True
                return end_offset
            if scan.problem is not None:
                cut = file.size() - scan.valid_bytes
                self.result.bytes_cut += cut
                self.result.report.append(
                    f"cut {cut} bytes off {names.segment_name(base_offset)}.log at position {scan.valid_bytes}, "
                    f"offset {scan.next_offset}: {scan.problem}"
                )
                file.truncate(scan.valid_bytes)
        finally:
            file.release()
        self._write_index(self.path(base_offset, names.OFFSET_INDEX), scan.offset_entries)
        self._write_index(self.path(base_offset, names.TIME_INDEX), scan.time_entries)
        self._write_aborted()
        if scan.next_offset < recovery_point:
            self._sync_indexes(base_offset)
        return scan.next_offset

    def _write_index(self, path: str, entries: bytearray) -> None:
        """On a full disk it is left out, and made when it is needed:
        the log can be read, and retention can make room.
        """
        try:
            rewrite_entries(self.disk, path, entries)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.disk.remove(path)
            self.result.report.append(f"no room for {path.rpartition('/')[2]}")

    def _write_aborted(self) -> None:
        """On a full disk a damaged one is left."""
        try:
            self.aborted.rewrite(self.disk)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.result.report.append(f"no room for {self.aborted.path.rpartition('/')[2]}")

    def _sync_indexes(self, base_offset: int) -> None:
        """Of a segment that the next recovery would not look at."""
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
            path = self.path(base_offset, suffix)
            if self.disk.exists(path):
                file = self.disk.open(path)
                try:
                    self.disk.sync_now(file)
                finally:
                    file.release()
        self.disk.sync_directory_now(self.directory)

    def write_snapshot(self, offset: int, *, durable: bool = False) -> bool:
        """Whether it is there. Without, the state is made from the records once more."""
        try:
            self.disk.write_file(self.path(offset, names.SNAPSHOT), self.states.to_snapshot(), durable=durable)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.disk.remove(self.path(offset, names.SNAPSHOT))  # an older one of that name
            self.result.report.append(f"no room for snapshot {offset}")
            return False
        return True

    def set_aside(self, base_offset: int) -> None:
        """A segment behind a bad batch."""
        size = self.disk.file_size(self.path(base_offset, names.LOG))
        self.result.bytes_cut += size
        self.result.report.append(f"set aside {names.segment_name(base_offset)}.log, {size} bytes behind the cut")
        for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX):
            path = self.path(base_offset, suffix)
            if self.disk.exists(path):
                self.disk.rename(path, path + names.DELETED)


def recover(
    disk: Disk,
    directory: str,
    recovery_point: int,
    log_start_offset: int,
    index_interval_bytes: int,
    no_gaps: bool = True,
    distrusts_cache: bool = False,
    compacted_to: int = 0,
) -> Recovered:
    """Afterwards `loading.load_log` finds a directory as after a clean shutdown. Raises OSError.

    Segments follow on each other without a gap, or else the end of one is lost. Only compaction may leave gaps: below
    the recovery point and below `compacted_to`, whatever the topic's policy is by now. Without `no_gaps` others may be
    its work too, and stay.

    `distrusts_cache`: an fsync has failed here. What was never written may look well in the page cache, so it is
    dropped, and the scan reads what the device has.
    """
    finish_swaps(disk, directory)
    entries = names.own_files(disk.list_directory(directory))
    for name in entries:
        if name.endswith(names.DELETED):  # on a full disk it is what makes room for the rest
            disk.remove(f"{directory}/{name}")
    bases = [names.offset_of(name) for name in entries if name.endswith(names.LOG)]
    run = _Recovery(disk, directory, max(log_start_offset, bases[0] if bases else 0))
    if not bases:
        return run.result
    _remove_orphans(disk, directory, entries, set(bases))
    run.load_epochs(entries)
    snapshots = [names.offset_of(name) for name in entries if name.endswith(names.SNAPSHOT)]
    checked = first_to_scan(bases, recovery_point)
    first = run.load_snapshot(bases, snapshots, 0 if run.epochs_lost else checked)
    if distrusts_cache:
        for base in bases[checked:]:
            disk.drop_cached(run.path(base, names.LOG))
    run.epochs.truncate_from_end(recovery_point)

    kept_snapshots = {offset for offset in snapshots if offset <= bases[first]}
    next_offset = bases[first]
    for at in range(first, len(bases)):
        is_behind_gap = bases[at] > max(next_offset, recovery_point, compacted_to, log_start_offset)
        if run.result.bytes_cut or bases[at] < next_offset or (is_behind_gap and no_gaps):
            run.set_aside(bases[at])
            continue
        if is_behind_gap and run.result.gap_offset < 0:
            run.result.gap_offset = max(next_offset, log_start_offset)
        if run.is_behind_damage:
            run.recall_producers(bases[at], snapshots)
        # Below the recovery point no flush will look at it, and retention takes it for synced.
        if at > first and run.write_snapshot(bases[at], durable=bases[at] < recovery_point):
            kept_snapshots.add(bases[at])
        end_offset = bases[at + 1] if at < checked else None
        next_offset = run.scan(bases[at], recovery_point, index_interval_bytes, end_offset)
    run.result.log_end_offset = next_offset
    run.epochs.truncate_from_end(next_offset)
    run.save_epochs()
    if next_offset != run.states_offset:  # or what may be all that is left of the producers would be written anew
        run.write_snapshot(next_offset)
    for offset in set(snapshots) - kept_snapshots - {next_offset}:
        disk.remove(run.path(offset, names.SNAPSHOT))
    return run.result


def _remove_orphans(disk: Disk, directory: str, entries: list[str], bases: set[int]) -> None:
    """Indexes whose segment is gone: a deletion that the crash has cut in two."""
    for name in entries:
        is_index = name.endswith((names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX))
        if is_index and names.offset_of(name) not in bases:
            disk.remove(f"{directory}/{name}")


def first_to_scan(bases: list[int], recovery_point: int) -> int:
    """The segment that was the active one when everything below the recovery point was synced, by its place in the
    list.

    What lies exactly at the recovery point may be a segment that was rolled since: then the indexes of the one before
    it, which are synced after the roll only, may not have reached the device, and that of aborted transactions does not
    show it.
    """
    return max(0, bisect_left(bases, recovery_point) - 1)


def bytes_to_scan(disk: Disk, directory: str, recovery_point: int) -> int:
    """Roughly, to decide whether a worker process is worth its start."""
    entries = names.own_files(disk.list_directory(directory))
    bases = [names.offset_of(name) for name in entries if name.endswith(names.LOG)]
    first = first_to_scan(bases, recovery_point) if names.LEADER_EPOCH_CHECKPOINT in entries else 0
    return sum(disk.file_size(f"{directory}/{names.segment_name(base)}{names.LOG}") for base in bases[first:])

"""What must hold of a log at any time, and of one that comes back after its process or its machine was lost."""

from headwater.log import names
from headwater.log.checkpoint import parse_offsets
from headwater.log.log import Log
from headwater.records.reader import read_batches
from property.log_failures.machine import PARTITION, FailingDisk, Machine
from property.log_failures.reading import Contents, Entry


def check_files(log: Log) -> None:
    for segment in log.segments:
        size = (segment.file or segment.open_file()).size()
        assert size == segment.size_bytes, f"segment {segment.base_offset} has {size} bytes, not {segment.size_bytes}"


def check_epochs(log: Log, contents: Contents, known_from: int) -> None:
    """Below an offset where the log once began they may be forgotten, though records came back there."""
    for entry in contents.entries:
        if entry.offset >= known_from:
            epoch = log.epochs.epoch_of(entry.offset)
            assert epoch == entry.epoch, f"{entry} counts as of epoch {epoch}: {log.epochs.entries}"


def check_producers(log: Log, contents: Contents) -> None:
    """Of a log that has always begun at 0: what others forget is not in their records."""
    told = log.aborted_transactions(0, log.log_end_offset)
    aborted = sorted((each.producer_id, each.first_offset, each.last_offset) for each in told)
    assert aborted == sorted(contents.aborted), f"told as aborted: {aborted}; in the log: {contents.aborted}"
    ongoing = sorted(log.producers.ongoing)
    assert ongoing == sorted(contents.ongoing.values()), f"told as open: {ongoing}; in the log: {contents.ongoing}"
    for producer_id, sequence in contents.sequences.items():
        producer = log.producers.producers.get(producer_id)
        assert producer is not None, f"producer {producer_id} is forgotten"
        assert producer.next_sequence == sequence, f"producer {producer_id}: {producer.next_sequence}, not {sequence}"


def check_device(log: Log, disk: FailingDisk) -> None:
    """What counts as flushed is on the device, byte for byte."""
    assert log.recovery_point <= log.log_end_offset, f"flushed to {log.recovery_point} of {log.log_end_offset}"
    for segment in log.segments:
        path = segment.path(names.LOG)
        data = disk.read_file(path)
        end = 0
        for at, header in read_batches(data):
            if header.last_offset < log.recovery_point:
                end = at + header.size_bytes
        assert disk.on_device(path)[:end] == data[:end], f"{path} counts as flushed to byte {end}"


def check_recovery_point(machine: Machine) -> None:
    """None in the file lies past what is flushed, once a truncation is settled: a start would not look at what came
    after it.
    """
    log = machine.log
    path = f"{machine.manager.directory_of(PARTITION)}/{names.RECOVERY_POINT_CHECKPOINT}"
    if machine.disk.exists(path) and not log.owes_truncation:
        written = parse_offsets(machine.disk.read_file(path)).get(PARTITION, 0)
        assert written <= log.recovery_point, f"{path} says {written}, flushed to {log.recovery_point}"


def check_home(machine: Machine) -> None:
    """A log stands in one directory; that from which it moved is gone before anything else is done there."""
    home = machine.manager.directory_of(PARTITION)
    assert machine.homes() == [home], f"at home in {home}, and found in {machine.homes()}"


def check_return(log: Log, contents: Contents, expected: list[Entry], ever: set[Entry]) -> None:
    """Of a log that was opened again: all that it had to keep is there, and nothing that was never written."""
    found = {entry.offset: entry for entry in contents.entries}
    for entry in expected:
        assert entry.offset >= log.log_start_offset, f"begins at {log.log_start_offset} now, which takes {entry} away"
        assert found.get(entry.offset) == entry, f"in place of {entry} there is {found.get(entry.offset)}"
    invented = [entry for entry in contents.entries if entry not in ever]
    assert not invented, f"never written: {invented[:3]}"
    epochs = [entry.epoch for entry in contents.entries]
    assert epochs == sorted(epochs), f"epochs go back: {epochs}"


def check_nothing_came_back(contents: Contents, before: list[Entry], start_offset: int) -> None:
    """The kernel has lived on: what was cut is cut."""
    known = set(before)
    back = [entry for entry in contents.entries if entry.offset >= start_offset and entry not in known]
    assert not back, f"cut, and here again: {back[:3]}"

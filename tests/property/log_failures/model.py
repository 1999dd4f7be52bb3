"""A log and a list as its model, and how both come through the end of a process or of a machine.

After each deed the log is read whole and compared with the model, as long as there are descriptors to read it with;
after each restart, with what had to be kept: everything if only the process was lost, else what counted as flushed and
was not truncated since.
"""

from collections.abc import Callable

from headwater.log.log import Log
from property.log_failures import checks
from property.log_failures.machine import PARTITION, Machine
from property.log_failures.reading import Contents, Entry, read_contents


class ModelledLog:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.disk = machine.disk
        self.model: list[Entry] = []
        self.ever: set[Entry] = set()  # whatever an append was tried with
        self.start_offset = 0
        self.known_from = 0  # the highest offset at which the log ever began
        self.flushed_to = 0
        self.epoch = 0
        self.sync_failed = False  # or the next one will, since the last start

    def check(self) -> None:
        log = self.log
        if log.failed is not None:
            assert self.sync_failed, f"failed: {log.failed!r}"
            return
        self.flushed_to = max(self.flushed_to, log.recovery_point)
        self.known_from = max(self.known_from, log.log_start_offset, self.start_offset)
        if not self.disk.has_descriptors:
            return
        contents = read_contents(log)
        assert contents.entries == self.model, f"{contents.entries[-5:]} instead of {self.model[-5:]}"
        checks.check_files(log)
        checks.check_epochs(log, contents, self.known_from)
        checks.check_device(log, self.disk)
        checks.check_recovery_point(self.machine)
        if self.known_from == 0:
            checks.check_producers(log, contents)

    @property
    def log(self) -> Log:
        return self.machine.log

    def end_and_start(self, end: Callable[[], None], *, loses_power: bool) -> None:
        self.disk.has_descriptors = True
        end()
        self.disk.faults.syncs_to_fail = 0
        self.machine.start()
        if PARTITION not in self.machine.manager.logs and not self._opened_late():
            return
        contents = read_contents(self.log)
        self._check_return(contents, only_flushed=loses_power or self.sync_failed)
        self.sync_failed = False
        self.model = contents.entries
        self.start_offset = self.log.log_start_offset
        self.flushed_to = min(self.flushed_to, self.log.log_end_offset)
        self.epoch = max([self.epoch, *(entry.epoch for entry in self.model)]) + 1

    def _opened_late(self) -> bool:
        """There was no room to open it; or the power went before its name was on the device, and it is made anew."""
        if self.machine.homes():
            assert not self.disk.is_roomy, "not opened, with room on the disk"
            self.disk.make_room()
            self.machine.open_what_is_offline()
            return True
        assert self.flushed_to <= self.start_offset, f"all is gone, flushed to {self.flushed_to}"
        self.disk.make_room()
        self.machine.create()
        self.model = []
        self.start_offset = self.flushed_to = 0
        return False

    def _check_return(self, contents: Contents, *, only_flushed: bool) -> None:
        expected = [entry for entry in self.model if entry.offset < self.flushed_to or not only_flushed]
        checks.check_return(self.log, contents, expected, self.ever)
        checks.check_home(self.machine)
        if not only_flushed:
            checks.check_nothing_came_back(contents, self.model, self.start_offset)

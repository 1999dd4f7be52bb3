"""Which leader wrote from which offset on: (epoch, start offset), both growing. Truncation after failover goes by it.

In the file `leader-epoch-checkpoint` (docs/formats/checkpoints.md). It is written at every change, but synced only with
the segments: whatever lies past the recovery point is found again in the batch headers. Owned by its log.
"""

from headwater.base.ports import FULL, PASSING, Disk
from headwater.log.checkpoint import Epochs, format_epochs

UNDEFINED: int = -1


class EpochList:
    """The list alone, without a file."""

    __slots__ = ("entries", "latest_epoch")

    def __init__(self, entries: Epochs) -> None:
        self.entries = entries
        self.latest_epoch = entries[-1][0] if entries else UNDEFINED

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`. Entries that contradict it came from a leader that lost; they go."""
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start_offset:
            return
        self._replace(
            [entry for entry in self.entries if entry[0] < epoch and entry[1] < start_offset] + [(epoch, start_offset)]
        )

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where the next one begins); (-1, -1) if `epoch` is not known here yet."""
        if epoch < 0 or epoch > self.latest_epoch:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        found = epoch
        for known, start_offset in self.entries:
            if known > epoch:
                return found, start_offset
            found = known
        raise AssertionError(f"epoch {epoch} is below {self.latest_epoch} and has no end")

    def is_before_all(self, epoch: int) -> bool:
        """Whether all that was written under it or before is gone, so that nobody can tell where it ended."""
        return bool(self.entries) and epoch < self.entries[0][0]

    def epoch_of(self, offset: int) -> int:
        """The epoch under which `offset` was written."""
        for epoch, start_offset in reversed(self.entries):
            if start_offset <= offset:
                return epoch
        return UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) != len(self.entries):
            self._replace(kept)

    def _replace(self, entries: Epochs) -> None:
        self.entries = entries
        self.latest_epoch = entries[-1][0] if entries else UNDEFINED


class LeaderEpochs(EpochList):
    """Those of a log, and its file."""

    __slots__ = ("_disk", "dirty", "is_unwritten", "path")

    def __init__(self, disk: Disk, path: str, entries: Epochs) -> None:
        super().__init__(entries)
        self._disk = disk
        self.path = path
        self.dirty = False  # written since it was last synced
        self.is_unwritten = False  # the file still has what was forgotten

    def assign_without_room(self, epoch: int, start_offset: int) -> None:
        """The same on a full disk. The file lacks it until `write_if_needed`: nothing may be appended before that."""
        known = EpochList(self.entries)
        known.assign(epoch, start_offset)
        super()._replace(known.entries)
        self.is_unwritten = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The epoch in force at `start_offset` begins there now; those before it are gone.

        On a full disk they stay in the file: they say nothing wrong, and what is about to be deleted makes room.
        """
        gone = [entry for entry in self.entries if entry[1] <= start_offset]
        if gone and gone != [(gone[-1][0], start_offset)]:
            kept = [(gone[-1][0], start_offset), *self.entries[len(gone) :]]
            try:
                self._replace(kept)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                super()._replace(kept)
                self.is_unwritten = True

    def truncate_from_end(self, end_offset: int) -> None:
        """On a full disk those that went stay in the file until `write_if_needed`: nothing may be appended before
        that.
        """
        try:
            super().truncate_from_end(end_offset)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            super()._replace([entry for entry in self.entries if entry[1] < end_offset])
            self.is_unwritten = True

    def write_if_needed(self) -> None:
        """Raises OSError."""
        if self.is_unwritten:
            self._replace(self.entries)

    def _replace(self, entries: Epochs) -> None:
        self._disk.write_file(self.path, format_epochs(entries), durable=False)
        self.is_unwritten = False
        self.dirty = True
        super()._replace(entries)

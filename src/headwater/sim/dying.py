"""A simulated disk that goes dead at a given step of what is done to it: for a crash at every step of a protocol.

A step is what changes something: making, renaming and removing a file, writing to it, and syncs that are waited for.
"""

from headwater.base.ports import File
from headwater.sim.disk import SimDisk, SimFile


class DyingError(BaseException):
    """The machine is off."""


class DyingDisk(SimDisk):
    """Counts what changes it, and dies at a given one."""

    left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            if self.left <= 0:
                raise DyingError
            self.left -= 1

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if create and not self.exists(path):
            self.step()
        return super().open(path, create=create)

    def take_space(self, size: int, path: str) -> None:
        self.step()
        super().take_space(size, path)

    def rename(self, old: str, new: str) -> None:
        self.step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    def sync_now(self, file: File) -> None:
        self.step()
        super().sync_now(file)

    def sync_directory_now(self, path: str) -> None:
        self.step()
        super().sync_directory_now(path)

"""What a `FileStore` needs of a file system, and the local one. A rename must be atomic, and must raise
FileNotFoundError when its source is gone: that decides between two tasks.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class FileSystem(Protocol):
    """Errors are OSErrors; `Path`s are names alone."""

    def walk(self, directory: Path) -> Iterator[Path]:
        """All files below it, none where it is missing. One that cannot be read is an error: its files would be
        written again.
        """

    def write(self, path: Path, data: bytes) -> None:
        """A file that stays, once its directory is synced."""

    def rename(self, source: Path, target: Path) -> None:
        """FileNotFoundError: the source is gone. A target that is there is replaced, or is an error."""

    def unlink(self, path: Path) -> None:
        """FileNotFoundError: it is gone."""

    def exists(self, path: Path) -> bool: ...

    def make_directory(self, directory: Path) -> None:
        """With its parents; one that is there is fine."""

    def sync(self, directory: Path) -> None:
        """The names in it stay."""


class LocalFiles:
    def walk(self, directory: Path) -> Iterator[Path]:
        for parent, _, names in os.walk(directory, onerror=_raise_unless_missing):
            for name in names:
                yield Path(parent, name)

    def write(self, path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_directory(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)

    def sync(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error

"""The directory of a task's state: who has it open, and whether what lies in it can be believed.

    lock      held (flock) by the process that writes
    opened    "clean", or the boot id of the machine under which the state was opened and not closed

Stores are written without fsync: what they have written survives the death of the process, not that of the machine. So
a directory that was not closed under this boot of the machine is not believed, and its task restores from the changelog
topics.
"""

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_CLEAN: Final = "clean"


class StateInUse(UserError):
    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"The state in {directory} is open in another process",
            "a process that runs, or was stopped (SIGSTOP), holds its lock",
            "End that process, or name another state directory",
        )


def boot_id() -> str:
    """Of this machine, since it was started."""
    return _BOOT_ID.read_text().strip()


def is_believed(directory: Path, boot: str) -> bool:
    """Whether it was closed, or opened under this boot."""
    mark = directory / "opened"
    return mark.exists() and mark.read_text() in (_CLEAN, boot)


def mark_opened(directory: Path, boot: str) -> None:
    _write_through(directory / "opened", boot)


def mark_clean(directory: Path) -> None:
    _write_through(directory / "opened", _CLEAN)


def lock_directory(directory: Path) -> int:
    """The descriptor to close. Raises StateInUse."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise StateInUse(directory) from None
        raise
    return descriptor


def remove_unused(directory: Path) -> None:
    """Deletes a state that no process has open."""
    try:
        lock = lock_directory(directory)
    except StateInUse:
        return
    shutil.rmtree(directory, ignore_errors=True)
    os.close(lock)


def _write_through(path: Path, text: str) -> None:
    """The file and its name are on the device when this returns: a mark that a power cut forgets would vouch for torn
    state.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

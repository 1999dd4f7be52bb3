"""What happens to output that cannot be written: a reader that has gone ends a command quietly, a disk that is full is
said.
"""

import errno
import os
import sys
from typing import Final

from headwater.base.errors import UserError

_CANNOT_WRITE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def forget_stdout() -> None:
    """Nobody takes our output any more: the flush at exit must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unwritten(error: OSError) -> UserError | None:
    """The failure for people, if it is one of output that a file or a device did not take."""
    if error.errno not in _CANNOT_WRITE or error.filename is not None:
        return None
    return UserError("Cannot write the output", error.strerror or str(error))

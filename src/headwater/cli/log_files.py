"""The end of a log file, to be shown when what wrote it did not start."""

from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 4000


def size_bytes(log_file: Path) -> int:
    """0 if it is not there yet."""
    try:
        return log_file.stat().st_size
    except OSError:
        return 0


def log_since(log_file: Path, start: int) -> str:
    """What was written to it since it had `start` bytes; only the end of that, if it is much."""
    try:
        with log_file.open("rb") as file:
            file.seek(max(start, log_file.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""

"""A process beside what is measured, that counts what it does and says how much when it is asked."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(script: str, *arguments: object) -> Iterator[Callable[[], int]]:
    """Runs a script that answers each line of its input with a number; the function asks for it. Killed at the end."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said, heard = process.stdin, process.stdout

        def count() -> int:
            said.write("\n")
            said.flush()
            return int(heard.readline())

        try:
            yield count
        finally:
            process.kill()

"""Output that nobody takes: commands end with a sentence, or quietly, and never with a traceback."""

import errno
import subprocess
import sys

import pytest

from headwater.cli.lost_output import unwritten

HEADWATER = "from headwater.cli.main import main; main()"
KAFKA_TOPICS = "from headwater.cli.kafka.topics import main; main()"
COMMANDS = [[HEADWATER, "generate", "completion", "bash"], [KAFKA_TOPICS, "--version"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_behind_stdout_is_said(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (ended.returncode, ended.stderr) == (1, "error: Cannot write the output: No space left on device\n")


def test_other_failures_of_files_are_not_taken_for_it() -> None:
    assert unwritten(OSError(errno.ENOSPC, "full", "/a/file")) is None
    assert unwritten(OSError(errno.ECONNRESET, "reset")) is None
    assert unwritten(OSError(errno.EIO, "Input/output error")) is not None

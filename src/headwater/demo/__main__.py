"""The process that the terminal talks to.

A Ctrl-C goes to every process of the terminal's group: broker, JVM and Python workers would all end at once, in any
order. So they live in a session of their own, below the engine, and only this process hears it. It closes the engine's
standard input, which is the sign to end; if this process is killed, that closes as well. If the engine is killed, this
process tells.
"""

import contextlib
import os
import signal
import subprocess
import sys

from headwater.base.own_module import module_command
from headwater.demo import arguments
from headwater.demo.view import Screen
from headwater.demo.watched_processes import OWN, end_error


def main() -> int:
    directory = arguments.directory_of(arguments.parse())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = module_command("headwater.demo.demo_run", *sys.argv[1:])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    try:
        exit_code = process.wait()
    except KeyboardInterrupt:
        process.stdin.close()
        try:
            exit_code = process.wait()
        except KeyboardInterrupt:  # no patience: what was going on goes on next time
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return 130
    finally:
        process.stdin.close()
    if exit_code >= 0:  # it has told itself
        return exit_code
    Screen().say(f"The demo could not go on. {end_error(OWN, process.pid, exit_code, arguments.log_of(directory))}")
    return 1


if __name__ == "__main__":
    sys.exit(main())

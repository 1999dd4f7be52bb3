"""What the scripts of both kinds of Connect worker do: run one in the foreground, or with -daemon leave it running when
it is ready.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.cli.kafka.options import KAFKA_VERSION, Usage


class WorkerScript(NamedTuple):
    """`module` is what -daemon runs, `log_name` where that logs."""

    module: str
    usage: str
    log_name: str
    run: Callable[[list[str]], int]


def run_script(script: WorkerScript, arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended

    if "--version" in arguments:
        sys.stdout.write(f"{KAFKA_VERSION}\n")
        return 0

    def body() -> int:
        words = list(arguments)
        daemon = words[:1] == ["-daemon"]
        if daemon:
            words.pop(0)
        if not words or words[0].startswith("-"):
            raise Usage("A worker is started with a properties file.")
        return _in_background(script, words) if daemon else _in_foreground(script, words)

    return ended(body, lambda: script.usage)


def _in_foreground(script: WorkerScript, words: list[str]) -> int:
    from headwater.server.logs_for_people import configure

    configure("text")
    return script.run(words)


def _in_background(script: WorkerScript, words: list[str]) -> int:
    from headwater.base.own_module import module_command
    from headwater.cli.background import start_in_background

    # Its stdout is the plugins', too: a `print` of theirs would fail on a pipe that nobody reads any more.
    command = module_command(script.module, *words)
    server = start_in_background(command, script.log_name, reads_stdout=False)
    if server.says_ready():
        return server.leave()
    raise server.failed(server.process.wait() or 1, "The Connect worker")

"""`kafka-server-start [-daemon] server.properties [--override property=value]*`: runs a broker as the file says.

In the foreground until SIGTERM or Ctrl-C. With -daemon it returns when the broker is ready and leaves it running; its
log is then `kafkaServer.out` in $LOG_DIR, or in `logs` where it was started.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from headwater.cli.kafka.options import KAFKA_VERSION, Usage

_USAGE: Final = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*\n"
_LOG_NAME: Final = "kafkaServer.out"


class Start(NamedTuple):
    config_path: str
    overrides: list[str]
    daemon: bool


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended

    if "--version" in arguments:
        sys.stdout.write(f"{KAFKA_VERSION}\n")
        return 0

    def body() -> int:
        start = parse_start(arguments)
        return _in_background(start) if start.daemon else _in_foreground(start)

    return ended(body, lambda: _USAGE)


def parse_start(arguments: Sequence[str]) -> Start:
    words = list(arguments)
    daemon = bool(words) and words[0] == "-daemon"
    if daemon:
        words.pop(0)
    if not words or words[0] in ("--help", "-h"):
        raise Usage("A broker is started with a properties file.")
    path, *rest = words
    if path.startswith("-"):
        raise Usage(f"The properties file comes before {path}.")
    overrides = []
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name != "--override":
            raise Usage(f"Found non argument parameters: {name if equals else '(hidden)'}")
        if not equals:
            if not rest:
                raise Usage("Option override requires an argument")
            value = rest.pop(0)
        if "=" not in value:
            raise Usage("Invalid command line properties: one of --override is not name=value")
        overrides.append(value)
    return Start(path, overrides, daemon)


def servers_directory(environment: Mapping[str, str] = os.environ) -> Path:
    from headwater.cli.paths import default_data_dir

    return default_data_dir(environment) / "servers"


def _in_foreground(start: Start) -> int:
    from headwater.cli.kafka.server_pids import noted
    from headwater.server.main import run

    with noted(servers_directory(), os.getpid(), node_id(start)):
        return run(start.config_path, start.overrides)


def node_id(start: Start) -> int:
    """As the file and the overrides say; -1 if nothing does, or if the file cannot be read, which the broker will
    say.
    """
    from headwater.base.config.properties import parse_properties
    from headwater.base.errors import UserError

    try:
        with open(start.config_path, encoding="utf-8") as file:
            said = parse_properties(file.read())
    except (OSError, ValueError, UserError):
        return -1
    for override in start.overrides:
        name, _, value = override.partition("=")
        said[name.strip()] = value
    text = (said.get("node.id") or said.get("broker.id") or "").strip()
    return int(text) if text.isascii() and text.isdigit() else -1


def _in_background(start: Start) -> int:
    """A process of its own session. It says on stdout that it is ready; should it end without, its log is shown."""
    from headwater.base.own_module import module_command
    from headwater.cli.background import start_in_background

    command = module_command("headwater.cli.kafka.server_start", start.config_path)
    for override in start.overrides:
        command += ["--override", override]
    server = start_in_background(command, _LOG_NAME, reads_stdout=True)
    assert server.process.stdout is not None
    with server.process.stdout:
        line = server.process.stdout.readline()
    if line.startswith(b"ready"):
        return server.leave()
    raise server.failed(server.process.wait() or 1, "The broker")


if __name__ == "__main__":
    main()

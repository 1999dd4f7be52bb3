"""`zookeeper-server-start [-daemon] zookeeper.properties`: runs ZooKeeper, from the jars in PySpark, as the file says.

In the foreground this process becomes Java. With -daemon it returns when ZooKeeper answers and leaves it running; its
log is then `zookeeper.out` in $LOG_DIR, or in `logs` where it was started. KAFKA_HEAP_OPTS sets its memory, and
KAFKA_OPTS other options of Java, such as its JAAS file.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from headwater.cli.kafka.options import Stop, Usage

_USAGE: Final = "USAGE: zookeeper-server-start [-daemon] zookeeper.properties\n"
_LOG_NAME: Final = "zookeeper.out"
_HEAP: Final = "-Xmx512M"
_START_TIMEOUT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05


class Start(NamedTuple):
    config_path: Path
    daemon: bool


class Address(NamedTuple):
    """Where clients are served; by a member of an ensemble only once most of the others run."""

    host: str
    port: int
    is_member: bool


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended

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
        raise Usage("ZooKeeper is started with a properties file.")
    if len(words) > 1 or words[0].startswith("-"):
        raise Usage(f"Only the properties file is expected: {' '.join(words)}")
    return Start(Path(words[0]), daemon)


def servers_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where those that run are noted, for `zookeeper-server-stop`."""
    from headwater.cli.paths import default_data_dir

    return default_data_dir(environment) / "zookeepers"


def client_address(config_path: Path) -> Address | None:
    """Where clients are served, as the file says; None if it names no port."""
    from headwater.base.config.properties import parse_properties

    try:
        said = parse_properties(config_path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise Stop(1, f"Cannot read {config_path}: {getattr(problem, 'strerror', None) or problem}") from None
    port = said.get("clientPort", "").strip()
    if not port:
        return None
    if not (port.isascii() and port.isdigit()):
        raise Stop(1, f"clientPort in {config_path} is no number: {port}")
    host = said.get("clientPortAddress", "").strip() or "0.0.0.0"
    return Address(host, int(port), any(name.startswith("server.") for name in said))


def _command(config_path: Path) -> list[str]:
    from headwater.server.zookeeper.installation import server_command
    from headwater.server.zookeeper.process import expect_free

    address = client_address(config_path)
    if address is not None:
        expect_free(address.host, address.port)
    options = [*os.environ.get("KAFKA_HEAP_OPTS", _HEAP).split(), *os.environ.get("KAFKA_OPTS", "").split()]
    return server_command(config_path.absolute(), "INFO", *options)


def _in_foreground(start: Start) -> int:
    from headwater.cli.kafka.server_pids import noted

    command = _command(start.config_path)
    sys.stdout.flush()
    with noted(servers_directory(), os.getpid(), -1):
        os.execv(command[0], command)


def _in_background(start: Start) -> int:
    """A process of its own session; should it end before it answers, its log is shown."""
    from headwater.base.own_module import module_command
    from headwater.cli.background import start_in_background

    _command(start.config_path)  # what is missing is said here, not in a log
    command = module_command("headwater.cli.zookeeper.server_start", str(start.config_path))
    server = start_in_background(command, _LOG_NAME, reads_stdout=False)
    if not _answers(server.process, client_address(start.config_path)):
        raise server.failed(1, "ZooKeeper")
    return server.leave()


def _answers(process: "subprocess.Popen[bytes]", address: Address | None) -> bool:
    import time

    from headwater.server.zookeeper.process import ask, is_serving

    deadline = time.monotonic() + _START_TIMEOUT_S
    while process.poll() is None:
        if (
            address is None
            or is_serving(address.host, address.port)
            or (address.is_member and ask(address.host, address.port, b"srvr"))
        ):
            return True
        if time.monotonic() > deadline:
            process.terminate()
            process.wait()
            return False
        time.sleep(_LOOK_AGAIN_S)
    return False


if __name__ == "__main__":
    main()

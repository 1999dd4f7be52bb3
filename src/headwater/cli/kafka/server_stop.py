"""`kafka-server-stop [--node-id=ID]`: tells the brokers that `kafka-server-start` started to stop; it does not wait for
them.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from headwater.cli.kafka.options import Option, Options, Stop, run, run_with

ABOUT: Final = "This tool stops the brokers of this machine that kafka-server-start started."
OPTIONS: Final = (
    Option("node-id", "Stop only the broker with this id.", "id"),
    Option("process-role", "Taken as it is: every process here is a broker.", "role"),
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.server_pids import running
    from headwater.cli.kafka.server_start import servers_directory
    from headwater.cli.processes import send_signal

    wanted = options.number("node-id")
    found = running(servers_directory())
    chosen = [each for each in found if wanted is None or each.node_id == wanted]
    told = [each for each in chosen if send_signal(each.process, signal.SIGTERM)]
    if not told:
        sys.stdout.write("No kafka server to stop\n" if wanted is None else _none_with(wanted, bool(found)))
        raise Stop(1)
    return 0


def _none_with(node_id: int, others: bool) -> str:
    return f"No kafka server with node-id {node_id} to stop{' (there are others)' if others else ''}\n"

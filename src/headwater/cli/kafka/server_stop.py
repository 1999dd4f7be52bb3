"""`kafka-server-stop [--node-id=ID]`: tells the brokers that `kafka-server-start` started to stop; it does not wait for
them.
"""

import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from headwater.cli.kafka.options import Option, Options, Stop, run, run_with

_ROLE: Final = "broker"
ABOUT: Final = "This tool stops the brokers of this machine that kafka-server-start started."
OPTIONS: Final = (
    Option("node-id", "Stop only the broker with this id.", "id"),
    Option("process-role", "Stop only processes with this role: broker, which all have here.", "role"),
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.server_pids import running
    from headwater.cli.kafka.server_start import servers_directory
    from headwater.cli.processes import send_signal

    wanted, role = options.number("node-id"), options.get("process-role")
    if wanted is not None and role is not None:
        sys.stdout.write(
            "When both node-id and process-role are provided, the value for node-id will take precedence\n"
        )
    is_of_role = wanted is not None or role is None or _ROLE in role.split(",")
    found = running(servers_directory())
    chosen = [each for each in found if is_of_role and wanted in (None, each.node_id)]
    told = [each for each in chosen if send_signal(each.process, signal.SIGTERM)]
    if not told:
        which = f" with node-id {wanted}" if wanted is not None else f" with process-role {role}" if role else ""
        others = " (there are others)" if which and found else ""
        sys.stdout.write(f"No kafka server{which} to stop{others}\n")
        raise Stop(1)
    return 0

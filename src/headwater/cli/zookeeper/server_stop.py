"""`zookeeper-server-stop`: tells the servers that `zookeeper-server-start` started to stop; it does not wait for
them.
"""

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from headwater.cli.kafka.options import Stop


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(_arguments: Sequence[str] = ()) -> int:
    from headwater.cli.kafka.exits import ended

    return ended(_stop, lambda: "")


def _stop() -> int:
    from headwater.cli.kafka.server_pids import running
    from headwater.cli.processes import send_signal
    from headwater.cli.zookeeper.server_start import servers_directory

    told = [each for each in running(servers_directory()) if send_signal(each.process, signal.SIGTERM)]
    if not told:
        sys.stdout.write("No zookeeper server to stop\n")
        raise Stop(1)
    return 0


if __name__ == "__main__":
    main()

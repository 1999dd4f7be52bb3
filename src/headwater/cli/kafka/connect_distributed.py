"""`connect-distributed [-daemon] worker.properties`: a Connect worker of a group, in the foreground.

With -daemon it returns when the worker is ready and leaves it running; its log is then `connectDistributed.out`.
"""

import sys
from typing import Final, NoReturn

from headwater.cli.kafka.connect_worker import WorkerScript, run_script
from headwater.cli.kafka.options import Usage


def _run(words: list[str]) -> int:
    from headwater.connect.distributed.service import run_distributed

    if len(words) > 1:
        raise Usage("A worker of a group gets its connectors over REST, not from files.")
    return run_distributed(words[0])


_SCRIPT: Final = WorkerScript(
    "headwater.cli.kafka.connect_distributed",
    "USAGE: connect-distributed [-daemon] connect-distributed.properties\n",
    "connectDistributed.out",
    _run,
)


def main() -> NoReturn:
    sys.exit(run_script(_SCRIPT, sys.argv[1:]))


if __name__ == "__main__":
    main()

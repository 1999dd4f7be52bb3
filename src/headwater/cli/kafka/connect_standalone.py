"""`connect-standalone [-daemon] worker.properties [connector.properties ...]`: a Connect worker in the foreground.

With -daemon it returns when the worker is ready and leaves it running; its log is then `connectStandalone.out`.
"""

import sys
from typing import Final, NoReturn

from headwater.cli.kafka.connect_worker import WorkerScript, run_script


def _run(words: list[str]) -> int:
    from headwater.connect.standalone import run_standalone

    return run_standalone(words[0], words[1:])


_SCRIPT: Final = WorkerScript(
    "headwater.cli.kafka.connect_standalone",
    "USAGE: connect-standalone [-daemon] connect-standalone.properties [connector1.properties ...]\n",
    "connectStandalone.out",
    _run,
)


def main() -> NoReturn:
    sys.exit(run_script(_SCRIPT, sys.argv[1:]))


if __name__ == "__main__":
    main()

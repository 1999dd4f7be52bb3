"""The way into Kafka's scripts: `launch:consumer_groups` runs `main` of that module.

So little that Ctrl-C while the module and what it needs are being read ends the script as it does later: quietly, with
exit code 130. What is left is the start of Python itself, which is not ours.
"""

import sys
from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[[], NoReturn]:
    if not name.islower() or name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def launch() -> NoReturn:
        try:
            from importlib import import_module

            sys.exit(import_module(f"headwater.cli.kafka.{name}").main())
        except KeyboardInterrupt:
            sys.exit(130)

    return launch

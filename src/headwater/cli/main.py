"""The entry point of the `headwater` command.

`headwater broker start` goes straight to the server when its arguments are plain: click costs a sixth of the time that
a broker may take to be ready. Everything else, help and wrong usage of that verb included, is click's, in `root`.
"""

import sys
from typing import NamedTuple


class BrokerStart(NamedTuple):
    config_path: str | None
    overrides: list[str]
    stop_on_eof: bool


def main() -> None:
    try:
        sys.exit(_run())
    except KeyboardInterrupt:  # while modules are read; afterwards each command takes it
        sys.exit(1)


def _run() -> int:
    plain = plain_broker_start(sys.argv[1:])
    if plain is not None:
        from headwater.server.main import run as run_broker

        return run_broker(plain.config_path, plain.overrides, stop_on_eof=plain.stop_on_eof)
    from headwater.cli.root import run

    return run()


def plain_broker_start(arguments: list[str]) -> BrokerStart | None:
    """The options of `broker start` if that is all there is; None leaves the arguments to click."""
    if arguments[:2] != ["broker", "start"]:
        return None
    config_path: str | None = None
    overrides: list[str] = []
    stop_on_eof = False
    rest = iter(arguments[2:])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument == "--stop-on-eof":
            stop_on_eof = True
            continue
        if name not in ("--config", "--set"):
            return None
        if not equals:
            given = next(rest, None)
            if given is None:
                return None
            value = given
        if name == "--set":
            overrides.append(value)
        else:
            config_path = value
    return BrokerStart(config_path, overrides, stop_on_eof)


if __name__ == "__main__":
    main()

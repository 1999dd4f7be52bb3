"""A supervisor whose children are stand-ins: `python supervised.py up DIR BROKERS` runs it, `... child NAME FILE` is one.

A stand-in writes what happens to it into the file, a line each, says that it is ready, and ends on SIGTERM or at the end of
its stdin. One whose name stands in the file `DIR/broken` complains instead.
"""

import os
import select
import signal
import sys
from pathlib import Path


def child(name: str, events: Path) -> int:
    def note(what: str) -> None:
        with events.open("a") as file:
            file.write(f"{what} {name}\n")

    broken = events.parent / "broken"
    if broken.exists() and name in broken.read_text().split():
        sys.stderr.write(f"{name} is broken\n")
        return 1
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGTERM, lambda *_: None)
    note("start")
    if name == "zookeeper":
        sys.stdout.write(f"ready zookeeper=127.0.0.1:1 pid={os.getpid()}\n")
    else:
        sys.stdout.write(f"ready broker={name} listeners=PLAINTEXT://localhost:{9000 + int(name)}\n")
    sys.stdout.flush()
    found, _, _ = select.select([0, read], [], [])
    note("stop" if read in found else "eof")
    return 0


def up(directory: Path, count: int) -> int:
    from headwater.cli.children import BrokerChild, ZooKeeperChild
    from headwater.cli.plans import plan_several
    from headwater.cli.state import UpState
    from headwater.cli.supervisor import Supervisor

    def command(name: str) -> list[str]:
        return [sys.executable, __file__, "child", name, str(directory / "events")]

    BrokerChild.command = lambda self: command(str(self.broker.id))  # type: ignore[method-assign]
    ZooKeeperChild.command = lambda self: command("zookeeper")  # type: ignore[method-assign]
    plan = plan_several(directory, None, {}, {}, count=count, port=0, zookeeper_port=1, detach=False)

    def tell(state: UpState) -> None:
        sys.stdout.write(f"all {[broker.port for broker in state.brokers]}\n")
        sys.stdout.flush()

    return Supervisor(plan, tell).run()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["child", name, events]:
            sys.exit(child(name, Path(events)))
        case ["up", directory, count]:
            sys.exit(up(Path(directory), int(count)))

"""A supervisor whose children are stand-ins: `python supervised.py up DIR BROKERS` runs it, `... detached DIR BROKERS`
in the background, `... child NAME FILE` is one.

A stand-in writes what happens to it into the file, a line each, says that it is ready, and ends on SIGTERM or at the
end of its stdin. One whose name stands in the file `DIR/broken` complains instead; one in `DIR/hanging` never says that
it is ready, and those there and in `DIR/stubborn` do not heed SIGTERM; one in `DIR/slow`
heeds it, and is not ready until then. `DIR/ready-limit` and `DIR/stop-limit` have
seconds for the registry.
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

    def is_called(kind: str) -> bool:
        file = events.parent / kind
        return file.exists() and name in file.read_text().split()

    if is_called("broken"):
        sys.stderr.write(f"{name} is broken\n")
        return 1
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    heeds_nobody = is_called("hanging") or is_called("stubborn")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if heeds_nobody else lambda *_: None)
    note("start")
    if is_called("hanging"):
        sys.stdin.read()
        return 0
    if is_called("slow"):
        pass
    elif name == "zookeeper":
        sys.stdout.write(f"ready zookeeper=127.0.0.1:1 pid={os.getpid()}\n")
    elif name == "connect":
        sys.stdout.write("ready connect listeners=http://127.0.0.1:3 group=g\n")
    elif name == "registry":
        sys.stdout.write("ready registry=http://127.0.0.1:2\n")
    else:
        sys.stdout.write(f"ready broker={name} listeners=PLAINTEXT://localhost:{9000 + int(name)}\n")
    sys.stdout.flush()
    found, _, _ = select.select([0, read], [], [])
    note("stop" if read in found else "eof")
    return 0


def up(directory: Path, count: int, *, detach: bool = False) -> int:
    from headwater.cli.children import BrokerChild, ConnectChild, RegistryChild, ZooKeeperChild
    from headwater.cli.plans import plan_several, with_connect, with_registry
    from headwater.cli.state import UpState
    from headwater.cli.supervisor import Supervisor

    def command(name: str) -> list[str]:
        return [sys.executable, __file__, "child", name, str(directory / "events")]

    BrokerChild.command = lambda self: command(str(self.broker.id))  # type: ignore[method-assign]
    ZooKeeperChild.command = lambda self: command("zookeeper")  # type: ignore[method-assign]
    RegistryChild.command = lambda self: command("registry")  # type: ignore[method-assign]
    ConnectChild.command = lambda self: command("connect")  # type: ignore[method-assign]
    for limit in ("ready", "stop"):
        if (directory / f"{limit}-limit").exists():
            setattr(RegistryChild, f"{limit}_limit_s", float((directory / f"{limit}-limit").read_text()))
    plan = plan_several(directory, None, {}, {}, count=count, port=0, zookeeper_port=1, detach=detach)

    if (directory / "with-registry").exists():
        plan = with_registry(plan, 0, 0, {})

    if (directory / "with-connect").exists():
        plan = with_connect(plan, 0, 0)

    if detach:
        from headwater.cli.commands.up import _detached

        return _detached(plan, "json")

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
        case ["detached", directory, count]:
            sys.exit(up(Path(directory), int(count), detach=True))

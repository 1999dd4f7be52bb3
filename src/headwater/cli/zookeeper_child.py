"""The process between `headwater up` and ZooKeeper's JVM: `python -m headwater.cli.zookeeper_child DATA_DIR PORT
[JAAS_FILE]`.

With a JAAS file ZooKeeper knows the users in it (SASL DIGEST-MD5), and serves nobody else. Says on stdout when
ZooKeeper is ready, stops it on SIGTERM and at the end of stdin, and ends when it ends: the supervisor has a child like
any other, and ZooKeeper does not outlive it.
"""

import os
import select
import signal
import sys
from pathlib import Path
from typing import Final, Protocol

from headwater.base.errors import UserError

_SASL: Final = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ZooKeeper(Protocol):
    """What `headwater.server.zookeeper.process` gives."""

    @property
    def pid(self) -> int: ...

    @property
    def port(self) -> int: ...

    def stop(self) -> None:
        """Waits until it is gone."""


def main() -> None:
    jaas_file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    sys.exit(run(Path(sys.argv[1]), int(sys.argv[2]), jaas_file))


def run(data_dir: Path, port: int, jaas_file: Path | None = None) -> int:
    """0 if it was stopped, 1 if it could not start or ended by itself."""
    from headwater.server.zookeeper.process import start

    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in _STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        settings, java_options = security_of(jaas_file)
        server: ZooKeeper = start(data_dir, port, settings=settings, java_options=java_options)
    except (UserError, OSError) as problem:
        from headwater.cli.explain import explain

        known = problem if isinstance(problem, UserError) else UserError("ZooKeeper cannot start", str(problem))
        sys.stderr.write(f"{explain(known)}\n")
        return 1
    sys.stdout.write(f"ready zookeeper=127.0.0.1:{server.port} pid={server.pid}\n")
    sys.stdout.flush()
    return watch(server, 0, wake_read)


def security_of(jaas_file: Path | None) -> tuple[dict[str, str], list[str]]:
    """ZooKeeper's settings, and its JVM's. The nodes need no ACLs of their own where every session needs a login; so
    the same data can be opened without one again.
    """
    if jaas_file is None:
        return {}, []
    settings = {"authProvider.sasl": _SASL, "sessionRequireClientSASLAuth": "true"}
    return settings, [f"-Djava.security.auth.login.config={jaas_file}"]


def watch(server: ZooKeeper, life: int, wake_read: int) -> int:
    """Until the server ends, `life` is at its end, or a signal came."""
    try:
        ended = os.pidfd_open(server.pid)
    except ProcessLookupError:
        return 1
    poll = select.poll()
    for descriptor in (ended, life, wake_read):
        poll.register(descriptor, select.POLLIN)
    try:
        while True:
            found = {descriptor for descriptor, _ in poll.poll()}
            if ended in found:
                server.stop()  # collects what is left of it
                return 1
            if wake_read in found or (life in found and not os.read(life, 4096)):
                server.stop()
                return 0
    finally:
        os.close(ended)


if __name__ == "__main__":
    main()

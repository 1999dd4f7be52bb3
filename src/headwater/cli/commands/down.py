"""`headwater down`: stops what `headwater up` started, and waits until it is gone."""

import signal
import time
from pathlib import Path
from typing import Any, Final

import click

from headwater.base.errors import UserError
from headwater.cli.options import data_dir_option, output_option
from headwater.cli.output import emit
from headwater.cli.paths import default_data_dir

_PATIENCE_S: Final = 30.0
_ENDING_S: Final = 1.0  # between the end of the file and that of the supervisor
_LOOK_S: Final = 0.02
_CALLED: Final = {"connect": "the Connect worker", "sql": "the SQL server", "registry": "the schema registry"}


@click.command()
@data_dir_option
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0), help="Seconds to wait.  [default: 30 for each that runs]"
)
@click.option("--force", is_flag=True, help="Kill what has not stopped by then.")
@output_option
def down(data_dir: str | None, timeout_s: float | None, force: bool, output: str) -> int:
    """Stop what `headwater up` started, and wait until it is gone."""
    from headwater.cli.processes import pids_of, send_signal, wait_until_gone
    from headwater.cli.state import read_state, remove_state

    directory = (Path(data_dir).expanduser() if data_dir else default_data_dir()).absolute()
    state = read_state(directory)
    if state is None:
        _remove_what_is_left(directory)
        emit(output, {"stopped": [], "data_dir": str(directory)}, f"Nothing is running on {directory}\n")
        return 0
    brokers = [broker for broker in state.brokers if broker.is_alive]
    beside = {
        name: server
        for name, server in (("connect", state.connect), ("sql", state.sql), ("registry", state.registry))
        if server is not None and server.is_alive
    }
    zookeeper = state.zookeeper if state.zookeeper is not None and state.zookeeper.is_alive else None
    timeout_s = _PATIENCE_S * max(1, len(brokers)) if timeout_s is None else timeout_s
    if not send_signal(state.supervisor, signal.SIGTERM):  # killed hard: its children see that, and end by themselves
        for broker in brokers:
            send_signal(broker.process, signal.SIGTERM)
    left = wait_until_gone(state.processes, timeout_s)
    if left and force:
        for process in left:
            send_signal(process, signal.SIGKILL)
        left = wait_until_gone(left, timeout_s)
    if left:
        pids = pids_of(left)
        raise UserError(
            f"Process {pids} has not stopped within {timeout_s:g} s",
            "",
            "Wait longer with --timeout, or kill it with --force",
        )
    remove_state(directory)
    stopped = [{"id": broker.id, "port": broker.port, "pid": broker.pid} for broker in brokers]
    text = "".join(f"Stopped {_CALLED[name]} at {each.url} (pid {each.pid})\n" for name, each in beside.items())
    text += "".join(f"Stopped broker {each.id} at {each.address} (pid {each.pid})\n" for each in brokers)
    value: dict[str, Any] = {"stopped": stopped, "data_dir": str(directory)}
    value |= {name: {"port": each.port, "pid": each.pid} for name, each in beside.items()}
    if zookeeper is not None:
        text += f"Stopped ZooKeeper at {zookeeper.address} (pid {zookeeper.server_pid})\n"
        value["zookeeper"] = {"port": zookeeper.port, "pid": zookeeper.server_pid}
    emit(output, value, text or f"Stopped what ran on {directory}\n")
    return 0


def _remove_what_is_left(directory: Path) -> None:
    """Of one that died. Where a supervisor lives all the same, its file is left alone: it begins or ends just now, or
    is of another version.
    """
    from headwater.cli.state import is_locked, remove_state

    deadline = time.monotonic() + _ENDING_S
    while is_locked(directory):
        if time.monotonic() > deadline:
            raise UserError(
                f"What runs on {directory} cannot be told",
                "its lock is held, and up.json does not say by whom",
                "If it is being started, try again when it is; if another version of Headwater started it, stop it"
                " with that one",
            )
        time.sleep(_LOOK_S)
    remove_state(directory)

"""`headwater up`: one broker on this machine, supervised, in the foreground or detached."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from headwater.cli.options import key_values, output_option
from headwater.cli.output import emit, render_pairs
from headwater.cli.paths import default_data_dir

if TYPE_CHECKING:
    from headwater.cli.state import UpState
    from headwater.cli.supervisor import Plan

_READY: Final = b"ready"
_LOG_TAIL_BYTES: Final = 4000

data_dir_option = click.option(
    "--data-dir", metavar="DIR", type=click.Path(file_okay=False), help="Default: headwater in the user's data home."
)


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Return when the broker is ready, and leave it running.")
@data_dir_option
@click.option(
    "--config", "config_path", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="server.properties"
)
@click.option("--set", "sets", metavar="KEY=VALUE", multiple=True, help="A broker setting; may come several times.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Where clients connect; 0 for any free port.  [default: 9092]"
)
@output_option
def up(
    detach: bool, data_dir: str | None, config_path: str | None, sets: tuple[str, ...], port: int | None, output: str
) -> int:
    """Start a broker on this machine and keep it running.

    It is started again when it dies. Stop it with Ctrl-C, or `headwater down`.
    """
    from headwater.cli.state import read_state, take_lock

    key_values(sets, "--set")
    directory = Path(data_dir).expanduser() if data_dir else default_data_dir()
    directory = directory.absolute()
    running = read_state(directory)
    if detach and running is not None and all(broker.ready for broker in running.brokers):
        _announce(running, output, "is running already")
        return 0
    lock = take_lock(directory)
    try:
        plan = _plan(directory, config_path, list(sets), port, detach)
        return _detached(plan, output) if detach else _foreground(plan, output)
    finally:
        os.close(lock)


def _plan(directory: Path, config_path: str | None, sets: list[str], port: int | None, detach: bool) -> "Plan":
    """What the file or the options set is left alone; the rest gets what suits one broker on one machine."""
    from headwater.cli.supervisor import Plan

    given = _given(config_path, sets)
    overrides = list(sets)
    log_dirs = (given.get("log.dirs") or given.get("log.dir") or "").split(",")
    if not any(log_dirs):
        log_dirs = [str(directory / "broker-0")]
        overrides.append(f"log.dirs={log_dirs[0]}")
    if port is not None or "listeners" not in given:
        overrides.append(f"listeners=PLAINTEXT://localhost:{9092 if port is None else port}")
    if "metrics.port" not in given:
        overrides.append("metrics.port=0")  # what `headwater status` asks
    log_file = directory / "logs" / "broker-0.log" if detach else None
    return Plan(directory, None if config_path is None else os.path.abspath(config_path), overrides, log_dirs, log_file)


def _given(config_path: str | None, sets: list[str]) -> dict[str, str]:
    from headwater.base.config.properties import parse_properties

    given = {}
    if config_path is not None:
        given = parse_properties(Path(config_path).read_text(encoding="utf-8", errors="replace"))
    return {**given, **key_values(tuple(sets), "--set")}


def _foreground(plan: "Plan", output: str) -> int:
    from headwater.cli.supervisor import Supervisor

    return Supervisor(plan, lambda state: _announce(state, output, "is up")).run()


def _detached(plan: "Plan", output: str) -> int:
    """A fork of ours becomes the supervisor; it tells through a pipe that the broker is ready, or closes it without."""
    assert plan.log_file is not None
    plan.log_file.parent.mkdir(parents=True, exist_ok=True)
    log_was_bytes = plan.log_file.stat().st_size if plan.log_file.exists() else 0
    ready_read, ready_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        os.close(ready_read)
        _become_supervisor(plan, ready_write)
    os.close(ready_write)
    with open(ready_read, "rb") as pipe:
        ready = pipe.read() == _READY
    if not ready:
        click.echo(_log_since(plan.log_file, log_was_bytes), err=True, nl=False)
        click.echo(f"error: The broker did not start\nIts whole log is {plan.log_file}", err=True)
        return 1
    from headwater.cli.state import read_state

    state = read_state(plan.data_dir)
    if state is None:
        click.echo(f"error: The broker was ready, and is gone again\nIts log is {plan.log_file}", err=True)
        return 1
    _announce(state, output, "is up")
    return 0


def _become_supervisor(plan: "Plan", ready_write: int) -> NoReturn:
    """Never returns into the command: what the parent would do at its end must not happen twice."""
    from headwater.cli.supervisor import Supervisor

    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(str(plan.log_file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for source, to in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, to)

        def tell(_state: "UpState") -> None:
            os.write(ready_write, _READY)
            os.close(ready_write)

        code = Supervisor(plan, tell).run()
        sys.stdout.flush()
    finally:
        os._exit(code)


def _log_since(log_file: Path, start: int) -> str:
    try:
        with log_file.open("rb") as file:
            file.seek(max(start, log_file.stat().st_size - _LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _announce(state: "UpState", output: str, how: str) -> None:
    from headwater.cli.commands.status import local_documents

    broker = state.brokers[0]
    pairs: list[tuple[str, object]] = [("  data", state.data_dir)]
    if broker.log_file:
        pairs.append(("  log", broker.log_file))
    if broker.metrics_port >= 0:
        pairs.append(("  metrics", f"http://127.0.0.1:{broker.metrics_port}/metrics"))
    text = f"Headwater {how}: broker {broker.id} at {broker.address} (pid {broker.pid})\n{render_pairs(pairs)}"
    emit(output, local_documents(state, asking=False), f"{text}\nTry next:\n{_suggestions(state)}")
    sys.stdout.flush()


def _own_name() -> str:
    """What to type: the plain name where the shell finds this very program by it, else the path that it was called by."""
    called = Path(sys.argv[0])
    found = shutil.which("headwater")
    if called.name != "headwater" or (found is not None and Path(found).absolute() == called.absolute()):
        return "headwater"
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called)


def _suggestions(state: "UpState") -> str:
    """Commands that find this broker: without options only if it is the one they look for by themselves."""
    usual = Path(state.data_dir) == default_data_dir().absolute()
    client = "" if usual else f" --bootstrap-server {state.brokers[0].address}"
    local = "" if usual else f" --data-dir {state.data_dir}"
    name = _own_name()
    commands = [
        f"{name} topic create hello{client}",
        f"echo world | {name} produce hello{client}",
        f"{name} consume hello -e{client}",
        f"{name} status{local}",
        f"{name} down{local}",
    ]
    return "".join(f"  {command}\n" for command in commands)

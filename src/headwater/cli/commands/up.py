"""`headwater up`: one broker on this machine, or several with a ZooKeeper; supervised, in the foreground or
detached.
"""

import os
import shlex
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from headwater.cli.announcement import announce
from headwater.cli.options import data_dir_option, key_values, output_option
from headwater.cli.paths import default_data_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.cli.plans import Plan
    from headwater.cli.state import UpState

_READY: Final = b"ready"
_PATIENCE_S: Final = 30.0  # for each broker that is still ending
_BROKERS_MAX: Final = 16  # on one machine, for trying things out


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
@click.option(
    "--brokers",
    "count",
    metavar="N",
    type=click.IntRange(1, _BROKERS_MAX),
    default=1,
    help="So many, on ports in a row, with a ZooKeeper for them.  [default: 1]",
)
@click.option(
    "--registry-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Where the schema registry listens; 0 for any free port.  [default: 8081]",
)
@click.option("--no-registry", is_flag=True, help="Without a schema registry.")
@click.option("--sql", "with_sql_server", is_flag=True, help="With a SQL server.")
@click.option(
    "--sql-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Where the SQL server listens, with --sql; 0 for any free port.  [default: 8088]",
)
@click.option("--connect", "with_worker", is_flag=True, help="With a Connect worker.")
@click.option(
    "--connect-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Where the Connect worker listens, with --connect; 0 for any free port.  [default: 8083]",
)
@click.option(
    "--secure", is_flag=True, help="With TLS, a login and rights: certificates and a user `admin` are made at first."
)
@output_option
def up(
    detach: bool,
    data_dir: str | None,
    config_path: str | None,
    sets: tuple[str, ...],
    port: int | None,
    count: int,
    registry_port: int | None,
    no_registry: bool,
    with_sql_server: bool,
    sql_port: int | None,
    with_worker: bool,
    connect_port: int | None,
    secure: bool,
    output: str,
) -> int:
    """Start a broker on this machine, or a cluster of several, with a schema registry, and keep it running.

    What dies is started again. Stop it with Ctrl-C, or `headwater down`.
    """
    from headwater.cli.state import read_state, take_lock

    key_values(sets, "--set")
    if with_sql_server:
        from headwater.base.extras import STREAMS, require_extra

        require_extra("sql", "A SQL server", STREAMS)
    if secure:
        _check_secure(config_path, registry_port is not None, with_sql_server, with_worker)
    directory = Path(data_dir).expanduser() if data_dir else default_data_dir()
    directory = directory.absolute()
    running = read_state(directory)
    if running is not None and running.is_ending:
        wait_for_the_end(running, _PATIENCE_S * max(1, len(running.brokers)))
        running = None
    if detach and running is not None and all(broker.ready for broker in running.brokers):
        if secure and running.client_config is None:
            _refuse_to_secure(running)
        announce(running, output, "is running already")
        _tell_what_it_lacks(
            [
                (f"--brokers {count}", count > 1, running if len(running.brokers) == count else None),
                (f"--port {port}", bool(port), running if running.brokers[0].port == port else None),
                ("--sql", with_sql_server, running.sql),
                ("--connect", with_worker, running.connect),
            ]
        )
        return 0
    if secure:
        plan = _plan_secured(directory, sets, port, count, detach)
    else:
        _tell_of_secured(directory)
        plan = _plan(directory, config_path, sets, port, count, detach)
    if not no_registry and not secure:
        from headwater.cli.plans import with_registry

        plan = with_registry(plan, registry_port, port, _given(config_path, sets), _is_free)
    if with_sql_server:
        from headwater.cli.plans import with_sql

        plan = with_sql(plan, sql_port, port)
    if with_worker:
        from headwater.cli.plans import with_connect

        plan = with_connect(plan, connect_port, port)
    lock = take_lock(directory)
    try:
        if secure:
            from datetime import UTC, datetime

            from headwater.cli.secure import prepare

            prepare(directory, datetime.now(UTC), count, has_zookeeper=plan.zookeeper is not None)
        return _detached(plan, output) if detach else _foreground(plan, output)
    finally:
        os.close(lock)


def _is_free(port: int) -> bool:
    """Whether the registry could listen there now."""
    import socket

    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def wait_for_the_end(state: "UpState", timeout_s: float) -> None:
    """Of what ran there before: a broker that is still ending holds its port and its files."""
    from headwater.base.errors import UserError
    from headwater.cli.processes import is_alive, pids_of, wait_until_gone

    left = [process for process in state.processes if is_alive(process)]
    if not left:
        return
    why = "was told to stop" if state.stopping else "lost its supervisor, which was killed"
    click.echo(
        f"What ran on {state.data_dir} {why}, and is still ending: waiting for process {pids_of(left)}", err=True
    )
    left = wait_until_gone(left, timeout_s)
    if left:
        raise UserError(
            f"Process {pids_of(left)} of the last `headwater up` has not ended within {timeout_s:g} s",
            f"what ran on {state.data_dir} {why}",
            f"Kill it with `headwater down --force --data-dir {shlex.quote(state.data_dir)}`, then start again",
        )


def _plan(
    directory: Path, config_path: str | None, sets: tuple[str, ...], port: int | None, count: int, detach: bool
) -> "Plan":
    from headwater.cli.plans import PlanError, plan_one, plan_several

    given = _given(config_path, sets)
    config = None if config_path is None else os.path.abspath(config_path)
    _tell_left_out(directory, count)
    if detach:  # in the foreground the brokers say it where people look
        tell_of_settings(given)
    try:
        if count == 1:
            return plan_one(directory, config, given, list(sets), port, detach)
        require_cluster_extra(starts_zookeeper=not given.get("zookeeper.connect"))
        from headwater.server.zookeeper.process import free_ports

        return plan_several(
            directory,
            config,
            given,
            key_values(sets, "--set"),
            count=count,
            port=port,
            zookeeper_port=free_ports(1)[0],
            detach=detach,
        )
    except PlanError as problem:
        raise click.UsageError(str(problem)) from None


def _check_secure(config_path: str | None, *others: bool) -> None:
    """What cannot be had together with --secure, and why."""
    if config_path is not None:
        raise click.UsageError(
            "--secure writes the broker's settings itself: with --config, put your own security into the file"
        )
    if any(others):
        raise click.UsageError(
            "--secure starts no registry, SQL server or Connect worker: start them by themselves, with authentication.method=BASIC; see docs/SECURITY.md"
        )


def _plan_secured(directory: Path, sets: tuple[str, ...], port: int | None, count: int, detach: bool) -> "Plan":
    from headwater.base.security.oauthbearer import require_cryptography
    from headwater.cli.plans import PlanError, plan_secured, plan_several_secured
    from headwater.cli.secure import Secured

    require_cryptography("for `headwater up --secure`, which makes certificates")
    secured = Secured.of(directory)
    _tell_left_out(directory, count)
    given = key_values(sets, "--set")
    if detach:
        tell_of_settings(given)
    try:
        if count == 1:
            return plan_secured(
                directory, secured.server_config, secured.client_config, given, list(sets), port, detach
            )
        require_cluster_extra(starts_zookeeper=not given.get("zookeeper.connect"))
        from headwater.server.zookeeper.process import free_ports

        zookeeper_port = free_ports(1)[0]
        return plan_several_secured(
            directory, secured, given, count=count, port=port, zookeeper_port=zookeeper_port, detach=detach
        )
    except PlanError as problem:
        raise click.UsageError(str(problem)) from None


def _refuse_to_secure(running: "UpState") -> NoReturn:
    from headwater.base.errors import UserError

    raise UserError(
        f"What runs on {running.data_dir} is not secured",
        "it was started without --secure",
        f"Stop it first, with `headwater down --data-dir {shlex.quote(running.data_dir)}`",
    )


def _tell_of_secured(directory: Path) -> None:
    from headwater.cli.secure import Secured

    if Secured.of(directory).server_config.exists():
        click.echo(
            f"warning: {directory} was secured before, and is open to everybody on this machine now; see --secure",
            err=True,
        )


def _tell_what_it_lacks(asked: "Iterable[tuple[str, bool, object]]") -> None:
    """What runs already stays as it is, and is not what was asked for."""
    lacking = " and ".join(option for option, is_asked, running in asked if is_asked and running is None)
    if lacking:
        told = f"warning: it was started without {lacking}; `headwater down`, then start it again with {lacking}"
        click.echo(told, err=True)


def require_cluster_extra(*, starts_zookeeper: bool) -> None:
    """Several brokers need the client of ZooKeeper, and for one on this machine its jars, which lie in PySpark."""
    from headwater.base.extras import require_extra

    require_extra("cluster", "A cluster of several brokers", ["kazoo", *(["pyspark"] if starts_zookeeper else [])])


def _tell_left_out(directory: Path, count: int) -> None:
    """Another number of brokers than the last time: what lies with the others is away."""
    ids = range(1) if count == 1 else range(1, count + 1)
    others = [path.name.removeprefix("broker-") for path in directory.glob("broker-*")]
    left = sorted(int(number) for number in others if number.isdigit() and int(number) not in ids)
    if left:
        names = ", ".join(f"broker-{number}" for number in left)
        click.echo(f"warning: {directory} has data of brokers that are not started: {names}; see --brokers", err=True)


def tell_of_settings(given: dict[str, str]) -> None:
    """Names that nobody knows, or that have no effect: a slip in one would go into a log that nobody reads."""
    if given:
        from headwater.base.config.broker import warnings_for

        for warning in warnings_for(given):
            click.echo(f"warning: {warning}", err=True)


def _given(config_path: str | None, sets: tuple[str, ...]) -> dict[str, str]:
    from headwater.base.config.properties import parse_properties

    given = {}
    if config_path is not None:
        given = parse_properties(Path(config_path).read_text(encoding="utf-8", errors="replace"))
    return {**given, **key_values(sets, "--set")}


def _foreground(plan: "Plan", output: str) -> int:
    from headwater.cli.supervisor import Supervisor

    return Supervisor(plan, lambda state: announce(state, output, "is up", plan)).run()


def _detached(plan: "Plan", output: str) -> int:
    """A fork of ours becomes the supervisor; it tells through a pipe that the broker is ready, or why it gave up, or
    closes it without a word where the log has that.
    """
    from headwater.base.errors import UserError
    from headwater.cli.log_files import log_since, size_bytes
    from headwater.cli.state import read_state

    assert plan.log_file is not None
    try:
        plan.log_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"Cannot make {plan.log_file.parent}", problem.strerror or str(problem)) from None
    log_was_bytes = size_bytes(plan.log_file)
    ready_read, ready_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(ready_read)
        _become_supervisor(plan, ready_write)
    os.close(ready_write)
    try:
        with open(ready_read, "rb") as pipe:
            answer = pipe.read()
    except KeyboardInterrupt:  # it has a session of its own, and hears no Ctrl-C
        click.echo("headwater: interrupted; what was started is stopped", err=True)
        os.kill(supervisor, signal.SIGTERM)
        os.waitpid(supervisor, 0)
        raise
    what = "The broker" if len(plan.brokers) == 1 else "The cluster"
    if answer != _READY:
        click.echo(log_since(plan.log_file, log_was_bytes), err=True, nl=False)
        click.echo(f"error: {what} did not start\nIts whole log is {plan.log_file}", err=True)
        if answer:
            click.echo(answer.decode("utf-8", "replace"), err=True)
        return 1
    state = read_state(plan.data_dir)
    if state is None:
        click.echo(f"error: {what} was ready, and is gone again\nIts log is {plan.log_file}", err=True)
        return 1
    announce(state, output, "is up", plan)
    return 0


def _become_supervisor(plan: "Plan", ready_write: int) -> NoReturn:
    """Never returns into the command: what the parent would do at its end must not happen twice."""
    from headwater.base.errors import UserError
    from headwater.cli.explain import explain
    from headwater.cli.supervisor import Supervisor

    code = 1
    waits = True
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(str(plan.log_file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for source, to in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, to)

        def tell(_state: "UpState") -> None:
            nonlocal waits
            waits = False
            os.write(ready_write, _READY)
            os.close(ready_write)

        code = Supervisor(plan, tell).run()
        sys.stdout.flush()
    except (UserError, OSError) as problem:
        said = explain(problem) if isinstance(problem, UserError) else f"error: {problem}"
        if waits:  # through the pipe: the log may be what cannot be written
            os.write(ready_write, said.encode("utf-8", "replace"))
        else:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
    except Exception:  # noqa: BLE001 - the log has it, for there is nobody to raise it to
        traceback.print_exc()
    finally:
        os._exit(code)

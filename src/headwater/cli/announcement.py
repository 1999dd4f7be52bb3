"""What `headwater up` says when it is up: where everything is, and what to try next."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.local_documents import local_documents
from headwater.cli.output import emit, render_pairs
from headwater.cli.paths import default_data_dir

if TYPE_CHECKING:
    from headwater.cli.plans import ConnectPlan, Plan, RegistryPlan, SqlPlan
    from headwater.cli.state import ConnectState, RegistryState, SqlState, UpState


def announce(state: "UpState", output: str, how: str, plan: "Plan | None" = None) -> None:
    """`plan`: with the servers that were to start beside the brokers."""
    beside = [
        *_beside("schemas", "the schema registry", state.registry, plan.registry if plan else None),
        *_beside("sql", "the SQL server", state.sql, plan.sql if plan else None),
        *_beside("connect", "the Connect worker", state.connect, plan.connect if plan else None),
    ]
    text = _one(state, how, beside) if len(state.brokers) == 1 else _several(state, how, beside)
    emit(output, local_documents(state, asking=False), f"{text}\nTry next:\n{_suggestions(state)}")
    sys.stdout.flush()


def _beside(
    word: str,
    name: str,
    server: "RegistryState | SqlState | ConnectState | None",
    planned: "RegistryPlan | SqlPlan | ConnectPlan | None",
) -> list[tuple[str, object]]:
    """Where a server beside the brokers is; that it is not there, if it should be."""
    if server is not None:
        return [(f"  {word}", f"{server.url} (pid {server.pid})")]
    if planned is None:
        return []
    where = f", see {planned.log_file}" if planned.log_file is not None else ""
    return [(f"  {word}", f"none: {name} did not start{where}")]


def _one(state: "UpState", how: str, schemas: list[tuple[str, object]]) -> str:
    broker = state.brokers[0]
    pairs: list[tuple[str, object]] = [("  data", state.data_dir)]
    if broker.log_file:
        pairs.append(("  log", broker.log_file))
    if broker.metrics_port >= 0:
        pairs.append(("  metrics", f"http://127.0.0.1:{broker.metrics_port}/metrics"))
    pairs += schemas
    if state.client_config is not None:
        pairs += _for_clients(state.data_dir)
    return f"Headwater {how}: broker {broker.id} at {broker.address} (pid {broker.pid})\n{render_pairs(pairs)}"


def _for_clients(data_dir: str) -> list[tuple[str, object]]:
    """Where a client finds what it needs: names of files, never what is secret in them."""
    from headwater.cli.secure import ADMIN, MECHANISM, Secured

    secured = Secured.of(Path(data_dir))
    return [
        ("  login", f"SASL_SSL, {MECHANISM}; the user is {ADMIN}, its password is in {secured.password}"),
        ("  authority", f"{secured.authority} (ssl.truststore.location, ssl.ca.location)"),
        ("  Java, headwater", f"{secured.client_config} (--command-config)"),
        ("  librdkafka", f"{secured.librdkafka_config} (kcat -F)"),
        ("  schemas", "none: start a registry by itself, with authentication.method=BASIC; see docs/SECURITY.md"),
    ]


def _several(state: "UpState", how: str, schemas: list[tuple[str, object]]) -> str:
    pairs: list[tuple[str, object]] = [
        (f"  broker {broker.id}", f"{broker.address} (pid {broker.pid})") for broker in state.brokers
    ]
    if state.zookeeper is not None:
        pairs.append(("  zookeeper", f"{state.zookeeper.address} (pid {state.zookeeper.server_pid})"))
    pairs += schemas
    pairs += [("  data", state.data_dir), ("  logs", os.path.join(state.data_dir, "logs"))]
    if state.client_config is not None:
        pairs += _for_clients(state.data_dir)
    return f"Headwater {how}: {len(state.brokers)} brokers\n{render_pairs(pairs)}"


def _own_name() -> str:
    """What to type: the plain name where the shell finds this very program by it, else the path that it was called
    by.
    """
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
    client = "" if usual else f" --bootstrap-server {','.join(broker.address for broker in state.brokers)}"
    if not usual and state.client_config is not None:
        client += f" --command-config {shlex.quote(state.client_config)}"
    local = "" if usual else f" --data-dir {shlex.quote(state.data_dir)}"
    name = shlex.quote(_own_name())
    commands = [
        f"{name} topic create hello{client}",
        f"echo world | {name} produce hello{client}",
        f"{name} consume hello -e{client}",
        f"{name} status{local}",
        f"{name} down{local}",
    ]
    return "".join(f"  {command}\n" for command in commands)

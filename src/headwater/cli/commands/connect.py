"""`headwater connect`: run a worker, alone or of a group, and what one asks of a worker over REST."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.cli.options import login_options, output_option
from headwater.cli.output import emit, render_pairs, render_table

if TYPE_CHECKING:
    from headwater.cli.connect_client import ConnectClient

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def connect() -> None:
    """Run connectors, and look after those that run."""


def worker_options(function: F) -> F:
    """`--url` and `-o`; the command gets `client` and `output`."""

    @functools.wraps(function)
    def wrapper(*args: Any, url: str | None, command_config: str | None, profile: str | None, **kwargs: Any) -> Any:
        from headwater.cli.connect_client import ConnectClient, find_worker
        from headwater.cli.settings import ConnectOptions

        client = ConnectClient(*find_worker(url, ConnectOptions(None, command_config, profile)))
        return function(*args, client=client, **kwargs)

    named = click.option(
        "--url",
        metavar="URL",
        help="The worker. [env: HEADWATER_CONNECT_URL; default: the profile's, or that of `headwater up`]",
    )
    return named(login_options(output_option(wrapper)))  # type: ignore[return-value]


@connect.command()
@click.argument("worker", metavar="WORKER.PROPERTIES", type=click.Path(dir_okay=False))
@click.argument("connectors", metavar="[CONNECTOR.PROPERTIES]...", nargs=-1, type=click.Path(dir_okay=False))
@click.option(
    "--set", "overrides", metavar="NAME=VALUE", multiple=True, help="A property of the worker; counts before the file."
)
def run(worker: str, connectors: tuple[str, ...], overrides: tuple[str, ...]) -> int:
    """Run a standalone worker in the foreground. It prints a line that begins with `ready`."""
    from headwater.connect.standalone import run_standalone
    from headwater.server.logs_for_people import configure

    configure("text")
    return run_standalone(worker, connectors, overrides)


@connect.command()
@click.argument("path", metavar="[WORKER.PROPERTIES]", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--set", "overrides", metavar="NAME=VALUE", multiple=True, help="A property of the worker; counts before the file."
)
@click.option("--stop-on-eof", is_flag=True, hidden=True)
def worker(path: str | None, overrides: tuple[str, ...], stop_on_eof: bool) -> int:
    """Run a worker of a group in the foreground. It prints a line that begins with `ready`.

    Workers with the same group.id share their connectors; a new one takes its part, those of a dead one go to the
    others.
    """
    from headwater.connect.distributed.service import run_distributed
    from headwater.server.logs_for_people import configure

    configure("text")
    return run_distributed(path, overrides, stop_on_eof=stop_on_eof)


@connect.command("list")
@worker_options
def list_connectors(client: "ConnectClient", output: str) -> None:
    """List connectors with their state and tasks."""
    found = client.ask("GET", "connectors", expand="status")
    value = [
        {
            "connector": name,
            "type": each["status"]["type"],
            "state": each["status"]["connector"]["state"],
            "tasks": [task["state"] for task in each["status"]["tasks"]],
        }
        for name, each in sorted(found.items())
    ]
    emit(output, value, render_table(["CONNECTOR", "TYPE", "STATE", "TASKS"], [list(row.values()) for row in value]))


@connect.command()
@click.argument("file", metavar="CONNECTOR.PROPERTIES", type=click.Path(dir_okay=False))
@click.option("--update", is_flag=True, help="Change the connector if it is there already.")
@worker_options
def create(client: "ConnectClient", output: str, file: str, update: bool) -> None:
    """Make a connector from a properties or JSON file."""
    from headwater.connect.standalone import connector_file

    found = connector_file(file)
    if update:
        made = client.ask("PUT", "connectors", found.name, "config", body=found.config)
    else:
        body = {"name": found.name, "config": found.config, "initial_state": str(found.target)}
        made = client.ask("POST", "connectors", body=body)
    emit(output, made, f"Connector {made['name']} {'is as the file says' if update else 'was made'}.\n")


@connect.command()
@click.argument("file", metavar="CONNECTOR.PROPERTIES", type=click.Path(dir_okay=False))
@worker_options
def validate(client: "ConnectClient", output: str, file: str) -> int:
    """Check a connector's file, property by property, without starting anything."""
    from headwater.connect.standalone import connector_file

    config = connector_file(file).config
    plugin = config.get("connector.class", "-")
    answer = client.ask("PUT", "connector-plugins", plugin, "config", "validate", body=config)
    wrong = [(each["value"]["name"], error) for each in answer["configs"] for error in each["value"]["errors"]]
    text = render_table(["PROPERTY", "ERROR"], wrong) if wrong else "No errors.\n"
    emit(output, answer, text)
    return 1 if wrong else 0


@connect.command()
@click.argument("name", metavar="CONNECTOR")
@worker_options
def status(client: "ConnectClient", output: str, name: str) -> int:
    """Show the state of a connector and its tasks, with the trace of those that failed."""
    found = client.ask("GET", "connectors", name, "status")
    of_all = [found["connector"], *found["tasks"]]
    text = render_pairs([("connector", name), ("type", found["type"]), ("state", found["connector"]["state"])])
    rows = [(task["id"], task["state"], task["worker_id"]) for task in found["tasks"]]
    text += render_table(["TASK", "STATE", "WORKER"], rows)
    text += "".join(f"\n{each['trace']}" for each in of_all if "trace" in each)
    emit(output, found, text)
    return 1 if any(each["state"] == "FAILED" for each in of_all) else 0


def _target_command(verb: str, done: str, help_text: str) -> None:
    @connect.command(verb, help=help_text)
    @click.argument("name", metavar="CONNECTOR")
    @worker_options
    def command(client: "ConnectClient", output: str, name: str) -> None:
        client.ask("PUT", "connectors", name, verb)
        emit(output, {"connector": name, "done": verb}, f"Connector {name} {done}.\n")


_target_command("pause", "is being paused", "Let a connector's tasks wait; they keep what they have.")
_target_command("stop", "is stopped", "End a connector's tasks; its config stays, its offsets may be changed.")
_target_command("resume", "is being resumed", "Let a paused or stopped connector run again.")


@connect.command()
@click.argument("name", metavar="CONNECTOR")
@click.option("--include-tasks", is_flag=True, help="Its tasks too.")
@click.option("--only-failed", is_flag=True, help="Only what has failed.")
@worker_options
def restart(client: "ConnectClient", output: str, name: str, include_tasks: bool, only_failed: bool) -> None:
    """Start a connector anew, with or without its tasks."""
    query = {"includeTasks": str(include_tasks).lower(), "onlyFailed": str(only_failed).lower()}
    answer = client.ask("POST", "connectors", name, "restart", **query)
    emit(output, answer, f"Connector {name} is being restarted.\n")


@connect.command()
@click.argument("name", metavar="CONNECTOR")
@worker_options
def delete(client: "ConnectClient", output: str, name: str) -> None:
    """Remove a connector. Offsets of a source, and the group of a sink, stay."""
    client.ask("DELETE", "connectors", name)
    emit(output, {"connector": name, "done": "delete"}, f"Connector {name} is deleted.\n")


@connect.command()
@click.argument("name", metavar="CONNECTOR")
@click.option(
    "--set",
    "wanted",
    metavar="OFFSET",
    multiple=True,
    help="Set an offset: TOPIC:PARTITION=OFFSET of a sink, or JSON as `-o json` shows it: one partition with its offset, or a list. "
    "An offset `null` forgets it. May be repeated. The connector must be stopped.",
)
@click.option("--reset", is_flag=True, help="Delete all of them. The connector must be stopped.")
@worker_options
def offsets(client: "ConnectClient", output: str, name: str, wanted: tuple[str, ...], reset: bool) -> None:
    """Show the offsets of a connector, set them, or reset them.

    \b
    headwater connect offsets my-sink --set orders:0=42 --set orders:1=17
    headwater connect offsets my-source --set '{"filename": "in.txt"}={"position": 3}'
    """
    import json

    from headwater.cli.connect_offsets import offsets_document

    if wanted and reset:
        raise click.UsageError("--set and --reset are two different things")
    if wanted:
        try:
            body = offsets_document(wanted)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--set") from None
        answer = client.ask("PATCH", "connectors", name, "offsets", body=body)
    elif reset:
        answer = client.ask("DELETE", "connectors", name, "offsets")
    else:
        answer = client.ask("GET", "connectors", name, "offsets")
        rows = [(json.dumps(each["partition"]), json.dumps(each["offset"])) for each in answer["offsets"]]
        emit(output, answer, render_table(["PARTITION", "OFFSET"], rows))
        return
    emit(output, answer, f"{answer['message']}\n")


@connect.command()
@click.argument("name", metavar="[PLUGIN]", required=False)
@click.option("--all", "every", is_flag=True, help="Converters, transforms and predicates too.")
@worker_options
def plugins(client: "ConnectClient", output: str, name: str | None, every: bool) -> None:
    """List the plugins of a worker, or the properties of one."""
    if name is not None:
        found = client.ask("GET", "connector-plugins", name, "config")
        rows = [
            (each["name"], each["type"], "-" if each["required"] else each["default_value"], each["importance"])
            for each in found
        ]
        emit(output, found, render_table(["PROPERTY", "TYPE", "DEFAULT", "IMPORTANCE"], rows))
        return
    found = client.ask("GET", "connector-plugins", connectorsOnly=str(not every).lower())
    emit(
        output,
        found,
        render_table(["CLASS", "TYPE", "VERSION"], [(each["class"], each["type"], each["version"]) for each in found]),
    )

"""`headwater broker`: run one broker, look into its files, ask what it offers."""

from typing import Any

import click

from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table, size_text


@click.group(
    cls=LazyGroup,
    lazy={
        "dump-log": LazyCommand("headwater.cli.commands.dump_log", "dump_log", "Show what log files hold."),
    },
)
def broker() -> None:
    """Run one broker, or look into its files."""


@broker.command()
@click.option("--config", "config_path", metavar="FILE", help="server.properties, with Kafka's own names.")
@click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="A setting over the file; may come several times."
)
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="Stop when stdin ends: for a supervisor.")
def start(config_path: str | None, sets: tuple[str, ...], stop_on_eof: bool) -> int:
    """Run one broker in the foreground, until SIGTERM or Ctrl-C.

    Prints a line beginning with `ready` on stdout when it accepts connections.
    """
    from headwater.server.main import run

    return run(config_path, list(sets), stop_on_eof=stop_on_eof)


@broker.command("log-dirs")
@click.option("-b", "--broker", "brokers", type=click.IntRange(0), multiple=True, help="Only this one.")
@click.option("--replicas", is_flag=True, help="A line for each partition.")
@client_options
def log_dirs(target: Target, brokers: tuple[int, ...], replicas: bool) -> None:
    """Show the log directories of brokers and what they hold."""
    from headwater.base.errors import ErrorCode

    found = target.admin.describe_log_dirs(list(brokers) or None)
    value: list[dict[str, Any]] = [
        {
            "broker": each.broker,
            "path": each.path,
            "error": None if each.error == ErrorCode.NONE else each.error.name,
            "size_bytes": each.size_bytes,
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
            "replicas": [replica._asdict() for replica in each.replicas],
        }
        for each in found
    ]
    if replicas:
        rows = [
            [each.broker, replica.topic, replica.partition, replica.size_bytes, replica.offset_lag, each.path]
            for each in found
            for replica in each.replicas
        ]
        table = render_table(["BROKER", "TOPIC", "PARTITION", "BYTES", "LAG", "DIRECTORY"], rows)
    else:
        rows = [
            [
                row["broker"],
                row["path"],
                len(row["replicas"]),
                size_text(row["size_bytes"]),
                size_text(row["usable_bytes"]),
                row["error"],
            ]
            for row in value
        ]
        table = render_table(["BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "ERROR"], rows)
    target.emit(value, table)


@broker.command("api-versions")
@click.option("-b", "--broker", "broker_id", type=click.IntRange(0), help="Which one; default: the first that answers.")
@client_options
def api_versions(target: Target, broker_id: int | None) -> None:
    """Show the APIs and versions that a broker offers."""
    from headwater.base.errors import ErrorCode, KafkaError
    from headwater.client.outcomes import only
    from headwater.wire.api import API_NAMES

    offered_by = {broker.id: answer for broker, answer in target.admin.describe_api_versions().items()}
    chosen = min(offered_by) if broker_id is None else broker_id
    if chosen not in offered_by:
        ids = ", ".join(str(each) for each in offered_by)
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {chosen}; it has {ids}")
    versions = only({chosen: offered_by[chosen]})
    value = [
        {"key": key, "name": API_NAMES.get(key, "?"), "min_version": offered.lowest, "max_version": offered.highest}
        for key, offered in sorted(versions.items())
    ]
    target.emit(value, render_table(["KEY", "NAME", "MIN", "MAX"], [list(row.values()) for row in value]))

"""`headwater config`: settings of topics and brokers."""

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from headwater.cli.completion import topic_names
from headwater.cli.options import Target, client_options, key_values
from headwater.cli.output import render_table

if TYPE_CHECKING:
    from headwater.client.types import ConfigResource


def _resource_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return topic_names(ctx, param, incomplete) if ctx.params.get("kind") == "topic" else []


kind_argument = click.argument("kind", type=click.Choice(["topic", "broker"]))
name_argument = click.argument("name", shell_complete=_resource_names)


@click.group()
def config() -> None:
    """Read and change settings of topics and brokers.

    NAME is a topic, or the number of a broker; `all` means the defaults of all brokers.
    """


@config.command()
@kind_argument
@name_argument
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Also what has its default.")
@click.option("-d", "--doc", is_flag=True, help="Say what each setting means.")
@client_options
def get(target: Target, kind: str, name: str, keys: tuple[str, ...], everything: bool, doc: bool) -> int:
    """Show settings: those that someone changed, those named, or all."""
    from headwater.client.outcomes import only

    resource = _resource(target, kind, name)
    entries = only(
        target.admin.describe_configs(
            [resource], keys=list(keys) or None, documentation=doc or target.output != "table"
        )
    )
    missing = [key for key in keys if key not in {entry.name for entry in entries}]
    shown = [entry for entry in entries if keys or everything or not entry.is_default]
    value = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source,
            "type": entry.type,
            "read_only": entry.read_only,
            "sensitive": entry.sensitive,
            "documentation": entry.documentation,
        }
        for entry in shown
    ]
    rows = [[entry.name, "(hidden)" if entry.sensitive else entry.value, entry.source] for entry in shown]
    columns = ["NAME", "VALUE", "SOURCE"]
    if doc:
        columns.append("MEANING")
        rows = [[*row, entry.documentation] for row, entry in zip(rows, shown, strict=True)]
    target.emit(value, render_table(columns, rows))
    for key in missing:
        click.echo(f"error: {kind} {name} has no setting {key!r}", err=True)
    return 1 if missing else 0


@config.command("set")
@kind_argument
@name_argument
@click.argument("pairs", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only check whether the broker would do it.")
@client_options
def set_(target: Target, kind: str, name: str, pairs: tuple[str, ...], dry_run: bool) -> None:
    """Change settings."""
    _alter(target, kind, name, {**key_values(pairs, "KEY=VALUE")}, dry_run)


@config.command()
@kind_argument
@name_argument
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only check whether the broker would do it.")
@client_options
def unset(target: Target, kind: str, name: str, keys: tuple[str, ...], dry_run: bool) -> None:
    """Let settings have their defaults again."""
    _alter(target, kind, name, dict.fromkeys(keys), dry_run)


def _alter(target: Target, kind: str, name: str, changes: dict[str, str | None], dry_run: bool) -> None:
    from headwater.client.outcomes import only

    only(target.admin.alter_configs({_resource(target, kind, name): changes}, validate_only=dry_run))
    status = "would change" if dry_run else "changed"
    value = [
        {"resource": kind, "name": name, "key": key, "value": new, "status": status} for key, new in changes.items()
    ]
    rows = [[key, "(default)" if new is None else new, status] for key, new in changes.items()]
    target.emit(value, render_table(["NAME", "VALUE", "STATUS"], rows))


def _resource(target: Target, kind: str, name: str) -> "ConfigResource":
    """Checked here, so that a typing error gets a helpful answer."""
    from headwater.client.types import ConfigResource, ResourceType

    if kind == "topic":
        target.admin.describe_topic(name)
        return ConfigResource(ResourceType.TOPIC, name)
    if name == "all":
        return ConfigResource(ResourceType.BROKER, "")
    if not name.isdigit():
        raise click.BadParameter(f"{name!r} is neither the number of a broker nor `all`", param_hint="NAME")
    return ConfigResource(ResourceType.BROKER, name)

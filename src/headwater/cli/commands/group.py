"""`headwater group`: list, describe, reset, delete, delete-offsets."""

from typing import TYPE_CHECKING, Any

import click

from headwater.cli.lazy import LazyCommand, LazyGroup
from headwater.cli.options import Target, client_options
from headwater.cli.output import render_pairs, render_table

if TYPE_CHECKING:
    from headwater.base.errors import KafkaError
    from headwater.cli.group_offsets import OffsetRow
    from headwater.client.admin.groups import GroupDescription

groups_argument = click.argument("names", metavar="GROUP...", nargs=-1, required=True)
topics_option = click.option(
    "-t", "--topic", "topics", metavar="TOPIC[:0,1]", multiple=True, help="A topic, or some of its partitions."
)


@click.group(
    cls=LazyGroup,
    lazy={
        "reset": LazyCommand("headwater.cli.commands.group_reset", "reset", "Set committed offsets; a dry run first.")
    },
)
def group() -> None:
    """Look at consumer groups, reset their offsets, delete them."""


@group.command("list")
@click.option("-s", "--state", "states", multiple=True, help="Only groups in this state: Stable, Empty, ...")
@click.option("--type", "types", multiple=True, help="Only groups of this type: classic or consumer.")
@client_options
def list_groups(target: Target, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """List groups with their type and state."""
    from headwater.client.admin.groups import STATES

    spelled = {state.lower(): state for state in STATES}
    for state in states:
        if state.lower() not in spelled:
            raise click.BadParameter(f"{state!r} is none of {', '.join(STATES)}", param_hint="--state")
    found = target.admin.list_groups(
        states=[spelled[state.lower()] for state in states], types=[each.lower() for each in types]
    )
    value = [
        {"group": each.group_id, "type": each.type, "state": each.state, "protocol": each.protocol_type}
        for each in found
    ]
    target.emit(value, render_table(["GROUP", "TYPE", "STATE", "PROTOCOL"], [list(row.values()) for row in value]))


@group.command()
@groups_argument
@click.option("-m", "--members", is_flag=True, help="Also a line for each member.")
@client_options
def describe(target: Target, names: tuple[str, ...], members: bool) -> int:
    """Show state, committed offsets, lag and members of groups."""
    from headwater.base.errors import KafkaError
    from headwater.cli.group_offsets import offset_rows

    value, text, failed = [], [], False
    for name in dict.fromkeys(names):
        try:
            description = target.admin.describe_group(name)
        except KafkaError as error:
            _complain(name, error)
            failed = True
            continue
        document = _document(description, offset_rows(target.admin, description))
        value.append(document)
        text.append(_text(document, members))
    target.emit(value, "\n".join(text))
    return 1 if failed else 0


def _document(description: "GroupDescription", rows: "list[OffsetRow]") -> dict[str, Any]:
    coordinator = description.coordinator
    partitions = [row for row in rows if row.topic is not None]
    lags = [row.lag for row in partitions if row.lag is not None]
    return {
        "group": description.group_id,
        "type": description.type,
        "state": description.state,
        "assignor": description.assignor or None,
        "coordinator": {"id": coordinator.id, "host": coordinator.host, "port": coordinator.port},
        "epoch": description.epoch,
        "lag": sum(lags) if lags or not partitions else None,
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "current_offset": row.current_offset,
                "log_end_offset": row.log_end_offset,
                "lag": row.lag,
                "member": row.member_id,
                "host": row.host,
                "client_id": row.client_id,
            }
            for row in partitions
        ],
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "epoch": member.epoch,
                "partitions": [str(each) for each in member.assignment],
            }
            for member in description.members
        ],
    }


def _text(document: dict[str, Any], members: bool) -> str:
    coordinator = document["coordinator"]
    pairs: list[tuple[str, object]] = [(name, document[name]) for name in ("group", "type", "state", "assignor")]
    pairs += [
        ("coordinator", f"{coordinator['host']}:{coordinator['port']} ({coordinator['id']})"),
        ("members", len(document["members"])),
        ("lag", document["lag"]),
    ]
    text = render_pairs(pairs)
    if document["partitions"]:
        columns = ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "MEMBER", "HOST", "CLIENT-ID"]
        text += "\n" + render_table(columns, [list(row.values()) for row in document["partitions"]])
    if members and document["members"]:
        columns = ["MEMBER", "INSTANCE", "CLIENT-ID", "HOST", "EPOCH", "PARTITIONS"]
        text += "\n" + render_table(columns, [list(row.values()) for row in document["members"]])
    return text


@group.command()
@groups_argument
@click.option("--if-exists", is_flag=True, help="It is fine if the group is gone already.")
@client_options
def delete(target: Target, names: tuple[str, ...], if_exists: bool) -> int:
    """Delete groups that have no members, with their offsets."""
    from headwater.base.errors import ErrorCode

    value: list[dict[str, Any]] = []
    for name, error in target.admin.delete_groups(dict.fromkeys(names)).items():
        if error is None:
            value.append({"group": name, "status": "deleted"})
        elif if_exists and error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            value.append({"group": name, "status": "not there"})
        else:
            value.append({"group": name, "status": "failed", "error": _complain(name, error)})
    target.emit(value, render_table(["GROUP", "STATUS"], [[row["group"], row["status"]] for row in value]))
    return 1 if any(row["status"] == "failed" for row in value) else 0


@group.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@topics_option
@client_options
def delete_offsets(target: Target, name: str, topics: tuple[str, ...]) -> int:
    """Forget what a group has committed for topics that it does not read."""
    from headwater.cli.group_offsets import parse_topic_partitions

    if not topics:
        raise click.UsageError("Name the topics whose offsets shall go: -t TOPIC, or -t TOPIC:0,1.")
    outcome = target.admin.delete_group_offsets(name, parse_topic_partitions(target.admin, topics))
    value = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "status": "deleted" if error is None else "failed",
            "error": None if error is None else error.code.name,
        }
        for each, error in sorted(outcome.items())
    ]
    target.emit(value, render_table(["TOPIC", "PARTITION", "STATUS", "ERROR"], [list(row.values()) for row in value]))
    return 1 if any(row["error"] for row in value) else 0


def _complain(name: str, error: "KafkaError") -> str:
    from headwater.base.errors import ErrorCode, UserError
    from headwater.cli.explain import explain

    reasons = {
        ErrorCode.GROUP_ID_NOT_FOUND: UserError(
            f"There is no group {name!r}", "", "See what there is with `headwater group list`"
        ),
        ErrorCode.NON_EMPTY_GROUP: UserError(
            f"The group {name!r} has members",
            "only an empty group can be deleted",
            f"Stop its consumers; see them with `headwater group describe {name} -m`",
        ),
    }
    click.echo(explain(reasons.get(error.code, error)), err=True)
    return error.code.name

"""`headwater group reset`: sets the committed offsets of a group without members. A dry run unless told otherwise."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition
    from headwater.cli.resets import ResetPlan, ResetTo


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--to", "where", metavar="WHERE", help="earliest, latest, current, an offset, s@TIME, or s@-15m.")
@click.option("--shift", type=int, metavar="N", help="So many further; back if N is negative.")
@click.option("--from-file", metavar="CSV", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-t", "--topic", "topics", metavar="TOPIC[:0,1]", multiple=True, help="A topic, or some of its partitions."
)
@click.option("-a", "--all-topics", is_flag=True, help="All partitions that have an offset.")
@click.option("--execute", is_flag=True, help="Do it. Without this, only show what would be done.")
@client_options
def reset(
    target: Target,
    name: str,
    where: str | None,
    shift: int | None,
    from_file: Path | None,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
) -> int:
    """Set the committed offsets of a group. Shows what would be done, and does it with --execute.

    \b
    headwater group reset billing --to earliest --all-topics
    headwater group reset billing --to s@2026-01-31T12:00:00Z -t orders -t refunds:0,1 --execute
    headwater group reset billing --shift -100 -t orders --execute
    headwater group reset billing --from-file offsets.csv --execute      topic,partition,offset a line
    """
    if sum(given is not None for given in (where, shift, from_file)) != 1:
        raise click.UsageError("Say where to, with one of --to, --shift and --from-file.")
    if from_file is None and all_topics == bool(topics):
        raise click.UsageError("Say which partitions, with --topic or with --all-topics.")
    target_state = _target(name, where, shift, from_file)
    _refuse_active(target, name)
    from headwater.cli.resets import plan_reset

    plan = plan_reset(target.admin, name, _scope(target, name, topics, all_topics), target_state)
    return _finish(target, name, plan, execute)


def _target(name: str, where: str | None, shift: int | None, from_file: Path | None) -> "ResetTo":
    from headwater.base.errors import UserError
    from headwater.cli.offset_option import parse_window
    from headwater.cli.resets import Current, Earliest, Latest, Planned, ShiftBy, ToOffset, ToTime, read_plan_file
    from headwater.client.positions import AtOffset, AtTime, Beginning, End

    if shift is not None:
        return ShiftBy(shift)
    if from_file is not None:
        plan = read_plan_file(str(from_file), [name]).get(name)
        if not plan:
            raise UserError(f"The file {from_file} has no offsets for the group {name!r}")
        return Planned(plan)
    assert where is not None
    if where.strip().lower() == "current":
        return Current()
    window = parse_window(where, time.time_ns() // 1_000_000)
    match window.start, window.stop:
        case Beginning(), None:
            return Earliest()
        case End(), None:
            return Latest()
        case AtOffset(offset), None:
            return ToOffset(offset)
        case AtTime(timestamp_ms), None:
            return ToTime(timestamp_ms)
    raise click.BadParameter("give earliest, latest, current, an offset or a time (s@...)", param_hint="--to")


def _refuse_active(target: Target, name: str) -> None:
    """A group that is not there yet may get its first offsets; one with members would overwrite them."""
    from headwater.base.errors import ErrorCode, KafkaError, UserError

    try:
        found = target.admin.describe_group(name)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if found.is_active:
        raise UserError(
            f"Cannot reset the group {name!r}",
            f"it has {len(found.members)} members and is {found.state}",
            "Stop its consumers first",
        )


def _scope(target: Target, name: str, topics: tuple[str, ...], all_topics: bool) -> "list[TopicPartition]":
    from headwater.cli.group_offsets import parse_topic_partitions

    return list(target.admin.list_group_offsets(name)) if all_topics else parse_topic_partitions(target.admin, topics)


def _finish(target: Target, name: str, plan: "ResetPlan", execute: bool) -> int:
    before = target.admin.list_group_offsets(name)
    outcome = target.admin.alter_group_offsets(name, plan.offsets) if execute and plan.offsets else {}
    value: list[dict[str, Any]] = []
    for partition, offset in plan.offsets.items():
        error = outcome.get(partition)
        value.append(
            {
                "group": name,
                "topic": partition.topic,
                "partition": partition.partition,
                "current_offset": before[partition].offset if partition in before else None,
                "new_offset": offset,
                "status": (error.code.name if error else "reset") if execute else "would be reset",
            }
        )
    for note in plan.notes:
        click.echo(f"warning: {note}", err=True)
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "STATUS"]
    target.emit(value, render_table(columns, [list(row.values()) for row in value]))
    if not execute:
        click.echo("Nothing was changed. Add --execute to do it.", err=True)
    return 1 if any(outcome.values()) else 0

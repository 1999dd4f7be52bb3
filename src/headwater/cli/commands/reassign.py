"""`headwater cluster reassign`: moves partitions between brokers, and shows what moves. A dry run unless told
otherwise.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition
    from headwater.client.admin import Admin

    Replicas = dict[TopicPartition, list[int]]

_LOOK_S: Final = 0.5


@click.command()
@click.option("--to", "brokers", metavar="ALL|1,2,3", help="The brokers to spread over: all of them, or some by id.")
@click.option("-t", "--topic", "topics", metavar="TOPIC", multiple=True, help="Only this one; may come several times.")
@click.option("--replicas", type=click.IntRange(1), metavar="N", help="How many of each partition there shall be.")
@click.option("--from-file", metavar="JSON", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--throttle", "rate_bytes", type=click.IntRange(1), metavar="BYTES", help="A second; implies --wait.")
@click.option("--cancel", is_flag=True, help="Call off what is under way.")
@click.option("--wait", is_flag=True, help="Until nothing moves any more; then throttles are removed.")
@click.option("--execute", is_flag=True, help="Do it. Without this, only show what would be done.")
@client_options
def reassign(
    target: Target,
    brokers: str | None,
    topics: tuple[str, ...],
    replicas: int | None,
    from_file: Path | None,
    rate_bytes: int | None,
    cancel: bool,
    wait: bool,
    execute: bool,
) -> int:
    """Move partitions to other brokers, or show what moves. Shows what would be done, and does it with --execute.

    \b
    headwater cluster reassign                                  what is under way
    headwater cluster reassign --to all --execute               spread over all brokers, after one was added
    headwater cluster reassign --to 1,2 --wait --execute        nothing is left on the others: they can go
    headwater cluster reassign --to all -t orders --replicas 3 --throttle 50000000 --execute
    headwater cluster reassign --from-file moves.json --execute      a file of kafka-reassign-partitions
    """
    if sum((brokers is not None, from_file is not None, cancel)) > 1:
        raise click.UsageError("--to, --from-file and --cancel are three different things.")
    if brokers is None and (replicas is not None or (topics and not cancel)):
        raise click.UsageError("Say which brokers, with --to; all of them: --to all.")
    if cancel:
        plan: dict[TopicPartition, list[int] | None] = dict.fromkeys(_under_way(target.admin, topics))
    elif brokers is not None:
        plan = dict(_spread(target.admin, brokers, topics, replicas))
    elif from_file is not None:
        plan = dict(_from_file(from_file))
    else:
        _show(target)
        return _wait(target.admin) if wait else 0
    code = _carry_out(target, plan, rate_bytes, execute)
    return _wait(target.admin) if execute and code == 0 and (wait or rate_bytes is not None) else code


def _under_way(admin: "Admin", topics: tuple[str, ...]) -> "list[TopicPartition]":
    return [each for each in sorted(admin.list_partition_reassignments()) if not topics or each.topic in topics]


def _spread(admin: "Admin", brokers: str, topics: tuple[str, ...], replicas: int | None) -> "Replicas":
    from headwater.base.errors import UserError
    from headwater.base.ids import TopicPartition
    from headwater.cli.placements import rebalance
    from headwater.cli.reassignments import ReassignmentError, read_brokers

    known = {each.id: each.rack for each in admin.describe_cluster().brokers}
    try:
        chosen = sorted(known) if brokers.lower() == "all" else read_brokers(brokers)
    except ReassignmentError:
        raise click.BadParameter(f"{brokers!r} is neither `all` nor ids such as 1,2,3", param_hint="--to") from None
    missing = [str(broker) for broker in chosen if broker not in known]
    if missing:
        there = ", ".join(map(str, known))
        raise UserError(f"The cluster has no broker {', '.join(missing)}", f"it has {there}", "See `headwater status`")
    found = [admin.describe_topic(name) for name in topics] if topics else admin.list_topics(internal=True)
    current = {
        TopicPartition(topic.name, each.partition): each.replicas for topic in found for each in topic.partitions
    }
    most = max((len(each) for each in current.values()), default=0) if replicas is None else replicas
    if most > len(chosen):
        raise UserError(
            f"{most} replicas cannot be on {len(chosen)} brokers", "", "Name more brokers, or fewer --replicas"
        )
    return rebalance(current, {broker: known[broker] for broker in chosen}, replicas)


def _from_file(path: Path) -> "Replicas":
    from headwater.base.errors import UserError
    from headwater.cli.reassignments import ReassignmentError, read_wanted

    try:
        wanted = read_wanted(path.read_text(encoding="utf-8"))
        replicas = wanted.checked()
    except (ReassignmentError, OSError, ValueError) as problem:
        raise UserError(f"Cannot use the file {path}", str(problem)) from None
    if wanted.directories:
        told = f"warning: the log_dirs in {path} are left out: kafka-reassign-partitions moves between directories"
        click.echo(told, err=True)
    return replicas


def _carry_out(
    target: Target, plan: "dict[TopicPartition, list[int] | None]", rate_bytes: int | None, execute: bool
) -> int:
    admin = target.admin
    current = {each: _replicas(admin, each.topic).get(each.partition, []) for each in plan}
    if execute and plan and rate_bytes is not None:
        _throttle(admin, plan, current, rate_bytes)
    outcome = admin.alter_partition_reassignments(plan) if execute and plan else {}
    value: list[dict[str, Any]] = []
    for partition in sorted(plan):
        error = outcome.get(partition)
        done = "called off" if plan[partition] is None else "moves"
        status = (error.message or error.code.name if error else done) if execute else f"would be: {done}"
        row = {"topic": partition.topic, "partition": partition.partition, "replicas": current[partition]}
        value.append({**row, "new_replicas": plan[partition], "status": status})
    rows = [list(row.values()) for row in value]
    columns = ["TOPIC", "PARTITION", "REPLICAS", "NEW-REPLICAS", "STATUS"]
    target.emit(value, render_table(columns, rows) if rows else "Nothing is to be done\n")
    if not execute and plan:
        click.echo("Nothing was changed. Add --execute to do it.", err=True)
    return 1 if any(outcome.values()) else 0


def _replicas(admin: "Admin", topic: str) -> dict[int, list[int]]:
    return {each.partition: list(each.replicas) for each in admin.describe_topic(topic).partitions}


def _throttle(
    admin: "Admin", plan: "dict[TopicPartition, list[int] | None]", current: "Replicas", rate_bytes: int
) -> None:
    from headwater.cli.reassignments import moves_of
    from headwater.cli.throttles import set_throttles

    ongoing = {each: (move.replicas, move.adding) for each, move in admin.list_partition_reassignments().items()}
    wanted = {partition: replicas for partition, replicas in plan.items() if replicas is not None}
    set_throttles(admin, moves_of(ongoing, wanted, current), rate_bytes)


def _show(target: Target) -> None:
    moves = target.admin.list_partition_reassignments()
    value = [{"topic": each.topic, "partition": each.partition, **moves[each]._asdict()} for each in sorted(moves)]
    rows = [list(row.values()) for row in value]
    columns = ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"]
    target.emit(value, render_table(columns, rows) if rows else "Nothing moves\n")


def _wait(admin: "Admin") -> int:
    """Until nothing moves, whoever started it; then no throttle is needed."""
    from headwater.cli.throttles import clear_all_throttles

    said = 0
    while moves := admin.list_partition_reassignments():
        if len(moves) != said:
            said = len(moves)
            click.echo(f"{said} {'partition moves' if said == 1 else 'partitions move'}", err=True)
        time.sleep(_LOOK_S)
    clear_all_throttles(admin)
    return 0

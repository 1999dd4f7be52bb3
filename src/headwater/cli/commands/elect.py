"""`headwater cluster elect`: lets leaders be elected: the preferred ones, or any replica where nobody leads."""

from typing import Any

import click

from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table


@click.command()
@click.argument("partitions", metavar="[TOPIC[:0,1]]...", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="All partitions.")
@click.option(
    "--unclean", is_flag=True, help="Where nobody leads, also a replica that is not in sync: records may be lost."
)
@client_options
def elect(target: Target, partitions: tuple[str, ...], everything: bool, unclean: bool) -> int:
    """Let the preferred leaders lead again, after brokers were away.

    \b
    headwater cluster elect --all
    headwater cluster elect orders refunds:0,1
    headwater cluster elect --unclean orders:3
    """
    from headwater.base.errors import ErrorCode
    from headwater.cli.group_offsets import parse_topic_partitions
    from headwater.client.admin.replication import ElectionType

    if everything == bool(partitions):
        raise click.UsageError("Say which partitions, or --all.")
    wanted = None if everything else parse_topic_partitions(target.admin, list(partitions))
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    value: list[dict[str, Any]] = []
    failed = False
    for partition, error in sorted(target.admin.elect_leaders(wanted, election_type=kind).items()):
        status = "elected"
        if error is not None:
            needed = error.code != ErrorCode.ELECTION_NOT_NEEDED
            status = (error.message or error.code.name) if needed else "leads already"
            failed = failed or needed
        value.append({"topic": partition.topic, "partition": partition.partition, "status": status})
    rows = [list(row.values()) for row in value]
    target.emit(value, render_table(["TOPIC", "PARTITION", "STATUS"], rows) if rows else "Nothing was to be done\n")
    return 1 if failed else 0

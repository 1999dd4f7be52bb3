"""`headwater topic offsets` and `headwater topic trim`: where a topic's partitions begin and end, and moving the
beginning.
"""

import time
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.completion import topic_names
from headwater.cli.options import Target, client_options
from headwater.cli.output import render_table

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition

partition_option = click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this one; may come several times.",
)


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@partition_option
@click.option("-t", "--time", "at", metavar="TIME", help="Also the first offset at or after a time (ms, date, -15m).")
@client_options
def offsets(target: Target, name: str, partitions: tuple[int, ...], at: str | None) -> None:
    """Show where each partition begins and ends."""
    from headwater.cli.offset_option import parse_time
    from headwater.client.types import EARLIEST, LATEST

    timestamp_ms = None if at is None else parse_time(at, _now_ms())
    wanted = chosen(target, name, partitions)
    first, last = _ask(target, wanted, EARLIEST), _ask(target, wanted, LATEST)
    at_time = {} if timestamp_ms is None else _ask(target, wanted, timestamp_ms)
    value: list[dict[str, Any]] = []
    for each in wanted:
        row: dict[str, Any] = {"topic": name, "partition": each.partition, "start": first[each], "end": last[each]}
        row["records"] = last[each] - first[each]
        if timestamp_ms is not None:
            row["at_time"] = at_time[each] if at_time[each] >= 0 else last[each]
        value.append(row)
    columns = ["PARTITION", "START-OFFSET", "END-OFFSET", "RECORDS"] + (["AT-TIME"] if timestamp_ms is not None else [])
    target.emit(value, render_table(columns, [list(row.values())[1:] for row in value]))


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@partition_option
@click.option(
    "--before", metavar="OFFSET|TIME|end", required=True, help="Drop what is older: 500, s@-7d, s@2026-01-31, end."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@client_options
def trim(target: Target, name: str, partitions: tuple[int, ...], before: str, yes: bool) -> int:
    """Drop the oldest records of a topic. They cannot be brought back."""
    from headwater.base.errors import KafkaError
    from headwater.cli.offset_option import parse_window
    from headwater.client.positions import AtOffset, AtTime, End
    from headwater.client.record_reader import resolve

    window = parse_window(before, _now_ms())
    if not isinstance(window.start, AtOffset | AtTime | End) or window.stop is not None:
        raise click.BadParameter("give an offset, a time (s@...) or end", param_hint="--before")
    wanted = chosen(target, name, partitions)
    spans = resolve(target.admin, wanted, window._replace(stop=End()))
    new_starts = {each: min(span.start, span.stop or 0) for each, span in spans.items()}  # a short partition is emptied
    if not yes:
        click.confirm(f"Drop records of {len(wanted)} partitions of {name}?", abort=True, err=True)
    outcome = target.admin.delete_records(new_starts)
    value: list[dict[str, Any]] = []
    failed = False
    for each, answer in outcome.items():
        row: dict[str, Any] = {"topic": name, "partition": each.partition}
        if isinstance(answer, KafkaError):
            failed = True
            row |= {"start": None, "status": answer.code.name}
        else:
            row |= {"start": answer, "status": "ok"}
        value.append(row)
    rows = [[row["partition"], row["start"], row["status"]] for row in value]
    target.emit(value, render_table(["PARTITION", "NEW-START-OFFSET", "STATUS"], rows))
    return 1 if failed else 0


def chosen(target: Target, name: str, partitions: tuple[int, ...]) -> list["TopicPartition"]:
    """The partitions named, else all; one that is not there is an error."""
    from headwater.base.errors import UserError
    from headwater.base.ids import TopicPartition

    found = target.admin.describe_topic(name)
    for partition in partitions:
        if partition >= len(found.partitions):
            last = len(found.partitions) - 1
            raise UserError(f"Topic {name!r} has no partition {partition}", f"its partitions go from 0 to {last}")
    return [TopicPartition(name, each) for each in sorted(set(partitions)) or range(len(found.partitions))]


def _ask(target: Target, wanted: list["TopicPartition"], timestamp: int) -> dict["TopicPartition", int]:
    from headwater.client.outcomes import all_or_raise

    answers = all_or_raise(target.admin.list_offsets(dict.fromkeys(wanted, timestamp)))
    return {each: answer.offset for each, answer in answers.items()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""`headwater consume` and `headwater tail`: records of a topic to stdout, by assignment, without a group."""

import functools
import select
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from headwater.cli.commands.topic_offsets import chosen
from headwater.cli.completion import topic_names
from headwater.cli.options import Target, connect_options
from headwater.cli.output import OUTPUTS
from headwater.cli.settings import ConnectOptions

if TYPE_CHECKING:
    from headwater.client.positions import Window
    from headwater.client.record_reader import RecordReader
    from headwater.client.types import FetchedRecord

_NO_REGISTRY: Final = "none"
_PLAIN: Final = "%v\\n"
_TABLE: Final = "%p\\t%o\\t%d{iso}\\t%k\\t%v\\n"
_TABLE_HEADER: Final = b"PARTITION\tOFFSET\tTIMESTAMP\tKEY\tVALUE\n"


def _record_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What both verbs take, put together into `target` and a function that writes one record."""

    @functools.wraps(function)
    def wrapper(
        *args: Any,
        bootstrap_server: str | None,
        command_config: str | None,
        profile: str | None,
        options: tuple[str, ...],
        output: str | None,
        record_format: str | None,
        registry: str | None,
        **kwargs: Any,
    ) -> Any:
        offsets = [each for each in options if each not in OUTPUTS]
        shape = output or next((each for each in options if each in OUTPUTS), None)
        if len(offsets) > 1:
            raise click.UsageError(f"-o names two starts: {offsets[0]} and {offsets[1]}.")
        if shape and record_format:
            raise click.UsageError("Give a format or an output, not both.")
        connect = ConnectOptions(bootstrap_server, command_config, profile)
        target = Target(connect, shape or "")
        try:
            start = offsets[0] if offsets else None
            writer = _typed(_writer(shape, record_format), registry, connect)
            return function(*args, target=target, start=start, writer=writer, **kwargs)
        except KeyboardInterrupt:
            return 0  # the usual way to end a command that follows
        finally:
            target.close()

    for option in (
        click.option("--read-committed", is_flag=True, help="Leave out what is not, or not yet, committed."),
        click.option("-p", "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this one."),
        click.option("-f", "--format", "record_format", metavar="FORMAT", help=r"'%t %p %o %k %v\n', or json."),
        click.option(
            "--registry",
            metavar="URL",
            help="Show keys and values that name a schema of this registry as JSON; none: show all as it stands. "
            "Else the one beside the brokers.",
        ),
        click.option("--output", type=click.Choice(OUTPUTS), help="The same as -o with one of these words."),
        click.argument("name", metavar="TOPIC", shell_complete=topic_names),
    ):
        wrapper = option(wrapper)
    return connect_options(wrapper)


@click.command()
@click.option(
    "-o",
    "--offset",
    "options",
    metavar="START",
    multiple=True,
    help="start, end, N, -N, @N, N:M, s@TIME; or json, table, yaml.",
)
@click.option("-n", "--num", "count", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-e", "--exit", "until_end", is_flag=True, help="Stop at what is the end now.")
@_record_options
def consume(
    target: Target,
    name: str,
    start: str | None,
    count: int | None,
    until_end: bool,
    partitions: tuple[int, ...],
    read_committed: bool,
    writer: "Callable[[list[FetchedRecord]], None]",
) -> int:
    """Read records of a topic, from its start unless -o says otherwise, and go on with new ones.

    \b
    headwater consume orders -e                     all there is, then stop
    headwater consume orders -o -5 -e               the last five of each partition
    headwater consume orders -o s@-15m              from 15 minutes ago on
    headwater consume orders -o 100:200 -p 0        offsets 100 to 199
    headwater consume orders -f '%p/%o %d{iso} %k=%v\\n'
    headwater consume orders -f json | jq .value

    \b
    Formats: %t topic, %p partition, %o offset, %k key, %v value, %d timestamp (%d{iso}, %d{%H:%M}),
    %h{%k=%v } headers, %e leader epoch, %K %V %T %H lengths and counts, %i number, %x %y producer.
    In braces: base64, hex, json for text; hex, big32, little64 and the like for numbers. \\n \\t \\xNN.
    """
    from headwater.cli.offset_option import parse_window
    from headwater.client.positions import End

    window = parse_window(start or "start", time.time_ns() // 1_000_000)
    if until_end and window.stop is None:
        window = window._replace(stop=End())
    _read(target, name, partitions, window, read_committed, count, writer)
    return 0


@click.command()
@click.option(
    "-o", "options", metavar="json|table|yaml", multiple=True, type=click.Choice(OUTPUTS), help="Shape of the records."
)
@click.option(
    "-n",
    "--num",
    "count",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="So many of each partition first.",
)
@_record_options
def tail(
    target: Target,
    name: str,
    start: str | None,  # noqa: ARG001 (tail has no other start)
    count: int,
    partitions: tuple[int, ...],
    read_committed: bool,
    writer: "Callable[[list[FetchedRecord]], None]",
) -> int:
    """Show the last records of a topic, and each new one as it comes."""
    from headwater.client.positions import Last, Window

    _read(target, name, partitions, Window(Last(count)), read_committed, None, writer)
    return 0


def _read(
    target: Target,
    name: str,
    partitions: tuple[int, ...],
    window: "Window",
    read_committed: bool,
    count: int | None,
    writer: "Callable[[list[FetchedRecord]], None]",
) -> None:
    from headwater.client.record_reader import RecordReader, resolve
    from headwater.client.types import READ_COMMITTED, READ_UNCOMMITTED

    isolation_level = READ_COMMITTED if read_committed else READ_UNCOMMITTED
    spans = resolve(target.admin, chosen(target, name, partitions), window, isolation_level=isolation_level)
    reader = RecordReader(target.admin, spans, isolation_level=isolation_level)
    written = skipped = 0
    while not reader.done and (count is None or written < count):
        records = reader.poll()
        if not records and _nobody_reads():
            return
        if count is not None:
            records = records[: count - written]
        written += len(records)
        writer(records)
        skipped = _warn_about_skipped(reader, skipped)


def _nobody_reads() -> bool:
    """Whether the reader of our pipe is gone. Without this, `consume | head -1` would only see it at the next
    record.
    """
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _warn_about_skipped(reader: "RecordReader", before: int) -> int:
    if reader.skipped > before:
        click.echo(f"warning: {reader.skipped - before} offsets were deleted before they could be read", err=True)
    return reader.skipped


def _typed(
    write: "Callable[[list[FetchedRecord]], None]", registry: str | None, options: ConnectOptions
) -> "Callable[[list[FetchedRecord]], None]":
    """By the registry that was named, else by the one that belongs to these brokers; if that one does not answer,
    records are shown as they stand.
    """
    from headwater.cli.registry_calls import find_registry, find_registry_beside

    if registry == _NO_REGISTRY:
        return write
    door = find_registry(registry, options) if registry else find_registry_beside(options)
    if door is None:
        return write
    from headwater.cli.registered_records import registered_records

    typed = registered_records(door, is_required=registry is not None)
    return lambda records: write(typed.records(records))


def _writer(shape: str | None, record_format: str | None) -> "Callable[[list[FetchedRecord]], None]":
    """Writes records as they were asked for, each poll's at once."""
    out = sys.stdout.buffer
    number = 0
    if shape in ("json", "yaml") or record_format == "json":
        from headwater.cli.record_output import document_line, record_document

        output = shape or "json"

        def write_documents(records: "list[FetchedRecord]") -> None:
            out.write("".join(document_line(output, record_document(record)) for record in records).encode())
            out.flush()

        return write_documents

    from headwater.cli.formats import compile_format

    render = compile_format(_TABLE if shape == "table" else record_format or _PLAIN)
    if shape == "table":
        out.write(_TABLE_HEADER)

    def write_formatted(records: "list[FetchedRecord]") -> None:
        nonlocal number
        pieces = []
        for record in records:
            number += 1
            pieces.append(render(record, number))
        out.write(b"".join(pieces))
        out.flush()

    return write_formatted

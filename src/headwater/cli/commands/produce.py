"""`headwater produce`: stdin to a topic. Each record goes out as soon as it is whole and no more input is waiting."""

import os
import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from headwater.base.errors import UserError
from headwater.cli.completion import topic_names
from headwater.cli.options import Target, client_options

if TYPE_CHECKING:
    from headwater.cli.input_formats import InputParser
    from headwater.client.partitioner import Partitioner
    from headwater.client.record_writer import RecordWriter
    from headwater.client.types import Header, OutgoingRecord

_READ_BYTES: Final = 1 << 16
_GATHER_BYTES: Final = 1 << 20  # read on before sending, if more input is waiting
_LINGER_S: Final = 0.005
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("-k", "--key-separator", metavar="TEXT", help=r"What stands between key and value: ':' or '\t'.")
@click.option("-K", "--key", metavar="KEY", help="One key for all records.")
@click.option("-H", "--header", "headers", metavar="KEY=VALUE", multiple=True, help="A header for all records.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Where to; default: by key, as Java's client does.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True)
@click.option("-f", "--format", "input_format", metavar="FORMAT", help=r"'%k %v\n', or json for JSON lines.")
@click.option("-Z", "--tombstone", is_flag=True, help="An empty value is null.")
@click.option("-t", "--timestamp", metavar="MS", type=int, help="One timestamp for all records.")
@click.option("--round-robin", is_flag=True, help="Records without a key take the partitions in turn.")
@click.option("--auto-create", is_flag=True, help="Let the broker make the topic if it is not there.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing at the end.")
@client_options
def produce(
    target: Target,
    name: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    input_format: str | None,
    tombstone: bool,
    timestamp: int | None,
    round_robin: bool,
    auto_create: bool,
    quiet: bool,
) -> None:
    """Write records from stdin to a topic, one a line.

    \b
    echo hello | headwater produce greetings
    echo alice:hello | headwater produce greetings -k :
    headwater consume a -e -f json | headwater produce b -f json
    headwater produce a -f '%K{big32}%V{big32}%k%v' < records.bin

    With -o json or yaml, where each record went is written to stdout.
    """
    from headwater.cli.input_formats import input_parser
    from headwater.client.record_writer import RecordWriter
    from headwater.client.types import Header
    from headwater.records.compression import CODEC_IDS

    defaults = _Defaults(
        None if key is None else key.encode(),
        tuple(Header(*_header(each)) for each in headers),
        partition,
        timestamp,
        tombstone,
    )
    parser = input_parser(input_format, key_separator)
    found = target.admin.describe_topic(name, auto_create=auto_create)
    if partition is not None and partition >= len(found.partitions):
        raise UserError(f"Topic {name!r} has no partition {partition}", f"it has {len(found.partitions)}, from 0")
    writer = RecordWriter(
        target.admin, found, _partitioner(round_robin), acks=_ACKS[acks], codec=CODEC_IDS[compression]
    )
    count = _pump(target, parser, defaults, writer)
    if not quiet:
        click.echo(f"wrote {count} record{'' if count == 1 else 's'} to {name}", err=True)


def _pump(target: Target, parser: "InputParser", defaults: "_Defaults", writer: "RecordWriter") -> int:
    """All of stdin to the topic; how many records that were. What stands in front of something that cannot be read is
    written.
    """
    from headwater.cli.input_formats import UnreadableInput

    count = 0
    for data in _input(sys.stdin.fileno()):
        unreadable: UnreadableInput | None = None
        try:
            records = parser.feed(data) if data is not None else parser.finish()
        except UnreadableInput as problem:
            records, unreadable = problem.records, problem
        if records:
            count += _write(target, writer, [defaults.apply(record) for record in records])
        if unreadable is not None:
            writer.flush()
            raise unreadable
    writer.flush()
    return count


class _Defaults:
    """What the options say about every record; what a record says about itself goes first."""

    def __init__(
        self,
        key: bytes | None,
        headers: "tuple[Header, ...]",
        partition: int | None,
        timestamp_ms: int | None,
        tombstone: bool,
    ) -> None:
        self._key = key
        self._headers = headers
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self._tombstone = tombstone

    def apply(self, record: "OutgoingRecord") -> "OutgoingRecord":
        return record._replace(
            value=None if self._tombstone and not record.value else record.value,
            key=self._key if record.key is None else record.key,
            headers=record.headers + self._headers,
            partition=self._partition if record.partition is None else record.partition,
            timestamp_ms=self._timestamp_ms if record.timestamp_ms is None else record.timestamp_ms,
        )


def _write(target: Target, writer: "RecordWriter", records: "list[OutgoingRecord]") -> int:
    from headwater.cli.record_output import produced_lines

    produced = writer.write(records)
    if target.output != "table":
        sys.stdout.write(produced_lines(target.output, produced))
        sys.stdout.flush()
    return len(produced)


def _header(text: str) -> tuple[str, bytes | None]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{text!r} is not key=value", param_hint="--header")
    return key, value.encode()


def _partitioner(round_robin: bool) -> "Partitioner":
    from headwater.client.partitioner import RoundRobin, Sticky

    return RoundRobin() if round_robin else Sticky()


def _input(descriptor: int) -> Iterator[bytes | None]:
    """Pieces of stdin; None at its end. While more is waiting it is gathered, so that batches fill."""
    pieces: list[bytes] = []
    size = 0
    while True:
        if pieces and (size >= _GATHER_BYTES or not select.select([descriptor], [], [], _LINGER_S)[0]):
            yield b"".join(pieces)
            pieces, size = [], 0
        piece = os.read(descriptor, _READ_BYTES)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    if pieces:
        yield b"".join(pieces)
    yield None

"""`headwater stream dlq`: look through the dead letters of an application, and give their records another try."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.cli.options import Target, stream_options
from headwater.cli.output import render_pairs, render_table
from headwater.cli.record_output import put_bytes

if TYPE_CHECKING:
    from headwater.streams.dead_letters import DeadLetter, Wanted

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 60


@click.group()
def dlq() -> None:
    """Look through the dead letters of an application, and give their records another try.

    APP is a file with an application, the name of one, or a dead letter topic.
    """


def _filters(function: F) -> F:
    for option in (
        click.option("--at", "places", metavar="PARTITION[:OFFSET]", multiple=True, help="Letters at this place."),
        click.option("--topic", help="Whose record was read from this topic."),
        click.option("--exception", metavar="TEXT", help="Whose exception's name has this in it."),
        click.option("--message", metavar="TEXT", help="Whose message has this in it."),
        click.option("--key", help="Whose record has this key."),
        click.option("--since", metavar="MS", type=int, help="Whose record is not older than this timestamp."),
        click.option("--until", metavar="MS", type=int, help="Whose record is older than this timestamp."),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many."),
        click.argument("app", metavar="APP"),
    ):
        function = option(function)
    return function


@dlq.command("list")
@_filters
@stream_options
def list_letters(target: Target, **given: Any) -> int:
    """List dead letters: where the record was read, and what went wrong."""
    letters = list(_letters(target, given))
    rows = [
        (
            f"{letter.partition}:{letter.offset}",
            _source(letter),
            letter.timestamp,
            _short(letter.key),
            letter.exception,
            letter.message[:_SHOWN],
        )
        for letter in letters
    ]
    table = render_table(("AT", "RECORD", "TIMESTAMP", "KEY", "EXCEPTION", "MESSAGE"), rows)
    target.emit([_document(letter) for letter in letters], table)
    return 0


@dlq.command()
@_filters
@stream_options
def show(target: Target, **given: Any) -> int:
    """Show dead letters whole: key, value, headers, and the stack trace."""
    letters = list(_letters(target, given))
    blocks = []
    for letter in letters:
        pairs: list[tuple[str, object]] = [
            ("at", f"{letter.partition}:{letter.offset}"),
            ("record", _source(letter)),
            ("timestamp", letter.timestamp),
            ("key", _text(letter.key)),
            ("value", _text(letter.value)),
            *((f"header {name}", _text(data)) for name, data in letter.headers),
            ("exception", letter.exception),
            ("message", letter.message),
        ]
        blocks.append(render_pairs(pairs) + letter.stacktrace)
    documents = [_document(letter) | {"stacktrace": letter.stacktrace} for letter in letters]
    target.emit(documents, "\n".join(blocks))
    return 0


@dlq.command()
@_filters
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
@stream_options
def replay(target: Target, dry_run: bool, **given: Any) -> int:
    """Write the records of dead letters back to the topics and partitions they were read from, all or none.

    Key, value, headers and timestamp are those of the record. The letters stay: replay what --at, --exception and the
    other options name, not everything twice. A record that fails again becomes a letter again.
    """
    found = list(_letters(target, given))
    letters = [letter for letter in found if letter.can_be_replayed]
    if letters and not dry_run:
        _write(target, given["app"], letters)
    left = len(found) - len(letters)
    done = "would be written" if dry_run else "is written"
    lines = [
        f"{letter.partition}:{letter.offset} {done} to {letter.source_topic}-{letter.source_partition}\n"
        for letter in letters
    ]
    if left:
        lines.append(f"{left} without a record to write: what a punctuator raised, or a result that was refused\n")
    target.emit(
        {"replayed": [_document(letter) for letter in letters], "left_out": left, "dry_run": dry_run}, "".join(lines)
    )
    return 0


def _write(target: Target, app: str, letters: "list[DeadLetter]") -> None:
    """In one transaction: a replay that fails halfway has written nothing, and one that runs beside another fences
    it.
    """
    from headwater.client.producer.producer import Producer
    from headwater.streams.dead_letters import replayed

    topic, _ = _where(target, app)
    producer = Producer({**_client(target), "transactional.id": f"{topic}-replay"})
    try:
        producer.init_transactions()
        producer.begin_transaction()
        sent = []
        for letter in letters:
            record = replayed(letter)
            sent.append(
                producer.send(
                    record.topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
            )
        producer.flush()
        for delivery in sent:
            delivery.result()
        producer.commit_transaction()
    finally:
        producer.close()


def _letters(target: Target, given: dict[str, Any]) -> "Iterator[DeadLetter]":
    """Those that are wanted, partition by partition, in the order in which they were written."""
    from headwater.base.ids import TopicPartition
    from headwater.client.consumer.ranges import RangeReader
    from headwater.streams.dead_letters import read_letter

    wanted, limit = _wanted(given), given["limit"]
    topic, partitions = _where(target, given["app"])
    places = {partition for partition, _ in wanted.places}
    reader = RangeReader(_client(target))
    try:
        chosen = [TopicPartition(topic, index) for index in range(partitions) if not places or index in places]
        begins, ends = reader.ends(chosen, earliest=True), reader.ends(chosen, earliest=False)
        found = 0
        for partition in chosen:
            for record in reader.records(partition, begins[partition], ends[partition], lost="skip"):
                letter = read_letter(
                    record.partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
                )
                if wanted.takes(letter):
                    yield letter
                    found += 1
                    if found == limit:
                        return
    finally:
        reader.close()


def _wanted(given: dict[str, Any]) -> "Wanted":
    from headwater.streams.dead_letters import Wanted

    places = set()
    for text in given["places"]:
        partition, _, offset = text.partition(":")
        if not partition.isdecimal() or (offset and not offset.isdecimal()):
            raise click.BadParameter(f"{text!r} is not PARTITION or PARTITION:OFFSET", param_hint="--at")
        places.add((int(partition), int(offset) if offset else None))
    return Wanted(
        frozenset(places),
        given["topic"],
        given["exception"],
        given["message"],
        given["key"].encode() if given["key"] is not None else None,
        given["since"],
        given["until"],
    )


def _where(target: Target, app: str) -> tuple[str, int]:
    """The dead letter topic, and how many partitions it has."""
    from headwater.base.errors import UserError
    from headwater.streams.topics.internal import partitions_of

    if Path(app).is_file():
        from headwater.cli.stream_files import load_app
        from headwater.streams.engine.failures import dead_letter_topic

        loaded = load_app(Path(app))
        if loaded.names_brokers and target.connect.bootstrap_server is None and target.connect.profile is None:
            target.connect = target.connect._replace(bootstrap_server=loaded.brokers)
        names = [dead_letter_topic(loaded.errors, loaded.name)]
    else:
        names = [app, f"{app}-dead-letters"]
    found = partitions_of(target.admin, names)
    for name in reversed(names):
        if name in found:
            return name, found[name]
    raise UserError(
        f"There is no dead letter topic {names[-1]}",
        "it is made when an application with on_error='dead_letter' starts",
        "Name the topic, or the file of the application",
    )


def _client(target: Target) -> dict[str, Any]:
    settings = target.settings
    return {**settings.security, "bootstrap.servers": settings.bootstrap, "client.id": settings.client_id}


def _source(letter: "DeadLetter") -> str | None:
    if letter.source_topic is None:
        return None
    return f"{letter.source_topic}-{letter.source_partition}@{letter.source_offset}"


def _document(letter: "DeadLetter") -> dict[str, Any]:
    document: dict[str, Any] = {
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp,
        "topic": letter.source_topic,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "exception": letter.exception,
        "message": letter.message,
    }
    put_bytes(document, "key", letter.key)
    put_bytes(document, "value", letter.value)
    return document


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return repr(data)


def _short(data: bytes | None) -> str | None:
    text = _text(data)
    return text if text is None or len(text) <= _SHOWN else text[:_SHOWN] + "..."

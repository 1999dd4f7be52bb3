"""`kafka-dump-log`: what the files of a log hold, in the lines of Kafka's DumpLogSegments."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.cli.kafka.options import Option, Options, Stop, Usage, run, run_with

ABOUT: Final = (
    "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly corrupt "
    "log segment."
)
_DECODERS: Final = ("cluster-metadata-decoder", "remote-log-metadata-decoder", "share-group-state-decoder")
OPTIONS: Final = (
    Option(
        "files", "REQUIRED: The comma separated list of data and index log files to be dumped.", "file1, file2, ..."
    ),
    Option("print-data-log", "Print the messages content when dumping data logs."),
    Option("deep-iteration", "Print the records within batches, also without their content."),
    Option("skip-record-metadata", "Skip metadata when printing records."),
    Option("offsets-decoder", "Parse log data as the offsets and groups of __consumer_offsets."),
    Option("transaction-log-decoder", "Parse log data as the transactions of __transaction_state."),
    Option("index-sanity-check", "Just check the index sanity without printing its content."),
    Option("verify-index-only", "Just verify the index log without printing its content."),
    Option("max-bytes", "Limit the amount of total batches read in bytes.", "size"),
    Option("max-message-size", "Size of largest message.", "size"),
    Option("key-decoder-class", "Keys are shown as text.", "class", True),
    Option("value-decoder-class", "Values are shown as text.", "class", True),
    *(Option(name, "Not here.") for name in _DECODERS),
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    if "files" not in options:
        raise Usage(ABOUT)
    for name in _DECODERS:
        if name in options:
            raise Stop(1, f"--{name} is not here: this broker writes no such records.")
    for name in (options.get("files") or "").split(","):
        _dump(Path(name.strip()), options)
    return 0


def _dump(path: Path, options: Options) -> None:
    from headwater.cli.kafka import dump_lines

    sys.stdout.write(f"Dumping {path}\n")
    kind = path.suffix
    if kind not in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        sys.stderr.write(f"Ignoring unknown file {path}\n")
        return
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Stop(1, f"{path} ({error.strerror})") from None
    if kind != ".snapshot" and not path.stem.isdigit():
        raise Stop(1, f'The name of {path} begins with no offset: "{path.stem}"')
    if kind == ".index" and not data:
        sys.stdout.write(f"{path} is empty.\n")
        return
    if kind in (".index", ".timeindex") and "index-sanity-check" in options:
        fault = dump_lines.index_fault(kind, data, int(path.stem))
        if fault is not None:
            raise Stop(1, f"{path} is corrupt: {fault}.")
        sys.stdout.write(f"{path} passed sanity check.\n")
        return
    base_offset = int(path.stem) if path.stem.isdigit() else 0
    if kind == ".log":
        lines = _segment_lines(path, data, base_offset, options)
    elif kind == ".index":
        log = path.with_suffix(".log")
        lines = dump_lines.offset_index(path, data, base_offset, log.read_bytes() if log.exists() else b"")
    elif kind == ".timeindex":
        log = path.with_suffix(".log")
        lines = dump_lines.time_index(path, data, base_offset, log.read_bytes() if log.exists() else None)
    elif kind == ".txnindex":
        lines = dump_lines.transaction_index(data)
    else:
        lines = dump_lines.snapshot(data)
    quiet = kind in (".index", ".timeindex") and "verify-index-only" in options
    for line in lines:
        if not quiet:
            sys.stdout.write(f"{line}\n")


def _segment_lines(path: Path, data: bytes, base_offset: int, options: Options) -> Iterator[str]:
    from headwater.cli.kafka import dump_lines

    decode = None
    if "offsets-decoder" in options or "transaction-log-decoder" in options:
        from headwater.cli.kafka.coordinator_records import group_texts, transaction_texts

        decode = group_texts if "offsets-decoder" in options else transaction_texts
    contents = "print-data-log" in options or decode is not None or "value-decoder-class" in options
    limit = options.number("max-bytes", len(data)) or len(data)
    try:
        yield from dump_lines.segment(
            memoryview(data)[:limit],
            base_offset,
            records=contents or "deep-iteration" in options,
            contents=contents,
            metadata="skip-record-metadata" not in options,
            decode=decode,
        )
    except dump_lines.TrailingBytes as tail:
        if limit >= len(data):
            yield f"Found {tail.count} invalid bytes at the end of {path.name}"
    except KafkaError as error:
        raise Stop(1, f"{path}: {error.message or error.code.name}") from None

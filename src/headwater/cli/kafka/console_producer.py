"""`kafka-console-producer`: lines of stdin to a topic, each a record, with key and headers in front if they are asked
for.

What is waiting on stdin is sent together; a line that somebody types goes out at once.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.cli.kafka.options import BOOTSTRAP, Option, Options, Stop, run, run_with

if TYPE_CHECKING:
    from headwater.cli.kafka.line_reader import LineReader
    from headwater.client.record_writer import RecordWriter
    from headwater.client.types import OutgoingRecord

ABOUT: Final = "This tool helps to read data from standard input and publish it to Kafka."
_TUNING: Final = (  # of Java's producer; this one has its own buffers
    "batch-size",
    "max-block-ms",
    "max-memory-bytes",
    "max-partition-memory-bytes",
    "message-send-max-retries",
    "metadata-expiry-ms",
    "retry-backoff-ms",
    "socket-buffer-size",
    "timeout",
)
OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "REQUIRED: The topic name to produce messages to.", "topic"),
    Option("command-config", "Producer config properties file.", "config file"),
    Option("command-property", "Producer config properties in the form key=value.", "producer_prop"),
    Option("producer.config", "(DEPRECATED) The same as --command-config.", "config file"),
    Option("producer-property", "(DEPRECATED) The same as --command-property.", "producer_prop"),
    Option(
        "compression-codec", "none, gzip, snappy, lz4 or zstd; gzip if no codec follows.", "compression-codec", True
    ),
    Option("line-reader", "Only Kafka's LineMessageReader is here.", "reader_class"),
    Option("reader-config", "Config properties file for the line reader.", "config file"),
    Option(
        "reader-property",
        "parse.key, parse.headers, key.separator, headers.delimiter, headers.separator, headers.key.separator, "
        "null.marker, ignore.error, in the form key=value.",
        "prop",
    ),
    Option("property", "(DEPRECATED) The same as --reader-property.", "prop"),
    Option("request-required-acks", "The required acks of the producer requests.", "acks"),
    Option("request-timeout-ms", "The ack timeout of the producer requests.", "request timeout ms"),
    Option("sync", "Send each line on its own, and wait for it."),
    *(Option(name, "Taken and not needed here.", "value") for name in _TUNING),
)
_READ_BYTES: Final = 1 << 16
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected, read_properties
    from headwater.cli.kafka.line_reader import LineReader

    options.require("topic")
    options.bootstrap()
    _warn_deprecated(options)
    reader_class = options.get("line-reader", "org.apache.kafka.tools.LineMessageReader") or ""
    if not reader_class.endswith("LineMessageReader"):
        raise Stop(1, f"The line reader {reader_class} is not here: only Kafka's LineMessageReader is.")
    reader_files = {k: v for path in options.all("reader-config") for k, v in read_properties(path).items()}
    reader = LineReader({**reader_files, **options.properties("property", "reader-property")})
    paths = [*options.all("producer.config"), *options.all("command-config")]
    properties = {k: v for path in paths for k, v in read_properties(path).items()}
    properties.update(options.properties("producer-property", "command-property"))
    if options.get("request-timeout-ms"):
        properties["request.timeout.ms"] = options.get("request-timeout-ms") or ""
    with connected(options, properties) as admin:
        topic = admin.describe_topic(options.get("topic") or "", auto_create=True)
        from headwater.client.partitioner import Sticky
        from headwater.client.record_writer import RecordWriter

        writer = RecordWriter(
            admin, topic, Sticky(), acks=_acks(options, properties), codec=_codec(options, properties)
        )
        try:
            _copy(reader, writer, one_by_one="sync" in options)
        except KafkaError as error:
            from headwater.cli.kafka.exits import java_text

            raise Stop(1, f"Error when sending message to topic {topic.name}: {java_text(error)}") from None
    return 0


def _warn_deprecated(options: Options) -> None:
    for old, new in (
        ("property", "reader-property"),
        ("producer-property", "command-property"),
        ("producer.config", "command-config"),
    ):
        if old in options:
            sys.stdout.write(
                f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.\n"
            )


def _acks(options: Options, properties: dict[str, str]) -> int:
    text = options.get("request-required-acks") or properties.get("acks", "all")
    if text not in _ACKS:
        raise Stop(
            1,
            f"org.apache.kafka.common.config.ConfigException: Invalid value {text} for configuration acks: "
            "String must be one of: all, -1, 0, 1",
        )
    return _ACKS[text]


def _codec(options: Options, properties: dict[str, str]) -> int:
    from headwater.records.compression import CODEC_NAMES

    name = properties.get("compression.type", "none")
    if "compression-codec" in options:
        name = options.get("compression-codec") or "gzip"
    codecs = {text: number for number, text in CODEC_NAMES.items()}
    if name not in codecs:
        raise Stop(
            1,
            f"org.apache.kafka.common.config.ConfigException: Invalid value {name} for configuration compression.type: "
            f"String must be one of: {', '.join(codecs)}",
        )
    return codecs[name]


def _copy(reader: "LineReader", writer: "RecordWriter", *, one_by_one: bool) -> None:
    for lines in _lines():
        records, wrong = _read(reader, lines)
        for group in ([each] for each in records) if one_by_one else [records]:
            if group:
                writer.write(group)
        if wrong is not None:
            writer.flush()
            raise wrong
    writer.flush()


def _read(reader: "LineReader", lines: list[bytes]) -> "tuple[list[OutgoingRecord], Stop | None]":
    """The records of the lines before the first that cannot be read, and what is wrong with that one: it ends the tool,
    and they are sent.
    """
    records: list[OutgoingRecord] = []
    for line in lines:
        try:
            records.append(reader.record(line))
        except Stop as wrong:
            return records, wrong
    return records, None


def _lines() -> Iterator[list[bytes]]:
    """What stdin has, in whole lines; the last may have no end. As in Java, a line ends with LF, CR or CR LF: a CR at
    the end of what was read waits for what follows it.
    """
    interactive = sys.stdin.isatty()
    rest = b""
    while True:
        if interactive:
            sys.stdout.write(">")
            sys.stdout.flush()
        data = os.read(sys.stdin.fileno(), _READ_BYTES)
        if not data:
            break
        *lines, rest = _LINE_END.split(rest + data)
        yield lines
    if rest:
        yield [rest.removesuffix(b"\r")]

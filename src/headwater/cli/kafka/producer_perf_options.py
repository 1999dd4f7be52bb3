"""What `kafka-producer-perf-test` takes: its options, and what follows from them for the producer. Owns nothing."""

import argparse
import os
import re
import sys
import uuid
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from headwater.cli.kafka.connecting import read_properties
from headwater.cli.kafka.options import Stop

_NAME: Final = "kafka-producer-perf-test"
_TRANSACTION_MS: Final = 3000
_REQUIRED: Final = ("throughput", "num_records", "topic")  # the order in which Kafka's tool misses them
_PLACES: Final = ("bootstrap_server", "command_property", "producer_props", "producer_config", "command_config")


class Plan(NamedTuple):
    """`transaction_ms` is None without transactions."""

    topic: str
    record_count: int
    warmup_count: int
    records_per_second: float
    interval_ms: int
    record_bytes: int | None
    payloads: list[bytes]
    transaction_ms: int | None
    print_metrics: bool
    settings: dict[str, str]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Stop(1, f"{self.format_usage()}{self.prog}: error: {message}")


def _long(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"could not convert '{text}' to Long (For input string: \"{text}\")") from None


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"could not convert '{text}' to Double (For input string: \"{text}\")"
        raise argparse.ArgumentTypeError(message) from None


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        _NAME,
        description="This tool is used to verify the producer performance. With a transactional id or a transaction "
        "duration, records are sent in transactions.",
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this help message and exit")
    add("--bootstrap-server", metavar="BOOTSTRAP-SERVER", help="The server(s) to connect to.")
    add("--topic", metavar="TOPIC", help="REQUIRED: Produce records to this topic.")
    add("--num-records", metavar="NUM-RECORDS", type=_long, help="REQUIRED: Number of records to produce.")
    add("--payload-delimiter", metavar="PAYLOAD-DELIMITER", default="\\n", help="What stands between two payloads.")
    add(
        "--throughput",
        metavar="THROUGHPUT",
        type=_double,
        help="REQUIRED: At most so many records/sec; -1: any number.",
    )
    properties = {"metavar": "PROP-NAME=PROP-VALUE", "nargs": "+"}
    add("--producer-props", help="(DEPRECATED) The same as --command-property.", **properties)  # type: ignore[arg-type]
    add("--command-property", help="Settings of the producer, over those of the file.", **properties)  # type: ignore[arg-type]
    add("--producer.config", dest="producer_config", metavar="CONFIG-FILE", help="(DEPRECATED) --command-config.")
    add("--command-config", metavar="CONFIG-FILE", help="Properties file with settings of the producer.")
    add("--print-metrics", action="store_true", help="Print out metrics at the end of the test.")
    add("--transactional-id", metavar="TRANSACTIONAL-ID", help="The transactional id to use.")
    add("--transaction-duration-ms", metavar="TRANSACTION-DURATION", type=_long, help="Commit after so long.")
    add("--warmup-records", metavar="WARMUP-RECORDS", type=_long, default=0, help="Counted apart from the others.")
    add("--reporting-interval", metavar="INTERVAL-MS", type=_long, default=5000, help="How often to print progress.")
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--record-size", metavar="RECORD-SIZE", type=_long, help="Bytes of a record, at random.")
    payload.add_argument("--payload-file", metavar="PAYLOAD-FILE", help="Records are taken from it at random.")
    payload.add_argument("--payload-monotonic", action="store_true", help="Records are the numbers 0, 1, 2, ...")
    return parser


def plan_of(arguments: Sequence[str]) -> Plan:
    """What is to be done, or a `Stop` that says what is wrong. Reads the files that were named, and tells of old
    options.
    """
    parser = make_parser()
    if not arguments or {"-h", "--help"} & set(arguments):
        sys.stdout.write(parser.format_help())
        raise Stop(1 if arguments else 0)  # as Kafka's tool ends
    typed, strays = parser.parse_known_args(arguments)
    if strays:
        parser.error(f"unrecognized arguments: {' '.join(repr(each) for each in strays)}")
    _check(parser, typed)
    payloads = read_payloads(typed.payload_file, typed.payload_delimiter) if typed.payload_file else []
    settings = _settings(typed)
    transaction_ms = typed.transaction_duration_ms
    if typed.transactional_id is not None:
        settings["transactional.id"] = typed.transactional_id
    if transaction_ms is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    elif "transactional.id" in settings:
        transaction_ms = _TRANSACTION_MS
    return Plan(
        typed.topic,
        typed.num_records,
        max(0, typed.warmup_records),
        typed.throughput,
        typed.reporting_interval,
        typed.record_size,
        payloads,
        transaction_ms,
        typed.print_metrics,
        settings,
    )


def _check(parser: argparse.ArgumentParser, typed: Any) -> None:
    for name in _REQUIRED:
        if getattr(typed, name) is None:
            parser.error(f"argument --{name.replace('_', '-')} is required")
    if typed.record_size is None and typed.payload_file is None and not typed.payload_monotonic:
        parser.error("one of the arguments --record-size --payload-file --payload-monotonic is required")
    for name in ("num_records", "record_size", "transaction_duration_ms", "reporting_interval"):
        value = getattr(typed, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} should be greater than zero.")
    if typed.throughput == 0:
        parser.error("--throughput should not be zero: nothing would ever be sent.")
    if typed.warmup_records >= typed.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."
        )
    if typed.command_property and typed.producer_props:
        parser.error("--command-property and --producer-props cannot be specified together.")
    if typed.command_config and typed.producer_config:
        parser.error("--command-config and --producer.config cannot be specified together.")
    if not any(getattr(typed, name) for name in _PLACES):
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
            "--command-config must be specified."
        )


def _settings(typed: Any) -> dict[str, str]:
    for old, new in (("producer-props", "command-property"), ("producer.config", "command-config")):
        if getattr(typed, old.replace("-", "_").replace(".", "_")):
            sys.stdout.write(
                f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.\n"
            )
    path = typed.command_config or typed.producer_config
    settings = read_properties(path) if path else {}
    for text in typed.command_property or typed.producer_props or ():
        key, equals, value = text.partition("=")
        if not (equals and key and value):
            raise Stop(1, f"Invalid property: {key if equals and key else 'one that is not key=value'}")
        settings[key] = value
    if typed.bootstrap_server:
        settings["bootstrap.servers"] = typed.bootstrap_server
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)  # the payloads are bytes
    settings.setdefault("client.id", "perf-producer-client")
    return settings


def read_payloads(path: str, delimiter: str) -> list[bytes]:
    sys.stdout.write(f"Reading payloads from: {os.path.abspath(path)}\n")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as problem:
        raise Stop(1, f"Cannot read {path}: {problem}") from None
    if not text:
        raise Stop(1, "File does not exist or empty file provided.")
    found = re.split("\n" if delimiter == "\\n" else delimiter, text)
    payloads = [each.encode() for each in (found if found[-1] else found[:-1])]
    sys.stdout.write(f"Number of records read: {len(payloads)}\n")
    return payloads

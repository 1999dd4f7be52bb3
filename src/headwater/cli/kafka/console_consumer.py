"""`kafka-console-consumer`: records of topics to stdout, in the shape of Kafka's DefaultMessageFormatter.

It reads by assignment. With `--group` it begins where the group has committed and commits what it printed, but does not join
the group: another member would read the same records, and a group with members refuses the commits. Topics and partitions
that are made later are not followed.
"""

import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import BOOTSTRAP, Option, Options, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.cli.kafka.message_formatter import Formatter
    from headwater.client.admin import Admin
    from headwater.client.record_reader import RecordReader, Span
    from headwater.client.types import FetchedRecord

ABOUT: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "The topic to consume from.", "topic"),
    Option("include", "Regular expression of topics to consume from.", "regex"),
    Option("partition", "The partition to consume from. From the end of it unless --offset is given.", "partition"),
    Option("offset", "The offset to consume from: a number, earliest, or latest (the default).", "consume offset"),
    Option("from-beginning", "Start with the earliest message if the group has no offset yet."),
    Option("group", "Begin at, and commit, the offsets of this group, without joining it.", "consumer group id"),
    Option("max-messages", "The maximum number of messages to consume before exiting.", "num_messages"),
    Option("timeout-ms", "Exit if no message is available for so long.", "timeout_ms"),
    Option("isolation-level", "read_committed or read_uncommitted (the default).", "level"),
    Option("command-config", "Consumer config properties file.", "config file"),
    Option("command-property", "Consumer config properties in the form key=value.", "consumer_prop"),
    Option("consumer.config", "(DEPRECATED) The same as --command-config.", "config file"),
    Option("consumer-property", "(DEPRECATED) The same as --command-property.", "consumer_prop"),
    Option(
        "formatter", "DefaultMessageFormatter (the default), LoggingMessageFormatter, NoOpMessageFormatter.", "class"
    ),
    Option("formatter-config", "Config properties file of the formatter.", "config file"),
    Option(
        "formatter-property",
        "print.timestamp, print.key, print.offset, print.partition, print.headers, print.value, print.epoch, "
        "print.delivery, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
        "value.deserializer, in the form key=value.",
        "prop",
    ),
    Option("property", "(DEPRECATED) The same as --formatter-property.", "prop"),
    Option("key-deserializer", "The name of the class to use for deserializing keys.", "deserializer for keys"),
    Option("value-deserializer", "The name of the class to use for deserializing values.", "deserializer for values"),
    Option("skip-message-on-error", "Skip a message that cannot be printed, instead of ending."),
    Option("enable-systest-events", "Taken and not needed here."),
)
_COMMIT_EVERY_S: Final = 5.0
_POLL_MS: Final = 500


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected, read_properties
    from headwater.cli.kafka.message_formatter import make_formatter

    check(options)
    properties = {k: v for path in options.all("consumer.config") for k, v in read_properties(path).items()}
    properties.update(options.properties("consumer-property", "command-property"))
    group = _group(options, properties)
    formatter = make_formatter(options)
    with connected(options, properties) as admin:
        from headwater.client.record_reader import RecordReader

        isolation = _isolation(options, properties)
        spans = _spans(admin, options, properties, group, isolation)
        reader = RecordReader(admin, spans, isolation_level=isolation, max_wait_ms=_POLL_MS)
        return _copy(admin, reader, formatter, options, group)


def check(options: Options) -> None:
    options.bootstrap()
    if ("topic" in options) == ("include" in options):
        raise Usage("Exactly one of the following arguments is required: [topic], [include]")
    if "partition" in options and "topic" not in options:
        raise Usage("The topic is required when partition is specified.")
    if "offset" in options:
        if "partition" not in options:
            raise Usage("The partition is required when offset is specified.")
        if "from-beginning" in options:
            raise Usage("Options from-beginning and offset cannot be specified together.")
        text = options.get("offset") or ""
        if text.lower() not in ("earliest", "latest") and not (text.isascii() and text.isdigit()):
            raise Usage(
                f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
                "or a non-negative long."
            )
    if options.get("isolation-level", "read_uncommitted") not in ("read_uncommitted", "read_committed"):
        raise Usage("--isolation-level is read_committed or read_uncommitted")
    if "group" in options and "partition" in options:
        raise Usage("Options group and partition cannot be specified together.")


def _group(options: Options, properties: dict[str, str]) -> str | None:
    given = [each for each in (options.get("group"), properties.get("group.id")) if each]
    if len(set(given)) > 1:
        listed = ", ".join(f"'{each}'" for each in given)
        raise Usage(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {listed}"
        )
    return given[0] if given else None


def _isolation(options: Options, properties: dict[str, str]) -> int:
    level = options.get("isolation-level") or properties.get("isolation.level", "read_uncommitted")
    return 1 if level.lower() == "read_committed" else 0


def _partitions(admin: "Admin", options: Options) -> list[TopicPartition]:
    name, pattern = options.get("topic"), options.get("include")
    if pattern is not None:
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise Usage(f"{pattern} is an invalid regex. ({error})") from None
        topics = [topic for topic in admin.list_topics() if wanted.fullmatch(topic.name)]
    else:
        topics = [admin.describe_topic(name or "", auto_create=True)]
    found = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    index = options.number("partition")
    if index is not None:
        found = [each for each in found if each.partition == index]
        if not found:
            raise UserError(f"Topic {name!r} has no partition {index}")
    return found


def _spans(
    admin: "Admin", options: Options, properties: dict[str, str], group: str | None, isolation: int
) -> "dict[TopicPartition, Span]":
    from headwater.client.positions import Beginning, End, Window
    from headwater.client.record_reader import Span, resolve

    partitions = _partitions(admin, options)
    reset = properties.get("auto.offset.reset", "latest").lower()
    start = (options.get("offset") or "").lower()
    if start.isdigit():
        return {each: Span(int(start), None) for each in partitions}
    from_start = "from-beginning" in options or start == "earliest" or (not start and reset == "earliest")
    window = Window(Beginning() if from_start else End())
    spans = resolve(admin, partitions, window, isolation_level=isolation)
    if group is not None:
        committed = admin.list_group_offsets(group, partitions)
        spans.update({each: Span(committed[each].offset, None) for each in partitions if each in committed})
    return spans


def _copy(admin: "Admin", reader: "RecordReader", formatter: "Formatter", options: Options, group: str | None) -> int:
    given, timeout_ms = options.number("max-messages"), options.number("timeout-ms")
    limit = -1 if given is None else given
    progress = _Progress(admin, group)
    printed = 0
    heard = time.monotonic()
    code = 0
    try:
        while limit < 0 or printed < limit:
            records = reader.poll()
            if limit >= 0:
                records = records[: limit - printed]
            formatter.write(records, skip_errors="skip-message-on-error" in options)
            printed += len(records)
            progress.read(records)
            if records:
                heard = time.monotonic()
            elif timeout_ms is not None and (time.monotonic() - heard) * 1000 >= timeout_ms:
                break
    except KeyboardInterrupt:
        code = 130
    finally:
        progress.commit()
        sys.stderr.write(f"Processed a total of {printed} messages\n")
    return code


class _Progress:
    """What was printed and is not committed yet. Nothing, without a group."""

    def __init__(self, admin: "Admin", group: str | None) -> None:
        self._admin = admin
        self._group = group
        self._next: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()

    def read(self, records: "list[FetchedRecord]") -> None:
        if self._group is None:
            return
        for record in records:
            self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        if time.monotonic() - self._committed_at >= _COMMIT_EVERY_S:
            self.commit()

    def commit(self) -> None:
        self._committed_at = time.monotonic()
        if self._group is None or not self._next:
            return
        try:
            errors = [each for each in self._admin.alter_group_offsets(self._group, self._next).values() if each]
        except KafkaError as error:
            errors = [error]
        if errors:
            sys.stderr.write(
                f"Warning: the group {self._group!r} did not take the offsets: {errors[0].code.name}. This consumer does "
                "not join its group, and a group with members of its own refuses others.\n"
            )
        self._next = {}

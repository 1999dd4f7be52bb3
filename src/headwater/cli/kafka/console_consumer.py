"""`kafka-console-consumer`: records of topics to stdout, in the shape of Kafka's DefaultMessageFormatter.

With `--group`, or `group.id` among its properties, it is a member of that group: it shares the partitions with the
others, begins where the group has committed, and commits what it printed. Without one it reads by assignment: it begins
at once, and topics and partitions that are made later are not followed.
"""

import re
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import BOOTSTRAP, Option, Options, Stop, Usage, run, run_with, whole_number

if TYPE_CHECKING:
    from headwater.cli.kafka.console_sources import Source
    from headwater.cli.kafka.message_formatter import Formatter
    from headwater.client.admin import Admin
    from headwater.client.positions import Window
    from headwater.client.record_reader import Span
    from headwater.client.types import FetchedRecord

ABOUT: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
OPTIONS: Final = (
    BOOTSTRAP,
    Option("topic", "The topic to consume from.", "topic"),
    Option("include", "Regular expression of topics to consume from.", "regex"),
    Option("partition", "The partition to consume from. From the end of it unless --offset is given.", "partition"),
    Option("offset", "The offset to consume from: a number, earliest, or latest (the default).", "consume offset"),
    Option("from-beginning", "Start with the earliest message if the group has no offset yet."),
    Option("group", "The group to be a member of.", "consumer group id"),
    Option("max-messages", "The maximum number of messages to consume before exiting.", "num_messages"),
    Option("timeout-ms", "Exit if no message is available for so long; a negative number means never.", "timeout_ms"),
    Option("isolation-level", "read_committed or read_uncommitted (the default).", "level"),
    Option("command-config", "Consumer config properties file.", "config file"),
    Option("command-property", "Consumer config properties in the form key=value.", "consumer_prop"),
    Option("consumer.config", "(DEPRECATED) The same as --command-config.", "config file"),
    Option("consumer-property", "(DEPRECATED) The same as --command-property.", "consumer_prop"),
    Option(
        "formatter",
        "DefaultMessageFormatter (the default), LoggingMessageFormatter, NoOpMessageFormatter; for internal topics "
        "OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter.",
        "class",
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
_ISOLATION: Final = ("read_uncommitted", "read_committed")
_OLD_RESETS: Final = {"smallest": "earliest", "largest": "latest"}
_JOIN_S_MAX: Final = 60.0
_POLL_MS: Final = 500


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected, read_properties
    from headwater.cli.kafka.console_sources import ChosenPartitions
    from headwater.cli.kafka.message_formatter import make_formatter

    check(options)
    paths = [*options.all("consumer.config"), *options.all("command-config")]
    properties = {k: v for path in paths for k, v in read_properties(path).items()}
    properties.update(options.properties("consumer-property", "command-property"))
    _check_start(options, properties)
    group = _group(options, properties)
    formatter = make_formatter(options)
    with connected(options, properties) as admin:
        if group is not None:
            return _copy(_member(admin, options, properties, group), formatter, options)
        from headwater.client.record_reader import RecordReader

        isolation = _isolation(options, properties)
        spans = _spans(admin, options, properties, isolation)
        reader = RecordReader(admin, spans, isolation_level=isolation, max_wait_ms=_POLL_MS)
        return _copy(ChosenPartitions(reader), formatter, options)


def _member(admin: "Admin", options: Options, properties: dict[str, str], group: str) -> "Source":
    from headwater.cli.kafka.console_sources import GroupMember, member_settings
    from headwater.client import Consumer

    wanted = _pattern(options)
    if wanted is None:
        _partitions(admin, options)  # says so if there is no such topic
    settings = member_settings(
        *(options.bootstrap(), group, properties),
        from_beginning="from-beginning" in options,
        isolation=options.get("isolation-level"),
    )
    return GroupMember(Consumer(settings), wanted or [options.get("topic") or ""], _POLL_MS / 1000)


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
        if text.lower() not in ("earliest", "latest") and not (text.isdigit() and whole_number(text) is not None):
            raise Usage(
                f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
                "or a non-negative long."
            )
    if options.get("isolation-level", "read_uncommitted") not in _ISOLATION:
        raise Usage("--isolation-level is read_committed or read_uncommitted")


def _check_start(options: Options, properties: dict[str, str]) -> None:
    reset = properties.get("auto.offset.reset", "earliest")
    if "from-beginning" in options and reset.lower() not in ("earliest", "smallest"):
        raise Stop(
            1,
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option",
        )


def _group(options: Options, properties: dict[str, str]) -> str | None:
    given = [each for each in (options.get("group"), properties.get("group.id")) if each]
    if len(set(given)) > 1:
        listed = ", ".join(f"'{each}'" for each in given)
        raise Usage(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {listed}"
        )
    if given and "partition" in options:
        raise Usage("Options group and partition cannot be specified together.")
    return given[0] if given else None


def _isolation(options: Options, properties: dict[str, str]) -> int:
    level = (options.get("isolation-level") or properties.get("isolation.level", "read_uncommitted")).lower()
    if level not in _ISOLATION:
        raise UserError(f"isolation.level cannot be {level!r}", f"it is one of {', '.join(_ISOLATION)}")
    return _ISOLATION.index(level)


def _pattern(options: Options) -> re.Pattern[str] | None:
    """Of whole names."""
    pattern = options.get("include")
    if pattern is None:
        return None
    try:
        return re.compile(rf"\A(?:{pattern})\Z")
    except re.error as error:
        raise Usage(f"{pattern} is an invalid regex. ({error})") from None


def _partitions(admin: "Admin", options: Options) -> list[TopicPartition]:
    name, wanted = options.get("topic"), _pattern(options)
    if wanted is not None:
        topics = [topic for topic in admin.list_topics() if wanted.match(topic.name)]
    else:
        topics = [admin.describe_topic(name or "", auto_create=True)]
    found = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    index = options.number("partition", bits=32)
    if index is not None:
        found = [each for each in found if each.partition == index]
        if not found:
            raise UserError(f"Topic {name!r} has no partition {index}")
    return found


def _spans(
    admin: "Admin", options: Options, properties: dict[str, str], isolation: int
) -> "dict[TopicPartition, Span]":
    from headwater.client.record_reader import Span, resolve

    window = start_window(options, properties, time.time_ns() // 1_000_000)
    partitions = _partitions(admin, options)
    start = options.get("offset") or ""
    if start.isdigit():
        return {each: Span(int(start), None) for each in partitions}
    return resolve(admin, partitions, window, isolation_level=isolation)


def start_window(options: Options, properties: dict[str, str], now_ms: int) -> "Window":
    """Where partitions without a group are read from, unless a number says it."""
    from headwater.client.consumer.resolving import ResetPolicy
    from headwater.client.positions import AtTime, Beginning, End, Window
    from headwater.client.types import EARLIEST

    start = (options.get("offset") or "").lower()
    if "from-beginning" in options or start == "earliest":
        return Window(Beginning())
    reset = properties.get("auto.offset.reset", "latest")
    try:
        policy = ResetPolicy.parse(_OLD_RESETS.get(reset.lower(), reset.lower() if ":" not in reset else reset))
    except ValueError as error:
        raise UserError(f"auto.offset.reset cannot be {reset!r}", str(error)) from None
    if start:
        return Window(End())
    if policy.age_ms is not None:
        return Window(AtTime(now_ms - policy.age_ms))
    if policy.end is None:
        raise UserError(
            "Nothing says where to begin",
            "auto.offset.reset is none, and there is no group",
            "Use --from-beginning, or --partition and --offset",
        )
    return Window(Beginning() if policy.end == EARLIEST else End())


def _copy(source: "Source", formatter: "Formatter", options: Options) -> int:
    """Until there are enough records, none for long, or a signal. The time until a group has said what is to be read
    does not count as time without records, unless it is longer than it could be.
    """
    from headwater.cli.kafka.message_formatter import CannotPrint

    given, timeout_ms = options.number("max-messages"), options.number("timeout-ms")
    limit = None if given is None or given < 0 else given
    printed = 0
    heard = began = time.monotonic()
    code = 0
    told = _ToldToStop()
    before = signal.signal(signal.SIGTERM, told)
    try:
        while not told.came and (limit is None or printed < limit):
            records = source.poll(None if limit is None else limit - printed)
            try:
                _print(source, formatter, records, skip_errors="skip-message-on-error" in options)
            except CannotPrint as problem:
                printed += problem.printed
                raise
            printed += len(records)
            now = time.monotonic()
            if records or (not source.is_reading() and now - began < _JOIN_S_MAX):
                heard = now
            elif timeout_ms is not None and 0 <= timeout_ms <= (now - heard) * 1000:
                break
    except KeyboardInterrupt:
        code = 130
    finally:
        signal.signal(signal.SIGTERM, before)
        source.close()
        sys.stderr.write(f"Processed a total of {printed} messages\n")
    return 143 if told.came else code


class _ToldToStop:
    """SIGTERM ends the reading between two polls: a member leaves its group, and what was printed is committed. A
    second one ends the process at once.
    """

    came = False

    def __call__(self, *_: object) -> None:
        self.came = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _print(source: "Source", formatter: "Formatter", records: "list[FetchedRecord]", *, skip_errors: bool) -> None:
    """What was not printed is given back, so that a group does not commit it, and nothing else is: it would be printed
    again.
    """
    from headwater.cli.kafka.message_formatter import CannotPrint

    try:
        formatter.write(records, skip_errors=skip_errors)
    except CannotPrint as problem:
        source.give_back(records[problem.printed :])
        raise
    except BaseException:
        source.give_back(records)
        raise

"""`kafka-consumer-perf-test`: reads records as a member of a group, as quickly as it may, and tells how quickly that
was.

They are read as columns where pyarrow is installed, else record by record.
"""

import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with

if TYPE_CHECKING:
    from headwater.client import Consumer

ABOUT: Final = "This tool is used to verify the consumer performance."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("command-property", "Settings of the consumer in the form key=value, over those of the file.", "prop1=val1"),
    Option("consumer.config", "(DEPRECATED) The same as --command-config.", "config file"),
    Option("topic", "The topic to consume from.", "topic"),
    Option("include", "Regular expression of topics to consume from.", "regex"),
    Option("num-records", "REQUIRED: The number of records to consume.", "count"),
    Option("messages", "(DEPRECATED) The same as --num-records.", "count"),
    Option("group", "The group id to consume on. (default: perf-consumer- and a number)", "gid"),
    Option("fetch-size", "The most to fetch of one partition per request. (default: 1048576)", "size"),
    Option("socket-buffer-size", "The size of the receive buffer of the sockets. (default: 2097152)", "size"),
    Option("from-latest", "Without a committed offset, start with the latest record rather than the earliest."),
    Option("timeout", "How long to wait for the next records. (default: 10000)", "milliseconds", True),
    Option("reporting-interval", "Interval at which to print progress info. (default: 5000)", "interval_ms"),
    Option("show-detailed-stats", "Report for each interval as configured by reporting-interval."),
    Option("hide-header", "Skip the header of the stats."),
    Option("date-format", "Of Java's SimpleDateFormat. (default: yyyy-MM-dd HH:mm:ss:SSS)", "date format"),
    Option("print-metrics", "Print out the metrics."),
)
_POLL_S: Final = 0.1
_POLL_RECORDS: Final = 500
_POLL_RECORDS_MAX: Final = 1_000_000


class Plan(NamedTuple):
    record_count: int
    timeout_ms: int
    interval_ms: int
    is_detailed: bool
    time_text: Callable[[datetime], str]


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.perf_lines import metric_lines, read_header
    from headwater.client import Consumer

    plan = make_plan(options)
    settings = settings_of(options)
    wanted = wanted_topics(options)
    if "hide-header" not in options:
        sys.stdout.write(read_header(detailed=plan.is_detailed))
        sys.stdout.flush()
    take = taker()
    with Consumer(settings) as consumer:
        run = Run(plan, take)
        consumer.subscribe(wanted, on_assigned=run.assigned, on_revoked=run.revoked)
        run.read(consumer)
        metrics = consumer.metrics()
    sys.stdout.write(run.end())
    if "print-metrics" in options:
        sys.stdout.write(metric_lines("consumer-metrics", settings["client.id"], metrics))
    return 0


def make_plan(options: Options) -> Plan:
    from headwater.cli.kafka.java_text import date_format

    options.bootstrap()
    for names in (("messages", "num-records"), ("topic", "include")):
        if sum(name in options for name in names) != 1:
            listed = ", ".join(f"[{name}]" for name in names)
            raise Usage(f"Exactly one of the following arguments is required: {listed}")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if old in options:
            sys.stdout.write(f"Warning: --{old} is deprecated. Use --{new} instead.\n")
    plan = Plan(
        options.number("num-records", options.number("messages")) or 0,
        options.number("timeout", 10_000) or 0,
        options.number("reporting-interval", 5_000) or 0,
        "show-detailed-stats" in options,
        date_format(options.get("date-format") or "yyyy-MM-dd HH:mm:ss:SSS"),
    )
    if plan.interval_ms <= 0:
        raise Stop(1, "Reporting interval must be greater than 0.")
    return plan


def wanted_topics(options: Options) -> "list[str] | re.Pattern[str]":
    """One by name, or those whose whole name the pattern of --include matches."""
    pattern = options.get("include")
    if pattern is None:
        return [options.get("topic") or ""]
    try:
        return re.compile(rf"\A(?:{pattern})\Z")
    except re.error as error:
        raise Usage(f"{pattern} is an invalid regex. ({error})") from None


def settings_of(options: Options) -> dict[str, str]:
    from headwater.cli.kafka.connecting import read_properties

    path = options.get("command-config") or options.get("consumer.config")
    settings = read_properties(path) if path else {}
    settings.update(options.properties("command-property"))
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)  # lengths are counted, not contents
    settings.setdefault("client.id", "perf-consumer-client")
    settings.setdefault("group.id", f"perf-consumer-{random.randrange(100_000)}")
    return settings | {
        "bootstrap.servers": options.bootstrap(),
        "group.id": options.get("group") or settings["group.id"],
        "receive.buffer.bytes": str(options.number("socket-buffer-size", 2 * 1024 * 1024)),
        "max.partition.fetch.bytes": str(options.number("fetch-size", 1024 * 1024)),
        "auto.offset.reset": "latest" if "from-latest" in options else "earliest",
    }


Take = Callable[["Consumer", int], tuple[int, int]]


def taker() -> Take:
    """A function that polls, with how many records are wanted; it gives how many came, and their bytes. As Kafka's tool
    it may take some more: a poll is counted as a whole."""
    try:
        import pyarrow.compute as columns
    except ImportError:
        return take_records

    def take(consumer: "Consumer", wanted: int) -> tuple[int, int]:
        most = min(-(-wanted // _POLL_RECORDS) * _POLL_RECORDS, _POLL_RECORDS_MAX)
        batch = consumer.poll_arrow(_POLL_S, max_records=most)
        sizes = [columns.sum(columns.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value")]
        return batch.num_rows, sum(sizes)

    return take


def take_records(consumer: "Consumer", _wanted: int) -> tuple[int, int]:
    records = consumer.poll(_POLL_S, max_records=_POLL_RECORDS)
    return len(records), sum(len(record.key or b"") + len(record.value or b"") for record in records)


class Run:
    """What was read so far, and until when."""

    def __init__(self, plan: Plan, take: Take) -> None:
        from headwater.cli.kafka.perf_lines import JoinTime

        self._plan = plan
        self._take = take
        self._count = 0
        self._size_bytes = 0
        self._began_ms = self._ended_ms = _now_ms()
        self._joining = JoinTime(self._began_ms)

    def assigned(self, partitions: Sequence[object]) -> None:
        self._joining.assigned(partitions, _now_ms())

    def revoked(self, partitions: Sequence[object]) -> None:
        self._joining.revoked(partitions, _now_ms())

    def read(self, consumer: "Consumer") -> None:
        plan = self._plan
        now_ms = heard_ms = reported_ms = _now_ms()
        reported = (0, 0)
        while self._count < plan.record_count and now_ms - heard_ms <= plan.timeout_ms:
            count, size_bytes = self._take(consumer, plan.record_count - self._count)
            now_ms = _now_ms()
            if not count:
                continue
            heard_ms = now_ms
            self._count += count
            self._size_bytes += size_bytes
            if now_ms - reported_ms >= plan.interval_ms:
                if plan.is_detailed:
                    self._report(reported, reported_ms, now_ms)
                reported, reported_ms = (self._size_bytes, self._count), now_ms
        self._ended_ms = _now_ms()

    def _report(self, before: tuple[int, int], since_ms: int, now_ms: int) -> None:
        from headwater.cli.kafka.perf_lines import Stretch, read_line

        size_bytes, count = self._size_bytes - before[0], self._count - before[1]
        stretch = Stretch(size_bytes, count, now_ms - since_ms, self._joining.since_last_asked())
        sys.stdout.write(read_line(f"{self._time(now_ms)}, 0", self._size_bytes, self._count, stretch))
        sys.stdout.flush()

    def end(self) -> str:
        from headwater.cli.kafka.perf_lines import Stretch, read_line

        said = ""
        if self._count < self._plan.record_count:
            said = (
                f"WARNING: Exiting before consuming the expected number of records: timeout ({self._plan.timeout_ms} ms) "
                "exceeded. You can use the --timeout option to increase the timeout.\n"
            )
        if not self._plan.is_detailed:
            times = f"{self._time(self._began_ms)}, {self._time(self._ended_ms)}"
            taken_ms = self._ended_ms - self._began_ms
            stretch = Stretch(self._size_bytes, self._count, taken_ms, self._joining.total_ms)
            said += read_line(times, self._size_bytes, self._count, stretch)
        return said

    def _time(self, when_ms: int) -> str:
        return self._plan.time_text(datetime.fromtimestamp(when_ms / 1000).astimezone())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

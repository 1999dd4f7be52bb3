"""What the performance tools count, and the lines that they say it in."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.cli.kafka.java_text import date_format, number, ratio
from headwater.cli.kafka.options import Usage
from headwater.cli.kafka.perf_lines import JoinTime, SendStatistics, Stretch, metric_lines, read_header, read_line
from headwater.cli.kafka.producer_perf_options import plan_of
from headwater.cli.kafka.producer_perf_test import Counted

MIB = 1024 * 1024


def test_a_run_in_one_line() -> None:
    statistics = SendStatistics(1000, 0, 5000)
    for latency_ms in range(1, 1001):
        assert statistics.record(latency_ms, 1024, 1000) == ""
    assert statistics.total(2000) == (
        "1000 records sent, 500.000000 records/sec (0.49 MB/sec), 500.50 ms avg latency, 1000.00 ms max latency, "
        "501 ms 50th, 951 ms 95th, 991 ms 99th, 1000 ms 99.9th.\n"
    )


def test_nothing_was_acknowledged() -> None:
    assert SendStatistics(10, 0, 5000).total(100) == (
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th.\n"
    )


def test_each_interval_has_a_line_about_itself() -> None:
    statistics = SendStatistics(100, 0, 1000)
    assert statistics.record(500, MIB, 500) == ""
    assert statistics.record(30, MIB, 1000) == (
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 265.0 ms avg latency, 500.0 ms max latency.\n"
    )
    assert statistics.record(10, MIB, 3000) == (
        "1 records sent, 0.5 records/sec (0.50 MB/sec), 10.0 ms avg latency, 10.0 ms max latency.\n"
    )
    assert ", 180.00 ms avg latency, 500.00 ms max latency, " in statistics.total(3000)


def test_after_the_warm_up_only_the_steady_state_is_told() -> None:
    every, steady = SendStatistics(100, 0, 1000), SendStatistics(50, 0, 1000, is_steady=True)
    every.is_quiet = True
    assert every.record(1, 1, 1000) == ""
    assert steady.record(1, 1, 1000).startswith("In steady state.\n1 records sent, ")
    assert steady.record(1, 1, 2000).startswith("1 records sent, ")
    assert steady.total(2000).startswith("2 steady state records sent, 1.000000 records/sec")


def test_latencies_of_a_long_run_are_sampled() -> None:
    statistics = SendStatistics(1_000_000, 0, 1 << 40)
    for at in range(1000):
        statistics.record(at % 2, 1, 0)
    assert "1.00 ms max latency, 0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th." in statistics.total(1)


def test_lines_of_the_consumer() -> None:
    assert read_header(detailed=False).startswith("start.time, end.time, data.consumed.in.MB, MB.sec, ")
    assert read_header(detailed=True).startswith("time, threadId, data.consumed.in.MB, MB.sec, ")
    line = read_line("a, b", 4 * MIB, 1000, Stretch(2 * MIB, 500, 4000, 3000))
    assert line == "a, b, 4.0000, 0.5000, 1000, 125.0000, 3000, 1000, 2.0000, 500.0000\n"
    assert len(line.split(", ")) == len(read_header(detailed=False).split(", "))


def test_the_time_of_joining_counts_until_there_are_partitions() -> None:
    joining = JoinTime(1000)
    joining.assigned(["a", "b"], 4000)
    joining.assigned(["c"], 5000)
    assert (joining.total_ms, joining.since_last_asked(), joining.since_last_asked()) == (3000, 3000, 0)
    joining.revoked(["a"], 6000)
    joining.revoked(["b", "c"], 7000)
    joining.assigned(["a"], 7500)
    assert (joining.total_ms, joining.since_last_asked()) == (3500, 500)


def test_metrics_stand_in_columns() -> None:
    assert metric_lines("producer-metrics", "me", {"b-longer": 1, "a": 2.5}) == (
        "\n"
        "Metric Name                                Value\n"
        "producer-metrics:a:{client-id=me}        : 2.500\n"
        "producer-metrics:b-longer:{client-id=me} : 1.000\n"
    )


def test_numbers_as_java_prints_them() -> None:
    assert [number(each, 2) for each in (1.005, math.nan, math.inf, -math.inf)] == [
        "1.00",
        "NaN",
        "Infinity",
        "-Infinity",
    ]
    assert (ratio(6, 3), ratio(1, 0)) == (2, math.inf)
    assert math.isnan(ratio(0, 0))


def test_dates_as_java_prints_them() -> None:
    at = datetime(2026, 3, 4, 15, 6, 7, 89_000, UTC)
    assert date_format("yyyy-MM-dd HH:mm:ss:SSS")(at) == "2026-03-04 15:06:07:089"
    assert date_format("d.M.yy 'at' h 'o''clock' ''")(at) == "4.3.26 at 3 o'clock '"
    assert date_format("D")(at) == "63"
    with pytest.raises(Usage, match="Illegal pattern character 'j'"):
        date_format("j")
    with pytest.raises(Usage, match="Unterminated quote"):
        date_format("'x")


def test_some_that_are_alike_are_counted_as_each_would_be() -> None:
    for expected in (10, 1_500_000):
        at_once, one_by_one = SendStatistics(expected, 0, 9000), SendStatistics(expected, 0, 9000)
        for latency_ms, count in ((5, 1), (7, 4), (2, 2), (9, 3)):
            at_once.record(latency_ms, 100, 50, count)
            for _ in range(count):
                one_by_one.record(latency_ms, 100, 50)
        assert at_once.total(1000) == one_by_one.total(1000)


class Ended:
    """A delivery that has an end, of a batch of its own or of another's."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error
        self.callback: Callable[[Any], object] | None = None

    def current(self) -> "Ended":
        return self

    def add_done_callback(self, callback: "Callable[[Any], object]") -> None:
        assert self.callback is None, "asked once for each batch"
        self.callback = callback

    def exception(self, timeout: float) -> KafkaError | None:
        assert timeout == 0
        return self._error

    def end(self) -> None:
        assert self.callback is not None
        self.callback(self)


PLAN = plan_of(["--bootstrap-server=h:1", "--topic=t", "--num-records=9", "--throughput=-1", "--record-size=5"])


def test_records_are_counted_when_their_batch_has_ended_and_not_before() -> None:
    counted = Counted(PLAN)
    first, second = Ended(), Ended()
    for delivery in (first, first, second, second):
        counted.sent(delivery, 0, 5)  # type: ignore[arg-type]
    assert counted.totals().startswith("0 records sent, ")
    first.end()
    assert counted.totals().startswith("2 records sent, ")
    second.end()
    assert counted.totals().startswith("4 records sent, ")
    counted.sent(second, 0, 5)  # type: ignore[arg-type]  # its batch had gone, and come back, before `send` returned
    assert counted.totals().startswith("5 records sent, ")


def test_records_that_failed_are_told_and_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    counted = Counted(PLAN)
    failed = Ended(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too slow"))
    for _ in range(2):
        counted.sent(failed, 0, 5)  # type: ignore[arg-type]
    failed.end()
    assert counted.totals().startswith("0 records sent, ")
    assert capsys.readouterr().err == "org.apache.kafka.common.errors.TimeoutException: too slow\n" * 2


def test_the_steady_state_counts_what_was_sent_in_it() -> None:
    counted = Counted(PLAN)
    batch = Ended()
    counted.sent(batch, 0, 5)  # type: ignore[arg-type]
    batch.end()
    counted.begin_steady_state(0)
    later = Ended()
    counted.sent(later, 0, 5)  # type: ignore[arg-type]
    later.end()
    every, steady = counted.totals().splitlines()
    assert every.startswith("2 records sent, ")
    assert steady.startswith("1 steady state records sent, ")

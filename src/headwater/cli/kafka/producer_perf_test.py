"""`kafka-producer-perf-test`: sends records as quickly as it may, and tells how quickly that was."""

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headwater.cli.kafka.perf_lines import SendStatistics
    from headwater.cli.kafka.producer_perf_options import Plan
    from headwater.client import Producer
    from headwater.client.producer.batch import Delivery

_LETTERS: Final = bytes(65 + each % 26 for each in range(256))
_POOL_BYTES: Final = 1 << 20
_NAP_S: Final = 0.002  # shorter ones are left out, and made up for later


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.exits import ended
    from headwater.cli.kafka.producer_perf_options import plan_of

    return ended(lambda: _run(plan_of(arguments)), lambda: "")


def _run(plan: "Plan") -> int:
    from headwater.cli.kafka.perf_lines import metric_lines
    from headwater.client import Producer

    if plan.warmup_count:
        sys.stdout.write(
            f"Warmup first {plan.warmup_count} records. "
            "Steady state results will print after the complete test summary.\n"
        )
    producer = Producer(plan.settings)
    try:
        if plan.transaction_ms is not None:
            producer.init_transactions()
        counted = Counted(plan)
        _send_all(producer, plan, counted)
        producer.flush()
        sys.stdout.write(counted.totals())
        if plan.print_metrics:
            sys.stdout.write(metric_lines("producer-metrics", plan.settings["client.id"], producer.metrics()))
        producer.close()
    except BaseException:
        producer.close(0)
        raise
    return 0


def payload_source(plan: "Plan") -> Callable[[int], bytes]:
    """The payload of the record with this number. Letters at random are cut out of a long text of them: as hard to
    compress within a batch, and much quicker than making them anew."""
    if plan.payloads:
        return lambda _: random.choice(plan.payloads)
    size_bytes = plan.record_bytes
    if size_bytes is None:
        return lambda number: str(number).encode()
    pool = random.randbytes(_POOL_BYTES + size_bytes).translate(_LETTERS)

    def cut(_: int) -> bytes:
        at = int(random.random() * _POOL_BYTES)
        return pool[at : at + size_bytes]

    return cut


def _send_all(producer: "Producer", plan: "Plan", counted: "Counted") -> None:
    payload_of = payload_source(plan)
    topic, per_second, transaction_ms = plan.topic, plan.records_per_second, plan.transaction_ms
    began = time.monotonic()
    in_transaction, transaction_began_ms = False, 0
    for number in range(plan.record_count):
        payload = payload_of(number)
        if transaction_ms is not None and not in_transaction:
            producer.begin_transaction()
            in_transaction, transaction_began_ms = True, _now_ms()
        now_ms = _now_ms()
        if number == plan.warmup_count and number:
            counted.begin_steady_state(now_ms)
        try:
            counted.sent(producer.send(topic, payload), now_ms, len(payload))
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
            _tell(error)
        if transaction_ms is not None and now_ms - transaction_began_ms >= transaction_ms:
            producer.commit_transaction()
            in_transaction = False
        if per_second > 0:
            ahead_s = (number + 1) / per_second - (time.monotonic() - began)
            if ahead_s >= _NAP_S:
                time.sleep(ahead_s)
    if in_transaction:
        producer.commit_transaction()


class Counted:
    """The statistics of a run: of all records, and of those after the warm-up."""

    def __init__(self, plan: "Plan") -> None:
        from headwater.cli.kafka.perf_lines import SendStatistics

        self._plan = plan
        self._statistics = [SendStatistics(plan.record_count, _now_ms(), plan.interval_ms)]
        self._batch: object = None
        self._group = _Group(())

    def begin_steady_state(self, now_ms: int) -> None:
        from headwater.cli.kafka.perf_lines import SendStatistics

        expected = self._plan.record_count - self._plan.warmup_count
        self._statistics[0].is_quiet = True
        self._statistics.append(SendStatistics(expected, now_ms, self._plan.interval_ms, is_steady=True))
        self._batch = None

    def sent(self, delivery: "Delivery", sent_ms: int, size_bytes: int) -> None:
        """Records that go into the same batch share their end, so only the first of them asks to be told of it."""
        batch = delivery.current()
        if batch is self._batch:
            self._group.add(sent_ms, size_bytes)
            return
        self._batch = batch
        self._group = _Group(tuple(self._statistics))
        self._group.add(sent_ms, size_bytes)
        delivery.add_done_callback(self._group.end)

    def totals(self) -> str:
        now_ms = _now_ms()
        return "".join(each.total(now_ms) for each in self._statistics)


class _Group:
    """Records of one batch. It may end, in any thread, before the last of them was added: that one is counted then."""

    def __init__(self, statistics: "tuple[SendStatistics, ...]") -> None:
        self._statistics = statistics
        self._waiting: deque[tuple[int, int]] = deque()
        self._counting = Lock()
        self._ended = False
        self._error: KafkaError | None = None

    def add(self, sent_ms: int, size_bytes: int) -> None:
        self._waiting.append((sent_ms, size_bytes))
        if self._ended:
            self._count()

    def end(self, delivery: "Delivery") -> None:
        self._error = delivery.exception(0)
        self._ended = True
        self._count()

    def _count(self) -> None:
        with self._counting:
            now_ms = _now_ms()
            waiting = self._waiting
            while waiting:
                alike = waiting.popleft()
                count = 1
                while waiting and waiting[0] == alike:
                    waiting.popleft()
                    count += 1
                self._tell(now_ms - alike[0], alike[1], now_ms, count)

    def _tell(self, latency_ms: int, size_bytes: int, now_ms: int, count: int) -> None:
        if self._error is not None:
            for _ in range(count):
                _tell(self._error)
            return
        said = "".join(each.record(latency_ms, size_bytes, now_ms, count) for each in self._statistics)
        if said:
            sys.stdout.write(said)
            sys.stdout.flush()


def _tell(error: KafkaError) -> None:
    from headwater.cli.kafka.exits import told_text

    sys.stderr.write(f"{told_text(error)}\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""`kafka-producer-perf-test`: sends records as quickly as it may, and tells how quickly that was."""

import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headwater.cli.kafka.perf_lines import SendStatistics
    from headwater.cli.kafka.producer_perf_options import Plan
    from headwater.client import Producer
    from headwater.client.producer.batch import Callback

_LETTERS: Final = bytes(65 + each % 26 for each in range(256))
_POOL_BYTES: Final = 1 << 20
_NAP_S: Final = 0.002  # shorter ones are left out, and made up for later


def main() -> NoReturn:
    sys.exit(script(sys.argv[1:]))


def script(arguments: Sequence[str]) -> int:
    from headwater.cli.kafka.endings import ended
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
        counted = _Counted(plan)
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


def _send_all(producer: "Producer", plan: "Plan", counted: "_Counted") -> None:
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
            producer.send(topic, payload, on_delivery=counted.callback(now_ms, len(payload)))
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


class _Counted:
    """The statistics of a run: of all records, and of those after the warm-up."""

    def __init__(self, plan: "Plan") -> None:
        from headwater.cli.kafka.perf_lines import SendStatistics

        self._plan = plan
        self._all = SendStatistics(plan.record_count, _now_ms(), plan.interval_ms)
        self._steady: SendStatistics | None = None
        self._sent = (-1, -1)
        self._callback: Callback | None = None

    def begin_steady_state(self, now_ms: int) -> None:
        from headwater.cli.kafka.perf_lines import SendStatistics

        expected = self._plan.record_count - self._plan.warmup_count
        self._steady = SendStatistics(expected, now_ms, self._plan.interval_ms, is_steady=True)
        self._all.is_quiet = True
        self._sent = (-1, -1)

    def callback(self, sent_ms: int, size_bytes: int) -> "Callback":
        """One for all records of the same size in the same millisecond."""
        if self._callback is None or self._sent != (sent_ms, size_bytes):
            self._sent = (sent_ms, size_bytes)
            self._callback = _callback(sent_ms, size_bytes, self._all, self._steady)
        return self._callback

    def totals(self) -> str:
        now_ms = _now_ms()
        return self._all.total(now_ms) + (self._steady.total(now_ms) if self._steady is not None else "")


def _callback(sent_ms: int, size_bytes: int, every: "SendStatistics", steady: "SendStatistics | None") -> "Callback":
    def told(error: KafkaError | None, _metadata: object) -> None:
        if error is not None:
            _tell(error)
            return
        now_ms = time.time_ns() // 1_000_000
        said = every.record(now_ms - sent_ms, size_bytes, now_ms)
        if steady is not None:
            said += steady.record(now_ms - sent_ms, size_bytes, now_ms)
        if said:
            sys.stdout.write(said)
            sys.stdout.flush()

    return told


def _tell(error: KafkaError) -> None:
    from headwater.cli.kafka.endings import told_text

    sys.stderr.write(f"{told_text(error)}\n")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

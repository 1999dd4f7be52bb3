"""What the producer counts, on a clock that jumps."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.client.producer.metrics import Window
from unit.client.producer.producer_fakes import HOLD, Rig


def test_a_rate_follows_what_happens() -> None:
    window = Window(0.0)
    for second in range(10):
        window.add(100, float(second))
    assert window.rate(10.0, 0.0) == pytest.approx(100)
    for second in range(10, 60):
        window.add(100, float(second))
    assert window.rate(60.0, 0.0) == pytest.approx(100, rel=0.1)
    assert window.rate(75.0, 0.0) == pytest.approx(50, rel=0.1)
    assert window.rate(200.0, 0.0) == 0


def test_counts_and_gauges() -> None:
    rig = Rig()
    rig.send(b"v" * 100)
    rig.flush()
    rig.logs.next_answers = [int(ErrorCode.INVALID_RECORD)]
    rig.send(b"bad")
    rig.flush()
    rig.logs.next_answers = [HOLD]
    rig.send(b"held")
    rig.put(b"waits")
    found = rig.core.metrics()
    assert (found["record-send-total"], found["record-error-total"]) == (1, 1)
    assert (found["requests-in-flight"], found["batches-waiting"], found["topics"]) == (1, 1, 1)
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"] - rig.core.accumulator.used_bytes
    assert found["request-latency-avg"] == pytest.approx(1, abs=0.1)  # the round trip of the fake world, in ms
    assert found["compression-rate-avg"] == 1

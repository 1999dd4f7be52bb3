"""Rates of quotas against a naive model that forgets nothing, and what they are for: who waits as told keeps to the
quota.
"""

from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.quotas.rates import Rate, Window

WINDOWS = st.builds(Window, st.integers(1, 12), st.sampled_from([1, 10, 1000, 2500]))
STEPS = st.lists(
    st.tuples(st.sampled_from(["record", "measure"]), st.integers(0, 6000), st.integers(0, 10_000)), max_size=80
)


class Naive:
    """Every sample that there ever was, as [beginning, last event, value]. A sample that does not count any more is as
    good as new.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.samples: list[list[float]] = []

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples or now_ms - self.samples[-1][0] >= self.window.window_ms:
            self.samples.append([now_ms, now_ms, 0.0])
        self.samples[-1][1] = now_ms
        self.samples[-1][2] += value

    def per_second(self, now_ms: int) -> float:
        kept = self.window.samples + 1
        for sample in self.samples:
            if now_ms - sample[1] >= self.window.samples * self.window.window_ms:
                sample[:] = [now_ms, now_ms, 0.0]
        began_ms = min((sample[0] for sample in self.samples[-kept:]), default=now_ms)
        elapsed_ms = now_ms - began_ms
        whole = elapsed_ms // self.window.window_ms
        while whole < self.window.samples - 1:
            elapsed_ms += self.window.window_ms
            whole += 1
        return sum(sample[2] for sample in self.samples) * 1000 / max(elapsed_ms, 1)


@given(WINDOWS, STEPS)
def test_a_rate_is_what_the_naive_model_says(window: Window, steps: list[tuple[str, int, int]]) -> None:
    rate, naive, now_ms = Rate(window), Naive(window), 0
    for what, later_ms, value in steps:
        now_ms += later_ms
        if what == "record":
            rate.record(value, now_ms)
            naive.record(value, now_ms)
        else:
            assert abs(rate.per_second(now_ms) - naive.per_second(now_ms)) < 1e-6
    assert abs(rate.per_second(now_ms) - naive.per_second(now_ms)) < 1e-6


@given(
    st.integers(10, 5000),
    st.lists(
        st.tuples(st.floats(0.01, 1.0), st.sampled_from([0, 0, 0, 1, 30, 700, 20_000])), min_size=20, max_size=120
    ),
)
def test_who_waits_as_told_keeps_to_the_quota(bound: int, requests: list[tuple[float, int]]) -> None:
    """Of requests that are no larger than a second's worth: what counts covers ten seconds at least, and is never more
    than eleven seconds' worth and a request. (Of larger ones Apache Kafka's rates let more through, because all of a
    request is forgotten at once.)
    """
    rate, now_ms, sent = Rate(Window()), 0, 0.0
    for share, pause_ms in requests:
        now_ms += pause_ms
        rate.record(share * bound, now_ms)
        sent += share * bound
        assert sent <= 1.2 * bound * now_ms / 1000 + 13 * bound
        now_ms += rate.throttle_ms(bound, now_ms)

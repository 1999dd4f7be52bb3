"""The rate of a quota: samples, how long they count, over which time they are measured,
and how long one has to wait.
"""

import pytest

from headwater.broker.quotas.rates import Rate, TokenBucket, Window

WINDOW = Window()  # 11 samples of 1 s


def test_one_request_at_the_start_is_measured_over_ten_windows() -> None:
    rate = Rate(WINDOW)
    rate.record(20_000, 5)
    assert rate.measured_ms(5) == 10_000
    assert rate.per_second(5) == 2000.0


def test_the_time_that_is_measured_grows_with_the_oldest_sample() -> None:
    rate = Rate(WINDOW)
    for second in range(11):
        rate.record(100, 1000 * second)
    assert rate.measured_ms(10_000) == 10_000
    assert rate.measured_ms(10_700) == 10_700
    assert rate.per_second(10_000) == 110.0


def test_what_happened_counts_until_eleven_windows_after_its_sample_s_last_event() -> None:
    rate = Rate(WINDOW)
    rate.record(100, 0)
    rate.record(100, 900)  # the same sample
    assert rate.per_second(11_899) > 0
    assert not rate.is_idle(11_899)
    assert rate.per_second(11_900) == 0
    assert rate.is_idle(11_900)


def test_idle_time_costs_nothing() -> None:
    rate = Rate(WINDOW)
    rate.record(100, 0)
    rate.record(1000, 100_000)
    assert rate.per_second(100_000) == 100.0


def test_what_was_recorded_too_much_can_be_taken_back() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, 0)
    rate.record(-400, 10)
    assert rate.per_second(10) == pytest.approx(600 / 10.01)


def test_who_keeps_to_the_bound_need_not_wait() -> None:
    rate = Rate(WINDOW)
    rate.record(10_000, 0)
    assert rate.throttle_ms(1000.0, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(1000.0, 0) == 1


def test_the_wait_makes_up_for_what_was_too_much() -> None:
    """Twice of what the time allows: the same time again, as Apache Kafka has it."""
    rate = Rate(WINDOW)
    rate.record(20_000, 0)
    assert rate.throttle_ms(1000.0, 0) == 10_000


def test_a_wait_fits_into_an_answer() -> None:
    rate = Rate(WINDOW)
    rate.record(1e18, 0)
    assert rate.throttle_ms(1.0, 0) == (1 << 31) - 1


def test_other_windows() -> None:
    rate = Rate(Window(samples=3, window_ms=2000))
    rate.record(400, 0)
    assert rate.measured_ms(0) == 4000
    assert rate.per_second(5999) > 0
    assert rate.per_second(6000) == 0


def test_a_window_of_one_sample_is_never_empty() -> None:
    rate = Rate(Window(samples=1, window_ms=1000))
    assert rate.per_second(0) == 0
    rate.record(10, 0)
    assert rate.measured_ms(0) == 1


def test_a_bucket_is_full_at_first_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.throttle_ms(2.0, 50) == 0
    bucket.take(22, 2.0, 50)
    assert bucket.throttle_ms(2.0, 50) == 0
    bucket.take(5, 2.0, 50)
    assert bucket.throttle_ms(2.0, 50) == 2500
    assert bucket.throttle_ms(2.0, 2549) == 1  # half a token short of nothing, rounded up
    assert bucket.throttle_ms(2.0, 2550) == 0


def test_a_bucket_holds_no_more_than_its_windows_allow() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(1, 1.0, 0)
    bucket.take(12, 1.0, 1_000_000)
    assert bucket.throttle_ms(1.0, 1_000_000) == 1000
    assert not bucket.is_idle(1_000_500)
    assert bucket.throttle_ms(1.0, 1_011_000) == 0
    assert bucket.is_idle(1_022_000)

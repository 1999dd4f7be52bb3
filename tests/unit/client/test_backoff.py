"""Pauses double up to a limit, with jitter around them."""

from headwater.client.backoff import Backoff


def test_pauses_double_up_to_the_limit() -> None:
    backoff = Backoff(first_ms=100, max_ms=1000, jitter=0.0)
    assert [backoff.delay_ms(attempt, 0.5) for attempt in (0, 1, 2, 3, 4, 99)] == [100, 200, 400, 800, 1000, 1000]


def test_jitter_goes_both_ways() -> None:
    backoff = Backoff(first_ms=100, max_ms=1000, jitter=0.2)
    assert backoff.delay_ms(0, 0.0) == 80
    assert backoff.delay_ms(0, 0.5) == 100
    assert backoff.delay_ms(0, 0.999999) == 120

"""How far behind an output is, from answers that were given one after the other."""

from headwater.base.ids import TopicPartition
from headwater.demo.observing import lag_of

FIRST, SECOND = TopicPartition("website.views", 0), TopicPartition("website.views", 1)


def test_a_group_that_went_on_since_the_ends_were_asked_for_is_not_ahead() -> None:
    assert lag_of({FIRST: 10, SECOND: 20}, {FIRST: 25, SECOND: 17}) == 3


def test_what_was_never_committed_is_not_read() -> None:
    assert lag_of({FIRST: 10, SECOND: 20}, {SECOND: 20}) == 10

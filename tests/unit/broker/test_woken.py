"""What was parked is answered when its turn comes, whatever goes wrong with what stands before it."""

from typing import Any

from headwater.broker.deferred import Deferred


class Broken:
    """Waits for the broker itself: there is nobody to tell."""

    def answer(self) -> None:
        raise ZeroDivisionError


class BrokenRequest(Broken):
    def __init__(self) -> None:
        self.deferred = Deferred()


class Sound:
    is_answered = False

    def answer(self) -> None:
        self.is_answered = True


def test_one_that_fails_takes_nobody_with_it(lab: Any) -> None:
    told: list[Any] = []
    request, sound = BrokenRequest(), Sound()
    request.deferred.listen(told.append)
    for parked in (Broken(), request, sound):
        lab.broker.wake(parked)
    lab.settle()
    assert [type(each) for each in told] == [ZeroDivisionError]
    assert sound.is_answered

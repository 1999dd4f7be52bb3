"""Deliveries that several threads look at, and records that come while something else is under way."""

from collections.abc import Callable, Iterator
from typing import Any

from headwater.base.errors import ErrorCode
from unit.client.producer.producer_fakes import Rig


class Interrupted(list[Any]):
    """Parts of a batch; another thread comes in between when they are looked through."""

    def __init__(self, parts: list[Any], other: Callable[[], object]) -> None:
        super().__init__(parts)
        self._other: Callable[[], object] | None = other

    def __reversed__(self) -> Iterator[Any]:
        for part in super().__reversed__():
            other, self._other = self._other, None
            if other is not None:
                other()
            yield part


def test_two_threads_that_follow_a_record_into_the_parts_of_its_batch_find_the_same() -> None:
    rig = Rig()
    rig.logs.next_answers = [ErrorCode.MESSAGE_TOO_LARGE]
    deliveries = [rig.put(b"%d" % number) for number in range(10)]
    batch = deliveries[0].current()
    rig.flush()
    assert batch.parts is not None
    for each, delivery in enumerate(deliveries):
        batch.parts = Interrupted(batch.parts, delivery.current)
        assert delivery.metadata().offset == each

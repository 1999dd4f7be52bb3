"""One answer out of many: a request that names several groups is answered when the last of them is."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.broker.deferred import Deferred


def gather(parts: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:
    """`parts` are answers or Deferreds; gives `combine` of the answers, in order, or a Deferred of it."""
    answers = list(parts)
    awaited = [at for at, part in enumerate(answers) if isinstance(part, Deferred)]
    if not awaited:
        return combine(answers)
    waiting = [answers[at] for at in awaited]
    left = len(awaited)

    def cancelled() -> None:
        for part in waiting:
            part.cancel()

    whole = Deferred(cancelled)

    def listener(at: int) -> Callable[[Any], None]:
        def settled(answer: Any) -> None:
            nonlocal left
            answers[at] = answer
            left -= 1
            if left == 0:
                whole.complete(combine(answers))

        return settled

    for at, part in zip(awaited, waiting, strict=True):
        part.listen(listener(at))
    return whole

"""Functions that take whole columns, in expressions of rows.

An expression with such calls is also written as a generator (`generated.Source(by_column=True)`): where a row comes to
a call, it hands out the arguments and waits. So everything around a call is worked out as for one row alone: a branch
of CASE that is not taken calls nothing, and what was worked out before is not worked out again. When all rows of a run
wait or are done, the first call in the text that somebody waits for is made, with all who wait for it; nobody comes
back to it later, so each call of an expression is one call for a run.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.sql import budget
from headwater.sql.functions.whole_calls import Arguments, Failed, WholeCall

Note = Callable[[str, BaseException], None]
Waiting = Generator[tuple[int, Arguments], Any, Any]  # hands out the place of a call in the text, and its arguments


class _Notes:
    """What rows tell, whichever of them runs."""

    def __init__(self) -> None:
        self.at = 0
        self.seen: list[tuple[int, str, BaseException]] = []

    def note(self, what: str, error: BaseException) -> None:
        self.seen.append((self.at, what, error))

    def tell(self, note: Note) -> None:
        """In the order of the rows."""
        for _, what, error in sorted(self.seen, key=lambda each: each[0]):
            note(what, error)


@dataclass(frozen=True, slots=True)
class ByColumn:
    """An expression, or several, for many rows at once: what they give for one row after the other."""

    begin: Callable[[Any, Note], Waiting]
    calls: Sequence[WholeCall]

    def run(self, rows: Sequence[Any], note: Note) -> list[Any]:
        notes = _Notes()
        results: list[Any] = [None] * len(rows)
        waiting: dict[int, list[tuple[int, Waiting, Arguments, int]]] = {}

        def go_on(at: int, row: Waiting, step: Callable[[Any], tuple[int, Arguments]], given: Any) -> None:
            notes.at = at
            try:
                call, arguments = step(given)
            except StopIteration as end:
                results[at] = end.value
            else:
                waiting.setdefault(call, []).append((at, row, arguments, budget.left()))

        for at, each in enumerate(rows):
            row = self.begin(each, notes.note)
            go_on(at, row, row.send, None)
        while waiting:
            call = min(waiting)
            together = waiting.pop(call)
            outcomes = self.calls[call]([arguments for _, _, arguments, _ in together])
            for (at, row, _, steps), outcome in zip(together, outcomes, strict=True):
                budget.go_on(steps)
                if type(outcome) is Failed:
                    go_on(at, row, row.throw, outcome.error)
                else:
                    go_on(at, row, row.send, outcome)
        notes.tell(note)
        return results

"""Functions that take whole columns, in expressions of rows.

An expression with such calls is also written as a generator (`generated.Source(by_column=True)`): where a row comes to
a call, it hands out the arguments and waits. So everything around a call is worked out as for one row alone: a branch
of CASE that is not taken calls nothing, and what was worked out before is not worked out again. When all rows of a run
wait or are done, the first call in the text that somebody waits for is made, with all who wait for it. Nobody comes
back to it later but in REDUCE, item by item: so each call of an expression is one call for a run, and in REDUCE as many
as the longest array has items.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql import budget
from headwater.sql.functions.whole_calls import Arguments, Failed, Waiting, WholeCall

_ITEMS_MAX: Final = 8_000  # of an array, in one call
Note = Callable[[str, BaseException], None]


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
        """Each row has a budget of its own."""
        notes = _Notes()
        results = self._run(rows, notes, shares=False)
        notes.tell(note)
        return results

    def values(self, rows: Sequence[Any]) -> list[Any]:
        """Of an expression that notes nothing, for the items of one row: they share its budget, and what one raises
        ends them all.
        """
        return self._run(rows, _Notes(), shares=True)

    def _run(self, rows: Sequence[Any], notes: _Notes, *, shares: bool) -> list[Any]:
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
                if not shares:
                    budget.go_on(steps)
                if type(outcome) is Failed:
                    go_on(at, row, row.throw, outcome.error)
                else:
                    go_on(at, row, row.send, outcome)
        return results


class ColumnLambda:
    """A lambda that calls functions of whole columns, in one row: with one item after the other, or with all."""

    __slots__ = ("_by_column", "_evaluate", "_outer")

    def __init__(self, outer: list[Any], evaluate: Callable[[list[Any]], Any], by_column: ByColumn) -> None:
        self._outer, self._evaluate, self._by_column = outer, evaluate, by_column

    def __call__(self, *given: Any) -> Any:
        budget.spend()
        return self._evaluate([*self._outer, *given])

    def of_all(self, items: Sequence[Arguments]) -> list[Any]:
        found: list[Any] = []
        for begin in range(0, len(items), _ITEMS_MAX):
            together = items[begin : begin + _ITEMS_MAX]
            for _ in together:
                budget.spend()
            found += self._by_column.values([[*self._outer, *each] for each in together])
        return found

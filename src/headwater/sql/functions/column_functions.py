"""A function of Python on columns of Arrow: for one row, and for all rows of a run in one call.

A result belongs to its own row alone, so rows give the same together and one by one. Where a call for many rows fails,
it is made again for each half of them, down to single rows: only a row that fails alone has failed, with the error that
it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.sql.arrow_types import arrow_type, from_arrow, to_arrow
from headwater.sql.coercion import reading
from headwater.sql.functions.whole_calls import Arguments, Failed
from headwater.sql.language.types import Base, Type
from headwater.sql.values import EvaluationError

_EXACT: Final = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)


class ColumnFunction:
    """`takes` are the types of its parameters; the last may come several times."""

    def __init__(self, call: Callable[..., Any], takes: Sequence[Type], gives: Type) -> None:
        self._call = call
        self._kinds = [arrow_type(each) for each in takes]
        self._changes = [to_arrow(each) for each in takes]
        self._exact = arrow_type(gives) if gives.base in _EXACT else None  # an array of this type has values that fit
        fit, change = reading(gives), from_arrow(gives)
        self._fit: Callable[[Any], Any] = fit if change is None else lambda value: fit(change(value))

    def one(self, *given: Any) -> Any:
        (outcome,) = self.all([given])
        if type(outcome) is Failed:
            raise outcome.error
        return outcome

    def all(self, rows: Sequence[Arguments]) -> list[Any]:
        """For each row its value, or `Failed`."""
        try:
            found = self._called(rows)
            results: list[Any] = found.to_pylist()
        except Exception as error:  # noqa: BLE001  the function may raise anything
            if len(rows) == 1:
                return [Failed(error)]
            half = len(rows) // 2
            return self.all(rows[:half]) + self.all(rows[half:])
        return results if found.type == self._exact else [self._fitted(each) for each in results]

    def _called(self, rows: Sequence[Arguments]) -> Any:
        """The array that the function gives."""
        import pyarrow as pa

        arrays = []
        for place, cells in enumerate(zip(*rows, strict=True)):
            at = min(place, len(self._kinds) - 1)
            change = self._changes[at]
            arrays.append(pa.array(cells if change is None else map(change, cells), self._kinds[at]))
        found = self._call(*arrays)
        if not isinstance(found, pa.Array | pa.ChunkedArray):
            raise EvaluationError(f"the function gives {type(found).__name__}, and no array of Arrow")
        if len(found) != len(rows):
            raise EvaluationError(f"the function gives {len(found)} rows for {len(rows) if len(rows) > 1 else 'one'}")
        return found

    def _fitted(self, value: Any) -> Any:
        try:
            return self._fit(value)
        except Exception as error:  # noqa: BLE001  only this row's result does not fit
            return Failed(error)

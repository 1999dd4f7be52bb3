"""A filter or a whole SELECT list as one function of a row, and as one of many rows where it calls functions that take
whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.sql import budget
from headwater.sql.expressions.column_calls import ByColumn, Note
from headwater.sql.expressions.generated import Code, Source


def filter_of(code: Code, what: str, note: Note) -> Callable[[Any], bool] | None:
    """Whether a row passes: one without a value, or for which the condition fails, does not. None: not compiled."""
    source = Source()
    lines = _filter_lines(source, code, what, source.bind(note))
    return None if lines is None else source.function(lines)


def filter_by_column(code: Code, what: str) -> ByColumn | None:
    """`filter_of` for many rows. None: it calls nothing that takes whole columns, or is not compiled."""
    source = Source(by_column=True)
    return _by_column(source, _filter_lines(source, code, what, "note"))


def _filter_lines(source: Source, code: Code, what: str, note: str) -> list[str] | None:
    lines = [f"{source.bind(budget.begin)}()"] if code.spends else []
    try:
        test = code.write(source)
    except RecursionError:
        return None
    return [
        "if row is None:",
        "    return False",
        *lines,
        "try:",
        f"    found = {test}",
        "except Exception as error:",
        f"    {note}({source.bind(what)}, error)",
        "    return False",
        "return found is True",
    ]


def select_of(columns: Sequence[tuple[str, Code]], note: Note) -> Callable[[Any], list[Any] | None] | None:
    """Rows to rows of these columns; a tombstone stays one, and a column that fails is NULL. None: not compiled."""
    source = Source()
    lines = _select_lines(source, columns, source.bind(note))
    return None if lines is None else source.function(lines)


def select_by_column(columns: Sequence[tuple[str, Code]]) -> ByColumn | None:
    """`select_of` for many rows. None: it calls nothing that takes whole columns, or is not compiled."""
    source = Source(by_column=True)
    return _by_column(source, _select_lines(source, columns, "note"))


def value_by_column(code: Code) -> ByColumn | None:
    """Of an expression alone, which raises what it raises. None as above."""
    source = Source(by_column=True)
    try:
        lines = [f"return {code.write(source)}"]
    except RecursionError:
        return None
    return _by_column(source, lines)


def _select_lines(source: Source, columns: Sequence[tuple[str, Code]], note: str) -> list[str] | None:
    lines = ["if row is None:", "    return None"]
    items = []
    try:
        for place, (name, code) in enumerate(columns):
            if code.is_bare:
                items.append(code.write(source))
                continue
            if code.spends:
                lines.append(f"{source.bind(budget.begin)}()")
            lines += ["try:", f"    c{place} = {code.write(source)}", "except Exception as error:"]
            lines += [f"    {note}({source.bind(name)}, error)", f"    c{place} = None"]
            items.append(f"c{place}")
    except RecursionError:
        return None
    return [*lines, f"return [{', '.join(items)}]"]


def _by_column(source: Source, lines: Sequence[str] | None) -> ByColumn | None:
    made = source.function(lines) if lines is not None and source.calls else None
    return None if made is None else ByColumn(made, tuple(source.calls))

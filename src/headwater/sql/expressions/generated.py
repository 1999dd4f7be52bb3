"""Expressions as one Python function: what functions of functions do for a row, written out and compiled once.

`Compiled.evaluate` is a tree of functions, each of which calls the next. For the commonest nodes (columns, literals,
comparisons, arithmetic, AND, OR, NOT, IS NULL, IN, LIKE, CASE, CAST, calls) there is also `Compiled.code`, which writes
the same as an expression of Python; where a node has none, its function is called. A filter or a whole SELECT list
becomes one function of a row, and a generator where it calls functions that take whole columns (`row_functions`).

Both give the same values and the same errors, in the same order: the cases of expressions run both ways. So an operand
is left out only where its sibling decides and it could raise nothing itself (`is_safe`). What is written is made of
places in the row, whole numbers and names that are given here: no text of a statement gets into it. What Python refuses
to compile (it is nested too deeply) stays a tree of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql import budget
from headwater.sql.expressions.column_calls import Note
from headwater.sql.functions.whole_calls import Waiting, WholeCall

Evaluate = Callable[[list[Any]], Any]
_SMALL: Final = 1 << 63


class Source:
    """The text of one function, and what its names stand for. The row is called `row`. `by_column`: it is a generator,
    which waits at each of `calls`.
    """

    def __init__(self, *, by_column: bool = False) -> None:
        self.by_column = by_column
        self.calls: list[WholeCall] = []
        self.names: dict[str, Any] = {}
        self._by_identity: dict[int, str] = {}
        self._shared: dict[object, str] = {}
        self._variables = 0

    def bind(self, value: Any) -> str:
        """A name for a value."""
        known = self._by_identity.get(id(value))
        if known is None:
            known = self._by_identity[id(value)] = f"b{len(self.names)}"
            self.names[known] = value
        return known

    def variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def shared(self, key: object) -> str:
        """The variable of a value that is worked out once and read several times."""
        if key not in self._shared:
            self._shared[key] = self.variable()
        return self._shared[key]

    def waiting(self, call: WholeCall, given: Sequence[str]) -> str:
        """A call that is made for many rows at once."""
        self.calls.append(call)
        return f"(yield ({len(self.calls) - 1}, ({''.join(f'{each}, ' for each in given)})))"

    def function(self, lines: Sequence[str]) -> Callable[..., Any] | None:
        """None where Python does not compile it."""
        text = "\n    ".join((f"def of_row({'row, note' if self.by_column else 'row'}):", *lines))
        scope = {"__name__": __name__, "__builtins__": _BUILTINS, **self.names}
        try:
            exec(compile(text, "<sql>", "exec"), scope)  # noqa: S102  made of the names of this module alone
        except (SyntaxError, RecursionError, MemoryError):
            return None
        found: Callable[..., Any] = scope["of_row"]
        return found


_BUILTINS: Final = {"Exception": Exception, "float": float}  # what a pickled function finds elsewhere, too
Write = Callable[[Source], str]


@dataclass(frozen=True, slots=True)
class Code:
    """How an expression is written. `is_safe`: it raises nothing for values of the declared types; `never_null`;
    `spends`: it may use up a budget; `is_bare`: a column or a literal, which raises nothing for any value.
    """

    write: Write
    is_safe: bool = False
    never_null: bool = False
    spends: bool = False
    is_bare: bool = False


def calling(evaluate: Evaluate) -> Code:
    """Of a node that is not written out."""
    return Code(lambda source: f"{source.bind(evaluate)}(row)", spends=True)


def calling_with(value: Code, run: Callable[[Any, list[Any]], bool]) -> Code:
    """Of a test that is not written out, and that takes a value beside the row."""
    return Code(lambda source: f"{source.bind(run)}({value.write(source)}, row)", never_null=True, spends=True)


def column(place: int) -> Code:
    return Code(lambda _: f"row[{place}]", is_safe=True, is_bare=True)


def literal(value: Any) -> Code:
    def write(source: Source) -> str:
        if value is None or isinstance(value, bool):
            return str(value)
        is_number = type(value) is int and -_SMALL <= value < _SMALL
        return f"({value})" if is_number else source.bind(value)

    return Code(write, is_safe=True, never_null=value is not None, is_bare=True)


def sharing(operand: Code, make: Callable[[Code], Code]) -> Code:
    """What `make` writes with the operand's value, however often it does: the operand is written and worked out once,
    before everything else.
    """
    key = object()
    body = make(Code(lambda source: source.shared(key), is_safe=True, never_null=operand.never_null))

    def write(source: Source) -> str:
        return f"(({source.shared(key)} := {operand.write(source)}), {body.write(source)})[1]"

    return Code(write, operand.is_safe and body.is_safe, body.never_null, operand.spends or body.spends)


def is_null(operand: Code, *, negated: bool) -> Code:
    if operand.is_safe and operand.never_null:
        return literal(negated)
    word = "is not" if negated else "is"
    return Code(lambda source: f"({operand.write(source)} {word} None)", operand.is_safe, True, operand.spends)


def comparison(symbol: str, left: Code, right: Code, test: Callable[[Any, Any], bool]) -> Code:
    """`test` of the two, for a symbol that Python writes otherwise or not at all; False beside NULL."""
    sign = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}[symbol]
    spends = left.spends or right.spends
    if not right.is_safe:

        def run(first: Any, second: Any) -> bool:
            return False if first is None or second is None else test(first, second)

        return Code(
            lambda source: f"{source.bind(run)}({left.write(source)}, {right.write(source)})", False, True, spends
        )

    def write(source: Source) -> str:
        tests: list[str] = []
        one, other = _checked(left, source, tests), _checked(right, source, tests)
        compared = f"{one} {sign} {other}"
        return f"({compared} if {' and '.join(tests)} else False)" if tests else f"({compared})"

    return Code(write, left.is_safe, True, spends)


def _checked(given: Code, source: Source, tests: list[str]) -> str:
    """A value, of which `tests` say first that it is not NULL; what could raise is worked out there, in its turn."""
    if given.never_null and given.is_safe:
        return given.write(source)
    name = source.variable()
    tests.append(f"({name} := {given.write(source)}) is not None")
    return name


def logic(word: str, left: Code, right: Code, truth: Callable[[Any], bool]) -> Code:
    """AND and OR: an operand that may be NULL is asked for its truth, which raises for NULL."""
    symbol = {"AND": "and", "OR": "or"}[word]

    def write(source: Source) -> str:
        sides = [
            each.write(source) if each.never_null else f"{source.bind(truth)}({each.write(source)})"
            for each in (left, right)
        ]
        return f"({sides[0]} {symbol} {sides[1]})"

    is_safe = all(each.is_safe and each.never_null for each in (left, right))
    return Code(write, is_safe, True, left.spends or right.spends)


def negation(operand: Code, truth: Callable[[Any], bool]) -> Code:
    def write(source: Source) -> str:
        value = operand.write(source)
        return f"(not {value})" if operand.never_null else f"(not {source.bind(truth)}({value}))"

    return Code(write, operand.is_safe and operand.never_null, True, operand.spends)


def inclusion(operand: Code, items: Sequence[Any], *, negated: bool) -> Code:
    """IN of literals that are not NULL."""

    def write(source: Source) -> str:
        name, value = source.variable(), operand.write(source)
        tests = " or ".join(f"{name} == {literal(each).write(source)}" for each in items)
        found = f"not ({tests})" if negated else f"({tests})"
        return f"({found} if ({name} := {value}) is not None else False)"

    return Code(write, operand.is_safe, True, operand.spends)


def matching(
    operand: Code, pattern: str, escape: str | None, matches: Callable[[str, str, str | None], bool], *, negated: bool
) -> Code:
    """LIKE of a literal. Text between `%` is looked for without an expression where all letters are ASCII's: others may
    be halves of a pair, which the expression refuses.
    """
    plain = _plain(pattern, escape)

    def write(source: Source) -> str:
        name, value = source.variable(), operand.write(source)
        found = f"{source.bind(matches)}({name}, {source.bind(pattern)}, {source.bind(escape)})"
        if plain is not None:
            form, text = plain
            found = f"({form.format(name, source.bind(text))} if {name}.isascii() else {found})"
        found = f"(not {found})" if negated else found
        return f"({found} if ({name} := {value}) is not None else False)"

    return Code(write, False, True, operand.spends)


def _plain(pattern: str, escape: str | None) -> tuple[str, str] | None:
    """How Python says a pattern that has `%` at its ends alone."""
    text = pattern.strip("%")
    starts, ends = pattern.startswith("%"), pattern.endswith("%")
    if not text or any(each in text for each in "%_") or (escape is not None and escape in pattern):
        return None
    if starts and ends:
        return "{1} in {0}", text
    if starts:
        return "{0}.endswith({1})", text
    return ("{0}.startswith({1})", text) if ends else ("{0} == {1}", text)


def choice(branches: Sequence[tuple[Code, Code]], otherwise: Code) -> Code:
    def write(source: Source) -> str:
        written = [(test.write(source), result.write(source)) for test, result in branches]  # tests come first
        chosen = [f"{result} if {test} else " for test, result in written]
        return f"({''.join(chosen)}{otherwise.write(source)})"

    every = [*(code for branch in branches for code in branch), otherwise]
    results = [*(result for _, result in branches), otherwise]
    return Code(
        write,
        all(each.is_safe for each in every),
        all(each.never_null for each in results),
        any(each.spends for each in every),
    )


def conversion(operand: Code, convert: Callable[[Any], Any], word: str = "") -> Code:
    """`convert` takes NULL too. `word`: a function of Python that does the same for every other value."""

    def write(source: Source) -> str:
        if not word:
            return f"{source.bind(convert)}({operand.write(source)})"
        tests: list[str] = []
        value = _checked(operand, source, tests)
        return f"({word}({value}) if {tests[0]} else None)" if tests else f"{word}({value})"

    return Code(write, bool(word) and operand.is_safe, bool(word) and operand.never_null, operand.spends)


def whole_arithmetic(symbol: str, left: Code, right: Code, wrap: Callable[[int], int], bits: int) -> Code | None:
    """+ - * of whole numbers, which wrap around; None where an operand could raise."""
    if not right.is_safe:
        return None

    def write(source: Source) -> str:
        tests: list[str] = []
        one, other = _checked(left, source, tests), _checked(right, source, tests)
        made, bound = source.variable(), 1 << (bits - 1)
        fits = f"{-bound} <= ({made} := {one} {symbol} {other}) < {bound}"
        found = f"({made} if {fits} else {source.bind(wrap)}({made}))"
        return f"({found} if {' and '.join(tests)} else None)" if tests else found

    return Code(write, left.is_safe, left.never_null and right.never_null, left.spends or right.spends)


def float_arithmetic(symbol: str, left: Code, right: Code) -> Code | None:
    """+ - * of doubles."""
    if not right.is_safe:
        return None

    def write(source: Source) -> str:
        tests: list[str] = []
        one, other = _checked(left, source, tests), _checked(right, source, tests)
        return f"({one} {symbol} {other} if {' and '.join(tests)} else None)" if tests else f"({one} {symbol} {other})"

    return Code(write, left.is_safe, left.never_null and right.never_null, left.spends or right.spends)


def operation(left: Code, right: Code, compute: Callable[[Any, Any], Any]) -> Code:
    """A function of two values, NULL among them."""
    return Code(lambda source: f"{source.bind(compute)}({left.write(source)}, {right.write(source)})", spends=True)


def computed(function: Callable[..., Any], operands: Sequence[Code]) -> Code:
    """A function of values, NULL among them."""
    return Code(
        lambda source: f"{source.bind(function)}({', '.join(each.write(source) for each in operands)})", spends=True
    )


def entry(of: Code, key: Code) -> Code:
    """The value of a key in a map; of no map, the key is not worked out."""

    def write(source: Source) -> str:
        name, value = source.variable(), of.write(source)
        return f"(None if ({name} := {value}) is None else {name}.get({key.write(source)}))"

    return Code(write, spends=True)


def or_null(evaluate: Evaluate, code: Code) -> Code:
    """`evaluate` has NULL where there is no value, and `code` raises there. Python has no expression for that, so it is
    a function of its own; by column it waits for the calls within.
    """

    def write(source: Source) -> str:
        before = len(source.calls)
        if source.by_column:
            inner = Source(by_column=True)
            inner.calls = source.calls
            lines = ("try:", f"    return {code.write(inner)}", f"except {inner.bind(Exception)}:", "    return None")
            waits = len(source.calls) > before
            made = inner.function(lines) if waits else None
            if made is not None:
                return f"(yield from {source.bind(made)}(row, note))"
            del source.calls[before:]
        return f"{source.bind(evaluate)}(row)"

    return Code(write, spends=True)


def call(
    function: Callable[..., Any], arguments: Sequence[Code], *, nulls: bool, whole: WholeCall | None = None
) -> Code:
    """A function that is called with NULL (`nulls`), or gives NULL for one. All arguments are worked out first.
    `whole`: the same for many rows.
    """

    def unless_null(*given: Any) -> Any:
        for value in given:
            if value is None:
                return None
        return function(*given)

    def write(source: Source) -> str:
        waits = whole is not None and source.by_column

        def calling(given: Sequence[str]) -> str:
            if whole is not None and waits:
                return source.waiting(whole, given)
            return f"{source.bind(function)}({', '.join(given)})"

        if nulls:
            return calling([each.write(source) for each in arguments])
        tests: list[str] = []
        if all(each.is_safe for each in arguments[1:]):
            given = [_checked(each, source, tests) for each in arguments]
            made = calling(given)
            return f"({made} if {' and '.join(tests)} else None)" if tests else made
        if not waits:
            return f"{source.bind(unless_null)}({', '.join(each.write(source) for each in arguments)})"
        names = [source.variable() for _ in arguments]
        first = [f"({name} := {each.write(source)})" for name, each in zip(names, arguments, strict=True)]
        there = " and ".join(f"{name} is not None" for name in names)
        return f"({', '.join(first)}, {calling(names)} if {there} else None)[-1]"

    return Code(write, spends=True)


@dataclass(frozen=True, slots=True)
class Lambda:
    """An argument that is a function. `body` is written over a row of `place` columns and the parameters behind them;
    `evaluate` makes the function, of a row, that is called with one item after the other.
    """

    body: Code
    place: int
    evaluate: Evaluate


def call_with_lambdas(
    function: Callable[..., Any], arguments: Sequence[Code | Lambda], waiting: Callable[..., Waiting] | None
) -> Code:
    """A call that takes NULL. `waiting`: the same by column, with lambdas that wait for calls of many rows."""

    def write(source: Source) -> str:
        given = [None if isinstance(each, Lambda) else each.write(source) for each in arguments]
        lambdas = [each for each in arguments if isinstance(each, Lambda)]
        before = len(source.calls)
        made = [_waiting_lambda(each, source) for each in lambdas] if waiting is not None and source.by_column else []
        if waiting is not None and made and None not in made:
            left = iter(made)
            called = ", ".join(f"{source.bind(next(left))}(row, note)" if each is None else each for each in given)
            return f"(yield from {source.bind(waiting)}({called}))"
        del source.calls[before:]
        each_time = iter(lambdas)
        called = ", ".join(f"{source.bind(next(each_time).evaluate)}(row)" if each is None else each for each in given)
        return f"{source.bind(function)}({called})"

    return Code(write, spends=True)


def _waiting_lambda(given: Lambda, source: Source) -> Callable[..., Any] | None:
    """A function of the row that makes the lambda. None: it has nothing to wait for, or is not compiled."""
    before, place = len(source.calls), given.place
    inner = Source(by_column=True)
    inner.calls = source.calls
    lines = [f"return {given.body.write(inner)}"]
    begin = inner.function(lines) if len(source.calls) > before else None
    if begin is None:
        return None

    def lambda_of(row: list[Any], note: Note) -> Callable[..., Waiting]:
        outer = row[:place]

        def run(*items: Any) -> Waiting:
            budget.spend()
            found: Waiting = begin([*outer, *items], note)
            return found

        return run

    return lambda_of

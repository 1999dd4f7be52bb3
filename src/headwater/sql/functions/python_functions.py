"""CREATE FUNCTION: functions of SQL out of functions of Python, typed by their annotations.

    def shout(text: str, times: int) -> str: ...               scalar; a NULL argument gives NULL without a call
    def length(text: str | None) -> int: ...                   called with NULL too
    def mean(x: Annotated[pa.Array, "DOUBLE"]) -> Annotated[pa.Array, "DOUBLE"]: ...    scalar, on Arrow columns
    def words(text: str) -> Iterator[str]: ...                 a table function: one row for each value
    class spread:                                              an aggregate; it may also have `undo` for tables
        def initial(self): ...                                 and `merge` for sessions
        def add(self, state, value: float): ...
        def result(self, state) -> float: ...

int is BIGINT, float DOUBLE, str STRING, bool, bytes, date, time and datetime what they are called in SQL, list[T]
ARRAY, dict[str, T] MAP; any type of SQL can be written as Annotated[..., "DECIMAL(10, 2)"]. What a function gives is
checked against its type; what does not fit is NULL, and is told.
"""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import importlib
import inspect
import textwrap
import types as python_types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.sql.coercion import reading
from headwater.sql.functions.aggregates import Aggregate, AggregateFunction, no_merge
from headwater.sql.functions.column_functions import ColumnFunction
from headwater.sql.functions.function_shapes import Kind, Shape, Taken, sql_type
from headwater.sql.functions.registry import Overload, ScalarFunction
from headwater.sql.functions.scope import MadeFunction
from headwater.sql.functions.signatures import Parameter, Pattern, Signature
from headwater.sql.functions.tables import TableFunction
from headwater.sql.language import types
from headwater.sql.language.errors import NotAllowedHereError, SqlError
from headwater.sql.language.types import ArrayType, MapType, Type
from headwater.sql.values import EvaluationError

_PLAIN: Final[dict[Any, Type]] = {
    bool: types.BOOLEAN,
    int: types.BIGINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    datetime.date: types.DATE,
    datetime.time: types.TIME,
    datetime.datetime: types.TIMESTAMP,
}
_MANY: Final = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_ROWS_MAX: Final = 100_000  # that a table function gives for one row
CATEGORY: Final = "PYTHON"


@dataclass(frozen=True, slots=True)
class Policy:
    """What CREATE FUNCTION may bring in. It is code: nothing, unless the server's owner says so."""

    source: bool = False  # text in the statement
    modules: tuple[str, ...] = ()  # installed modules, and what is below them


EVERYTHING: Final = Policy(source=True, modules=("*",))


def make(name: str, source: str | None, target: str | None, policy: Policy) -> MadeFunction:
    """The function of a statement. Raises SqlError."""
    return _built(name, *_loaded(name, source, target, policy))


def shape_of(name: str, source: str | None, target: str | None, policy: Policy) -> Shape:
    """What the function of a statement takes and gives. Raises SqlError."""
    return _loaded(name, source, target, policy)[0]


def withheld(name: str, shape: Shape) -> MadeFunction:
    """A function whose code is not here: statements that call it are understood, and it is never called."""
    return _built(name, shape, _Absent(name))


class _Absent:
    """In the place of a function or of an aggregate."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_given: Any) -> Any:
        raise EvaluationError(f"the function {self._name} is not on this server")

    initial = add = undo = result = merge = __call__


def _loaded(name: str, source: str | None, target: str | None, policy: Policy) -> tuple[Shape, Any]:
    found = _from_source(name, source, policy) if source is not None else _from_module(str(target), policy)
    try:
        if not inspect.isclass(found):
            return _function_shape(found), found
        for method in ("initial", "add", "result"):
            if not callable(getattr(found, method, None)):
                raise TypeError(f"a class is an aggregate function, and needs the method {method}")
        made = found()
        return _aggregate_shape(made, _doc(found)), made
    except (TypeError, ValueError, NameError) as error:
        raise SqlError(f"The function {name} cannot be taken: {error}") from None


def _built(name: str, shape: Shape, code: Any) -> MadeFunction:
    match shape.kind:
        case Kind.SCALAR:
            return _scalar(name, shape, code)
        case Kind.TABLE:
            return _table_function(name, shape, code)
        case Kind.AGGREGATE:
            return _aggregate(name, shape, code)


def _from_source(name: str, source: str, policy: Policy) -> Any:
    if not policy.source:
        raise NotAllowedHereError(
            "CREATE FUNCTION with code in the statement is not allowed on this server.",
            why="It runs in the server, with all that the server may do",
            hint="Its owner can set ksql.functions.python.source.enabled=true.",
        )
    space: dict[str, Any] = {"__name__": f"sql_function_{name.lower()}"}
    try:
        exec(compile(textwrap.dedent(source).strip("\n"), f"<function {name}>", "exec", dont_inherit=True), space)  # noqa: S102  it is what was asked for
    except Exception as error:  # noqa: BLE001  whatever the code raises is told to whoever wrote it
        raise SqlError(f"The code of {name} cannot be run: {type(error).__name__}: {error}") from None
    by_name = {each.upper(): value for each, value in space.items() if callable(value)}
    found = by_name.get(name.upper())
    if found is None:
        raise SqlError(f"The code defines nothing that is called {name.lower()}.", hint="def and class need its name.")
    return found


def _from_module(target: str, policy: Policy) -> Any:
    module, _, attribute = target.partition(":")
    if not _is_allowed(module, policy):
        raise NotAllowedHereError(
            f"CREATE FUNCTION may not take anything out of {module or 'no module'} on this server.",
            why="It runs in the server, with all that the server may do",
            hint=f"Its owner can set ksql.functions.python.modules={module}.",
        )
    try:
        found = importlib.import_module(module)
        for each in attribute.split("."):
            found = getattr(found, each)
    except Exception as error:  # noqa: BLE001  a module may raise anything
        raise SqlError(f"{target} cannot be taken: {type(error).__name__}: {error}", hint="Write it as 'package.module:function'.") from None  # fmt: skip
    if not callable(found):
        raise SqlError(f"{target} is no function.")
    home = getattr(found, "__module__", None) or ""
    if not _is_allowed(home, policy):
        raise NotAllowedHereError(
            f"{target} is defined elsewhere, in {home or 'no module'}, which CREATE FUNCTION may not use on this server.",
            why="A module that is allowed does not allow all that it imports",
            hint=f"Its owner can define a function of its own in {module}.",
        )
    return found


def _is_allowed(module: str, policy: Policy) -> bool:
    return any(each in ("*", module) or module.startswith(f"{each}.") for each in policy.modules)


# -- types -------------------------------------------------------------------------------------------------------------


def _taken(hint: Any, where: str) -> Taken:
    """What an annotation means. Raises TypeError."""
    written = None
    if typing.get_origin(hint) is typing.Annotated:
        written = next((each for each in hint.__metadata__ if isinstance(each, str)), None)
        hint = hint.__origin__
    if typing.get_origin(hint) in (typing.Union, python_types.UnionType):
        others = [each for each in typing.get_args(hint) if each is not type(None)]
        if len(others) != 1:
            raise TypeError(f"{where} has more than one type")
        inner = _taken(typing.Annotated[others[0], written] if written else others[0], where)
        return Taken(inner.type, True, inner.column, inner.many)
    if typing.get_origin(hint) in _MANY and typing.get_args(hint):
        inner = _taken(typing.get_args(hint)[0], where)
        return Taken(sql_type(written) if written else inner.type, inner.null, many=True)
    column = getattr(hint, "__module__", "").startswith("pyarrow")
    if written is not None:
        return Taken(sql_type(written), column=column)
    if column:
        raise TypeError(f"{where} is a column: write Annotated[pa.Array, 'BIGINT'], with its type")
    return Taken(_type_of(hint, where))


def _type_of(hint: Any, where: str) -> Type:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is decimal.Decimal:
        raise TypeError(f"{where} is a Decimal without digits: write Annotated[Decimal, 'DECIMAL(10, 2)']")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list and arguments:
        return types.array(_taken(arguments[0], where).type)
    if origin is dict and len(arguments) == 2:
        return types.mapping(_taken(arguments[0], where).type, _taken(arguments[1], where).type)
    shown = getattr(hint, "__name__", hint)
    raise TypeError(f"{where} has no type that SQL knows ({shown}): annotate it, or write Annotated[..., 'INTEGER']")


def _pattern(given: Type) -> Pattern:
    if isinstance(given, ArrayType):
        return Pattern("ARRAY", (_pattern(given.item),))
    if isinstance(given, MapType):
        return Pattern("MAP", (_pattern(given.key), _pattern(given.value)))
    return Pattern(given.base.value)


def _parameters(call: Callable[..., Any], skip: int = 0) -> tuple[Taken, ...]:
    hints = typing.get_type_hints(call, include_extras=True)
    found = []
    for each in list(inspect.signature(call).parameters.values())[skip:]:
        if each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD):
            raise TypeError(f"{each.name} is named in Python's calls, and SQL has no such arguments")
        if each.name not in hints:
            raise TypeError(f"the parameter {each.name} has no annotation")
        meant = _taken(hints[each.name], f"the parameter {each.name}")
        found.append(replace(meant, name=each.name, variadic=each.kind is each.VAR_POSITIONAL))
    return tuple(found)


def _result(call: Callable[..., Any]) -> Taken:
    hints = typing.get_type_hints(call, include_extras=True)
    if "return" not in hints:
        raise TypeError("it does not say what it gives: annotate it with ->")
    return _taken(hints["return"], "what it gives")


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _doc(found: Any) -> str:
    return (inspect.getdoc(found) or "").strip().partition("\n\n")[0] if found.__doc__ else ""


def _function_shape(call: Callable[..., Any]) -> Shape:
    takes, gives = _parameters(call), _result(call)
    if gives.many or inspect.isgeneratorfunction(call):
        return Shape(Kind.TABLE, takes, gives, _doc(call))
    on_columns = gives.column or any(each.column for each in takes)
    if on_columns and (not gives.column or not takes or not all(each.column for each in takes)):
        raise TypeError("either all parameters and the result are columns of Arrow, or none")
    return Shape(Kind.SCALAR, takes, gives, _doc(call))


def _aggregate_shape(made: Any, doc: str) -> Shape:
    takes, gives = _parameters(made.add, skip=1), _result(made.result)
    return Shape(Kind.AGGREGATE, takes, gives, doc, hasattr(made, "undo"), hasattr(made, "merge"))


def _scalar(name: str, shape: Shape, call: Callable[..., Any]) -> ScalarFunction:
    gives = shape.gives.type
    signature = Signature(_shown_parameters(shape), _pattern(gives))
    nulls = any(each.null for each in shape.takes) or not shape.takes
    if shape.gives.column:
        on_columns = ColumnFunction(call, [each.type for each in shape.takes], gives)
        overload = Overload(signature, on_columns.one, nulls, lambda _: gives, widen=True, whole=on_columns.all)
    else:
        fit = reading(gives)
        overload = Overload(signature, lambda *given: fit(call(*given)), nulls, lambda _: gives, widen=True)
    return ScalarFunction(name, CATEGORY, shape.doc, [overload])


def _matches(wanted: Sequence[Taken], given: Sequence[Type]) -> bool:
    return len(wanted) == len(given) and all(
        types.can_widen(each, want.type) for each, want in zip(given, wanted, strict=True)
    )


def _shown_parameters(shape: Shape) -> tuple[Parameter, ...]:
    return tuple(Parameter(each.name, _pattern(each.type), each.variadic) for each in shape.takes)


def _shown(shape: Shape) -> str:
    return f"({', '.join(map(str, _shown_parameters(shape)))}) -> {shape.gives.type}"


def _table_function(name: str, shape: Shape, call: Callable[..., Any]) -> TableFunction:
    gives, fit = shape.gives.type, reading(shape.gives.type)
    nulls = any(each.null for each in shape.takes)

    def rows(*given: Any) -> list[Any]:
        if not nulls and any(each is None for each in given):
            return []
        found: list[Any] = []
        for each in call(*given):
            if len(found) >= _ROWS_MAX:
                raise EvaluationError(f"{name} gives more than {_ROWS_MAX} rows for one")
            found.append(fit(each))
        return found

    return TableFunction(
        name, shape.doc, (_shown(shape),), lambda given: gives if _matches(shape.takes, given) else None, rows
    )


def _aggregate(name: str, shape: Shape, made: Any) -> AggregateFunction:
    fit, nulls = reading(shape.gives.type), any(each.null for each in shape.takes)

    def guarded(change: Callable[..., Any]) -> Callable[..., Any]:
        return lambda state, *given: state if not nulls and None in given else change(state, *given)

    aggregate = Aggregate(
        shape.gives.type,
        made.initial,
        guarded(made.add),
        guarded(made.undo) if shape.undoes else None,
        lambda state: fit(made.result(state)),
        made.merge if shape.merges else no_merge,
    )
    return AggregateFunction(
        name, shape.doc, (_shown(shape),), lambda given, _: aggregate if _matches(shape.takes, given) else None
    )

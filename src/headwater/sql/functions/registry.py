"""All functions by name, and which of a function's forms a call means.

A scalar function is declared beside its implementation:

    @scalar("UCASE", "(value STRING) -> STRING", "The text in upper case.")
    def ucase(value): ...

A call with a NULL argument gives NULL without calling it, unless it is declared with `nulls=True`. Names without a form
that fits are told with the forms that exist; names that do not exist with the nearest that do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from headwater.sql.functions.signatures import (
    Bindings,
    Implementation,
    Pattern,
    Returns,
    Signature,
    parse_signature,
)
from headwater.sql.functions.whole_calls import Waiting, WholeCall
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError, did_you_mean
from headwater.sql.language.types import DecimalType, Type
from headwater.sql.values import fit


@dataclass(frozen=True, slots=True)
class Overload:
    signature: Signature
    call: Implementation
    nulls: bool
    returns: Returns | None
    widen: bool  # arguments are brought to the types of the parameters before the call
    whole: WholeCall | None = None  # the same for many rows at once
    waiting: Callable[..., Waiting] | None = None  # the same with lambdas that wait for calls of many rows
    carries: bool = False  # a DECIMAL that it gives may have a digit too many for its type: 9.99 is 10.00


@dataclass(slots=True)
class ScalarFunction:
    name: str
    category: str
    description: str
    overloads: list[Overload] = field(default_factory=list)


SCALARS: Final[dict[str, ScalarFunction]] = {}


_F = TypeVar("_F", bound=Implementation)


def scalar(
    name: str,
    signature: str,
    description: str = "",
    *,
    category: str = "",
    nulls: bool = False,
    returns: Returns | None = None,
    widen: bool = True,
    waiting: Callable[..., Waiting] | None = None,
    carries: bool = False,
) -> Callable[[_F], _F]:
    """Declares one form of a scalar function."""

    def declare(call: _F) -> _F:
        known = SCALARS.setdefault(name, ScalarFunction(name, category, description))
        known.description = known.description or description
        known.category = known.category or category
        form = parse_signature(signature)
        known.overloads.append(Overload(form, call, nulls, returns, widen, waiting=waiting, carries=carries))
        return call

    return declare


_WHOLE: Final = (types.INTEGER, types.BIGINT)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A form of a function, with what it takes and gives in one call."""

    overload: Overload
    parameters: tuple[Type | None, ...]
    returns: Type | None


def resolve(function: ScalarFunction, given: Sequence[Type | None], position: Position) -> Resolved:
    """The form that takes arguments of these types with the fewest changes to them. Lambdas are matched elsewhere."""
    best: tuple[int, Overload, Bindings, tuple[Any, ...]] | None = None
    for overload in function.overloads:
        patterns = overload.signature.spread(len(given))
        if patterns is None:
            continue
        bindings = Bindings()
        if not all(_takes(pattern, each, bindings) for pattern, each in zip(patterns, given, strict=True)):
            continue
        variadic = any(parameter.variadic for parameter in overload.signature.parameters)
        cost = bindings.cost * 2 + variadic
        if best is None or cost < best[0]:
            best = (cost, overload, bindings, patterns)
    if best is None:
        raise no_form(function.name, [each.signature for each in function.overloads], given, position)
    _, overload, bindings, patterns = best
    parameters = tuple(
        types.as_decimal(each) if pattern.name == "DECIMAL" and each in _WHOLE else bindings.resolve(pattern)
        for pattern, each in zip(patterns, given, strict=True)
    )
    returns = overload.returns(given) if overload.returns else bindings.resolve(overload.signature.returns)
    if overload.carries and isinstance(returns, DecimalType):
        overload = replace(overload, call=_fitting(overload.call, returns))
    return Resolved(overload, parameters, returns)


def _fitting(call: Implementation, wanted: DecimalType) -> Implementation:
    """With an error where what it gives has too many digits, as arithmetic has it."""
    return lambda *given: fit(call(*given), wanted.precision, wanted.scale)


def _takes(pattern: Pattern, given: Type | None, bindings: Bindings) -> bool:
    if is_read_from_text(given, types.NAMED.get(pattern.name)):
        bindings.cost += _READ_FROM_TEXT
        return True
    return bindings.match(pattern, given)


def is_read_from_text(given: Type | None, wanted: Type | None) -> bool:
    """A text is cast where a function takes a time or bytes, and no text."""
    return given == types.STRING and wanted in (types.DATE, types.TIME, types.TIMESTAMP, types.BYTES)


_READ_FROM_TEXT: Final = 10  # more than any widening of numbers


def no_form(name: str, forms: Sequence[Signature], given: Sequence[Type | None], position: Position) -> SqlError:
    shown = ", ".join("null" if each is None else str(each) for each in given)
    return SqlError(
        f"Function '{name}' does not accept parameters ({shown}).",
        why="Valid alternatives are:\n" + "\n".join(f"{name}{form}" for form in forms),
        hint=f"For detailed information on a function run: DESCRIBE FUNCTION {name};",
        position=position,
    )


def unknown(name: str, known: Sequence[str], position: Position) -> SqlError:
    return SqlError(
        f"Can't find any functions with the name '{name}'",
        hint=did_you_mean(name, known, "SHOW FUNCTIONS; lists what there is.", cutoff=0.7),
        position=position,
    )

"""What a function takes and gives: patterns of types, and how arguments are matched to them.

A signature is written as ksqlDB shows it: `(array ARRAY<T>, value T) -> BOOLEAN`. `T`, `K`, `V`, `U` stand for any
type, the same one in each place; `DECIMAL` for any decimal; `STRUCT` for any struct; `INTERVALUNIT` for a unit of time;
`LAMBDA(T, U) => V` for a lambda. A parameter with `...` may come any number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.sql.language import types
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type

_WORD: Final = re.compile(r"\s*(->|=>|\.\.\.|[A-Za-z_]\w*|[(),<>])")
_VARIABLES: Final = frozenset("TKVUSRX")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One type, one variable or one shape with patterns inside."""

    name: str  # a type's name, a variable's letter, ARRAY, MAP, LAMBDA, STRUCT, INTERVALUNIT
    inner: tuple[Pattern, ...] = ()

    def __str__(self) -> str:
        if self.name == "LAMBDA":
            *parameters, result = map(str, self.inner)
            return f"LAMBDA ({', '.join(parameters)}) => {result}"
        return f"{self.name}<{', '.join(map(str, self.inner))}>" if self.inner else self.name


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    pattern: Pattern
    variadic: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.pattern}{'...' if self.variadic else ''}"


@dataclass(frozen=True, slots=True)
class Signature:
    parameters: tuple[Parameter, ...]
    returns: Pattern

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))})"

    def spread(self, count: int) -> tuple[Pattern, ...] | None:
        """The pattern of each of `count` arguments, or None if so many are not taken."""
        variadic = next((at for at, each in enumerate(self.parameters) if each.variadic), None)
        if variadic is None:
            return tuple(each.pattern for each in self.parameters) if count == len(self.parameters) else None
        more = count - (len(self.parameters) - 1)
        if more < 0:
            return None
        before = [each.pattern for each in self.parameters[:variadic]]
        after = [each.pattern for each in self.parameters[variadic + 1 :]]
        return (*before, *[self.parameters[variadic].pattern] * more, *after)


def parse_signature(text: str) -> Signature:
    """`(a T, b ARRAY<T>...) -> T`."""
    words = _WORD.findall(text)
    assert "".join(words) == re.sub(r"\s", "", text), text
    at = 1
    parameters = []
    while words[at] != ")":
        name = words[at]
        pattern, at = _pattern(words, at + 1)
        variadic = words[at] == "..."
        at += variadic
        parameters.append(Parameter(name, pattern, variadic))
        at += words[at] == ","
    assert words[at + 1] == "->", text
    returns, _ = _pattern(words, at + 2)
    return Signature(tuple(parameters), returns)


def _pattern(words: list[str], at: int) -> tuple[Pattern, int]:
    name = words[at]
    if name == "LAMBDA":
        at += 2
        inner = []
        while words[at] != ")":
            each, at = _pattern(words, at)
            inner.append(each)
            at += words[at] == ","
        result, at = _pattern(words, at + 2)
        return Pattern(name, (*inner, result)), at
    if at + 1 < len(words) and words[at + 1] == "<":
        at += 2
        inner = []
        while words[at] != ">":
            each, at = _pattern(words, at)
            inner.append(each)
            at += words[at] == ","
        return Pattern(name, tuple(inner)), at + 1
    return Pattern(name), at + 1


@dataclass(slots=True)
class Bindings:
    """What the variables of a signature stand for in one call."""

    variables: dict[str, Type] = field(default_factory=dict)
    cost: int = 0  # how many arguments had to be widened: the overload that needs least is taken

    def match(self, pattern: Pattern, given: Type | None) -> bool:
        if given is None:
            return True  # NULL is of every type
        if pattern.name in _VARIABLES:
            return self._variable(pattern.name, given)
        if pattern.name == "ARRAY":
            return isinstance(given, ArrayType) and (not pattern.inner or self.match(pattern.inner[0], given.item))
        if pattern.name == "MAP":
            if not isinstance(given, MapType):
                return False
            return not pattern.inner or (
                self.match(pattern.inner[0], given.key) and self.match(pattern.inner[1], given.value)
            )
        if pattern.name == "STRUCT":
            return isinstance(given, StructType)
        if pattern.name == "DECIMAL":
            if given.base in (Base.INTEGER, Base.BIGINT):
                self.cost += 3
                return True
            return given.base is Base.DECIMAL
        wanted = types.NAMED.get(pattern.name)
        if wanted is None:
            return False
        if wanted != given:
            self.cost += 1 + abs(_ORDER.get(wanted.base, 0) - _ORDER.get(given.base, 0))
        return types.can_widen(given, wanted)

    def _variable(self, name: str, given: Type) -> bool:
        known = self.variables.get(name)
        if known is None or known == given:
            self.variables[name] = given
            return True
        wide = common(known, given)
        if wide is None:
            return False
        self.variables[name] = wide
        self.cost += 1
        return True

    def resolve(self, pattern: Pattern) -> Type | None:
        """The type that a pattern stands for; None if a variable has met NULL only."""
        if pattern.name in _VARIABLES:
            return self.variables.get(pattern.name)
        if pattern.name == "ARRAY" and pattern.inner:
            item = self.resolve(pattern.inner[0])
            return None if item is None else types.array(item)
        if pattern.name == "MAP" and pattern.inner:
            key, value = self.resolve(pattern.inner[0]), self.resolve(pattern.inner[1])
            return None if key is None or value is None else types.mapping(key, value)
        return types.NAMED.get(pattern.name)


_ORDER: Final = {Base.INTEGER: 0, Base.BIGINT: 1, Base.DECIMAL: 2, Base.DOUBLE: 3}


def common(left: Type | None, right: Type | None) -> Type | None:
    """One type that both are taken as, or None."""
    if left is None or right is None or left == right:
        return left or right
    if (wide := types.widest(left, right)) is not None:
        return wide
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        item = common(left.item, right.item)
        return None if item is None else types.array(item)
    if isinstance(left, MapType) and isinstance(right, MapType):
        key, value = common(left.key, right.key), common(left.value, right.value)
        return None if key is None or value is None else types.mapping(key, value)
    if isinstance(left, StructType) and isinstance(right, StructType):
        return _common_struct(left, right)
    return None


def _common_struct(left: StructType, right: StructType) -> Type | None:
    fields: dict[str, Type] = dict(left.fields)
    for name, each in right.fields:
        both = common(fields.get(name), each)
        if both is None:
            return None
        fields[name] = both
    return types.struct(*fields.items())


Returns = Callable[[Sequence[Type | None]], Type]
Implementation = Callable[..., Any]


def decimal_of(given: Sequence[Type | None]) -> DecimalType:
    """The decimal among the arguments, for functions that give what they take."""
    for each in given:
        if isinstance(each, DecimalType):
            return each
    wide = next((each for each in given if each is not None), types.INTEGER)
    return types.as_decimal(wide)

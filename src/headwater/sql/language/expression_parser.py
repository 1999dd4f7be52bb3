"""Expressions: by precedence, lowest first: OR, AND, NOT, predicates, ||, + -, * / %, sign, postfix."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from headwater.sql.language import tree
from headwater.sql.language.errors import Position, SqlSyntaxError
from headwater.sql.language.token_reader import UNITS_MS, TokenReader
from headwater.sql.language.tokens import Kind

_COMPARISONS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LONG: Final = 50  # terms of a chain
INTEGER_MAX: Final = 2**31 - 1
BIGINT_MAX: Final = 2**63 - 1
# Words that are the names of functions although they are keywords or types elsewhere.
_UNITS: Final = frozenset([*UNITS_MS, *(f"{unit}S" for unit in UNITS_MS)])


def parse_expression(reader: TokenReader) -> tree.Expression:
    with reader.nested():
        terms, positions = [_conjunction(reader)], []
        while reader.is_word("OR"):
            positions.append(reader.take().position)
            terms.append(_conjunction(reader))
        return _chain("OR", terms, positions)


def _conjunction(reader: TokenReader) -> tree.Expression:
    terms, positions = [_negation(reader)], []
    while reader.is_word("AND"):
        positions.append(reader.take().position)
        terms.append(_negation(reader))
    return _chain("AND", terms, positions)


def _chain(operator: str, terms: Sequence[tree.Expression], positions: Sequence[Position]) -> tree.Expression:
    """Terms with an operator between each two, which gives the same wherever brackets are: the terms are worked out in
    their order in any case. Long chains are halved, again and again, so that none is too deep.
    """
    if len(terms) > _LONG:
        half = len(terms) // 2
        first = _chain(operator, terms[:half], positions[: half - 1])
        return tree.Binary(operator, first, _chain(operator, terms[half:], positions[half:]), position=positions[half - 1])  # fmt: skip
    left = terms[0]
    for term, position in zip(terms[1:], positions, strict=True):
        left = tree.Binary(operator, left, term, position=position)
    return left


def _negation(reader: TokenReader) -> tree.Expression:
    if reader.is_word("NOT"):
        position = reader.take().position
        with reader.nested():
            return tree.Unary("NOT", _negation(reader), position=position)
    return _predicate(reader)


def _predicate(reader: TokenReader) -> tree.Expression:
    left = _concatenation(reader)
    while True:
        position = reader.position
        token = reader.token
        if token.kind is Kind.SYMBOL and token.text in _COMPARISONS:
            reader.take()
            left = tree.Binary(_COMPARISONS[token.text], left, _concatenation(reader), position=position)
            continue
        if reader.accept("IS"):
            negated = reader.accept("NOT")
            if reader.accept("DISTINCT"):
                reader.expect("FROM")
                left = tree.Distinct(left, _concatenation(reader), negated, position=position)
            else:
                reader.expect("NULL")
                left = tree.IsNull(left, negated, position=position)
            continue
        negated = reader.is_word("NOT") and reader.ahead().text in ("BETWEEN", "IN", "LIKE")
        if negated:
            reader.take()
        if reader.accept("BETWEEN"):
            low = _concatenation(reader)
            reader.expect("AND")
            left = tree.Between(left, low, _concatenation(reader), negated, position=position)
        elif reader.accept("IN"):
            left = tree.In(left, tuple(_bracketed(reader)), negated, position=position)
        elif reader.accept("LIKE"):
            pattern = _concatenation(reader)
            escape = reader.string("the escape character") if reader.accept("ESCAPE") else None
            if escape is not None and len(escape) != 1:
                raise SqlSyntaxError(
                    f"Expected exactly 1 character as escape in LIKE, found '{escape}'.", position=position
                )
            left = tree.Like(left, pattern, escape, negated, position=position)
        else:
            return left


def _bracketed(reader: TokenReader) -> list[tree.Expression]:
    reader.expect_symbol("(")
    items = [parse_expression(reader)]
    while reader.accept_symbol(","):
        items.append(parse_expression(reader))
    reader.expect_symbol(")")
    return items


def _concatenation(reader: TokenReader) -> tree.Expression:
    terms, positions = [_sum(reader)], []
    while reader.is_symbol("||"):
        positions.append(reader.take().position)
        terms.append(_sum(reader))
    if len(terms) > _LONG:
        return tree.Concatenation(tuple(terms), tuple(positions), position=positions[0])
    return _chain("+", terms, positions)


def _sum(reader: TokenReader) -> tree.Expression:
    left = _product(reader)
    while reader.is_symbol("+") or reader.is_symbol("-"):
        operator = reader.take()
        left = tree.Binary(operator.text, left, _product(reader), position=operator.position)
    return left


def _product(reader: TokenReader) -> tree.Expression:
    left = _signed(reader)
    while any(reader.is_symbol(symbol) for symbol in "*/%"):
        operator = reader.take()
        left = tree.Binary(operator.text, left, _signed(reader), position=operator.position)
    return left


def _signed(reader: TokenReader) -> tree.Expression:
    if reader.is_symbol("-") or reader.is_symbol("+"):
        operator = reader.take()
        with reader.nested():
            operand = _signed(reader)
        if operator.text == "-" and isinstance(operand, tree.Literal):
            return _negative(operand, operator.position)
        return tree.Unary(operator.text, operand, position=operator.position)
    return _postfix(reader)


def _negative(operand: tree.Literal, position: Position) -> tree.Expression:
    value = operand.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return tree.Unary("-", operand, position=position)
    if isinstance(value, int) and -value > BIGINT_MAX:  # the lowest number is its own negative
        return tree.Unary("-", operand, position=position)
    is_long = isinstance(value, int) and not -INTEGER_MAX - 1 <= -value <= INTEGER_MAX
    return tree.Literal(-value, is_long, position=position)


def _postfix(reader: TokenReader) -> tree.Expression:
    node = _primary(reader)
    while True:
        position = reader.position
        if reader.is_symbol("->") and not (reader.ahead().kind is Kind.SYMBOL and reader.ahead().text == "*"):
            reader.take()
            node = tree.FieldOf(node, _any_name(reader), position=position)
        elif reader.accept_symbol("["):
            index = parse_expression(reader)
            reader.expect_symbol("]")
            node = tree.ItemOf(node, index, position=position)
        else:
            return node


def _any_name(reader: TokenReader) -> str:
    """The name of a field may be a keyword."""
    return reader.take().text if reader.token.is_name else reader.name("the name of a field")


def _primary(reader: TokenReader) -> tree.Expression:
    token, position = reader.token, reader.position
    match token.kind:
        case Kind.STRING:
            return tree.Literal(reader.take().text, position=position)
        case Kind.INTEGER:
            value = int(reader.take().text[:30])
            if value > BIGINT_MAX + 1:
                raise SqlSyntaxError(f"Invalid numeric literal: {value}", position=position)
            return tree.Literal(value, value > INTEGER_MAX, position=position)
        case Kind.DECIMAL:
            return tree.Literal(Decimal(reader.take().text), position=position)
        case Kind.FLOAT:
            number = float(reader.take().text)
            if math.isinf(number):
                raise SqlSyntaxError(f"Number overflows DOUBLE: {token.text}", position=position)
            return tree.Literal(number, position=position)
        case Kind.SYMBOL if token.text == "(":
            reader.take()
            inner = parse_expression(reader)
            if reader.is_symbol(",") or (reader.is_symbol(")") and reader.ahead().text == "=>"):
                return _bracketed_lambda(reader, inner)
            reader.expect_symbol(")")
            return inner
        case Kind.NAME | Kind.QUOTED_NAME:
            return _named(reader)
        case _:
            raise reader.unexpected("an expression")


def _bracketed_lambda(reader: TokenReader, first: tree.Expression) -> tree.Expression:
    """`(a, b) => ...`, after `(a`."""
    parameters = [first]
    while reader.accept_symbol(","):
        parameters.append(parse_expression(reader))
    reader.expect_symbol(")")
    position = reader.position
    reader.expect_symbol("=>")
    names = []
    for each in parameters:
        if not isinstance(each, tree.Column) or each.source is not None:
            raise SqlSyntaxError("A parameter of a lambda must be a name.", position=each.position)
        names.append(each.name)
    return tree.Lambda(tuple(names), parse_expression(reader), position=position)


def _named(reader: TokenReader) -> tree.Expression:
    token, position = reader.token, reader.position
    if token.kind is Kind.NAME:
        keyword = _keyword(reader)
        if keyword is not None:
            return keyword
        if reader.ahead().kind is Kind.SYMBOL and reader.ahead().text == "(":
            return _call(reader)
    name = reader.name("an expression")
    if reader.is_symbol("=>"):
        reader.take()
        return tree.Lambda((name,), parse_expression(reader), position=position)
    if reader.is_symbol(".") and reader.ahead().is_name:
        reader.take()
        return tree.Column(_any_name(reader), name, position=position)
    return tree.Column(name, position=position)


def _keyword(reader: TokenReader) -> tree.Expression | None:
    position = reader.position
    if reader.accept("NULL"):
        return tree.Literal(None, position=position)
    if reader.accept("TRUE"):
        return tree.Literal(True, position=position)
    if reader.accept("FALSE"):
        return tree.Literal(False, position=position)
    if reader.accept("CASE"):
        return _case(reader, position)
    if reader.accept("CAST"):
        reader.expect_symbol("(")
        operand = parse_expression(reader)
        reader.expect("AS")
        wanted = reader.type()
        reader.expect_symbol(")")
        return tree.Cast(operand, wanted, position=position)
    following = reader.ahead()
    opening = following.text if following.kind is Kind.SYMBOL else ""
    if reader.is_word("ARRAY") and opening == "[":
        return _array(reader, position)
    if reader.is_word("MAP") and opening == "(":
        return _map(reader, position)
    if reader.is_word("STRUCT") and opening == "(":
        return _struct(reader, position)
    return None


def _case(reader: TokenReader, position: Position) -> tree.Expression:
    operand = None if reader.is_word("WHEN") else parse_expression(reader)
    branches = []
    while reader.accept("WHEN"):
        condition = parse_expression(reader)
        reader.expect("THEN")
        branches.append((condition, parse_expression(reader)))
    if not branches:
        raise reader.unexpected("WHEN")
    otherwise = parse_expression(reader) if reader.accept("ELSE") else None
    reader.expect("END")
    return tree.Case(operand, tuple(branches), otherwise, position=position)


def _array(reader: TokenReader, position: Position) -> tree.Expression:
    reader.take()
    reader.expect_symbol("[")
    items = []
    while not reader.is_symbol("]"):
        items.append(parse_expression(reader))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol("]")
    return tree.MakeArray(tuple(items), position=position)


def _map(reader: TokenReader, position: Position) -> tree.Expression:
    reader.take()
    reader.expect_symbol("(")
    entries = []
    while not reader.is_symbol(")"):
        key = parse_expression(reader)
        reader.expect_symbol(":=")
        entries.append((key, parse_expression(reader)))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return tree.MakeMap(tuple(entries), position=position)


def _struct(reader: TokenReader, position: Position) -> tree.Expression:
    reader.take()
    reader.expect_symbol("(")
    fields: list[tuple[str, tree.Expression]] = []
    while not reader.is_symbol(")"):
        where = reader.position
        name = _any_name(reader)
        if any(name == each for each, _ in fields):
            raise SqlSyntaxError(f"Duplicate field names found in STRUCT: {name}", position=where)
        reader.expect_symbol(":=")
        fields.append((name, parse_expression(reader)))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return tree.MakeStruct(tuple(fields), position=position)


def _call(reader: TokenReader) -> tree.Expression:
    position = reader.position
    function = reader.take().text
    reader.expect_symbol("(")
    arguments: list[tree.Expression] = []
    if reader.is_symbol("*"):
        reader.take()  # COUNT(*)
        reader.expect_symbol(")")
        return tree.Call(function, (), position=position)
    while not reader.is_symbol(")"):
        unit = reader.token
        if unit.kind is Kind.NAME and unit.text in _UNITS and reader.ahead().text in (",", ")"):
            reader.take()
            arguments.append(tree.IntervalUnit(unit.text.removesuffix("S"), position=unit.position))
        else:
            arguments.append(parse_expression(reader))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return tree.Call(function, tuple(arguments), position=position)

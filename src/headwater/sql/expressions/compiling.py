"""Expressions to functions of a row.

`Compiler(scope).compile(expression)` gives the type of the expression and a function that takes a row (a list of
values, in the order of the scope's columns) and gives its value. What is wrong with types is told here, before any row
is seen. Parameters of lambdas are columns that are appended to the row while the lambda runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from headwater.sql import budget
from headwater.sql.expressions import closures, comparing, constructing, generated, list_types, row_functions
from headwater.sql.expressions.arithmetic import added, arithmetic, joined, negative
from headwater.sql.expressions.casting import converter
from headwater.sql.expressions.column_calls import ColumnLambda
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiled import Compiled, Evaluate, converted, converted_code, widened
from headwater.sql.expressions.generated import Code
from headwater.sql.expressions.literals import as_moment, beside_operand, literal_type
from headwater.sql.functions import library, registry, scope  # noqa: F401  importing the library declares its functions
from headwater.sql.functions.signatures import Bindings, Pattern, common
from headwater.sql.language import tree, types
from headwater.sql.language.errors import Position, SqlError, did_you_mean
from headwater.sql.language.types import ArrayType, Base, MapType, StructType, Type

_NULL: Final = generated.literal(None)
_LEAVES: Final = (tree.Column, tree.Literal)  # they cost nothing: what needs one twice compiles it twice
_IN_MAX: Final = 50  # items that are compared one by one in what is written out


@dataclass(frozen=True, slots=True)
class _ValueTest:
    """A comparison with a value that is there already, and how it is written where that value is."""

    run: comparing.CompareValue
    code: Callable[[Code], Code]


class Compiler:
    """Compiles expressions over one scope. `parameters` are those of the lambdas around the expression, by name."""

    def __init__(self, scope: Scope, parameters: Mapping[str, tuple[int, Type | None]] | None = None) -> None:
        self._scope = scope
        self._parameters = dict(parameters or {})
        self._item_types: dict[int, tuple[tree.Expression, Type | None]] = {}  # by the id of what stands in a list

    def compile(self, expression: tree.Expression) -> Compiled:
        compile_node = _NODES.get(type(expression))
        if compile_node is None:
            raise SqlError("This cannot stand here.", position=expression.position)
        try:
            return compile_node(self, expression)
        except types.NoSuchType as error:  # of what it gives: a DECIMAL that is too wide
            raise SqlError(str(error), position=expression.position) from None

    def compile_as(self, expression: tree.Expression, wanted: Type, what: str) -> Evaluate:
        """Compiled, and widened to `wanted`; a type that does not fit is told with `what` it is."""
        compiled = self.compile(expression)
        if compiled.type is not None and not types.can_widen(compiled.type, wanted):
            raise SqlError(f"{what} must be {wanted}, not {compiled.type}.", position=expression.position)
        return widened(compiled, wanted)

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _literal(self, node: tree.Literal) -> Compiled:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            raise SqlError(f"Invalid numeric literal: {value}", position=node.position)
        return Compiled(literal_type(node), lambda _: value, generated.literal(value))

    def _column(self, node: tree.Column) -> Compiled:
        if node.source is None and node.name in self._parameters:
            place, given = self._parameters[node.name]
            return Compiled(given, operator.itemgetter(place))
        place, known = self._scope.find(node)
        return Compiled(known, operator.itemgetter(place), generated.column(place))

    def _field(self, node: tree.FieldOf) -> Compiled:
        of = self.compile(node.of)
        if not isinstance(of.type, StructType):
            raise SqlError(f"Expected STRUCT type, got: {of.type}", position=node.position)
        found = of.type.field(node.name)
        if found is None:
            raise SqlError(
                f"Could not find field '{node.name}' in {of.type}.",
                hint=did_you_mean(node.name, (name for name, _ in of.type.fields)),
                position=node.position,
            )
        evaluate, name = of.evaluate, node.name

        def field_of(row: list[Any]) -> Any:
            value = evaluate(row)
            return None if value is None else value.get(name)

        code = generated.computed(lambda value: None if value is None else value.get(name), [of.written])
        return Compiled(found, field_of, code)

    def _item(self, node: tree.ItemOf) -> Compiled:
        of, index = self.compile(node.of), self.compile(node.index)
        if isinstance(of.type, ArrayType):
            if index.type is None or index.type.base not in (Base.INTEGER, Base.BIGINT):
                raise SqlError(
                    f"An index of an array must be a whole number, not {index.type}.", position=node.position
                )
            code = generated.computed(closures.item_of, [of.written, index.written])
            return Compiled(of.type.item, closures.array_item(of.evaluate, index.evaluate), code)
        if isinstance(of.type, MapType):
            key = widened(index, of.type.key, node.position)
            code = generated.entry(of.written, converted_code(index, of.type.key))
            return Compiled(of.type.value, closures.map_item(of.evaluate, key), code)
        raise SqlError(f"Subscript expression on non-container type {of.type}.", position=node.position)

    # -- operators -----------------------------------------------------------------------------------------------------

    def _unary(self, node: tree.Unary) -> Compiled:
        operand = self.compile(node.operand)
        evaluate = operand.evaluate
        if node.operator == "NOT":
            self._must_be_boolean(operand, "NOT", node.position)
            code = generated.negation(operand.written, closures.truth)
            return Compiled(types.BOOLEAN, lambda row: not closures.truth(evaluate(row)), code)
        if operand.type is None or not operand.type.is_number:
            raise SqlError(f"The sign of {operand.type} cannot be changed.", position=node.position)
        if node.operator == "+":
            return operand
        return negative(operand, node.position)

    def _binary(self, node: tree.Binary) -> Compiled:
        left, right = self.compile(node.left), self.compile(node.right)
        if node.operator in ("AND", "OR"):
            self._must_be_boolean(left, node.operator, node.left.position)
            self._must_be_boolean(right, node.operator, node.right.position)
            one, other = left.evaluate, right.evaluate
            code = generated.logic(node.operator, left.written, right.written, closures.truth)
            if node.operator == "AND":
                return Compiled(
                    types.BOOLEAN, lambda row: closures.truth(one(row)) and closures.truth(other(row)), code
                )
            return Compiled(types.BOOLEAN, lambda row: closures.truth(one(row)) or closures.truth(other(row)), code)
        if node.operator in comparing.OPERATORS:
            _must_not_be_null(node.left, node.position)
            _must_not_be_null(node.right, node.position)
            left, right = as_moment(node.left, left, right), as_moment(node.right, right, left)
            test = comparing.compare(node.operator, left, right, node.position)
            return Compiled(types.BOOLEAN, test, comparing.comparison_code(node.operator, left, right))
        return arithmetic(node.operator, left, right, node.position)

    def _concatenation(self, node: tree.Concatenation) -> Compiled:
        """Text is put together at once. All else is `+`, one after the other: its type hangs on the order."""
        given = [self.compile(term) for term in node.terms]
        first, *rest = given
        found = first.type or rest[0].type  # two NULLs are refused, as where there are no more
        if found in (types.STRING, types.BYTES) and all(each.type in (None, found) for each in given):
            return joined(found, given)
        return added(given, node.positions)

    def _must_be_boolean(self, given: Compiled, word: str, position: Position) -> None:
        if given.type not in (None, types.BOOLEAN):
            raise SqlError(f"{word} takes BOOLEAN, not {given.type}.", position=position)

    def _is_null(self, node: tree.IsNull) -> Compiled:
        operand = self.compile(node.operand)
        if isinstance(node.operand, tree.Cast):
            operand = self._or_null(node.operand, operand)
        evaluate, code = operand.evaluate, generated.is_null(operand.written, negated=node.negated)
        if node.negated:
            return Compiled(types.BOOLEAN, lambda row: evaluate(row) is not None, code)
        return Compiled(types.BOOLEAN, lambda row: evaluate(row) is None, code)

    def _distinct(self, node: tree.Distinct) -> Compiled:
        left, right = self.compile(node.left), self.compile(node.right)
        pair = Compiled(left.type, operator.itemgetter(0)), Compiled(right.type, operator.itemgetter(1))
        equal = comparing.compare("=", *pair, node.position)
        one, other, negated = left.evaluate, right.evaluate, node.negated

        def distinct(first: Any, second: Any) -> bool:
            if first is None or second is None:
                return ((first is None) != (second is None)) != negated
            return (not equal([first, second])) != negated

        code = generated.computed(distinct, [left.written, right.written])
        return Compiled(types.BOOLEAN, lambda row: distinct(one(row), other(row)), code)

    def _between(self, node: tree.Between) -> Compiled:
        if not isinstance(node.operand, _LEAVES):
            return self._shared_between(node)
        low = tree.Binary(">=", node.operand, node.low, position=node.position)
        high = tree.Binary("<=", node.operand, node.high, position=node.position)
        both = tree.Binary("AND", low, high, position=node.position)
        return self.compile(tree.Unary("NOT", both, position=node.position) if node.negated else both)

    def _shared_between(self, node: tree.Between) -> Compiled:
        operand = self.compile(node.operand)
        low = self._test_of_value(">=", operand, node.low, node.position)
        high = self._test_of_value("<=", operand, node.high, node.position)
        evaluate, negated, from_low, to_high = operand.evaluate, node.negated, low.run, high.run

        def between(row: list[Any]) -> bool:
            value = evaluate(row)
            return (from_low(value, row) and to_high(value, row)) != negated

        def written(value: Code) -> Code:
            both = generated.logic("AND", low.code(value), high.code(value), closures.truth)
            return generated.negation(both, closures.truth) if negated else both

        return Compiled(types.BOOLEAN, between, generated.sharing(operand.written, written))

    def _test_of_value(self, symbol: str, operand: Compiled, node: tree.Expression, position: Position) -> _ValueTest:
        """A comparison of an operand that other comparisons need, too, and that is no literal."""
        right = self.compile(node)
        _must_not_be_null(node, position)
        right = as_moment(node, right, operand)
        run = comparing.compare_value(symbol, operand, right, position)

        def code(value: Code) -> Code:
            if not comparing.are_alike(operand, right):
                return generated.calling_with(value, run)
            return generated.comparison(symbol, value, right.written, comparing.OPERATORS[symbol])

        return _ValueTest(run, code)

    def _in(self, node: tree.In) -> Compiled:
        operand = self.compile(node.operand)
        given = self._items(node.items)
        if operand.type is not None and operand.type.base in (Base.ARRAY, Base.MAP, Base.STRUCT):
            return self._in_composite(node, operand, given)
        items = [beside_operand(each, operand, item) for each, item in zip(given, node.items, strict=True)]
        tests = [
            comparing.compare_value("=", operand, each, item.position)
            for each, item in zip(items, node.items, strict=True)
        ]
        negated, evaluate = node.negated, operand.evaluate

        def within(row: list[Any]) -> bool:
            value = evaluate(row)
            if value is None:
                return False
            return any(test(value, row) for test in tests) != negated

        code = None
        plain = [item.value for item in node.items if isinstance(item, tree.Literal) and item.value is not None]
        as_written = all(
            one is other and comparing.are_alike(operand, one) for one, other in zip(items, given, strict=True)
        )
        if as_written and len(plain) == len(items) <= _IN_MAX:
            code = generated.inclusion(operand.written, plain, negated=negated)
        return Compiled(types.BOOLEAN, within, code)

    def _in_composite(self, node: tree.In, operand: Compiled, given: Sequence[Compiled]) -> Compiled:
        """IN of an array, a map or a struct: all become one type, the operand too."""
        try:
            both = list_types.item_type(node.items, self._type_of, operand.type)
        except SqlError as error:
            raise SqlError(f"Invalid Predicate: {error.message}", hint=error.hint, position=error.position) from None
        evaluate, items, negated = converted(operand, both), [converted(each, both) for each in given], node.negated

        def within(row: list[Any]) -> bool:
            value = evaluate(row)
            return value is not None and any(value == item(row) for item in items) != negated

        return Compiled(types.BOOLEAN, within)

    def _like(self, node: tree.Like) -> Compiled:
        operand, pattern = self.compile(node.operand), self.compile(node.pattern)
        for each in (operand, pattern):
            if each.type not in (None, types.STRING):
                raise SqlError(f"LIKE takes STRING, not {each.type}.", position=node.position)
        test = comparing.like(operand.evaluate, pattern.evaluate, node.escape, negated=node.negated)
        code = None
        if isinstance(node.pattern, tree.Literal) and isinstance(node.pattern.value, str):
            given = operand.written
            code = generated.matching(given, node.pattern.value, node.escape, comparing.matches, negated=node.negated)
        else:
            matching = comparing.like_of(node.escape, negated=node.negated)
            code = generated.computed(matching, [operand.written, pattern.written])
        return Compiled(types.BOOLEAN, test, code)

    def _case(self, node: tree.Case) -> Compiled:
        shared = None if node.operand is None or isinstance(node.operand, _LEAVES) else self.compile(node.operand)
        branches = []
        for condition, result in node.branches:
            test = self._test_of_branch(node.operand, shared, condition)
            branches.append((test, self.compile(result)))
        otherwise = self.compile(node.otherwise) if node.otherwise else Compiled(None, lambda _: None, _NULL)
        result_type: Type | None = None
        for each in [*(result for _, result in branches), otherwise]:
            both = common(result_type, each.type)
            if both is None and each.type is not None and result_type is not None:
                raise SqlError(
                    f"Invalid Case expression. Type for all 'THEN' clauses should be the same: {result_type} and {each.type}.",
                    position=node.position,
                )
            result_type = both
        choices = [(test.run, converted(result, result_type)) for test, result in branches]
        default = converted(otherwise, result_type)
        evaluate = None if shared is None else shared.evaluate

        def choose(row: list[Any]) -> Any:
            value = None if evaluate is None else evaluate(row)
            for test, result in choices:
                if test(value, row):
                    return result(row)
            return default(row)

        def written(value: Code) -> Code:
            codes = [(test.code(value), converted_code(result, result_type)) for test, result in branches]
            return generated.choice(codes, converted_code(otherwise, result_type))

        code = written(_NULL) if shared is None else generated.sharing(shared.written, written)
        return Compiled(result_type, choose, code)

    def _test_of_branch(
        self, operand: tree.Expression | None, shared: Compiled | None, condition: tree.Expression
    ) -> _ValueTest:
        """Of WHEN: a condition, or what the operand of CASE is compared with."""
        if shared is not None:
            return self._test_of_value("=", shared, condition, condition.position)
        test = tree.Binary("=", operand, condition, position=condition.position) if operand else condition
        compiled = self.compile(test)
        self._must_be_boolean(compiled, "WHEN", condition.position)
        evaluate = compiled.evaluate
        return _ValueTest(lambda _, row: evaluate(row), lambda _: compiled.written)

    def _cast(self, node: tree.Cast) -> Compiled:
        operand = self.compile(node.operand)
        convert = converter(operand.type, node.type)
        if convert is None:
            raise SqlError(f"Cast of {operand.type} to {node.type} is not supported", position=node.position)
        evaluate = operand.evaluate
        return Compiled(node.type, lambda row: convert(evaluate(row)), converted_code(operand, node.type))

    # -- things that are put together ----------------------------------------------------------------------------------

    def _make_array(self, node: tree.MakeArray) -> Compiled:
        return constructing.array_of(self._items(node.items), node, self._type_of)

    def _make_map(self, node: tree.MakeMap) -> Compiled:
        found = self._items([each for entry in node.entries for each in entry])
        return constructing.map_of(found[::2], found[1::2], node, self._type_of)

    def _make_struct(self, node: tree.MakeStruct) -> Compiled:
        found = self._items([value for _, value in node.fields])
        return constructing.struct_of([(name, each) for (name, _), each in zip(node.fields, found, strict=True)], node)

    def _items(self, nodes: Sequence[tree.Expression]) -> list[Compiled]:
        """Compiled, with their types kept for lists around them: what is nested is compiled once."""
        found = [self.compile(each) for each in nodes]
        self._item_types |= {id(node): (node, each.type) for node, each in zip(nodes, found, strict=True)}
        return found

    def _type_of(self, node: tree.Expression) -> Type | None:
        return self._item_types[id(node)][1]

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, node: tree.Call) -> Compiled:
        function = scope.scalar_named(node.function)
        if function is None:
            if scope.aggregate_named(node.function) is not None:
                raise SqlError(
                    f"{node.function} is an aggregate function and cannot stand here.",
                    hint="Aggregates stand in SELECT and HAVING of a query with GROUP BY.",
                    position=node.position,
                )
            if scope.table_function_named(node.function) is not None:
                raise SqlError(
                    f"{node.function} is a table function and cannot stand here.",
                    hint="Table functions stand in SELECT, and not within each other.",
                    position=node.position,
                )
            raise registry.unknown(node.function, scope.known_names(), node.position)
        if any(isinstance(argument, tree.Lambda) for argument in node.arguments):
            return self._call_with_lambda(function, node)
        arguments = [self._argument(argument) for argument in node.arguments]
        resolved = registry.resolve(function, [each.type for each in arguments], node.position)
        if resolved.overload.nulls:  # else it gives NULL for it all the same, and the reason is told
            nodes = zip(node.arguments, arguments, strict=True)
            arguments = [self._or_null(argument, each) for argument, each in nodes]
        if resolved.overload.widen:
            pairs = zip(arguments, resolved.parameters, strict=True)
            arguments = [_read_from_text(each, wanted, nulls=resolved.overload.nulls) for each, wanted in pairs]
        evaluates = tuple(
            widened(each, wanted) if resolved.overload.widen and wanted is not None else each.evaluate
            for each, wanted in zip(arguments, resolved.parameters, strict=True)
        )
        written = [
            converted_code(each, wanted) if resolved.overload.widen and wanted is not None else each.written
            for each, wanted in zip(arguments, resolved.parameters, strict=True)
        ]
        overload = resolved.overload
        code = generated.call(overload.call, written, nulls=overload.nulls, whole=overload.whole)
        return Compiled(resolved.returns, closures.calling(overload.call, evaluates, nulls=overload.nulls), code)

    def _or_null(self, node: tree.Expression, compiled: Compiled) -> Compiled:
        """A function or a cast within another function is NULL where it has no value: COALESCE goes on behind it."""
        if not isinstance(node, tree.Call | tree.Cast | tree.FieldOf):
            return compiled
        evaluate = closures.or_null(compiled.evaluate)
        return Compiled(compiled.type, evaluate, generated.or_null(evaluate, compiled.written))

    def _argument(self, node: tree.Expression) -> Compiled:
        if isinstance(node, tree.IntervalUnit):
            unit = node.unit
            return Compiled(None, lambda _: unit)
        return self.compile(node)

    def _call_with_lambda(self, function: registry.ScalarFunction, node: tree.Call) -> Compiled:
        plain = [None if isinstance(each, tree.Lambda) else self.compile(each) for each in node.arguments]
        for overload in function.overloads:
            patterns = overload.signature.spread(len(plain))
            if patterns is None:
                continue
            bindings = Bindings()
            if not all(
                (pattern.name == "LAMBDA") == (each is None) and (each is None or bindings.match(pattern, each.type))
                for pattern, each in zip(patterns, plain, strict=True)
            ):
                continue
            evaluates: list[Evaluate] = []
            written: list[Code | generated.Lambda] = []
            for pattern, argument, each in zip(patterns, node.arguments, plain, strict=True):
                if isinstance(argument, tree.Lambda):
                    made = self._lambda(argument, pattern, bindings)
                    evaluates.append(made.evaluate)
                    written.append(made)
                else:
                    assert each is not None
                    evaluates.append(each.evaluate)
                    written.append(each.written)
            returns = bindings.resolve(overload.signature.returns)
            assert overload.nulls, "functions that take lambdas take NULL"
            code = generated.call_with_lambdas(overload.call, written, overload.waiting)
            return Compiled(returns, closures.calling(overload.call, tuple(evaluates), nulls=True), code)
        given = [None if each is None else each.type for each in plain]
        raise registry.no_form(function.name, [each.signature for each in function.overloads], given, node.position)

    def _lambda(self, node: tree.Lambda, pattern: Pattern, bindings: Bindings) -> generated.Lambda:
        *taken, result = pattern.inner
        if len(taken) != len(node.parameters):
            raise SqlError(
                f"This lambda takes {len(taken)} parameters, not {len(node.parameters)}.", position=node.position
            )
        place = 1 + max([self._scope.width - 1, *(at for at, _ in self._parameters.values())])
        inner = dict(self._parameters)
        for count, (name, each) in enumerate(zip(node.parameters, taken, strict=True)):
            inner[name] = (place + count, bindings.resolve(each))
        body = Compiler(self._scope, inner).compile(node.body)
        if body.type is not None and not bindings.match(result, body.type):
            raise SqlError(f"The lambda gives {body.type}, which does not fit {result}.", position=node.position)
        evaluate, by_column = body.evaluate, row_functions.value_by_column(body.written)
        if by_column is not None:
            return generated.Lambda(body.written, place, lambda row: ColumnLambda(row[:place], evaluate, by_column))

        def closure(row: list[Any]) -> Callable[..., Any]:
            outer = row[:place]

            def call(*given: Any) -> Any:
                budget.spend()
                return evaluate([*outer, *given])

            return call

        return generated.Lambda(body.written, place, closure)

    def _no_lambda(self, node: tree.Lambda) -> NoReturn:
        raise SqlError("A lambda can only be an argument of a function that takes one.", position=node.position)


def _read_from_text(given: Compiled, wanted: Type | None, *, nulls: bool) -> Compiled:
    """A text as the time or bytes that a function takes; one that is none is NULL for a function that takes NULL."""
    if not registry.is_read_from_text(given.type, wanted):
        return given
    evaluate, code = converted(given, wanted), converted_code(given, wanted)
    if nulls:
        evaluate = closures.or_null(evaluate)
        code = generated.or_null(evaluate, code)
    return Compiled(wanted, evaluate, code)


def _must_not_be_null(node: tree.Expression, position: Position) -> None:
    if isinstance(node, tree.Literal) and node.value is None:
        raise SqlError("Comparison with NULL not supported", hint="Use IS NULL.", position=position)


_NODES: Final[dict[type[tree.Expression], Callable[[Compiler, Any], Compiled]]] = {
    tree.Literal: Compiler._literal,
    tree.Column: Compiler._column,
    tree.FieldOf: Compiler._field,
    tree.ItemOf: Compiler._item,
    tree.Unary: Compiler._unary,
    tree.Binary: Compiler._binary,
    tree.Concatenation: Compiler._concatenation,
    tree.IsNull: Compiler._is_null,
    tree.Distinct: Compiler._distinct,
    tree.Between: Compiler._between,
    tree.In: Compiler._in,
    tree.Like: Compiler._like,
    tree.Case: Compiler._case,
    tree.Cast: Compiler._cast,
    tree.MakeArray: Compiler._make_array,
    tree.MakeMap: Compiler._make_map,
    tree.MakeStruct: Compiler._make_struct,
    tree.Call: Compiler._call,
    tree.Lambda: Compiler._no_lambda,
}

"""Random queries, each in two spellings that mean the same: ours, and DuckDB's.

Where ksqlDB's rules are not those of the SQL standard, DuckDB's spelling says so: a comparison with NULL is false
(`COALESCE(..., FALSE)`), a sum of nothing is 0, a whole number divided by another is a whole number. Left out is what
has no batch meaning, or none that both agree on: overflow, division by zero, rounding of halves, the case of letters
beyond Latin.
"""

from __future__ import annotations

import random
from typing import NamedTuple

Pair = tuple[str, str]  # ours, DuckDB's
COLUMNS = {"I": "INT", "J": "INT", "L": "BIGINT", "D": "DOUBLE", "S": "STRING", "W": "STRING"}
DUCK_TYPES = {"INT": "INTEGER", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR"}
_LETTERS = "abAB xyé_%.,"


class Row(NamedTuple):
    id: int
    values: dict[str, object]  # by the names of COLUMNS; J and W are never NULL
    timestamp: int


def random_rows(chance: random.Random, count: int, keys: int) -> list[Row]:
    rows = []
    for _ in range(count):
        values: dict[str, object] = {
            "I": _or_null(chance, chance.randint(-50, 50)),
            "J": chance.randint(-9, 9),
            "L": _or_null(chance, chance.randint(-(10**9), 10**9)),
            "D": _or_null(chance, chance.randint(-400, 400) / 4),
            "S": _or_null(chance, "".join(chance.choices(_LETTERS, k=chance.randint(0, 6)))),
            "W": "".join(chance.choices("ab", k=chance.randint(1, 2))),
        }
        rows.append(Row(chance.randrange(keys), values, chance.randrange(100_000)))
    return rows


def _or_null(chance: random.Random, value: object) -> object:
    return None if chance.random() < 0.2 else value


class Expressions:
    """`prefix` stands before columns: the alias of a source."""

    def __init__(self, chance: random.Random, prefix: str = "") -> None:
        self._chance = chance
        self._prefix = prefix

    def any(self, depth: int = 3) -> Pair:
        make = self._chance.choice((self.whole, self.large, self.real, self.text, self.condition, self.choice))
        return make(depth)

    def _column(self, *names: str) -> Pair:
        name = self._prefix + self._chance.choice(names)
        return name, name

    def _literal(self, low: int, high: int) -> Pair:
        number = self._chance.randint(low, high)
        return (str(number), str(number)) if number >= 0 else (f"({number})", f"({number})")

    def whole(self, depth: int) -> Pair:
        """INT, far from its bounds."""
        if depth <= 0 or self._chance.random() < 0.15:
            return self._column("I", "J") if self._chance.random() < 0.7 else self._literal(-20, 20)
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        three, text = self._literal(-3, 3), self.text(depth - 1)
        divisor = self._chance.choice((-3, 2, 3, 7))
        condition = self.condition(depth - 1)
        return self._chance.choice(
            (
                _both("({} + {})", a, b),
                _both("({} - {})", a, b),
                _both("({} * {})", a, three),
                (f"({a[0]} / ({divisor}))", f"({a[1]} // ({divisor}))"),
                _both(f"({{}} % ({divisor}))", a),
                _both("ABS({})", a),
                (f"LEN({text[0]})", f"LENGTH({text[1]})"),
                _both("COALESCE({}, {})", a, b),
                _both("NULLIF({}, {})", a, b),
                (f"IFNULL({a[0]}, 5)", f"COALESCE({a[1]}, 5)"),
                _both("GREATEST({}, {})", a, b),
                _both("LEAST({}, {})", a, b),
                _both("CASE WHEN {} THEN {} ELSE {} END", condition, a, b),
                _both("CASE WHEN {} THEN {} END", condition, a),
                (f"INSTR({text[0]}, 'a')", f"INSTR({text[1]}, 'a')"),
            )
        )

    def large(self, depth: int) -> Pair:
        """BIGINT."""
        if depth <= 0:
            return self._column("L")
        a, b = self.large(depth - 1), self.whole(depth - 1)
        return self._chance.choice(
            (
                _both("({} + {})", a, b),
                _both("({} - {})", b, a),
                _both("({} * 3)", a),
                _both("ABS({})", a),
                _both("({} % 1000)", a),
                _both("CAST({} AS BIGINT)", b),
                _both("COALESCE({}, {})", a, _both("CAST({} AS BIGINT)", b)),
            )
        )

    def real(self, depth: int) -> Pair:
        """DOUBLE: quarters, so that sums are exact."""
        if depth <= 0:
            return self._column("D")
        a, b, c = self.real(depth - 1), self.real(depth - 1), self.whole(depth - 1)
        return self._chance.choice(
            (
                _both("({} + {})", a, b),
                _both("({} - {})", a, c),
                _both("({} * 2)", a),
                (f"({a[0]} / 4)", f"({a[1]} / 4)"),
                _both("ABS({})", a),
                _both("FLOOR({})", a),
                _both("CEIL({})", a),
                _both("CAST({} AS DOUBLE)", c),
                _both("CASE WHEN {} THEN {} ELSE {} END", self.condition(depth - 1), a, b),
            )
        )

    def text(self, depth: int) -> Pair:
        if depth <= 0 or self._chance.random() < 0.2:
            return self._column("S", "W") if self._chance.random() < 0.8 else ("'b a'", "'b a'")
        a, b, n = self.text(depth - 1), self.text(depth - 1), self.whole(depth - 1)
        begin, length = self._chance.randint(1, 4), self._chance.randint(0, 3)
        return self._chance.choice(
            (
                (f"UCASE({a[0]})", f"UPPER({a[1]})"),
                (f"LCASE({a[0]})", f"LOWER({a[1]})"),
                (f"TRIM({a[0]})", f"TRIM({a[1]}, ' ')"),
                (f"({a[0]} + {b[0]})", f"({a[1]} || {b[1]})"),
                _both("({} || {})", a, b),
                _both("CONCAT({}, {})", a, b),
                _both(f"SUBSTRING({{}}, {begin}, {length})", a),
                _both(f"SUBSTRING({{}}, {begin})", a),
                _both("REPLACE({}, 'a', 'xx')", a),
                _both(f"LPAD({{}}, {length + 2}, '*')", a),
                _both(f"RPAD({{}}, {length + 2}, '*')", a),
                (f"CAST({n[0]} AS STRING)", f"CAST({n[1]} AS VARCHAR)"),
                _both("COALESCE({}, {})", a, b),
                _both("CASE WHEN {} THEN {} ELSE {} END", self.condition(depth - 1), a, b),
            )
        )

    def choice(self, depth: int) -> Pair:
        """A searched CASE of several branches."""
        first, second = self.condition(depth - 1), self.condition(depth - 1)
        return _both("CASE WHEN {} THEN 'one' WHEN {} THEN 'two' ELSE {} END", first, second, self.text(depth - 1))

    def condition(self, depth: int) -> Pair:
        """BOOLEAN, never NULL: a comparison with NULL is false."""
        if depth > 0 and self._chance.random() < 0.4:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self._chance.choice((_both("({} AND {})", a, b), _both("({} OR {})", a, b), _both("(NOT {})", a)))
        make = self._chance.choice((self.whole, self.large, self.real, self.text))
        a, b = make(depth - 1), make(depth - 1)
        operator = self._chance.choice(("=", "<>", "<", "<=", ">", ">="))
        n, low, text = self.whole(depth - 1), self._literal(-10, 10), self.text(depth - 1)
        pattern = self._chance.choice(("'%a%'", "'_b%'", "'a%'", "'%'", "''"))
        return self._chance.choice(
            (
                _false_of_null(_both(f"({{}} {operator} {{}})", a, b)),
                _both("({} IS NULL)", a),
                _both("({} IS NOT NULL)", a),
                _false_of_null(_both("({} BETWEEN {} AND 12)", n, low)),
                _false_of_null(_both("({} IN (1, 2, {}))", n, low)),
                _false_of_null(_both(f"({{}} LIKE {pattern})", text)),
            )
        )


def _both(form: str, *pairs: Pair) -> Pair:
    return form.format(*(each[0] for each in pairs)), form.format(*(each[1] for each in pairs))


def _false_of_null(pair: Pair) -> Pair:
    return pair[0], f"COALESCE({pair[1]}, FALSE)"


class Aggregates:
    def __init__(self, chance: random.Random, expressions: Expressions) -> None:
        self._chance = chance
        self._expressions = expressions

    def one(self) -> Pair:
        make = self._expressions
        number = self._chance.choice((make.whole, make.large, make.real))(1)
        text = make.text(1)
        return self._chance.choice(
            (
                ("COUNT(*)", "COUNT(*)"),
                _both("COUNT({})", self._chance.choice((number, text))),
                (f"SUM({number[0]})", f"COALESCE(SUM({number[1]}), 0)"),
                _both("MIN({})", self._chance.choice((number, text))),
                _both("MAX({})", self._chance.choice((number, text))),
                ("AVG(J)", "AVG(J)"),
                (f"COUNT_DISTINCT({text[0]})", f"COUNT(DISTINCT {text[1]})"),
            )
        )

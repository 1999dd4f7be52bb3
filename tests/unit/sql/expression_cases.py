"""The cases of expressions (cases/expressions.txt, cases/more_expressions.txt) as queries: many of them are columns of
one, so that they run wherever queries run.
"""

from pathlib import Path
from typing import Any

from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.language import tree
from headwater.sql.language import types as t
from headwater.sql.language.parser import parse

LINES = [
    line
    for name in ("expressions.txt", "more_expressions.txt")
    for line in (Path(__file__).parent / "cases" / name).read_text().splitlines()
    if line and not line.startswith("#")
]
_COLUMNS = {
    "I": t.INTEGER,
    "L": t.BIGINT,
    "D": t.DOUBLE,
    "S": t.STRING,
    "N": t.STRING,
    "B": t.BOOLEAN,
    "A": t.array(t.INTEGER),
    "M": t.mapping(t.STRING, t.DOUBLE),
    "T": t.struct(("X", t.INTEGER), ("Y", t.STRING)),
    "DEC": t.decimal(5, 2),
    "BYT": t.BYTES,
    "NI": t.INTEGER,
}
_SCOPE = Scope({(None, name): (place, given) for place, (name, given) in enumerate(_COLUMNS.items())}, width=12)
ROW: dict[str, Any] = {
    "I": 7,
    "L": 10_000_000_000,
    "D": 2.5,
    "S": "Hello World",
    "B": True,
    "A": [3, 1, 2],
    "M": {"a": 1.5, "b": 2.0},
    "T": {"X": 5, "Y": "y"},
    "DEC": 123.45,
    "BYT": "YWJj",
}
STREAM = (
    "CREATE STREAM s (K INT KEY, "
    + ", ".join(f"{name} {given}" for name, given in _COLUMNS.items())
    + ") WITH (kafka_topic='s', value_format='JSON');"
)
INPUT = {"topic": "s", "key": 1, "value": ROW, "timestamp": 0}


def parts_of(line: str) -> tuple[str, str]:
    """The expression, and what is said of its value."""
    text, _, rest = line.partition(" => ") if line.count(" => ") == 1 else line.rpartition(" => ")
    return text, rest


def _writable(text: str) -> bool:
    """Whether JSON can hold it: its type is known, and its maps have keys of text."""
    (statement,) = parse(f"SELECT {text} FROM x;")
    assert isinstance(statement, tree.Select)
    (item,) = statement.query.select
    assert isinstance(item, tree.SelectItem)
    return _json(Compiler(_SCOPE).compile(item.expression).type)


def _json(given: t.Type | None) -> bool:
    if given is None:
        return False
    if isinstance(given, t.MapType):
        return given.key == t.STRING and _json(given.value)
    if isinstance(given, t.ArrayType):
        return _json(given.item)
    return not isinstance(given, t.StructType) or all(_json(each) for _, each in given.fields)


def queries(columns: int) -> list[tuple[str, list[str]]]:
    """Statements of so many columns each, and their expressions; those that are refused are not there."""
    wanted = [text for text, rest in map(parts_of, LINES) if rest.partition(" :: ")[0] != "refused"]
    texts = [text for text in wanted if _writable(text)]
    made = []
    for first in range(0, len(texts), columns):
        some = texts[first : first + columns]
        items = ", ".join(f"{text} AS C{place}" for place, text in enumerate(some))
        made.append((f"{STREAM}\nCREATE STREAM made AS SELECT K, {items} FROM s;", some))
    return made

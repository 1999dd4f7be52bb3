"""Pull queries beyond one table: joins, sub-queries, UNION, window functions, by DuckDB over Arrow views of the rows
that the sources have now.

A query that our own planner takes is carried out by it; DuckDB gets what it does not take. DuckDB runs in memory,
without files, network or extensions, its settings are locked before the query is read, and what the query reads and
calls is looked at (`duckdb_reach`), so that SQL can reach nothing but the given rows. An answer is read piece by piece,
within bounds, and stays in Arrow until its rows are taken. Values are DuckDB's: its division, its order of NULL, its
functions; scalar functions of CREATE FUNCTION are there, too, where their types are plain (`duckdb_functions`).

DuckDB does not tell names by their letters' case, and has no columns that `*` leaves out. So of two sources whose names
differ in case alone, the second has another name in the text that DuckDB gets; and ROWTIME, ROWPARTITION and ROWOFFSET
are columns only where a query names them, and are left out of `*` then.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from headwater.sql.arrow_types import HUGE, sql_type, table_of
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tokens import Kind, Token, tokenize
from headwater.sql.plan import reading
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.sources import PSEUDO
from headwater.sql.server.duckdb_errors import told
from headwater.sql.server.duckdb_functions import OwnFunction
from headwater.sql.server.duckdb_reach import check_reach

MEMORY_MAX: Final = "1GB"
_BATCH_ROWS: Final = 2048  # DuckDB's own measure
TOPIC_COLUMNS: Final[tuple[tuple[str, types.Type], ...]] = (
    ("ROWPARTITION", types.INTEGER),
    ("ROWOFFSET", types.BIGINT),
    ("ROWTIME", types.BIGINT),
    ("KEY", types.STRING),
    ("VALUE", types.STRING),
    ("KEY_BYTES", types.BYTES),
    ("VALUE_BYTES", types.BYTES),
)
_WRITTEN_OUT: Final = re.compile(r"(?:INTERVAL|BIT|BIGNUM|VARINT|TIME WITH TIME ZONE)((?:\[\d*\])*)")
_BEFORE_A_SOURCE: Final = ("FROM", "JOIN", ",")
_BEFORE_A_STAR: Final = ("SELECT", "DISTINCT", "ALL", ",")


@dataclass(frozen=True, slots=True)
class Relation:
    """A source of the query: its columns and its rows."""

    columns: tuple[tuple[str, types.Type], ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a query may hold: the rows and bytes of its answer, and those of all its sources together; bytes as Arrow
    has them, and about so many while they are read.
    """

    rows_max: int = 1_000_000
    bytes_max: int = 256 * 1024 * 1024

    def check(self, what: str, rows: int, size: int) -> None:
        """Raises SqlError."""
        if rows > self.rows_max:
            raise SqlError(
                f"{what} has more than {self.rows_max} rows, which is what a pull query may hold.",
                hint="Raise ksql.query.pull.rows.max, or ask with EMIT CHANGES.",
            )
        if size > self.bytes_max:
            raise SqlError(
                f"{what} has more than {self.bytes_max} bytes, which is what a pull query may hold.",
                hint="Raise ksql.query.pull.bytes.max, or ask with EMIT CHANGES.",
            )


class Taken:
    """What a query has read so far, of all its sources together."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._rows = self._size = 0
        self._first = ""

    def add(self, source: str, rows: int, size: int) -> None:
        """Raises SqlError beyond the bounds."""
        self._first = self._first or source
        self._rows, self._size = self._rows + rows, self._size + size
        self._bounds.check(source if source == self._first else "What the query reads", self._rows, self._size)


USUAL_BOUNDS: Final = Bounds()


class Interruption:
    """How other threads stop a query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None
        self._is_asked = False

    def interrupt(self) -> None:
        with self._lock:
            self._is_asked = True
            if self._connection is not None:
                self._connection.interrupt()

    def attach(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection

    def check(self) -> None:
        """Raises SqlError once it was asked for."""
        if self._is_asked:
            raise SqlError("The query was stopped.")


_TO_BYTES_NAME: Final = "to_bytes"
_TO_BYTES: Final = f"""CREATE MACRO {_TO_BYTES_NAME}(given, form) AS CASE lower(form)
    WHEN 'hex' THEN unhex(given) WHEN 'base64' THEN from_base64(given) WHEN 'utf8' THEN encode(given)
    WHEN 'ascii' THEN encode(given) END"""


def is_query(text: str) -> bool:
    """Whether it is one SELECT or WITH, without EMIT: a question that has an end."""
    words = [each for each in tokenize(text) if each.kind is not Kind.END]
    while words and words[-1].text == ";":
        words.pop()
    if not words or words[0].kind is not Kind.NAME or words[0].text not in ("SELECT", "WITH"):
        return False
    return not any(each.kind is Kind.NAME and each.text == "EMIT" for each in words) and not any(
        each.kind is Kind.SYMBOL and each.text == ";" for each in words
    )


class SourceName(NamedTuple):
    """A name where a query has its sources. Without quotes its case does not count, and is kept as it was written."""

    text: str
    is_quoted: bool

    @property
    def sql(self) -> str:
        """The name of the stream or table that it means."""
        return self.text if self.is_quoted else self.text.upper()


def sources_in(text: str) -> dict[SourceName, bool]:
    """The names that stand where a query has its sources, and whether they surely are sources: what follows a comma may
    be a column.
    """
    found: dict[SourceName, bool] = {}
    tokens = tokenize(text)
    for two_before, before, token in zip([None, *tokens], tokens, tokens[1:], strict=False):
        compares = before.text == "FROM" and two_before is not None and two_before.text == "DISTINCT"
        if _is_before_a_source(before) and token.is_name and not compares:
            name = _name_of(token, text)
            found[name] = found.get(name, False) or before.text != ","
    return found


def _is_before_a_source(token: Token) -> bool:
    return token.text in _BEFORE_A_SOURCE and token.kind in (Kind.NAME, Kind.SYMBOL)


def _name_of(token: Token, text: str) -> SourceName:
    is_quoted = token.kind is not Kind.NAME
    return SourceName(token.text if is_quoted else text[token.start : token.end], is_quoted)


def pseudo_in(text: str) -> tuple[str, ...]:
    """The pseudo columns that a query names."""
    named = {each.text for each in tokenize(text) if each.is_name}
    return tuple(each for each in PSEUDO if each in named)


def told_apart(names: Iterable[SourceName]) -> dict[SourceName, str]:
    """What each is called in DuckDB: as it is written, unless another has that name in other letters."""
    found: dict[SourceName, str] = {}
    taken: dict[str, SourceName] = {}
    for name in names:
        called, number = name.text, 1
        while (other := taken.get(called.lower())) is not None and other.sql != name.sql:
            number += 1
            called = f"{name.text}_{number}"
        taken[called.lower()] = name
        found[name] = called
    return found


def answer(
    text: str,
    relations: Mapping[str, Relation],
    bounds: Bounds = USUAL_BOUNDS,
    interruption: Interruption | None = None,
    functions: Sequence[OwnFunction] = (),
) -> tuple[tuple[Column, ...], Iterator[list[Any]]]:
    """The columns and rows of a query in DuckDB's words over these relations; it may call `functions`. Raises SqlError.
    It computes: for threads.
    """
    interruption = interruption or Interruption()
    duckdb = engine()
    connection = duckdb.connect(":memory:")
    try:
        size = 0
        for name, relation in relations.items():
            interruption.check()
            table = table_of(relation.columns, relation.rows)
            size += table.nbytes
            bounds.check("What the query reads", 0, size)
            connection.register(name, table)
        connection.execute("SET temp_directory=''; SET max_temp_directory_size='0B';")
        connection.execute(f"SET memory_limit='{MEMORY_MAX}'; SET threads=1; SET enable_external_access=false;")
        connection.execute("SET python_enable_replacements=false; SET autoload_known_extensions=false;")
        connection.execute(_TO_BYTES)
        for each in functions:
            each.register(connection)
        connection.execute("SET lock_configuration=true;")
        interruption.attach(connection)
        try:
            check_reach(connection, text, relations, {_TO_BYTES_NAME, *(each.called for each in functions)})
            schema, batches = _batches(connection, text, bounds, interruption)
        except (duckdb.Error, OSError, ValueError) as error:  # Arrow's errors are among the latter two
            interruption.check()
            raise told(str(error), {each.called: each.name for each in functions}) from None
    finally:
        interruption.attach(None)
        connection.close()
    columns = tuple(Column(each.name.upper(), sql_type(each.type)) for each in schema)
    return columns, (row for each in batches for row in _rows(each))


def _batches(connection: Any, text: str, bounds: Bounds, interruption: Interruption) -> tuple[Any, list[Any]]:
    relation = _with_texts(connection.sql(text))
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # by the version of DuckDB
    batches, rows, size = [], 0, 0
    with read(_BATCH_ROWS) as reader:
        for batch in reader:
            interruption.check()
            rows, size = rows + batch.num_rows, size + batch.nbytes
            bounds.check("The answer", rows, size)
            batches.append(batch)
        return reader.schema, batches


def _with_texts(relation: Any) -> Any:
    """Columns of types that neither SQL here nor Python has, and lists of these, as DuckDB itself writes them."""
    given = list(map(str, relation.types))
    kinds = [f"VARCHAR{found[1]}" if (found := _WRITTEN_OUT.fullmatch(each)) else None for each in given]
    if not any(kinds):
        return relation
    items = []
    for place, (kind, name) in enumerate(zip(kinds, relation.columns, strict=True), 1):
        called = name.replace('"', '""')
        items.append(f'CAST(#{place} AS {kind}) AS "{called}"' if kind else f'#{place} AS "{called}"')
    return relation.project(", ".join(items))


def _rows(batch: Any) -> list[list[Any]]:
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        values = column.to_pylist()
        kind = field.type
        if sql_type(kind) == types.BIGINT and (getattr(kind, "precision", 0), getattr(kind, "scale", 0)) == HUGE:
            values = [int(each) if isinstance(each, Decimal) else each for each in values]
        elif sql_type(kind).base is types.Base.MAP:
            values = [None if each is None else dict(each) for each in values]
        elif sql_type(kind) == types.STRING:
            values = [each if each is None or isinstance(each, str) else str(each) for each in values]
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def engine() -> Any:
    try:
        return importlib.import_module("duckdb")
    except ImportError:
        raise SqlError(
            "Joins, sub-queries and other SQL beyond one table need DuckDB.", hint="pip install 'headwater[sql]'"
        ) from None


def in_duckdbs_words(
    text: str,
    called: Mapping[SourceName, str] | None = None,
    hidden: Sequence[str] = (),
    functions: Sequence[OwnFunction] = (),
) -> str:
    """Names between backquotes have double quotes there, sources are `called` as `told_apart` says, also before the dot
    of a column, own functions have their names there, and `*` of a source that is `called` has none of the `hidden`
    columns; all else is the same.
    """
    pieces, at = [], 0
    tokens = tokenize(text)
    own = {each.name: each.called for each in functions}
    by_name = {name.sql: new for name, new in (called or {}).items()}
    stars = _stars(tokens, text, called or {}, hidden) if hidden else {}
    for before, token, behind in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        put = None
        if token.is_name:
            name = _name_of(token, text)
            follows = behind.text if behind is not None and behind.kind is Kind.SYMBOL else ""
            new = name.text
            if follows == "(":
                new = own.get(token.text.upper(), name.text)
            elif follows == "." or (before is not None and _is_before_a_source(before)):
                new = (called or {}).get(name) or by_name.get(name.sql, name.text)
            if name.is_quoted or new != name.text:
                put = '"' + new.replace('"', '""') + '"'
        else:
            put = stars.get(token.start)
        if put is not None:
            pieces += [text[at : token.start], put]
            at = token.end
    return "".join([*pieces, text[at:]])


def _stars(
    tokens: Sequence[Token], text: str, called: Mapping[SourceName, str], hidden: Sequence[str]
) -> dict[int, str]:
    """What stands in the place of each `*` of a source, by where that is. What a sub-query gives is whole: it has such
    a column where it names it. One that says itself what it leaves out stays.
    """
    alone = f"COLUMNS(lambda name: name NOT IN ({', '.join(map(repr, hidden))}))"
    aliases = _aliases(tokens, text, called)
    waiting: dict[int, list[int]] = {}  # by depth of brackets: those whose FROM is still to come
    found, depth = {}, 0
    for at in range(1, len(tokens) - 1):  # the last one is the end
        before, token, behind = tokens[at - 1 : at + 2]
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind is Kind.SYMBOL else 0
        if token.text == "FROM" and token.kind is Kind.NAME and before.text != "DISTINCT":
            places = waiting.pop(depth, [])
            if behind.is_name and _name_of(behind, text) in called:
                found.update(dict.fromkeys(places, alone))
        elif token.text != "*" or token.kind is not Kind.SYMBOL or behind.text in ("EXCLUDE", "REPLACE", "RENAME"):
            continue
        elif before.text in _BEFORE_A_STAR:
            waiting.setdefault(depth, []).append(token.start)
        elif before.text == "." and tokens[at - 2].text in aliases and tokens[at - 3].text in _BEFORE_A_STAR:
            found[token.start] = f"* EXCLUDE ({', '.join(hidden)})"
    return found


def _aliases(tokens: Sequence[Token], text: str, called: Mapping[SourceName, str]) -> set[str]:
    """How sources may be called before a dot: by their names, and by what follows these."""
    found = set()
    for at in range(1, len(tokens) - 1):
        if _is_before_a_source(tokens[at - 1]) and tokens[at].is_name and _name_of(tokens[at], text) in called:
            alias = tokens[at + 2 if tokens[at + 1].text == "AS" else at + 1]
            found |= {tokens[at].text, alias.text} if alias.is_name else {tokens[at].text}
    return found


def relation_of(source: SourceInfo, rows: Sequence[Sequence[Any]], pseudo: Sequence[str] = ()) -> Relation:
    """The rows of a table, columns in the order in which `SELECT *` has them, and those of the `pseudo` columns that
    are named behind.
    """
    given = reading.row_columns(source, source.name)
    places = {each.name: place for place, each in enumerate(given)}
    bounds = [each.name for each in given if each.pseudo and each.name not in PSEUDO]
    names = [each.name for each in source.key_columns] + bounds
    names += [each.name for each in (*source.value_columns, *source.header_columns)]
    names += [each for each in pseudo if each not in names]
    kinds = {each.name: each.type for each in given}
    order = [places[name] for name in names]
    return Relation(tuple((name, kinds[name]) for name in names), [[row[at] for at in order] for row in rows])


def size_of(value: Any) -> int:
    """About how many bytes a value has; numbers and the like count as eight."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(size_of, value)) + sum(map(size_of, value.values()))
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 8


def relation_of_topic(records: Sequence[Any]) -> Relation:
    """The records of a topic as they are."""
    return Relation(
        TOPIC_COLUMNS,
        [
            [each.partition, each.offset, each.timestamp_ms, _text(each.key), _text(each.value), each.key, each.value]
            for each in records
        ],
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")

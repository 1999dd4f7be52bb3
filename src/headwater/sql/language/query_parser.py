"""Queries: SELECT ... FROM ... with its clauses, joins and windows."""

from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError, SqlSyntaxError
from headwater.sql.language.expression_parser import parse_expression
from headwater.sql.language.token_reader import RESERVED, TokenReader
from headwater.sql.language.tokens import Kind

WINDOWS_MAX = 20_000  # that a row of a hopping window may be in
# Words that may follow a source or a column, and so are no alias without AS.
_CLAUSES = frozenset(
    [
        "WINDOW",
        "WHERE",
        "GROUP",
        "PARTITION",
        "HAVING",
        "EMIT",
        "LIMIT",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "OUTER",
        "CROSS",
        "ON",
        "WITHIN",
        "ORDER",
        "FROM",
    ]
)


def parse_query(reader: TokenReader) -> tree.Query:
    position = reader.position
    reader.expect("SELECT")
    select = [_select_item(reader)]
    while reader.accept_symbol(","):
        select.append(_select_item(reader))
    reader.expect("FROM")
    source = _relation(reader)
    window = where = having = limit = emit = None
    group_by = partition_by = None
    order_by: list[tuple[tree.Expression, bool]] = []
    if reader.accept("WINDOW"):
        window = _window(reader)
    if reader.accept("WHERE"):
        where = parse_expression(reader)
    if reader.accept("GROUP"):
        reader.expect("BY")
        group_by = _expressions(reader)
    if reader.accept("PARTITION"):
        reader.expect("BY")
        partition_by = _expressions(reader)
    if reader.accept("HAVING"):
        having = parse_expression(reader)
    if reader.accept("ORDER"):
        reader.expect("BY")
        order_by = _order(reader)
    if reader.accept("EMIT"):
        emit = tree.Emit.FINAL if reader.accept("FINAL") else tree.Emit.CHANGES
        if emit is tree.Emit.CHANGES:
            reader.expect("CHANGES")
    if reader.accept("LIMIT"):
        limit = _limit(reader)
    return tree.Query(
        tuple(select),
        source,
        window,
        where,
        group_by,
        partition_by,
        having,
        tuple(order_by),
        emit,
        limit,
        position=position,
    )


def _limit(reader: TokenReader) -> int:
    """A number that is none of rows is told so; DuckDB would round it."""
    position = reader.token.position
    if reader.token.text == "-" or reader.token.kind in (Kind.DECIMAL, Kind.FLOAT):
        raise SqlError("Value must be integer for command: LIMIT", why="It is 0 or more rows", position=position)
    return reader.integer("how many rows")


def _select_item(reader: TokenReader) -> tree.SelectItem | tree.SelectAll | tree.SelectFields:
    position = reader.position
    if reader.accept_symbol("*"):
        return tree.SelectAll(None, position=position)
    if reader.token.is_name and reader.ahead().text == "." and reader.ahead(2).text == "*":
        source = reader.name()
        reader.take()
        reader.take()
        return tree.SelectAll(source, position=position)
    expression = parse_expression(reader)
    if reader.is_symbol("->"):
        reader.take()
        reader.expect_symbol("*")
        return tree.SelectFields(expression, position=position)
    return tree.SelectItem(expression, _alias(reader), position=position)


def _alias(reader: TokenReader) -> str | None:
    if reader.accept("AS"):
        return reader.name("an alias")
    token = reader.token
    free = token.kind is Kind.NAME and token.text not in RESERVED and token.text not in _CLAUSES
    return reader.take().text if free or token.kind is Kind.QUOTED_NAME else None


def _expressions(reader: TokenReader) -> tuple[tree.Expression, ...]:
    """Of GROUP BY and PARTITION BY, with or without brackets around them."""
    if reader.is_symbol("(") and reader.ahead().text == ")":
        reader.take()
        reader.take()
        return ()
    found = [_grouping(reader)]
    while reader.accept_symbol(","):
        found.append(_grouping(reader))
    return tuple(item for items in found for item in items)


def _grouping(reader: TokenReader) -> list[tree.Expression]:
    start = reader.at
    if not reader.accept_symbol("("):
        return [parse_expression(reader)]
    items = [parse_expression(reader)]
    while reader.accept_symbol(","):
        items.append(parse_expression(reader))
    if len(items) > 1 and reader.accept_symbol(")"):
        return items
    reader.at = start  # `(a + b) * 2`: the bracket belongs to the expression
    return [parse_expression(reader)]


def _order(reader: TokenReader) -> list[tuple[tree.Expression, bool]]:
    items = []
    while True:
        expression = parse_expression(reader)
        descending = reader.accept("DESC")
        if not descending:
            reader.accept("ASC")
        items.append((expression, descending))
        if not reader.accept_symbol(","):
            return items


def _source(reader: TokenReader) -> tree.Source:
    position = reader.position
    if reader.is_symbol("("):
        raise SqlSyntaxError(
            "A sub-query cannot stand here.",
            hint="Create a stream or a table from it first (CREATE STREAM ... AS SELECT) and select from that.",
            position=position,
        )
    name = reader.name("the name of a stream or table")
    return tree.Source(name, _alias(reader) or name, position=position)


def _relation(reader: TokenReader) -> tree.Source | tree.Join:
    left: tree.Source | tree.Join = _source(reader)
    while True:
        position = reader.position
        kind = _join_kind(reader)
        if kind is None:
            return left
        right = _source(reader)
        within = _within(reader) if reader.accept("WITHIN") else None
        reader.expect("ON")
        left = tree.Join(kind, left, right, parse_expression(reader), within, position=position)


def _join_kind(reader: TokenReader) -> tree.JoinKind | None:
    if reader.accept("JOIN"):
        return tree.JoinKind.INNER
    if reader.is_word("CROSS"):
        raise SqlSyntaxError("CROSS joins are not supported.", hint="Join ON a column.", position=reader.position)
    for word, kind in (
        ("INNER", tree.JoinKind.INNER),
        ("LEFT", tree.JoinKind.LEFT),
        ("RIGHT", tree.JoinKind.RIGHT),
        ("FULL", tree.JoinKind.OUTER),
        ("OUTER", tree.JoinKind.OUTER),
    ):
        if reader.accept(word):
            if word != "INNER":
                reader.accept("OUTER")
            reader.expect("JOIN")
            return kind
    return None


def _within(reader: TokenReader) -> tree.Within:
    position = reader.position
    if reader.accept_symbol("("):
        before = reader.duration_ms()
        reader.expect_symbol(",")
        after = reader.duration_ms()
        reader.expect_symbol(")")
    else:
        before = after = reader.duration_ms()
    grace = None
    if reader.accept("GRACE"):
        reader.expect("PERIOD")
        grace = reader.duration_ms()
    return tree.Within(before, after, grace, position=position)


def _window(reader: TokenReader) -> tree.Window:
    position = reader.position
    if reader.token.kind is Kind.NAME and reader.ahead().text in ("TUMBLING", "HOPPING", "SESSION"):
        reader.take()  # the name of the window, which means nothing
    for kind in tree.WindowKind:
        if reader.accept(kind.value):
            break
    else:
        raise reader.unexpected("TUMBLING", "HOPPING", "SESSION")
    reader.expect_symbol("(")
    if kind is not tree.WindowKind.SESSION:
        reader.expect("SIZE")
    size = reader.duration_ms()
    advance = retention = grace = None
    while reader.accept_symbol(","):
        if kind is tree.WindowKind.HOPPING and advance is None:
            reader.expect("ADVANCE", "BY")
            advance = reader.duration_ms()
        elif reader.accept("RETENTION"):
            retention = reader.duration_ms()
        else:
            reader.expect("GRACE", "PERIOD")
            grace = reader.duration_ms()
    if kind is tree.WindowKind.HOPPING and advance is None:
        raise reader.unexpected("ADVANCE")
    reader.expect_symbol(")")
    if size <= 0:
        raise SqlSyntaxError("Window size must be larger than zero.", position=position)
    if advance is not None and not 0 < advance <= size:
        raise SqlSyntaxError(
            "The advance of a hopping window must be larger than zero and at most its size.", position=position
        )
    if advance is not None and size // advance > WINDOWS_MAX:
        raise SqlSyntaxError(f"Each row would be in more than {WINDOWS_MAX} windows at a time.", position=position)
    return tree.Window(kind, size, advance, retention, grace, position=position)

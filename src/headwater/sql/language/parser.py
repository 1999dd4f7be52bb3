"""Statements: text to syntax trees.

`parse(text)` takes any number of statements, each ended by a semicolon; the last one may do without. Variables
(`${name}`) are replaced before, by `substitute`, within the statement that uses them only. A value never becomes more
than one token: what is substituted outside quotes must be a single literal or name, so that a variable cannot smuggle
in a statement.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from headwater.sql.language import tree
from headwater.sql.language.declined import refuse_declined
from headwater.sql.language.errors import BEGINNING, Position, SqlSyntaxError
from headwater.sql.language.expression_parser import parse_expression
from headwater.sql.language.query_parser import parse_query
from headwater.sql.language.token_reader import TokenReader
from headwater.sql.language.tokens import Kind, Token, tokenize
from headwater.sql.language.tree_depth import check_depth
from headwater.sql.language.types import Type

NO_LITERALS: Final[Mapping[str, str]] = MappingProxyType({})
_SHOWN: Final = frozenset(["STREAMS", "TABLES", "TOPICS", "QUERIES", "TYPES", "FUNCTIONS", "PROPERTIES", "VARIABLES"])
_SHOWN_EXTENDED: Final = frozenset(["STREAMS", "TABLES", "TOPICS", "QUERIES"])


class Piece(NamedTuple):
    """The text of one statement, and where it stands in the text that was given."""

    text: str
    begins_at: Position


def parse(
    text: str,
    custom: Mapping[str, Type] | None = None,
    *,
    accepted: bool = False,
    begins_at: Position = BEGINNING,
) -> list[tree.Statement]:
    """All statements of `text`. Types made by CREATE TYPE within it are known to the statements after it. `accepted`:
    they come out of the log of statements, perhaps from an earlier version, which allowed deeper ones. `begins_at`:
    where the text stands in what was given.
    """
    reader = TokenReader(tokenize(text, begins_at), text, dict(custom or {}))
    statements = []
    while not reader.at_end:
        if reader.accept_symbol(";"):
            continue
        statement = parse_statement(reader)
        if not accepted:
            check_depth(statement)
        if isinstance(statement, tree.CreateType):
            reader.custom[statement.name] = statement.type
        statements.append(statement)
        if not reader.at_end and not reader.accept_symbol(";"):
            raise reader.unexpected("';'")
    return statements


def pieces_of(text: str) -> list[Piece]:
    """The statements of a text, for callers that carry out one before the next is read (DEFINE, CREATE TYPE)."""
    pieces = []
    first: Token | None = None
    for token in tokenize(text):
        if token.kind is Kind.END or (token.kind is Kind.SYMBOL and token.text == ";"):
            if first is not None:
                pieces.append(Piece(text[first.start : token.start].rstrip() + ";", first.position))
            first = None
        elif first is None:
            first = token
    return pieces


def split(text: str) -> list[str]:
    """The texts of the statements alone."""
    return [each.text for each in pieces_of(text)]


def substitute(
    text: str,
    variables: Mapping[str, str],
    literals: Mapping[str, str] = NO_LITERALS,
    *,
    begins_at: Position = BEGINNING,
) -> str:
    """`text` with `${name}` replaced. Inside strings and quoted names the value is escaped, and a name that nobody has
    defined stays as it stands, as in ksqlDB; elsewhere the value must be one word. `literals`, by names that mean
    nothing inside strings, come in as they are, whatever stands in them.
    """
    if "${" not in text:
        return text
    pieces, at = [], 0
    for token in tokenize(text, begins_at):
        piece = text[token.start : token.end]
        if token.kind is Kind.VARIABLE and token.text in literals:
            new = literals[token.text]
        elif token.kind is Kind.VARIABLE:
            new = _single_word(token, _known(token.text, variables, token))
        elif token.kind in (Kind.STRING, Kind.QUOTED_NAME) and "${" in piece and not piece.startswith("$$"):
            new = _within_quotes(piece, variables)
        else:
            continue
        pieces += [text[at : token.start], new]
        at = token.end
    return "".join([*pieces, text[at:]])


def _known(name: str, variables: Mapping[str, str], token: Token) -> str:
    known = {each.upper(): value for each, value in variables.items()}
    if name.upper() not in known:
        raise SqlSyntaxError(
            f"The variable '{name}' is not defined.", hint=f"DEFINE {name} = '...';", position=token.position
        )
    return known[name.upper()]


def _single_word(token: Token, value: str) -> str:
    words = tokenize(value)[:-1]
    signed = len(words) == 2 and words[0].text == "-" and words[1].kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
    if not signed and (len(words) != 1 or words[0].kind in (Kind.SYMBOL, Kind.VARIABLE)):
        raise SqlSyntaxError(
            f"Illegal argument at {token.position}: the value of '{token.text}' is not a single name or literal.",
            why="A variable stands for one word, so that it cannot change what a statement does",
            position=token.position,
        )
    return value


def _within_quotes(piece: str, variables: Mapping[str, str]) -> str:
    known = {each.upper(): value for each, value in variables.items()}
    quote, rest, out = piece[0], piece[1:-1], list[str]()
    while "${" in rest and "}" in rest[rest.index("${") :]:
        before, _, after = rest.partition("${")
        name, _, rest = after.partition("}")
        value = known.get(name.upper())
        out += [before, f"${{{name}}}" if value is None else value.strip("'").replace(quote, quote * 2)]
    return quote + "".join([*out, rest]) + quote


def parse_statement(reader: TokenReader) -> tree.Statement:
    start = reader.token.start
    position = reader.position
    refuse_declined(reader)
    word = reader.token.text if reader.token.kind is Kind.NAME else ""
    parser = _STATEMENTS.get(word)
    if parser is None:
        raise reader.unexpected("a statement", *sorted(_STATEMENTS))
    statement = parser(reader)
    end = reader.ahead(-1).end if reader.at else start
    object.__setattr__(statement, "position", position)
    object.__setattr__(statement, "text", reader.text[start:end])
    return statement


def _select(reader: TokenReader) -> tree.Statement:
    return tree.Select(parse_query(reader))


def _create(reader: TokenReader) -> tree.Statement:
    reader.expect("CREATE")
    or_replace = reader.accept("OR")
    if or_replace:
        reader.expect("REPLACE")
    if reader.accept("TYPE"):
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        name = reader.name("the name of a type")
        reader.expect("AS")
        return tree.CreateType(name, reader.type(), if_not_exists)
    if reader.accept("FUNCTION"):
        return _create_function(reader, or_replace)
    read_only = reader.accept("SOURCE")
    kind = _kind(reader)
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name(f"the name of a {kind.value.lower()}")
    columns = _columns(reader) if reader.is_symbol("(") else ()
    properties = _properties(reader)
    if reader.accept("AS") and not columns:
        query = parse_query(reader)
        return tree.CreateAs(kind, name, query, properties, or_replace, if_not_exists)
    return tree.CreateSource(kind, name, columns, properties, or_replace, if_not_exists, read_only)


def _create_function(reader: TokenReader, or_replace: bool) -> tree.Statement:
    """CREATE FUNCTION name LANGUAGE PYTHON AS $$...$$, or USING 'module:function'."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the name of a function")
    if reader.accept("LANGUAGE"):
        reader.expect("PYTHON")
    if reader.accept("USING"):
        target = reader.string("'package.module:function'")
        return tree.CreateFunction(name, None, target, or_replace, if_not_exists)
    reader.expect("AS")
    return tree.CreateFunction(name, reader.string("the code, between $$ and $$"), None, or_replace, if_not_exists)


def _kind(reader: TokenReader) -> tree.SourceKind:
    for kind in tree.SourceKind:
        if reader.accept(kind.value):
            return kind
    raise reader.unexpected("STREAM", "TABLE")


def _columns(reader: TokenReader) -> tuple[tree.ColumnDefinition, ...]:
    reader.expect_symbol("(")
    columns = []
    while True:
        position = reader.position
        name = reader.name("the name of a column")
        wanted = reader.type()
        role, header = tree.Role.VALUE, None
        if reader.accept("PRIMARY"):
            reader.expect("KEY")
            role = tree.Role.PRIMARY_KEY
        elif reader.accept("KEY"):
            role = tree.Role.KEY
        elif reader.accept("HEADERS"):
            role = tree.Role.HEADERS
        elif reader.accept("HEADER"):
            reader.expect_symbol("(")
            role, header = tree.Role.HEADER, reader.string("the key of a header")
            reader.expect_symbol(")")
        columns.append(tree.ColumnDefinition(name, wanted, role, header, position=position))
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return tuple(columns)


def _properties(reader: TokenReader) -> tree.Properties:
    properties = tree.Properties()
    if not reader.accept("WITH"):
        return properties
    reader.expect_symbol("(")
    while not reader.is_symbol(")"):
        position = reader.position
        name = (reader.take().text if reader.token.kind is Kind.STRING else reader.name("a property")).upper()
        reader.expect_symbol("=")
        value = _constant(parse_expression(reader))
        if name in properties:
            raise SqlSyntaxError(f"Duplicate property: {name}", position=position)
        properties[name], properties.places[name] = value, position
        if not reader.accept_symbol(","):
            break
    reader.expect_symbol(")")
    return properties


def _constant(expression: tree.Expression) -> bool | int | float | Decimal | str | None:
    if isinstance(expression, tree.Literal):
        return expression.value
    raise SqlSyntaxError("The value of a property must be a literal.", position=expression.position)


def _insert(reader: TokenReader) -> tree.Statement:
    reader.expect("INSERT", "INTO")
    target = reader.name("the name of a stream or table")
    columns: list[str] = []
    if reader.accept_symbol("("):
        columns.append(reader.name("the name of a column"))
        while reader.accept_symbol(","):
            columns.append(reader.name("the name of a column"))
        reader.expect_symbol(")")
    if reader.accept("VALUES"):
        return tree.InsertValues(target, tuple(columns), _values(reader))
    if columns:
        raise reader.unexpected("VALUES")
    properties = _properties(reader)
    return tree.InsertInto(target, parse_query(reader), properties)


def _values(reader: TokenReader) -> tuple[tree.Expression, ...]:
    reader.expect_symbol("(")
    values = [parse_expression(reader)]
    while reader.accept_symbol(","):
        values.append(parse_expression(reader))
    reader.expect_symbol(")")
    return tuple(values)


def _drop(reader: TokenReader) -> tree.Statement:
    reader.expect("DROP")
    if reader.accept("TYPE"):
        if_exists = reader.accept("IF", "EXISTS")
        return tree.DropType(reader.name("the name of a type"), if_exists)
    if reader.accept("FUNCTION"):
        if_exists = reader.accept("IF", "EXISTS")
        return tree.DropFunction(reader.name("the name of a function"), if_exists)
    kind = _kind(reader)
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name(f"the name of a {kind.value.lower()}")
    return tree.Drop(kind, name, if_exists, reader.accept("DELETE", "TOPIC"))


def _alter(reader: TokenReader) -> tree.Statement:
    reader.expect("ALTER")
    if reader.accept("SYSTEM"):
        return tree.AlterSystem(*_assignment(reader))
    kind = _kind(reader)
    name = reader.name(f"the name of a {kind.value.lower()}")
    columns = []
    while True:
        reader.expect("ADD")
        reader.accept("COLUMN")
        position = reader.position
        column = reader.name("the name of a column")
        columns.append(tree.ColumnDefinition(column, reader.type(), position=position))
        if not reader.accept_symbol(","):
            return tree.AlterSource(kind, name, tuple(columns))


def _set(reader: TokenReader) -> tree.Statement:
    reader.expect("SET")
    return tree.SetProperty(*_assignment(reader))


def _assignment(reader: TokenReader) -> tuple[str, str]:
    name = reader.string("a property in quotes")
    reader.expect_symbol("=")
    return name, reader.string("a value in quotes")


def _unset(reader: TokenReader) -> tree.Statement:
    reader.expect("UNSET")
    if reader.accept("ALL"):
        return tree.UnsetProperty(None)
    return tree.UnsetProperty(reader.string("a property in quotes"))


def _define(reader: TokenReader) -> tree.Statement:
    reader.expect("DEFINE")
    name = reader.name("the name of a variable")
    reader.expect_symbol("=")
    return tree.Define(name, reader.string("a value in quotes"))


def _undefine(reader: TokenReader) -> tree.Statement:
    reader.expect("UNDEFINE")
    return tree.Undefine(reader.name("the name of a variable"))


def _control(reader: TokenReader) -> tree.Statement:
    action = reader.take().text
    if reader.accept("ALL"):
        return tree.ControlQuery(action, None)
    reader.accept("QUERY")
    return tree.ControlQuery(action, reader.name("the id of a query"))


def _show(reader: TokenReader) -> tree.Statement:
    reader.take()
    if reader.accept("ALL"):
        reader.expect("TOPICS")
        return tree.Show("TOPICS", reader.accept("EXTENDED"), internal=True)
    what = reader.token.text if reader.token.kind is Kind.NAME else ""
    if what not in _SHOWN:
        raise reader.unexpected(*sorted(_SHOWN))
    reader.take()
    return tree.Show(what, what in _SHOWN_EXTENDED and reader.accept("EXTENDED"))


def _describe(reader: TokenReader) -> tree.Statement:
    reader.expect("DESCRIBE")
    if reader.accept("FUNCTION"):
        return tree.Describe(reader.name("the name of a function"), function=True)
    for kind, word in ((tree.SourceKind.STREAM, "STREAMS"), (tree.SourceKind.TABLE, "TABLES")):
        if reader.accept(word):
            return tree.DescribeAll(kind, reader.accept("EXTENDED"))
    name = reader.name()
    return tree.Describe(name, reader.accept("EXTENDED"))


def _explain(reader: TokenReader) -> tree.Statement:
    reader.expect("EXPLAIN")
    if reader.is_word("SELECT") or reader.is_word("CREATE") or reader.is_word("INSERT"):
        return tree.Explain(parse_statement(reader))
    return tree.Explain(reader.name("the id of a query, or a statement"))


def _print(reader: TokenReader) -> tree.Statement:
    reader.expect("PRINT")
    token = reader.take()
    if token.kind is Kind.NAME:
        end = token.end
        while (reader.is_symbol(".") or reader.is_symbol("-")) and reader.token.start == end:
            reader.take()
            end = reader.take().end
        topic = reader.text[token.start : end]  # names of topics keep their case
    elif token.kind in (Kind.STRING, Kind.QUOTED_NAME):
        topic = token.text
    else:
        reader.at -= 1 if token.kind is not Kind.END else 0
        raise reader.unexpected("the name of a topic")
    from_beginning = reader.accept("FROM", "BEGINNING")
    interval = limit = None
    if reader.accept("INTERVAL") or reader.accept("SAMPLE"):
        interval = reader.integer()
    if reader.accept("LIMIT"):
        limit = reader.integer()
    return tree.Print(topic, from_beginning, interval, limit)


def _assert(reader: TokenReader) -> tree.Statement:
    reader.expect("ASSERT")
    if reader.is_word("NULL") or reader.is_word("VALUES"):
        return _assert_values(reader)
    exists = not reader.accept("NOT", "EXISTS")
    if reader.accept("TOPIC"):
        token = reader.take()
        name = token.text if token.kind in (Kind.STRING, Kind.QUOTED_NAME) else reader.text[token.start : token.end]
        properties = _properties(reader)
        return tree.Assert("TOPIC", exists, name, properties, _timeout(reader))
    reader.expect("SCHEMA")
    properties = tree.Properties()
    if reader.accept("SUBJECT"):
        properties["SUBJECT"] = reader.string("a subject in quotes")
    if reader.accept("ID"):
        properties["ID"] = reader.integer("the id of a schema")
    return tree.Assert("SCHEMA", exists, None, properties, _timeout(reader))


def _timeout(reader: TokenReader) -> int | None:
    return reader.duration_ms() if reader.accept("TIMEOUT") else None


def _assert_values(reader: TokenReader) -> tree.Statement:
    tombstone = reader.accept("NULL")
    reader.expect("VALUES")
    source = reader.name("the name of a stream or table")
    columns = []
    if reader.accept_symbol("("):
        columns.append(reader.name("the name of a column"))
        while reader.accept_symbol(","):
            columns.append(reader.name("the name of a column"))
        reader.expect_symbol(")")
    if tombstone:
        reader.expect("KEY")
    else:
        reader.expect("VALUES")
    return tree.AssertValues(source, tuple(columns), _values(reader), tombstone)


_STATEMENTS: Final[dict[str, Callable[[TokenReader], tree.Statement]]] = {
    "SELECT": _select,
    "CREATE": _create,
    "INSERT": _insert,
    "DROP": _drop,
    "ALTER": _alter,
    "SET": _set,
    "UNSET": _unset,
    "DEFINE": _define,
    "UNDEFINE": _undefine,
    "TERMINATE": _control,
    "PAUSE": _control,
    "RESUME": _control,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
    "PRINT": _print,
    "ASSERT": _assert,
}

"""Statements to syntax trees, and the errors of texts that are none."""

import pytest

from headwater.sql.language import tree
from headwater.sql.language import types as t
from headwater.sql.language.errors import DeclinedError, SqlSyntaxError
from headwater.sql.language.parser import parse, split, substitute
from headwater.sql.language.tree_depth import JOINS_MAX, LEVELS_MAX


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SHOW STREAMS;", tree.Show),
        ("LIST TOPICS EXTENDED;", tree.Show),
        ("DESCRIBE s EXTENDED;", tree.Describe),
        ("DESCRIBE FUNCTION ucase;", tree.Describe),
        ("EXPLAIN SELECT * FROM s EMIT CHANGES;", tree.Explain),
        ("EXPLAIN CSAS_T_0;", tree.Explain),
        ("PRINT some-topic.v1 FROM BEGINNING INTERVAL 2 LIMIT 3;", tree.Print),
        ("TERMINATE CSAS_T_0;", tree.ControlQuery),
        ("PAUSE ALL;", tree.ControlQuery),
        ("RESUME CSAS_T_0;", tree.ControlQuery),
        ("DROP STREAM IF EXISTS s DELETE TOPIC;", tree.Drop),
        ("DROP TYPE t;", tree.DropType),
        ("SET 'auto.offset.reset' = 'earliest';", tree.SetProperty),
        ("UNSET 'auto.offset.reset';", tree.UnsetProperty),
        ("UNSET ALL;", tree.UnsetProperty),
        ("ALTER SYSTEM 'auto.offset.reset'='earliest';", tree.AlterSystem),
        ("SHOW ALL TOPICS EXTENDED;", tree.Show),
        ("DESCRIBE STREAMS EXTENDED;", tree.DescribeAll),
        ("DESCRIBE TABLES;", tree.DescribeAll),
        ("DEFINE a = 'b';", tree.Define),
        ("UNDEFINE a;", tree.Undefine),
        ("ALTER STREAM s ADD COLUMN a INT, ADD b STRING;", tree.AlterSource),
        ("ASSERT NOT EXISTS TOPIC t WITH (partitions=3) TIMEOUT 5 SECONDS;", tree.Assert),
        ("ASSERT SCHEMA SUBJECT 's' ID 3;", tree.Assert),
        ("ASSERT VALUES s (a, b) VALUES (1, 'x');", tree.AssertValues),
        ("ASSERT NULL VALUES s (id) KEY (1);", tree.AssertValues),
        ("INSERT INTO s (a) VALUES (1);", tree.InsertValues),
        ("INSERT INTO s SELECT * FROM t;", tree.InsertInto),
        ("CREATE OR REPLACE TABLE t AS SELECT a FROM s GROUP BY a;", tree.CreateAs),
        ("CREATE SOURCE TABLE t (a INT PRIMARY KEY) WITH (kafka_topic='t');", tree.CreateSource),
        ("SELECT * FROM t WHERE a = 1 ORDER BY b DESC LIMIT 3;", tree.Select),
    ],
)
def test_every_kind_of_statement(text: str, kind: type[tree.Statement]) -> None:
    (statement,) = parse(text)
    assert type(statement) is kind
    assert statement.text == text.rstrip(";")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE CONNECTOR c WITH ('connector.class'='x');",
        "CREATE SOURCE CONNECTOR c WITH ('connector.class'='x');",
        "CREATE SINK CONNECTOR IF NOT EXISTS c WITH ('connector.class'='x');",
        "DROP CONNECTOR IF EXISTS c;",
        "DESCRIBE CONNECTOR c;",
        "LIST CONNECTORS;",
        "SHOW SOURCE CONNECTORS;",
        "SHOW SINK CONNECTORS;",
        "SHOW CONNECTOR PLUGINS;",
        "ASSERT STREAM s (a INT) WITH (kafka_topic='s');",
        "ASSERT TABLE s;",
        "RUN SCRIPT 'a.sql';",
    ],
)
def test_statements_of_ksqldb_that_are_not_carried_out_are_refused_by_name(text: str) -> None:
    with pytest.raises(DeclinedError, match="is not carried out here") as told:
        parse(text)
    first, second = text.rstrip(";").split()[:2]
    assert {"LIST": "SHOW"}.get(first, first) in told.value.message
    assert second in told.value.message
    assert told.value.hint
    assert told.value.why[0].isupper(), "a sentence of its own"


def test_a_source_may_be_called_like_what_is_refused() -> None:
    (statement,) = parse("DESCRIBE connectors;")
    assert statement == tree.Describe("CONNECTORS")


def test_clauses_of_a_query() -> None:
    (statement,) = parse(
        "SELECT a.x, COUNT(*) c FROM s a LEFT OUTER JOIN t b WITHIN (1 HOUR, 2 MINUTES) GRACE PERIOD 3 SECONDS ON a.x = b.x"
        " WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR, RETENTION 7 DAYS, GRACE PERIOD 0 SECONDS)"
        " WHERE a.y > 1 GROUP BY a.x HAVING COUNT(*) > 1 EMIT FINAL LIMIT 5;"
    )
    assert isinstance(statement, tree.Select)
    query = statement.query
    assert isinstance(query.source, tree.Join)
    assert query.source.kind is tree.JoinKind.LEFT
    assert query.source.within == tree.Within(3_600_000, 120_000, 3_000)
    assert query.window == tree.Window(tree.WindowKind.HOPPING, 86_400_000, 3_600_000, 7 * 86_400_000, 0)
    assert query.emit is tree.Emit.FINAL
    assert query.limit == 5
    assert [item.alias for item in query.select if isinstance(item, tree.SelectItem)] == [None, "C"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("INT", "INTEGER"),
        ("VARCHAR(STRING)", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("ARRAY<MAP<STRING, STRUCT<a INT, `b c` DOUBLE>>>", "ARRAY<MAP<STRING, STRUCT<`A` INTEGER, `b c` DOUBLE>>>"),
    ],
)
def test_types(text: str, shown: str) -> None:
    (statement,) = parse(f"CREATE TYPE x AS {text};")
    assert isinstance(statement, tree.CreateType)
    assert str(statement.type) == shown


def test_precedence() -> None:
    (statement,) = parse("SELECT NOT a = 1 + 2 * 3 OR b AND c FROM s;")
    assert isinstance(statement, tree.Select)
    item = statement.query.select[0]
    assert isinstance(item, tree.SelectItem)
    a, b, c = (tree.Column(name) for name in "ABC")
    product = tree.Binary("*", tree.Literal(2), tree.Literal(3))
    comparison = tree.Binary("=", a, tree.Binary("+", tree.Literal(1), product))
    assert item.expression == tree.Binary("OR", tree.Unary("NOT", comparison), tree.Binary("AND", b, c))


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("SELECT a\nFROM", "found the end of the text", 2, 5),
        ("CREATE STREM s (a INT);", "Did you mean STREAM?", 1, 8),
        ("SELECT 'a FROM s;", "closing quote", 1, 8),
        ("SELECT /* a FROM s;", "comment", 1, 8),
        ("SELECT FROM s;", "reserved keyword", 1, 8),
        ("CREATE STREAM s (a STRNG) WITH (kafka_topic='t');", "Did you mean STRING?", 1, 20),
        ("CREATE STREAM s (a DECIMAL(2, 4)) WITH (kafka_topic='t');", "precision must be >= scale", 1, 20),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 0 SECONDS) GROUP BY a;", "larger than zero", 1, 24),
        ("SELECT a FROM (SELECT b FROM s);", "sub-query", 1, 15),
        ("SELECT a FROM s CROSS JOIN t;", "CROSS", 1, 17),
        ("SELECT 99999999999999999999 FROM s;", "Invalid numeric literal", 1, 8),
        ("SELECT 1e999 FROM s;", "overflows DOUBLE", 1, 8),
        ("FROBNICATE;", "expected a statement", 1, 1),
        ("SELECT " + "9" * 5000 + " FROM s;", "Invalid numeric literal", 1, 8),
        ("SELECT ? FROM s;", "token recognition error", 1, 8),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)


@pytest.mark.parametrize("text", ["(" * 5000 + "1", "NOT " * 5000 + "a", "- " * 5000 + "1", "ARRAY[" * 5000])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="Nested deeper"):
        parse(f"SELECT {text} FROM s;")


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "=", "<", "IS DISTINCT FROM", "LIKE"])
@pytest.mark.parametrize("count", [LEVELS_MAX + 1, 900])
def test_the_length_of_a_chain_is_bounded(operator: str, count: int) -> None:
    with pytest.raises(SqlSyntaxError, match="Operators in one chain") as raised:
        parse("SELECT " + f" {operator} ".join("a" * count) + " FROM s;")
    assert raised.value.position.line == 1
    parse("SELECT " + f" {operator} ".join("a" * LEVELS_MAX) + " FROM s;")


@pytest.mark.parametrize(
    "text", ["a" + "[1]" * 900, "a" + "->b" * 900, "(" * 40 + " + ".join("a" * 99) + " + a - a - a)" * 40]
)
def test_the_length_of_other_chains_is_bounded(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="Operators in one chain"):
        parse(f"SELECT {text} FROM s;")


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_a_long_chain_that_may_be_grouped_is_not_deep(operator: str) -> None:
    """All terms are there, in their order, and each operator stands where it was."""
    (statement,) = parse("SELECT " + f" {operator} ".join(f"c{place}" for place in range(3_000)) + " FROM s;")
    assert isinstance(statement, tree.Select)
    (item,) = statement.query.select
    assert isinstance(item, tree.SelectItem)
    in_order: list[tree.Expression] = []

    def walk(node: tree.Expression) -> None:
        if not isinstance(node, tree.Binary):
            in_order.append(node)
            return
        walk(node.left)
        in_order.append(node)
        walk(node.right)

    walk(item.expression)
    assert [each.name for each in in_order if isinstance(each, tree.Column)] == [f"C{place}" for place in range(3_000)]
    columns = [each.position.column for each in in_order]
    assert columns == sorted(columns)


def test_a_long_concatenation_is_one_node() -> None:
    names = [f"C{place}" for place in range(3_000)]
    (statement,) = parse(f"SELECT {' || '.join(names)} FROM s;")
    assert isinstance(statement, tree.Select)
    (item,) = statement.query.select
    assert isinstance(item, tree.SelectItem)
    assert isinstance(item.expression, tree.Concatenation)
    assert item.expression.terms == tuple(tree.Column(name) for name in names)
    assert [each.column for each in item.expression.positions[:2]] == [11, 17]
    assert len(item.expression.positions) == 2_999


def test_what_the_log_has_is_read_whatever_its_depth() -> None:
    text = "SELECT " + " + ".join("a" * 400) + " FROM s;"
    with pytest.raises(SqlSyntaxError, match="Operators in one chain"):
        parse(text)
    assert len(parse(text, accepted=True)) == 1


def test_joins_are_bounded() -> None:
    text = " ".join(f"JOIN t AS t{place} ON s.id = t{place}.id" for place in range(JOINS_MAX))
    parse(f"SELECT * FROM s {text};")
    with pytest.raises(SqlSyntaxError, match="at most 50 joins"):
        parse(f"SELECT * FROM s {text} JOIN u ON s.id = u.id;")


def test_depth_of_types_is_bounded() -> None:
    with pytest.raises(SqlSyntaxError, match="Nested deeper"):
        parse("CREATE TYPE t AS " + "ARRAY<" * 5000 + "INT" + ">" * 5000 + ";")


def test_a_thousand_columns() -> None:
    columns = ", ".join(f"c{place} INT" for place in range(1000))
    (statement,) = parse(f"CREATE STREAM s ({columns}) WITH (kafka_topic='t', value_format='JSON');")
    assert isinstance(statement, tree.CreateSource)
    assert len(statement.columns) == 1000


def test_statements_are_told_apart_by_semicolons_outside_of_quotes() -> None:
    assert split("SELECT ';' FROM s; -- ;\nSHOW TABLES") == ["SELECT ';' FROM s;", "SHOW TABLES;"]


def test_types_made_before_are_known_after() -> None:
    _, statement = parse("CREATE TYPE a AS STRUCT<x INT>; CREATE STREAM s (v a) WITH (kafka_topic='t');")
    assert isinstance(statement, tree.CreateSource)
    assert statement.columns[0].type == t.struct(("X", t.INTEGER))


def test_a_quote_in_a_variable_stays_within_its_string() -> None:
    assert substitute("SELECT '${a}' FROM s;", {"a": "it's"}) == "SELECT 'it''s' FROM s;"
    assert substitute("SELECT * FROM s WHERE a = ${a};", {"A": "-5"}) == "SELECT * FROM s WHERE a = -5;"


@pytest.mark.parametrize("value", ["1; DROP STREAM s", "1 OR 1 = 1", "a b", "", "(1)"])
def test_a_variable_is_one_word(value: str) -> None:
    with pytest.raises(SqlSyntaxError, match="single name or literal"):
        substitute("SELECT * FROM s WHERE a = ${a};", {"a": value})

"""What each statement needs of its sender."""

import pytest

from headwater.base.acls import Operation
from headwater.sql.language import tree
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server import rights
from headwater.web.callers import Need, cluster, topic

CATALOG = """
CREATE STREAM s (id INT KEY, n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE STREAM big WITH (KAFKA_TOPIC='big-orders') AS SELECT * FROM s WHERE n > 5;
"""
READ, WRITE, ALTER, DESCRIBE = Operation.READ, Operation.WRITE, Operation.ALTER, Operation.DESCRIBE
CREATE, DELETE = Operation.CREATE, Operation.DELETE


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session()
    made.run(CATALOG)
    return made


def parsed(session: Session, text: str) -> tree.Statement:
    (statement,) = session.parse(text)
    return statement


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("SELECT * FROM s EMIT CHANGES;", [topic(READ, "orders")]),
        (
            "SELECT * FROM s JOIN t ON s.id = t.id EMIT CHANGES;",
            [topic(READ, "orders"), topic(READ, "users")],
        ),
        ("SELECT * FROM t WHERE id = 1;", [topic(READ, "users")]),
        ("SELECT * FROM nowhere EMIT CHANGES;", []),
        ("PRINT 'raw';", [topic(READ, "raw")]),
        ("INSERT INTO s (id, n) VALUES (1, 2);", [topic(WRITE, "orders")]),
        ("INSERT INTO big SELECT * FROM s;", [topic(READ, "orders"), topic(WRITE, "big-orders")]),
        ("CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='raw', VALUE_FORMAT='JSON');", [topic(READ, "raw")]),
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='raw', VALUE_FORMAT='JSON', PARTITIONS=1);",
            [topic(READ, "raw"), topic(CREATE, "raw")],
        ),
        (
            "CREATE STREAM x (a INT) WITH (KAFKA_TOPIC='raw', VALUE_FORMAT='AVRO');",
            [topic(READ, "raw"), topic(WRITE, "raw")],
        ),
        ("CREATE STREAM x WITH (KAFKA_TOPIC='raw', VALUE_FORMAT='AVRO');", [topic(READ, "raw")]),
        (
            "CREATE OR REPLACE STREAM s (id INT KEY) WITH (KAFKA_TOPIC='raw', VALUE_FORMAT='JSON');",
            [topic(READ, "raw"), topic(ALTER, "orders")],
        ),
        ("DROP STREAM s;", [topic(ALTER, "orders")]),
        ("DROP STREAM s DELETE TOPIC;", [topic(ALTER, "orders"), topic(DELETE, "orders")]),
        ("TERMINATE ALL;", [cluster(ALTER)]),
        ("CREATE TYPE a AS STRUCT<x INT>;", [cluster(ALTER)]),
        ("SHOW PROPERTIES;", [cluster(Operation.DESCRIBE_CONFIGS)]),
        ("SHOW STREAMS;", []),
        ("DESCRIBE s;", [topic(DESCRIBE, "orders")]),
        ("EXPLAIN SELECT * FROM s EMIT CHANGES;", [topic(DESCRIBE, "orders")]),
        ("ASSERT TOPIC raw;", [topic(DESCRIBE, "raw")]),
    ],
)
def test_statements(session: Session, text: str, needs: list[Need]) -> None:
    assert rights.needs(parsed(session, text), session) == needs


def test_a_running_query_is_its_sinks_owners(session: Session) -> None:
    (query_id,) = session.queries
    for text, operation in ((f"TERMINATE {query_id};", ALTER), (f"PAUSE {query_id};", ALTER)):
        assert rights.needs(parsed(session, text), session) == [topic(operation, "big-orders")]
    explained = rights.needs(parsed(session, f"EXPLAIN {query_id};"), session)
    assert explained == [topic(DESCRIBE, "orders"), topic(DESCRIBE, "big-orders")]


def test_a_query_that_is_named_in_other_letters_is_its_sinks_owners_too() -> None:
    """It would be anybody's: what is not known needs nothing."""
    session = Session()
    session.run(CATALOG + "CREATE STREAM `bar` AS SELECT * FROM s;")
    for text, operation in (("TERMINATE CSAS_bar_1;", ALTER), ("PAUSE CSAS_BAR_1;", ALTER)):
        statement = parsed(session, text)
        assert rights.needs(statement, session) == [topic(operation, "bar")]
        assert rights.telling(statement, session)(topic(operation, "bar")) == "ALTER on the topic of bar"
    explained = rights.needs(parsed(session, "EXPLAIN CSAS_bar_1;"), session)
    assert explained == [topic(DESCRIBE, "orders"), topic(DESCRIBE, "bar")]


def test_the_plan_says_what_is_written(session: Session) -> None:
    statement = parsed(session, "CREATE STREAM more WITH (KAFKA_TOPIC='m') AS SELECT * FROM s;")
    done = session.copy().execute(statement)
    assert isinstance(done, PersistentQuery)
    wanted = [topic(READ, "orders"), topic(WRITE, "m"), topic(CREATE, "m")]
    assert rights.of_outcome(statement, done, session) == wanted

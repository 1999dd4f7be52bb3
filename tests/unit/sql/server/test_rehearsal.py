"""Several statements in one request: where one is wrong, none is carried out, and the answer tells the truth."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.schemas import SchemaType
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.functions import library
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import pieces_of
from headwater.sql.server.api import make_door
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import Engine
from headwater.sql.server.node import SqlNode
from headwater.sql.server.rehearsal import Progress, Rehearsal
from headwater.web.messages import Headers, HttpError, Request

_S = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"
_BIG = "CREATE STREAM big AS SELECT * FROM s WHERE v > 5;"


class Log:
    """What is appended is applied at once."""

    def __init__(self, node: SqlNode) -> None:
        self._node = node

    async def end(self) -> int:
        return self._node.engine.applied

    async def append(self, command: Command) -> int:
        offset = self._node.engine.applied
        self._node.engine.apply(offset, command.encode())
        return offset


class Admin:
    """Of three brokers. Has a topic `in` of one partition with three replicas, and makes others."""

    def __init__(self) -> None:
        self.replicas: dict[str, int] = {}  # of what it has made

    async def list_topics(self, *, internal: bool = False) -> list[Any]:
        return [SimpleNamespace(name="in", partitions=[SimpleNamespace(replicas=[1, 2, 3])])] if internal else []

    async def describe_topics(self, names: list[str]) -> dict[str, Any]:
        there = SimpleNamespace(partitions=[SimpleNamespace(replicas=[1, 2, 3])])
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        return {each: there if each == "in" else error for each in names}

    async def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Any]:
        return dict.fromkeys(resources, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))

    async def create_topics(self, wanted: list[Any]) -> dict[str, KafkaError | None]:
        self.replicas |= {each.name: each.replication_factor for each in wanted}
        too_many = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "there are 3 brokers")
        return {each.name: too_many if each.replication_factor > 3 else None for each in wanted}


def _node(*statements: str) -> SqlNode:
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    for text in statements:
        assert node.engine.apply(node.engine.applied, Command(text).encode()).error is None
    node._log, node._admin = cast("Any", Log(node)), cast("Any", Admin())
    return node


def _posted(node: SqlNode, path: str, body: bytes) -> tuple[int, Any]:
    headers = Headers((("content-type", "application/json"),))
    request = Request("POST", path, tuple(path.strip("/").split("/")), headers=headers, body=body)
    try:
        answer = asyncio.run(make_door(node).handle(request))
    except HttpError as error:
        return error.status, {"error_code": error.code, "message": error.message}
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def _run(node: SqlNode, sql: str) -> tuple[int, Any]:
    return _posted(node, "/ksql", json.dumps({"ksql": sql}).encode())


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("CREATE STREAM u AS SELECT nothing FROM big;", 40001),
        ("CREATE STREAM big AS SELECT * FROM s;", 40001),
        ("DROP STREAM s;", 40001),  # BIG reads it
        ("SET 'auto.offset.reset'='yesterday';", 40001),
        ("CREATE STREAM u (v ADDRESS) WITH (kafka_topic='in', value_format='JSON');", 40001),
        ("ALTER SYSTEM 'no.such.property'='1';", 40001),
        ("CREATE STREAM u (v INT) WITH (kafka_topic='in');", 40001),  # no VALUE_FORMAT
        ("CREATE STREAM u (v INT) WITH (kafka_topic='in', value_format='JSN');", 40001),
        ("INSERT INTO nobody (v) VALUES (1);", 40001),
        ("INSERT INTO s (nothing) VALUES (1);", 40001),
        ("SHOW STREEMS;", 40001),
        ("DESCRIBE bigg;", 40001),
        ("DROP STREAM IF EXISTS u; DESCRIBE u EXTENDED;", 40001),
        ("DESCRIBE FUNCTION ucasse;", 40001),
        ("EXPLAIN CSAS_BIG_7;", 40001),
        ("EXPLAIN SELECT nothing FROM big EMIT CHANGES;", 40001),
        ("EXPLAIN DROP STREAM s;", 40001),
        ("ASSERT SCHEMA TIMEOUT 1 SECONDS;", 40001),
        ("SELECT * FROM s EMIT CHANGES;", 40002),
        ("PRINT 'in';", 40002),
    ],
)
def test_where_a_statement_is_wrong_none_before_it_is_carried_out(wrong: str, code: int) -> None:
    node = _node()
    status, answer = _run(node, f"{_S} {_BIG} {wrong} SHOW STREAMS;")
    assert (status, answer["error_code"], answer["entities"]) == (400, code, [])
    assert node.engine.applied == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("SELEC", "line 3:3: Syntax Error: found 'SELEC'"),
        ("CREATE STREAM u AS\n SELECT id, w FROM s", "line 4:13: Column 'W' cannot be resolved"),
        ("CREATE STREAM u (v ${nothing})", "line 3:22: The variable 'nothing' is not defined"),
        ("CREATE STREAM u (v INT) WITH (kafka_topic='in')", "line 3:3: Statement is missing the 'VALUE_FORMAT'"),
        ("SET 'auto.offset.reset'='never'", "line 3:3: auto.offset.reset cannot be 'never'"),
        ("DESCRIBE FUNCTION nothing", "line 3:3: Can't find any functions with the name 'NOTHING'"),
        ("EXPLAIN nothing", "line 3:3: Query with id:NOTHING does not exist"),
        ("DROP TYPE nothing", "line 3:3: Type NOTHING does not exist"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_in_the_whole_text(wrong: str, message: str) -> None:
    status, answer = _run(_node(_S), f"SHOW STREAMS;\n-- a comment\n  {wrong}; SHOW TABLES;")
    assert (status, answer["message"][: len(message)]) == (400, message)


@pytest.mark.parametrize(("query", "path"), [("SELECT * FROM s;", "/query-stream"), ("PRINT 'in';", "/query")])
def test_queries_are_sent_to_an_endpoint_that_takes_them(query: str, path: str) -> None:
    status, answer = _run(_node(_S), query)
    assert (status, answer["error_code"]) == (400, 40002)
    assert answer["message"].endswith(f"POST it to {path}")


def test_statements_build_on_those_before_them() -> None:
    node = _node()
    script = (
        f"DEFINE least = '5'; CREATE TYPE pair AS STRUCT<a INT, b INT>; {_S} {_BIG} "
        "CREATE STREAM p (id INT KEY, both PAIR) WITH (kafka_topic='in', value_format='JSON'); "
        "CREATE STREAM some AS SELECT * FROM big WHERE v > ${least}; TERMINATE CSAS_SOME_4; DROP STREAM some; "
        "ALTER STREAM s ADD COLUMN w INT; CREATE STREAM some AS SELECT id, w FROM s;"
    )
    status, answer = _run(node, script)
    assert (status, len(answer)) == (200, 9), answer
    assert list(node.engine.session.queries) == ["CSAS_BIG_2", "CSAS_SOME_8"]


def test_what_the_statements_before_have_made_is_described_and_explained() -> None:
    node = _node()
    script = (
        f"{_S} {_BIG} DESCRIBE big; EXPLAIN CSAS_BIG_1; EXPLAIN SELECT id, COUNT(*) FROM big GROUP BY id EMIT CHANGES;"
    )
    status, answer = _run(node, script)
    assert (status, [each["@type"] for each in answer[2:]]) == (
        200,
        ["sourceDescription", "queryDescription", "queryDescription"],
    ), answer
    status, answer = _run(node, "DROP STREAM big; DESCRIBE big;")
    assert (status, answer["entities"]) == (400, [])
    assert "BIG" in node.engine.session.catalog.sources


@pytest.mark.parametrize(
    ("query", "kind", "sources"),
    [
        ("SELECT v FROM s EMIT CHANGES", "PUSH", ["S"]),
        ("SELECT * FROM s EMIT CHANGES LIMIT 3", "PUSH", ["S"]),
        ("SELECT COUNT(*) AS n FROM s EMIT CHANGES", "PUSH", ["S"]),
        ("SELECT n FROM counts WHERE id = 1", "PULL", ["COUNTS"]),
        ("SELECT n FROM counts ORDER BY n LIMIT 1", "PULL", ["COUNTS"]),
        ("SELECT s.v, c.n FROM s JOIN counts c ON s.id = c.id EMIT CHANGES", "PUSH", ["S", "COUNTS"]),
        ("SELECT n, WINDOWSTART FROM hours WHERE id = 1", "PULL", ["HOURS"]),
    ],
)
def test_a_query_on_its_own_is_explained_though_no_stream_could_be_made_of_it(
    query: str, kind: str, sources: list[str]
) -> None:
    node = _node(
        _S,
        "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;",
        "CREATE TABLE hours AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;",
    )
    status, answer = _run(node, f"EXPLAIN {query};")
    assert status == 200, answer
    described = answer[0]["queryDescription"]
    assert (described["queryType"], described["sources"], described["sinks"]) == (kind, sources, [])
    assert described["statementText"] == f"{query};"
    assert "Sub-topology: 0" in described["topology"]


def test_explaining_a_wrong_query_tells_what_is_wrong() -> None:
    status, answer = _run(_node(_S), "EXPLAIN SELECT vv FROM s EMIT CHANGES;")
    assert (status, answer["message"]) == (400, "line 1:16: Column 'VV' cannot be resolved. Did you mean V?")


def test_describing_what_the_caller_may_not_see_ends_the_request_before_it_begins() -> None:
    node = _node(_S)
    asked: list[tree.Statement] = []

    async def permit(statement: tree.Statement, *_: Any) -> None:
        asked.append(statement)
        if isinstance(statement, tree.Describe):
            raise SqlError("not you")

    async def nothing() -> None: ...

    async def called(function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    rehearsal = Rehearsal(node.engine, nothing, permit, called, lambda _: False)
    with pytest.raises(SqlError, match="not you"):
        asyncio.run(rehearsal.run(pieces_of(f"{_BIG} DESCRIBE big;"), Progress({}, {})))
    assert [type(each) for each in asked] == [tree.CreateAs, tree.Describe]


def test_what_alter_system_says_counts_for_the_statements_behind_it() -> None:
    """They were tried with the formats of before, which refused what the new ones take."""
    node = _node("ALTER SYSTEM 'ksql.persistence.default.format.value'='KAFKA';")
    status, answer = _run(
        node,
        "ALTER SYSTEM 'ksql.persistence.default.format.value'='JSON'; "
        "CREATE STREAM a (x INT, y ARRAY<INT>) WITH (kafka_topic='in');",
    )
    assert (status, list(node.engine.session.catalog.sources)) == (200, ["A"]), answer


def test_columns_of_the_registry_that_a_statement_before_changes_are_not_tried() -> None:
    """A subject has one column when the request comes, and two when its second statement is done."""
    schemas = MemorySchemas()
    fields = [{"name": "A", "type": ["null", "int"], "default": None}]
    record = {"type": "record", "name": "Row", "fields": fields}
    schemas.add("t-value", SchemaType.AVRO, json.dumps(record))
    pieces = [
        "CREATE STREAM src (a INT, b INT) WITH (kafka_topic='in', value_format='JSON');",
        "CREATE STREAM made WITH (kafka_topic='t', value_format='AVRO') AS SELECT a, b FROM src;",
        "CREATE STREAM read WITH (kafka_topic='t', value_format='AVRO');",
        "CREATE STREAM only_b AS SELECT b FROM read;",
    ]
    _rehearse(schemas, pieces)
    with pytest.raises(SqlError, match="Column 'B' cannot be resolved"):
        _rehearse(schemas, pieces[2:])


@pytest.mark.parametrize("before", ["", "CREATE STREAM other (v INT) WITH (kafka_topic='in', value_format='JSON');"])
def test_a_schema_by_its_id_is_no_columns_of_the_statement_itself(before: str) -> None:
    """It was refused on every server, for having both the id and the columns that the server had put in."""
    node, schemas = _node(), MemorySchemas()
    record = {"type": "record", "name": "Row", "fields": [{"name": "who", "type": "string"}]}
    schemas.add("in-value", SchemaType.AVRO, json.dumps(record), schema_id=7)
    node.engine.session.schemas = schemas
    made = "CREATE STREAM s (id INT KEY) WITH (kafka_topic='in', value_format='AVRO', value_schema_id=7);"
    status, answer = _run(node, before + made)
    assert status == 200, answer
    assert [each.name for each in node.engine.session.catalog.sources["S"].columns] == ["ID", "who"]
    assert node.engine.session.catalog.sources["S"].value_format.options.schema_id == 7


def _rehearse(schemas: MemorySchemas, pieces: list[str]) -> None:
    async def nothing(*_: Any) -> None: ...

    async def called(function: Callable[..., Any], *given: Any) -> Any:
        return function(*given)

    engine = Engine("default_", "127.0.0.1:1", schemas=schemas)
    rehearsal = Rehearsal(engine, nothing, nothing, called, lambda _: False)
    asyncio.run(rehearsal.run(pieces_of(" ".join(pieces)), Progress({}, {})))


def test_statements_that_only_look_do_not_ask_for_the_end_of_the_log() -> None:
    node = _node(_S)

    async def away() -> int:
        raise TimeoutError

    node._log.end = away  # type: ignore[method-assign]
    status, answer = _run(node, "SHOW STREAMS; SHOW TABLES;")
    assert (status, len(answer)) == (200, 2)


def test_what_fails_when_it_is_carried_out_comes_with_what_was_done_before() -> None:
    node = _node()
    status, answer = _run(
        node, f"{_S} CREATE STREAM t (id INT KEY) WITH (kafka_topic='none', value_format='JSON'); {_BIG}"
    )
    assert (status, answer["message"]) == (
        400,
        "line 1:83: Kafka topic does not exist: none. Create it, or name PARTITIONS in the WITH clause, and it is made",
    )
    assert [each["commandId"] for each in answer["entities"]] == ["stream/`S`/create"]
    assert list(node.engine.session.catalog.sources) == ["S"]


def test_what_the_brokers_refuse_comes_with_what_was_done_before() -> None:
    """A policy of the brokers, or a right that is missing, ended the request as if nothing had been carried out."""
    made = "CREATE STREAM t (v INT) WITH (kafka_topic='t', value_format='JSON', partitions=1);"
    for refusal, status, code, message in (
        (KafkaError(ErrorCode.POLICY_VIOLATION, "not so"), 500, 50000, "POLICY_VIOLATION: not so"),
        (UserError("The registry is away."), 500, 50000, "The registry is away"),
        (HttpError(403, "User 'ada' is denied CREATE", 40301), 403, 40301, "User 'ada' is denied CREATE"),
    ):
        node = _node()

        async def create_topics(_wanted: list[Any], refusal: Exception = refusal) -> dict[str, KafkaError | None]:
            raise refusal

        node._admin.create_topics = create_topics  # type: ignore[assignment,method-assign,union-attr]
        text = f"{_S} {made}"
        answered, answer = _run(node, text)
        told = {"@type": "statement_error", "error_code": code, "message": message, "statementText": text}
        assert (answered, answer) == (status, {**told, "entities": answer.get("entities")})
        assert [each["commandId"] for each in answer["entities"]] == ["stream/`S`/create"]
        assert _run(node, made) == (status, {"error_code": code, "message": message})  # nothing was done


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP STREAM IF EXISTS t;", "Source `T` does not exist."),
        ("CREATE TYPE IF NOT EXISTS pair AS INT;", "PAIR is already registered with type STRUCT<`A` INTEGER>"),
        ("DROP TYPE IF EXISTS other;", "Type 'OTHER' does not exist"),
        ("DROP FUNCTION IF EXISTS other;", "The function OTHER does not exist"),
        ("DROP STREAM IF EXISTS s;", "Source `S` (topic: in) was dropped."),
        ("CREATE TYPE IF NOT EXISTS other AS INT;", "Registered custom type with name 'OTHER' and SQL type INTEGER"),
    ],
)  # fmt: skip
def test_a_statement_that_did_nothing_says_so(statement: str, message: str) -> None:
    """It said that it had created, or dropped, what it had not."""
    node = _node(_S, "CREATE TYPE pair AS STRUCT<a INT>;")
    status, (answer,) = _run(node, statement)
    assert (status, answer["commandStatus"]["status"], answer["commandStatus"]["message"]) == (200, "SUCCESS", message)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (_S.replace("STREAM s", "STREAM IF NOT EXISTS s"), "stream"),
        ("CREATE TABLE IF NOT EXISTS s AS SELECT id, COUNT(*) FROM s GROUP BY id;", "table"),
    ],
)
def test_what_is_there_already_is_a_warning(statement: str, kind: str) -> None:
    """As in ksqlDB; it was the status of a command that had succeeded."""
    told = f"Cannot add {kind} `S`: A stream with the same name already exists."
    shown = {"@type": "warning_entity", "statementText": statement, "message": told, "warnings": []}
    assert _run(_node(_S), statement) == (200, [shown])


@pytest.mark.parametrize("before", ["", "SHOW TABLES; "])
@pytest.mark.parametrize(
    "clause",
    [
        "(v INT) WITH (kafka_topic='in', value_format='JSON', partitions=3)",
        "(v INT) WITH (kafka_topic='gone', value_format='JSON')",
        "(v INT) WITH (kafka_topic='gone', value_format='JSON', partitions=3)",
        "WITH (kafka_topic='in', value_format='AVRO')",
        "WITH (kafka_topic='gone', value_format='AVRO', partitions=1)",
    ],
)
def test_what_is_there_already_is_a_warning_whatever_became_of_its_topic(clause: str, before: str) -> None:
    """A script that had run once failed the second time, where partitions had been added to its topic, or its schema
    was gone; for a topic that was gone, a new one was made.
    """
    node = _node(_S)
    node.engine.session.schemas = MemorySchemas()
    status, answer = _run(node, f"{before}CREATE STREAM IF NOT EXISTS s {clause};")
    assert (status, answer[-1]["@type"]) == (200, "warning_entity"), answer
    assert cast("Admin", node._admin).replicas == {}


@pytest.mark.parametrize(
    "statement", ["DESCRIBE {}", "DESCRIBE {} EXTENDED", "DESCRIBE STREAMS", "SHOW STREAMS EXTENDED"]
)
def test_a_description_tells_what_the_topic_has_and_when_it_is_gone(statement: str) -> None:
    """Without EXTENDED it had no partitions; with it, those that a topic had once."""
    node = _node(_S, "CREATE STREAM z (v INT) WITH (kafka_topic='gone', value_format='JSON', partitions=7);")
    found = []
    for name in ("s", "z"):
        status, (answer,) = _run(node, statement.format(name) + ";")
        assert status == 200
        if "sourceDescription" in answer:
            found.append(answer["sourceDescription"])
            warnings = answer["warnings"]
        else:
            found, warnings = answer["sourceDescriptions"], answer["warnings"]
    assert [(each["name"], each["partitions"], each["replication"]) for each in found] == [("S", 1, 3), ("Z", 0, 0)]
    assert warnings == [{"message": "Error from Kafka: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic"}]


def test_topics_that_others_keep_for_themselves_are_listed_with_all_alone() -> None:
    """`_schemas` and the topics of Connect's workers stood among those of the user."""
    hidden = ["_schemas", "_confluent-metrics", "connect-offsets", "_confluent-ksql-default__command_topic"]

    class Full(Admin):
        async def list_topics(self, *, internal: bool = False) -> list[Any]:
            return [SimpleNamespace(name=each, partitions=[]) for each in ("in", "connections", *hidden)]

    node = _node()
    node._admin = cast("Any", Full())
    _, (shown, everything) = _run(node, "SHOW TOPICS; SHOW ALL TOPICS;")
    assert [each["name"] for each in shown["topics"]] == ["in", "connections"]
    assert [each["name"] for each in everything["topics"]] == ["in", "connections", *hidden]


def test_rows_that_were_inserted_are_answered_with_nothing() -> None:
    """It was the status of a command without an id, which ksqlDB's command line cannot read."""
    node, sent = _node(_S), list[Any]()

    async def send(*given: Any) -> None:
        sent.append(given[1:3])

    node.send = send  # type: ignore[method-assign]
    status, answer = _run(node, "INSERT INTO s VALUES (1, 2); SHOW TABLES; INSERT INTO s VALUES (3, 4);")
    assert (status, [each["@type"] for each in answer]) == (200, ["tables"])
    assert sent == [([1], [2]), ([3], [4])]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("ASSERT TOPIC `in` WITH (partitions=1, replicas=3);", ""),
        ("ASSERT NOT EXISTS TOPIC nothing WITH (partitions=1);", ""),
        ("ASSERT TOPIC nothing", "Topic nothing does not exist"),
        ("ASSERT NOT EXISTS TOPIC `in` WITH (partitions=5)", "Topic in exists"),
        (
            "ASSERT TOPIC `in` WITH (partitions=2, replicas=1)",
            "Mismatched configuration for topic in: For config partitions, expected 2 got 1. "
            "Mismatched configuration for topic in: For config replicas, expected 1 got 3",
        ),
        ("ASSERT TOPIC `in` WITH (owner='me')", "Cannot assert unknown topic property: OWNER"),
    ],
)
def test_an_assertion_that_fails_is_no_wrong_statement(statement: str, problem: str) -> None:
    """It had the code of one. Replicas were not looked at, and a topic of other partitions was not there."""

    status, answer = _run(_node(), statement if not problem else f"{statement} TIMEOUT 0 SECONDS;")
    if not problem:
        assert (status, answer[0]["@type"]) == (200, "assert_topic")
        return
    told = {"@type": "generic_error", "error_code": 41700, "message": f"line 1:1: {problem}"}
    assert (status, answer) == (417, told)


def test_a_server_without_a_registry_says_so_with_a_code_of_its_own() -> None:
    made = "CREATE STREAM t (v INT) WITH (kafka_topic='in', value_format='AVRO');"
    for statement in (made, "ASSERT SCHEMA SUBJECT 'in-value';"):
        status, answer = _run(_node(), statement)
        assert (status, answer["@type"], answer["error_code"]) == (428, "generic_error", 42801)


def test_a_property_of_a_request_that_cannot_be_set_is_no_wrong_statement() -> None:
    body = {"ksql": "SHOW STREAMS;", "streamsProperties": {"auto.offset.reset": "yesterday"}}
    status, answer = _posted(_node(), "/ksql", json.dumps(body).encode())
    assert (status, answer["@type"], answer["error_code"]) == (400, "generic_error", 40000)


def test_descriptions_have_what_clients_of_ksqldb_require() -> None:
    """Its command line reads no query without its group, and no function without the path of its code."""
    columns = "(id INT KEY, h BYTES HEADER('abc'))"
    node = _node(_S, f"CREATE STREAM t {columns} WITH (kafka_topic='in', value_format='JSON');")
    _, (source, function, asked) = _run(
        node, "DESCRIBE t; DESCRIBE FUNCTION abs; EXPLAIN SELECT * FROM s EMIT CHANGES;"
    )
    fields = source["sourceDescription"]["fields"]
    assert [(each.get("type"), each.get("headerKey")) for each in fields] == [("KEY", None), ("HEADER", "abc")]
    assert source["sourceDescription"]["statement"].endswith(");")
    assert function["path"] == "internal"
    explained = asked["queryDescription"]
    assert explained["consumerGroupId"]
    assert explained["state"] is None


@pytest.mark.parametrize("body", [b"", b"{}\n", b'{"nothing": "S"}\n{"ID": 1}\n', b'{"target": 5}\n'])
def test_rows_without_a_target_are_refused_as_such(body: bytes) -> None:
    assert _posted(_node(_S), "/inserts-stream", body) == (
        400,
        {"error_code": 40000, "message": 'The first line of the body has no "target".'},
    )


def _asked(node: SqlNode, number: object) -> tuple[int, Any]:
    return _posted(node, "/ksql", json.dumps({"ksql": "SHOW VARIABLES;", "commandSequenceNumber": number}).encode())


def test_a_request_waits_for_the_statement_that_it_comes_behind() -> None:
    node = _node(_S)
    assert [_asked(node, number)[0] for number in (None, -1, 0)] == [200, 200, 200]
    node.config.values["ksql.server.command.response.timeout.ms"] = 1
    assert _asked(node, 1) == (
        503,
        {
            "error_code": 50301,
            "message": "Timed out while waiting for a previous command to execute. command sequence number: 1",
        },
    )
    assert _asked(node, "1")[1] == {"error_code": 40000, "message": '"commandSequenceNumber" must be a whole number.'}

    async def scene() -> bool:
        node = _node(_S)
        waiting = asyncio.create_task(node.has_applied(1))
        await asyncio.sleep(0)
        node.engine.apply(1, Command(_BIG).encode())
        async with node._moved:
            node._moved.notify_all()
        return await waiting

    assert asyncio.run(scene())


@pytest.mark.parametrize("word", ["pause", "resume", "terminate"])
def test_the_id_of_a_command_says_what_it_was(word: str) -> None:
    _, (answer,) = _run(_node(_S, _BIG), f"{word} CSAS_BIG_1;")
    assert answer["commandId"] == f"{word}/CSAS_BIG_1/execute"


@pytest.mark.parametrize("before", ["", "SHOW TABLES; "])
def test_a_query_is_named_as_its_id_is_shown(before: str) -> None:
    """The query of a stream between quotes has its letters in its id: CSAS_bar_1 was told to be no query, as
    CSAS_BAR_1, unless it was quoted, too.
    """
    node = _node(_S, "CREATE STREAM `bar` AS SELECT * FROM s;")
    _, (shown,) = _run(node, "SHOW QUERIES;")
    query_id = shown["queries"][0]["id"]
    assert query_id == "CSAS_bar_1"
    status, answer = _run(node, f"{before}EXPLAIN {query_id};")
    assert status == 200, answer
    assert answer[-1]["queryDescription"]["id"] == query_id
    for word in ("PAUSE", "RESUME", "TERMINATE"):
        status, answer = _run(node, f"{before}{word} {query_id};")
        assert status == 200, answer
        told = (answer[-1]["statementText"], answer[-1]["commandId"])
        assert told == (f"{word} `{query_id}`;", f"{word.lower()}/{query_id}/execute")
    assert node.engine.session.queries == {}


def test_a_function_is_described_with_its_arguments() -> None:
    _, (answer,) = _run(_node(), "DESCRIBE FUNCTION lpad;")
    assert answer["functions"][1]["arguments"][1:] == [
        {"name": "length", "type": "INTEGER", "description": "", "isVariadic": False},
        {"name": "padding", "type": "STRING", "description": "", "isVariadic": False},
    ]
    _, (answer,) = _run(_node(), "DESCRIBE FUNCTION topk;")
    assert [each["isVariadic"] for each in answer["functions"][1]["arguments"]] == [False, True, False]
    for name in (*library.SCALARS, *library.AGGREGATES, *library.TABLE_FUNCTIONS):
        assert _run(_node(), f"DESCRIBE FUNCTION {name};")[0] == 200


def test_properties_are_shown_as_they_stand_in_a_file() -> None:
    _, (answer,) = _run(_node(), "SHOW PROPERTIES;")
    shown = {each["name"]: each["value"] for each in answer["properties"]}
    assert (shown["authentication.method"], shown["ksql.functions.python.source.enabled"]) == ("NONE", "false")


def test_a_pattern_of_topics_that_is_none_is_told() -> None:
    status, answer = _posted(_node(), "/ksql/terminate", b'{"deleteTopicList": ["["]}')
    assert (status, answer["message"]) == (400, "Invalid regular expression pattern: [: missing ]: [")


@pytest.mark.parametrize("before", ["", _S])
def test_rows_in_a_file_of_statements_are_refused_before_anything_is_done(tmp_path: Path, before: str) -> None:
    """They were written again at each start, and by each server: the log does not tell that they are there."""
    file = tmp_path / "queries.sql"
    file.write_text(f"{before} INSERT INTO {'s' if before else 't'} (id, v) VALUES (1, 2);")
    node = _node(_S.replace("STREAM s", "STREAM t"))
    node.config.values["ksql.queries.file"] = str(file)
    with pytest.raises(SqlError, match=r"INSERT VALUES cannot be in ksql\.queries\.file"):
        asyncio.run(node._run_file(file))
    assert (node.engine.applied, list(node.engine.session.catalog.sources)) == (1, ["T"])


class SharedLog(Log):
    """Another server begins with the same file: it writes each statement as soon as this one looks at the end of the
    log, or just before this one writes it.
    """

    def __init__(self, node: SqlNode, statements: list[str], writes_at: str) -> None:
        super().__init__(node)
        self._statements, self._writes_at = statements, writes_at

    async def end(self) -> int:
        place = self._node.engine.statements
        if self._writes_at == "end" and place < len(self._statements):
            await super().append(Command(self._statements[place], place=place))
        return await super().end()

    async def append(self, command: Command) -> int:
        if self._writes_at == "append":
            await super().append(command)
        return await super().append(command)


@pytest.mark.parametrize("writes_at", ["end", "append", "never"])
def test_servers_that_begin_with_one_file_at_a_time_write_it_once(tmp_path: Path, writes_at: str) -> None:
    """INSERT INTO was there twice, and each row with it; a stream that was there ended the second server."""
    made = "CREATE STREAM t (id INT KEY, v INT) WITH (kafka_topic='t', partitions=1, value_format='JSON');"
    statements = [_S, made, "INSERT INTO t SELECT * FROM s;", "CREATE STREAM u AS SELECT * FROM t;"]
    file = tmp_path / "queries.sql"
    file.write_text(f"SET 'auto.offset.reset'='earliest'; {' '.join(statements)}")
    node = _node()
    node.config.values["ksql.queries.file"] = str(file)
    node._log = cast("Any", SharedLog(node, statements, writes_at))
    for _ in range(2):  # and once more, at a later start
        asyncio.run(node._run_file(file))
        assert list(node.engine.session.catalog.sources) == ["S", "T", "U"]
        assert [each.split("_")[0] for each in node.engine.session.queries] == ["INSERTQUERY", "CSAS"]
        assert (node.engine.statements, node.takes_statements) == (4, False)


@pytest.mark.parametrize("begins", ["CREATE STREAM j AS", "INSERT INTO t"])
def test_a_join_of_topics_that_do_not_fit_is_refused(begins: str) -> None:
    """INSERT INTO was taken, and its query stayed in ERROR."""

    class Wide(Admin):
        async def list_topics(self, *, internal: bool = False) -> list[Any]:
            wide = SimpleNamespace(name="wide", partitions=[None, None])
            return [*await super().list_topics(internal=internal), wide]

    node = _node(_S, _S.replace("STREAM s", "STREAM t"), _S.replace("STREAM s", "STREAM w").replace("'in'", "'wide'"))
    node._admin = cast("Any", Wide())
    select = "SELECT s.id AS id, s.v AS v FROM s JOIN w WITHIN 1 HOURS ON s.id = w.id;"
    status, answer = _run(node, f"{begins} {select}")
    assert (status, "number of partitions don't match" in answer["message"]) == (400, True)
    assert node.engine.session.queries == {}
    assert _run(node, f"{begins} {select.replace('w ', 't ').replace('w.', 't.')}")[0] == 200


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE STREAM u (v INT) WITH (kafka_topic='u', value_format='JSON', partitions=1, replicas=4);",
            "The topic u cannot be made with 4 replicas. INVALID_REPLICATION_FACTOR: there are 3 brokers",
        ),
        ("CREATE STREAM u WITH (replicas=4) AS SELECT * FROM s;", "The topic U cannot be made with 4 replicas."),
        (
            "CREATE STREAM u WITH (kafka_topic='in', partitions=7) AS SELECT * FROM s;",
            "A Kafka topic with the name 'in' already exists, with different partition configuration. It has 1 part",
        ),
    ],
)
def test_a_topic_is_made_as_the_statement_says_or_not_at_all(statement: str, message: str) -> None:
    """It got one replica where there were not enough brokers for those that were named, and nobody said so."""
    node = _node(_S)
    status, answer = _run(node, statement)
    assert status == 400
    assert message in answer["message"]
    assert "U" not in node.engine.session.catalog.sources


@pytest.mark.parametrize(
    ("statement", "replicas"),
    [
        ("CREATE STREAM u AS SELECT * FROM s;", 3),
        ("CREATE TABLE u AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;", 3),
        ("CREATE STREAM u WITH (replicas=2) AS SELECT * FROM s;", 2),
        ("CREATE STREAM u (v INT) WITH (kafka_topic='U', value_format='JSON', partitions=1);", -1),
        ("CREATE STREAM u (v INT) WITH (kafka_topic='U', value_format='JSON', partitions=1, replicas=2);", 2),
    ],
)
def test_a_topic_has_the_replicas_of_what_its_query_reads_or_those_that_brokers_give(
    statement: str, replicas: int
) -> None:
    """It had one where the statement named none: what a query had made was gone with one broker."""
    node = _node(_S)
    assert _run(node, statement)[0] == 200
    assert cast("Admin", node._admin).replicas == {"U": replicas}


def test_a_query_may_write_into_a_topic_that_is_there() -> None:
    node = _node(_S)
    assert _run(node, "CREATE STREAM w WITH (kafka_topic='in', partitions=1) AS SELECT * FROM s;")[0] == 200

"""What a server does with what its caller asked for: never more than he was asked about, and as all servers' settings
say.
"""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.language.errors import SqlError
from headwater.sql.server.api import make_door
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.node import SqlNode
from headwater.sql.shell import as_tables
from headwater.web.callers import Need, cluster, topic
from headwater.web.messages import Headers, HttpError, Request

_OWN = "CREATE STREAM own (n INT) WITH (KAFKA_TOPIC='own', VALUE_FORMAT='JSON');"
_OTHERS = _OWN.replace("'own'", "'secret'")
_OTHERS_OWN = _OWN.replace("STREAM own", "STREAM given").replace("'own'", "'own-in'")
_MADE = "CREATE STREAM own WITH (KAFKA_TOPIC='own') AS SELECT * FROM given;"
_READ_ONLY = "CREATE SOURCE STREAM r (n INT) WITH (KAFKA_TOPIC='own-r', VALUE_FORMAT='JSON');"
_INTERNAL = "CREATE STREAM i (n INT) WITH (KAFKA_TOPIC='_schemas', VALUE_FORMAT='JSON');"


class Mallory:
    """May do what she likes with topics whose names begin with `own`."""

    name = "mallory"
    may_everything = False

    def __init__(self, *has: Need) -> None:
        self.has = frozenset(has)

    async def allowed(self, needs: Any) -> frozenset[Need]:
        return frozenset(need for need in needs if need.name.startswith("own") or need in self.has)


class Log:
    """A log of statements in memory. `meanwhile` are others' statements, which come after the first of ours; `before`
    those that come before one that makes something or drops OWN, though it was tried without them.
    """

    def __init__(self, node: SqlNode, meanwhile: tuple[str, ...], before: tuple[str, ...]) -> None:
        self._node, self._meanwhile, self._before = node, meanwhile, before

    async def end(self) -> int:
        return self._node.engine.applied

    async def append(self, command: Command) -> int:
        if command.statement.startswith(("DROP STREAM `OWN`", "CREATE")):
            others, self._before = self._before, ()
            self._apply(others)
        offset = self._node.engine.applied
        self._node.engine.apply(offset, command.encode())
        others, self._meanwhile = self._meanwhile, ()
        self._apply(others)
        return offset

    def _apply(self, statements: tuple[str, ...]) -> None:
        for text in statements:
            assert self._node.engine.apply(self._node.engine.applied, Command(text).encode()).error is None


class Admin:
    """Has a topic `own` of one partition; a group has read `secret` and `own`."""

    def __init__(self, problem: KafkaError | None = None) -> None:
        """`problem`: why the brokers delete no topic."""
        self.deleted: list[str] = []
        self._problem = problem

    async def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Any]:
        return dict.fromkeys(resources, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))

    async def create_topics(self, wanted: list[Any]) -> dict[str, None]:
        return {each.name: None for each in wanted}

    async def delete_topics(self, names: list[str]) -> dict[str, KafkaError | None]:
        self.deleted += names if self._problem is None else ()
        return dict.fromkeys(names, self._problem)

    async def list_topics(self, *, internal: bool = False) -> list[Any]:
        return [SimpleNamespace(name="own", partitions=[SimpleNamespace(replicas=[1])])]

    async def describe_topics(self, _names: list[str]) -> dict[str, Any]:
        return {}

    async def list_group_offsets(self, _group: str) -> dict[TopicPartition, Any]:
        return {TopicPartition(each, 0): SimpleNamespace(offset=7) for each in ("secret", "own")}

    async def list_offsets(self, wanted: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        return {each: SimpleNamespace(offset=9) for each in wanted}


def _node(*statements: str, meanwhile: tuple[str, ...] = (), before: tuple[str, ...] = ()) -> tuple[SqlNode, Admin]:
    node, admin = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0]), Admin()
    for text in statements:
        assert node.engine.apply(node.engine.applied, Command(text).encode()).error is None
    node._log, node._admin = cast("Any", Log(node, meanwhile, before)), cast("Any", admin)
    return node, admin


def _terminated(
    *statements: str, meanwhile: tuple[str, ...] = (), before: tuple[str, ...] = ()
) -> tuple[int, list[str], list[str]]:
    """The status of /ksql/terminate, what is left, and which topics were deleted."""
    node, admin = _node(*statements, meanwhile=meanwhile, before=before)
    request = Request(
        "POST",
        "/ksql/terminate",
        ("ksql", "terminate"),
        headers=Headers((("content-type", "application/json"),)),
        body=b'{"deleteTopicList": [".*"]}',
        caller=Mallory(cluster(Operation.ALTER)),
    )
    status = asyncio.run(make_door(node).handle(request)).status
    return status, sorted(node.engine.session.catalog.sources), admin.deleted


def test_terminating_keeps_topics_that_no_query_has_made_and_goes_on() -> None:
    assert _terminated(_OTHERS_OWN, _MADE, _READ_ONLY, _INTERNAL) == (200, [], ["own"])


@pytest.mark.parametrize(
    ("meanwhile", "deleted"),
    [
        (("DROP STREAM own;",), []),
        (("DROP STREAM own;", _OTHERS), []),
        (("DROP STREAM own;", _OWN), []),
        (("DROP STREAM own;", _MADE, "TERMINATE ALL;"), ["own"]),
    ],
    ids=["gone", "over another topic", "over a topic of others", "the same again"],
)
def test_terminating_deletes_no_topic_that_its_caller_was_not_asked_about(
    meanwhile: tuple[str, ...], deleted: list[str]
) -> None:
    assert _terminated(_OTHERS_OWN, _MADE, meanwhile=meanwhile) == (200, [], deleted)


@pytest.mark.parametrize(
    ("before", "left", "deleted"),
    [
        (("DROP STREAM own;",), [], []),
        (("DROP STREAM own;", _OTHERS), [], []),
        (("DROP STREAM own;", _OTHERS_OWN, _MADE, "TERMINATE ALL;"), ["GIVEN"], ["own"]),
    ],
    ids=["gone", "over a topic of others", "the same again"],
)
def test_terminating_asks_again_what_a_name_is_when_another_server_was_before_it(
    before: tuple[str, ...], left: list[str], deleted: list[str]
) -> None:
    """DROP ... DELETE TOPIC was in the log, and the topic of the stream that had the name before was deleted."""
    assert _terminated(_OTHERS_OWN, _MADE, before=before) == (200, left, deleted)


def test_a_statement_before_which_another_server_was_is_tried_again_with_its_callers_rights() -> None:
    """Its query read the topic that the name had meanwhile, which its caller may not read."""
    read = "CREATE STREAM mine WITH (KAFKA_TOPIC='own') AS SELECT * FROM own;"
    may = (topic(Operation.READ, "secret"),)
    for caller, refused in ((Mallory(), True), (Mallory(*may), False)):
        node, _ = _node(_OWN, before=("DROP STREAM own;", _OTHERS))
        if refused:
            with pytest.raises(HttpError, match="denied READ on the topic of OWN"):
                asyncio.run(node.execute(read, {}, {}, caller=caller))
            assert node.engine.session.queries == {}
        else:
            (answer,) = asyncio.run(node.execute(read, {}, {}, caller=caller))
            assert answer["commandStatus"]["status"] == "SUCCESS"
            assert list(node.engine.session.queries) == [f"CSAS_MINE_{answer['commandSequenceNumber']}"]


def test_of_two_servers_that_make_one_stream_at_once_the_second_is_told_why_not() -> None:
    node, _ = _node(before=(_OWN,))
    with pytest.raises(SqlError, match="A stream with the same name already exists"):
        asyncio.run(node.execute(_OWN, {}, {}))


_AGAIN = _OWN.replace("STREAM own", "STREAM again")


def test_terminating_deletes_a_topic_with_the_last_that_is_over_it() -> None:
    again = _MADE.replace("STREAM own", "STREAM more")
    for more in (_AGAIN, again):
        assert _terminated(_OTHERS_OWN, more, _MADE) == (200, [], ["own"])
        assert _terminated(_OTHERS_OWN, _MADE, more) == (200, [], ["own"])


def test_a_topic_that_another_stream_is_over_is_not_deleted() -> None:
    """Its rows were gone for all of them."""
    node, admin = _node(_OWN, _AGAIN)
    drop = "DROP STREAM own DELETE TOPIC;"
    with pytest.raises(SqlError, match=r"Refusing to delete topic. Found other data sources \(AGAIN\) using topic own"):
        asyncio.run(node.execute(drop, {}, {}))
    assert (sorted(node.engine.session.catalog.sources), admin.deleted) == (["AGAIN", "OWN"], [])
    assert node.engine.apply(2, Command(drop).encode()).error is None, "older logs have such statements"
    asyncio.run(node.execute(drop.replace("own", "again"), {}, {}))
    assert admin.deleted == ["own"]


def test_a_topic_that_another_server_has_made_a_stream_over_meanwhile_stays() -> None:
    node, admin = _node(_OWN, meanwhile=(_AGAIN,))
    (answer,) = asyncio.run(node.execute("DROP STREAM own DELETE TOPIC;", {}, {}))
    assert answer["warnings"] == [{"message": "The topic own stays: by now it is that of AGAIN"}]
    assert (list(node.engine.session.catalog.sources), admin.deleted) == (["AGAIN"], [])


def test_what_cannot_be_dropped_is_told() -> None:
    reader = "CREATE STREAM c AS SELECT * FROM own;"
    assert _terminated(_OWN, meanwhile=(reader,)) == (400, ["C", "OWN"], [])


def test_default_formats_of_alter_system_hold_for_create() -> None:
    node, _ = _node("ALTER SYSTEM 'ksql.persistence.default.format.value'='JSON';")
    asyncio.run(node.execute("CREATE STREAM x (n INT) WITH (KAFKA_TOPIC='own');", {}, {}))
    assert node.engine.session.catalog.find("X").value_format.name == "JSON"


def test_a_default_format_with_schemas_needs_the_right_to_register_them() -> None:
    node, _ = _node("ALTER SYSTEM 'ksql.persistence.default.format.value'='AVRO';")
    reader = Mallory(topic(Operation.READ, "secret"))
    text = "CREATE STREAM x (n INT) WITH (KAFKA_TOPIC='secret'{});"

    def told(more: str) -> Any:
        with pytest.raises((HttpError, SqlError)) as problem:
            asyncio.run(node.execute(text.format(more), {}, {}, caller=reader))
        return problem.value

    refused = told("")
    assert isinstance(refused, HttpError)
    assert refused.status == 403
    assert "WRITE on TOPIC 'secret'" in refused.message
    assert "does not exist" in str(told(", VALUE_FORMAT='JSON'"))  # beyond the question of rights


@pytest.mark.parametrize(("has", "shown"), [((), ["own"]), ((topic(Operation.DESCRIBE, "secret"),), ["own", "secret"])])
@pytest.mark.parametrize("text", ["DESCRIBE mine EXTENDED;", "SHOW STREAMS EXTENDED;"])
def test_who_sees_the_sink_alone_is_not_told_what_its_query_reads(
    text: str, has: tuple[Need, ...], shown: list[str]
) -> None:
    node, _ = _node(_OTHERS, "CREATE STREAM mine WITH (KAFKA_TOPIC='own') AS SELECT * FROM own;")
    (answer,) = asyncio.run(node.execute(text, {}, {}, caller=Mallory(*has)))
    told = [answer["sourceDescription"]] if "sourceDescription" in answer else answer["sourceDescriptions"]
    (mine,) = (each for each in told if each["name"] == "MINE")
    (summary,) = mine["queryOffsetSummaries"]
    assert [each["kafkaTopic"] for each in summary["topicSummaries"]] == shown


def _raises(act: Callable[[], object]) -> bool:
    try:
        act()
    except SqlError:
        return True
    return False


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ksql.persistence.default.format.value", "avro", "NOPE"),
        ("ksql.persistence.default.format.key", "KAFKA", ""),
        ("ksql.streams.auto.offset.reset", "earliest", "abc"),
        ("ksql.functions.collect_list.limit", "-1", "abc"),
        ("ksql.functions._global_.limit", "10", "1.5"),
        ("ksql.persistence.wrap.single.values", "False", "no"),
        ("ksql.output.topic.name.prefix", "team-a.", "a b"),
    ],
)
def test_alter_system_takes_no_value_with_which_others_statements_would_fail(name: str, good: str, bad: str) -> None:
    node, _ = _node()
    for value, is_refused in ((good, False), (bad, True)):
        (statement,) = node.engine.session.parse(f"ALTER SYSTEM '{name}'='{value}';")
        assert _raises(lambda given=statement: node.engine.check(given, {})) is is_refused  # type: ignore[misc]


class _Schemas:
    """A registry, or one that does not answer."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.deleted: list[str] = []
        self._is_away = is_away

    def delete(self, subject: str) -> None:
        if self._is_away:
            raise UserError("No schema registry answers")
        self.deleted.append(subject)


_AVRO = "CREATE STREAM own (k INT KEY, n INT) WITH (KAFKA_TOPIC='own', KEY_FORMAT='KAFKA', VALUE_FORMAT='AVRO');"


def _dropped(
    made: str, statement: str, schemas: _Schemas, problem: KafkaError | None = None
) -> tuple[list[Any], list[str]]:
    """The warnings, and which topics were deleted."""
    node, _ = _node()
    admin = Admin(problem)
    node._admin = cast("Any", admin)
    node.engine.session.schemas = MemorySchemas()
    assert node.engine.apply(0, Command(made).encode()).error is None
    node._schemas = cast("Any", schemas)
    (answer,) = asyncio.run(node.execute(statement, {}, {}))
    assert node.engine.session.catalog.sources == {}
    return answer["warnings"], admin.deleted


@pytest.mark.parametrize(
    ("made", "clause", "deleted"),
    [
        (_AVRO, "DELETE TOPIC", ["own-value"]),
        (_AVRO.replace("KEY_FORMAT='KAFKA', VALUE_", ""), "DELETE TOPIC", ["own-key", "own-value"]),
        (_AVRO, "", []),
        (_OWN, "DELETE TOPIC", []),
    ],
)
def test_subjects_go_with_their_topic(made: str, clause: str, deleted: list[str]) -> None:
    schemas = _Schemas()
    assert _dropped(made, f"DROP STREAM own {clause};", schemas) == ([], ["own"] if clause else [])
    assert schemas.deleted == deleted


def test_a_registry_that_is_away_is_a_warning_and_the_source_is_dropped() -> None:
    warning = "The subject own-value stays in the schema registry: No schema registry answers"
    found = _dropped(_AVRO, "DROP STREAM own DELETE TOPIC;", _Schemas(is_away=True))
    assert found == ([{"message": warning}], ["own"])
    assert as_tables({"@type": "x", "warnings": found[0]}) == ["done", f"WARNING: {warning}"]


@pytest.mark.parametrize(
    ("problem", "warnings", "deleted"),
    [
        (ErrorCode.TOPIC_DELETION_DISABLED, ["The topic own stays: TOPIC_DELETION_DISABLED"], []),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], ["own-value"]),  # it has gone already
    ],
)
def test_a_topic_that_the_brokers_do_not_delete_is_a_warning_and_its_subjects_stay(
    problem: ErrorCode, warnings: list[str], deleted: list[str]
) -> None:
    """The answer was a success, and the topic was there."""
    schemas = _Schemas()
    found, _ = _dropped(_AVRO, "DROP STREAM own DELETE TOPIC;", schemas, KafkaError(problem))
    assert [each["message"] for each in found] == warnings
    assert schemas.deleted == deleted


@pytest.mark.parametrize(
    ("statement", "is_told"),
    [
        ("INSERT INTO own SELECT * FROM own;", True),
        ("INSERT INTO own SELECT * FROM other;", True),
        ("INSERT INTO own SELECT * FROM third;", False),
    ],
)
def test_a_query_that_reads_what_it_writes_is_taken_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, statement: str, is_told: bool
) -> None:
    node, _ = _node(_OWN, _OWN.replace("STREAM own", "STREAM other"), _OTHERS.replace("STREAM own", "STREAM third"))

    async def nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr("headwater.sql.server.statement_requests.StatementRequests._make_topics", nothing)
    (answer,) = asyncio.run(node.execute(statement, {}, {}))
    assert answer["commandStatus"]["status"] == "SUCCESS"
    told = [each["message"] for each in answer["warnings"]]
    assert ["reads the topic own, into which it writes" in each for each in told] == [True] * is_told
    assert len(as_tables(answer)) == 1 + is_told

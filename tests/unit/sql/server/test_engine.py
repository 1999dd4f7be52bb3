"""The engine of the server: what the statements of the log make is the same wherever they are read."""

import json

import pytest

from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.language.errors import NotAllowedHereError, SqlError
from headwater.sql.language.parser import parse
from headwater.sql.server.command_log import Command
from headwater.sql.server.engine import Engine
from headwater.streams.topology.topology import Topology

_STREAM = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"


def _engine(*statements: str) -> Engine:
    engine = Engine("default_", "nowhere:1")
    for offset, statement in enumerate(statements):
        engine.apply(offset, Command(statement).encode())
    return engine


def test_ids_of_queries_are_the_places_of_their_statements() -> None:
    engine = _engine(
        _STREAM, "CREATE STREAM t AS SELECT * FROM s;", "CREATE TABLE c AS SELECT id, COUNT(*) FROM s GROUP BY id;"
    )
    assert list(engine.session.queries) == ["CSAS_T_1", "CTAS_C_2"]
    assert engine.outcomes[1].message == "Created query with ID CSAS_T_1"
    assert engine.applied == 3


def test_a_statement_that_fails_changes_nothing_and_the_next_is_applied() -> None:
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT nothing FROM s;", "CREATE STREAM u AS SELECT * FROM s;")
    assert engine.outcomes[1].error is not None
    assert sorted(engine.session.catalog.sources) == ["S", "U"]
    assert list(engine.session.queries) == ["CSAS_U_2"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"statement": 5}',
        b"\xff",
        b'{"statement": "SHOW"}',
        b'{"statement": "x", "streamsProperties": 5}',
    ],
)
def test_what_is_no_statement_is_passed_over(data: bytes) -> None:
    engine = _engine(_STREAM)
    assert engine.apply(1, data).error is not None
    assert engine.applied == 2
    assert list(engine.session.catalog.sources) == ["S"]


def test_properties_hold_for_their_statement_only() -> None:
    engine = Engine("default_", "nowhere:1")
    text = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in');"
    engine.apply(0, Command(text, {"ksql.persistence.default.format.value": "JSON"}).encode())
    engine.apply(1, Command("CREATE STREAM t (id INT KEY, v INT) WITH (kafka_topic='in');").encode())
    assert list(engine.session.catalog.sources) == ["S"]
    assert "VALUE_FORMAT" in str(engine.outcomes[1].error)


def test_checking_changes_nothing() -> None:
    engine = _engine(_STREAM)
    engine.check(parse("CREATE STREAM t AS SELECT * FROM s;")[0], {})
    assert list(engine.session.catalog.sources) == ["S"]
    assert engine.session.queries == {}
    with pytest.raises(SqlError, match="already exists"):
        engine.check(parse(_STREAM)[0], {})


def test_queries_are_paused_resumed_and_terminated() -> None:
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT * FROM s;", "PAUSE CSAS_T_1;")
    assert engine.session.paused == {"CSAS_T_1"}
    engine.apply(3, Command("RESUME ALL;").encode())
    assert engine.session.paused == set()
    engine.apply(4, Command("TERMINATE CSAS_T_1;").encode())
    assert engine.session.queries == {}
    assert engine.apply(5, Command("TERMINATE CSAS_T_1;").encode()).error is not None


def test_a_query_without_state_can_be_replaced_and_keeps_its_id() -> None:
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT id, v FROM s;")
    before = engine.session.queries["CSAS_T_1"]
    engine.apply(2, Command("CREATE OR REPLACE STREAM t AS SELECT id, v, v * 2 AS w FROM s WHERE v > 1;").encode())
    assert engine.outcomes[2].error is None
    assert list(engine.session.queries) == ["CSAS_T_1"]
    assert engine.session.queries["CSAS_T_1"] is not before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE STREAM t AS SELECT id, v * 2 AS w FROM s;",
        "CREATE OR REPLACE STREAM t WITH (kafka_topic='else') AS SELECT id, v FROM s;",
        "CREATE OR REPLACE STREAM s AS SELECT id, v FROM t;",
    ],
)
def test_a_replacement_that_would_break_readers_is_refused(statement: str) -> None:
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT id, v FROM s;")
    assert engine.apply(2, Command(statement).encode()).error is not None
    assert list(engine.session.queries) == ["CSAS_T_1"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE STREAM t AS SELECT id, v * 2 AS w FROM s;",
        "CREATE OR REPLACE STREAM t AS SELECT id, CAST(v AS BIGINT) AS v FROM s;",
        "CREATE OR REPLACE STREAM t WITH (kafka_topic='else') AS SELECT id, v FROM s;",
        "CREATE OR REPLACE TABLE t AS SELECT id, COUNT(*) AS v FROM s GROUP BY id;",
    ],
)
def test_a_stream_whose_query_was_terminated_keeps_its_columns_for_its_readers(statement: str) -> None:
    """The check looked at the query only, which was gone: readers of the stream got columns that they did not know."""
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT id, v FROM s;", "TERMINATE CSAS_T_1;")
    with pytest.raises(SqlError, match="Cannot upgrade data source: DataSource '`T`' has"):
        engine.check(parse(statement)[0], {})


def test_the_windows_of_a_table_stay_though_its_query_was_terminated() -> None:
    counted = "CREATE {} t AS SELECT id, COUNT(*) AS n FROM s {} GROUP BY id;"
    engine = _engine(_STREAM, counted.format("TABLE", "WINDOW TUMBLING (SIZE 1 HOUR)"), "TERMINATE CTAS_T_1;")
    engine.check(parse(counted.format("OR REPLACE TABLE", "WINDOW TUMBLING (SIZE 1 HOUR)"))[0], {})
    for other in ("", "WINDOW TUMBLING (SIZE 2 HOURS)"):
        with pytest.raises(SqlError, match=r"has topic = T .* which is not upgradeable to T "):
            engine.check(parse(counted.format("OR REPLACE TABLE", other))[0], {})


def test_a_terminated_query_can_be_replaced_by_one_with_more_columns_and_its_log_is_kept() -> None:
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT id, v FROM s;", "TERMINATE CSAS_T_1;")
    grown = "CREATE OR REPLACE STREAM t AS SELECT id, v, v * 2 AS w FROM s;"
    engine.check(parse(grown)[0], {})
    assert engine.apply(3, Command(grown).encode()).query_id == "CSAS_T_3"
    # An earlier version has taken others: a query of the log must not be lost with the next start.
    engine.apply(4, Command("TERMINATE CSAS_T_3;").encode())
    assert (
        engine.apply(
            5, Command("CREATE OR REPLACE STREAM t AS SELECT id, v + 1 AS x FROM s;", version=2).encode()
        ).error
        is None
    )


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("STREAM s (id INT KEY) WITH (kafka_topic='in', value_format='JSON');", "[`V` INTEGER]"),
        ("STREAM s (id INT KEY, w INT, v INT) WITH (kafka_topic='in', value_format='JSON');", "[`V` INTEGER]"),
        ("STREAM s (id INT KEY, v BIGINT) WITH (kafka_topic='in', value_format='JSON');", "[`V` INTEGER]"),
        ("STREAM s (id STRING KEY, v INT) WITH (kafka_topic='in', value_format='JSON');", "[`ID` INTEGER KEY]"),
        ("STREAM s (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON');", "has topic = in (key: KAFKA"),
        ("STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='DELIMITED');", "value: DELIMITED"),
        ("STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', format='JSON');", "(key: JSON"),
        (
            "STREAM s (id INT KEY, v INT, t BIGINT) WITH (kafka_topic='in', value_format='JSON', timestamp='t');",
            "has timestampColumn = none which is not upgradeable to T",
        ),
        ("TABLE s (id INT PRIMARY KEY, v INT) WITH (kafka_topic='in', value_format='JSON');", "KSTREAM which"),
    ],
)
def test_or_replace_of_columns_keeps_what_readers_were_made_for(statement: str, why: str) -> None:
    """It checked nothing: queries that read the stream went on with columns, keys and formats that it no longer had."""
    engine = _engine("CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');")
    with pytest.raises(SqlError, match="Cannot upgrade data source") as met:
        engine.check(parse(f"CREATE OR REPLACE {statement}")[0], {})
    assert why in str(met.value)
    assert engine.apply(1, Command(f"CREATE OR REPLACE {statement}").encode()).error is not None
    # Earlier versions have taken it: what is in the log holds.
    assert engine.apply(2, Command(f"CREATE OR REPLACE {statement}", version=2).encode()).error is None


def test_an_aggregation_that_is_replaced_goes_on_with_its_state_under_the_same_names() -> None:
    """With another WHERE its steps have other numbers, and so had its store and its topics."""
    counted = "TABLE t AS SELECT v, COUNT(*) AS n FROM s {} GROUP BY v {};"
    engine = _engine(_STREAM, "CREATE " + counted.format("", ""))
    before = engine.session.queries["CTAS_T_1"].app.topology()
    for place, clauses in enumerate([("WHERE v > 1", ""), ("", "HAVING COUNT(*) > 1"), ("WHERE v > 2", "")], 2):
        engine.apply(place, Command("CREATE OR REPLACE " + counted.format(*clauses)).encode())
        assert engine.outcomes[place].error is None
        after = engine.session.queries["CTAS_T_1"].app.topology()
        assert list(after.stores) == list(before.stores)
        assert _internal(after) == _internal(before) != []


def _internal(topology: Topology) -> list[str]:
    return sorted({name for each in topology.sub_topologies() for name in each.internal_names})


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("v, COUNT(*) AS n FROM s GROUP BY v", "v, COUNT(id) AS n FROM s GROUP BY v", "matching aggregate functions"),
        ("v, COUNT(*) AS n FROM s GROUP BY v", "v, COUNT(*) AS n FROM s2 GROUP BY v", "topic, formats"),
        ("ABS(v) AS k, COUNT(*) AS n FROM s GROUP BY ABS(v)", "-v AS k, COUNT(*) AS n FROM s GROUP BY -v", "group by"),
        (
            "v, COUNT(*) AS n FROM s WINDOW SESSION (1 HOUR) GROUP BY v",
            "v, COUNT(*) AS n FROM s WINDOW SESSION (1 HOUR) WHERE v > 1 GROUP BY v",
            "not yet supported for StreamWindowedAggregate",
        ),
    ],
)
def test_an_aggregation_whose_state_would_mean_something_else_is_not_replaced(
    before: str, after: str, why: str
) -> None:
    other = "CREATE STREAM s2 (id INT KEY, v INT) WITH (kafka_topic='other', value_format='JSON');"
    engine = _engine(_STREAM, other, f"CREATE TABLE t AS SELECT {before};")
    with pytest.raises(SqlError, match=why):
        engine.check(parse(f"CREATE OR REPLACE TABLE t AS SELECT {after};")[0], {})


@pytest.mark.parametrize(
    ("made", "grown", "may"),
    [
        ("STREAM s (id INT KEY, v INT)", "id, COUNT(*) AS n FROM s GROUP BY id", True),
        ("STREAM s (id INT KEY, v INT)", "v, COUNT(*) AS n FROM s GROUP BY v", False),  # rows are in a topic already
        ("TABLE s (id INT PRIMARY KEY, v INT)", "id, v FROM s", False),  # and in a store
    ],
)
def test_rows_on_their_way_are_not_read_with_columns_that_came_later(made: str, grown: str, may: bool) -> None:
    properties = "WITH (kafka_topic='in', value_format='JSON');"
    engine = _engine(
        f"CREATE {made} {properties}",
        f"CREATE TABLE t AS SELECT {grown};",
        f"CREATE OR REPLACE {made[:-1]}, w INT) {properties}",
    )
    assert engine.outcomes[2].error is None
    error = engine.apply(3, Command(f"CREATE OR REPLACE TABLE t AS SELECT {grown};").encode()).error
    assert (error is None) == may
    assert may or "columns not part of aggregate" in str(error) or "columns that its store has" in str(error)


def test_a_query_id_that_is_used_again_begins_anew_whatever_was_left() -> None:
    """The leader died before it had cleaned up, and the next query of that id went on at the offsets, and with the
    state, of the one before it.
    """
    named = "INSERT INTO t WITH (QUERY_ID='mine') SELECT id, v FROM s;"
    engine = _engine(_STREAM, "CREATE STREAM t AS SELECT id, v FROM s;", named)
    first = engine.session.queries["MINE"].app.name
    engine.apply(3, Command("TERMINATE MINE;").encode())
    assert engine.session.ended == {first}
    engine.apply(4, Command(named).encode())
    assert engine.session.queries["MINE"].app.name == f"{first}_r4"
    engine.apply(5, Command("TERMINATE ALL;").encode())
    engine.apply(6, Command(named, version=2).encode())  # of an earlier version: it runs, and goes on where it is
    assert engine.session.queries["MINE"].app.name == first
    assert first not in engine.session.ended


def test_alter_system_holds_for_the_statements_after_it_that_set_nothing_themselves() -> None:
    text = "CREATE STREAM {} (id INT KEY, v INT) WITH (kafka_topic='in');"
    engine = _engine(
        "ALTER SYSTEM 'ksql.streams.ksql.persistence.default.format.value'='JSON';",
        text.format("s"),
    )
    assert engine.outcomes[0].command_id.endswith("/alter")
    engine.apply(2, Command(text.format("t"), {"ksql.persistence.default.format.value": "DELIMITED"}).encode())
    shown = {each.name: each.value_format.name for each in engine.session.catalog}
    assert shown == {"S": "JSON", "T": "DELIMITED"}
    assert engine.session.settings == {}


def test_alter_system_sets_only_what_has_an_effect() -> None:
    (statement,) = parse("ALTER SYSTEM 'bootstrap.servers'='elsewhere:9092';")
    with pytest.raises(SqlError, match="ALTER SYSTEM cannot set"):
        _engine().check(statement, {})


def test_a_statement_of_the_log_that_is_too_long_by_now_is_carried_out_all_the_same() -> None:
    """An earlier version has accepted it: its query must not be lost with the next start."""
    text = f"CREATE STREAM t AS SELECT id, {' + '.join(['v'] * 300)} AS x FROM s;"
    engine = _engine(_STREAM, text)
    assert list(engine.session.queries) == ["CSAS_T_1"]
    with pytest.raises(SqlError, match="Operators in one chain"):
        engine.session.parse(text)


def test_insert_into_may_name_its_query_and_what_was_logged_before_that_keeps_its_id() -> None:
    text = "INSERT INTO t WITH (query_id='mine') SELECT * FROM s;"
    target = _STREAM.replace("STREAM s", "STREAM t").replace("'in'", "'out'")
    engine = _engine(_STREAM, target)
    old = json.dumps({"statement": text, "streamsProperties": {}, "version": 1}).encode()
    assert engine.apply(2, old).query_id == "INSERTQUERY_2"
    assert engine.apply(3, Command(text).encode()).query_id == "MINE"
    assert list(engine.session.queries) == ["INSERTQUERY_2", "MINE"]
    with pytest.raises(SqlError, match="Query ID 'MINE' already exists"):
        engine.check(engine.session.parse(text)[0], {})


def test_what_the_config_says_goes_into_the_log_with_a_statement_unless_it_is_set_elsewhere() -> None:
    defaults = {"auto.offset.reset": "earliest", "ksql.persistence.default.format.value": "AVRO"}
    engine = Engine("default_", "nowhere:1", defaults=defaults)
    engine.apply(0, Command("ALTER SYSTEM 'ksql.persistence.default.format.value'='JSON';").encode())
    assert engine.of_system == {"auto.offset.reset": "earliest", "ksql.persistence.default.format.value": "JSON"}
    assert engine.for_log({}) == {"auto.offset.reset": "earliest"}
    assert engine.for_log({"auto.offset.reset": "latest"}) == {"auto.offset.reset": "latest"}
    text = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in');"
    assert engine.apply(1, Command(text, engine.for_log({})).encode()).error is None


def test_a_logged_statement_with_a_value_that_had_no_effect_is_carried_out() -> None:
    name = "ksql.timestamp.throw.on.invalid"
    engine = _engine(_STREAM)
    statement = "CREATE STREAM t AS SELECT * FROM s;"
    assert engine.apply(1, Command(statement, {name: "yes"}).encode()).error is None
    (parsed,) = engine.session.parse("CREATE STREAM u AS SELECT * FROM s;")
    with pytest.raises(SqlError, match="cannot be 'yes'"):
        engine.check(parsed, {name: "yes"})


def test_a_function_that_this_server_does_not_allow_is_withheld_until_it_is_dropped() -> None:
    create = "CREATE FUNCTION f AS $$def f(a: int) -> int: return a$$;"
    allowed = Engine("default_", "nowhere:1", functions_allowed=EVERYTHING)
    for engine, expected in ((allowed, []), (_engine(), ["F"])):
        outcome = engine.apply(0, Command(create).encode())
        assert isinstance(outcome.error, NotAllowedHereError) == bool(expected)
        assert list(engine.withheld) == expected
        engine.apply(1, Command("DROP FUNCTION f;").encode())
        assert engine.withheld == {}


def test_a_star_of_windowed_streams_of_an_older_log_stays_what_it_was() -> None:
    """It has the bounds of their windows since; a query that runs must not write other columns after a restart."""
    window = "value_format='JSON', window_type='TUMBLING', window_size='1 SECOND'"
    sources = [f"CREATE STREAM {each} (k INT KEY, v INT) WITH (kafka_topic='{each}', {window});" for each in "pq"]
    joined = "CREATE STREAM j AS SELECT * FROM p JOIN q WITHIN 1 MINUTE ON p.k = q.k;"
    older, now = _engine(*sources), _engine(*sources)
    older.apply(2, Command(joined, version=3).encode())
    now.apply(2, Command(joined).encode())
    assert [each.name for each in older.session.catalog.sources["J"].columns] == ["P_K", "P_V", "Q_K", "Q_V"]
    assert "P_WINDOWSTART" in [each.name for each in now.session.catalog.sources["J"].columns]
    assert older.session.spreads_bounds


def test_keys_that_queries_of_an_older_log_made_keep_their_formats() -> None:
    """A default format counts for them since, and PARTITION BY NULL leaves none; rows have the older ones."""
    default = {"ksql.persistence.default.format.key": "DELIMITED"}
    statements = [
        ("CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', format='JSON');", {}),
        ("CREATE STREAM r (v INT) WITH (kafka_topic='raw', key_format='NONE', value_format='JSON');", {}),
        ("CREATE STREAM n AS SELECT * FROM s PARTITION BY NULL;", {}),
        ("CREATE TABLE t AS SELECT v, COUNT(*) AS c FROM n GROUP BY v;", {}),
        ("CREATE TABLE u AS SELECT v, COUNT(*) AS c FROM r GROUP BY v;", default),
    ]
    older, now = _engine(), _engine()
    for offset, (statement, properties) in enumerate(statements):
        older.apply(offset, Command(statement, properties, version=4).encode())
        now.apply(offset, Command(statement, properties).encode())
    assert [older.session.catalog.sources[each].key_format.name for each in "NTU"] == ["JSON", "JSON", "KAFKA"]
    assert [now.session.catalog.sources[each].key_format.name for each in "NTU"] == ["NONE", "KAFKA", "DELIMITED"]
    assert older.session.formats_keys
    again = "CREATE OR REPLACE STREAM n AS SELECT * FROM s WHERE v > 1 PARTITION BY NULL;"
    assert older.apply(5, Command(again).encode()).error is None


@pytest.mark.parametrize(
    "condition",
    ["ROWTIME > '2021-01-01 10:00:00'", "ROWTIME BETWEEN '2021-01-01 10:00' AND '2021-01-01T10:00:00.123456'"],
)
def test_moments_of_logged_statements_are_read_though_no_cast_reads_them(condition: str) -> None:
    engine = _engine(_STREAM)
    outcome = engine.apply(1, Command(f"CREATE STREAM t AS SELECT * FROM s WHERE {condition};", version=4).encode())
    assert outcome.error is None


def test_sources_of_one_topic_with_keys_of_avro_are_joined_as_they_are() -> None:
    """Their keys are records of other names, and the same bytes."""
    engine = Engine("default_", "nowhere:1", MemorySchemas())
    keys = "id STRING KEY, v INT) WITH (kafka_topic='in', format='AVRO');"
    joined = "CREATE STREAM j AS SELECT p.id, p.v FROM p JOIN q WITHIN 1 HOUR ON p.id = q.id;"
    for offset, statement in enumerate((f"CREATE STREAM p ({keys}", f"CREATE STREAM q ({keys}", joined)):
        assert engine.apply(offset, Command(statement).encode()).error is None
    assert _internal(engine.session.queries["CSAS_J_2"].app.topology()) == []


def _tried(statement: str, after: int | None, place: int | None = None) -> bytes:
    return Command(statement, after=after, place=place).encode()


def test_a_statement_that_was_tried_without_one_that_came_before_it_does_nothing() -> None:
    """What it names may be something else by now, which its caller was not asked about."""
    engine = _engine(_STREAM)
    other = _STREAM.replace("'in'", "'secret'").replace("CREATE", "CREATE OR REPLACE")
    engine.apply(1, _tried(other, 1))
    outcome = engine.apply(2, _tried("CREATE STREAM t AS SELECT * FROM s;", 1))
    assert (outcome.overtaken, outcome.error, engine.session.queries) == (True, None, {})
    assert (engine.applied, engine.statements) == (3, 2)
    outcome = engine.apply(3, _tried("CREATE STREAM t AS SELECT * FROM s;", 2))
    assert (outcome.overtaken, list(engine.session.queries)) == (False, ["CSAS_T_3"]), "the overtaken one counts not"


def test_a_statement_that_failed_overtakes_others_too() -> None:
    """A server that lacks the code of a function would else hear what the others do not."""
    engine = _engine(_STREAM)
    assert engine.apply(1, _tried("CREATE STREAM t AS SELECT nothing FROM s;", 1)).error is not None
    assert engine.apply(2, _tried("CREATE STREAM u AS SELECT * FROM s;", 1)).overtaken


def test_a_statement_without_a_word_of_when_it_was_tried_counts() -> None:
    """Of ksqlDB's log, or an older one."""
    engine = _engine(_STREAM, _STREAM.replace("STREAM s", "STREAM t"))
    assert engine.apply(2, _tried("CREATE STREAM u AS SELECT * FROM s;", None)).query_id == "CSAS_U_2"
    assert b"after" not in Command(_STREAM).encode()


def test_what_holds_no_statement_overtakes_none() -> None:
    engine = _engine(_STREAM)
    engine.pass_over(1)
    assert engine.apply(2, _tried("CREATE STREAM u AS SELECT * FROM s;", 1)).query_id == "CSAS_U_2"
    assert engine.apply(3, _tried("CREATE STREAM w AS SELECT * FROM s;", 2)).overtaken
    assert engine.apply(4, _tried("CREATE STREAM w AS SELECT * FROM s;", 3)).query_id == "CSAS_W_4"

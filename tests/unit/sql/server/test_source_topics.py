"""What the topics of streams and tables are made with."""

import pytest

from headwater.sql.language import tree
from headwater.sql.plan.session import Session
from headwater.sql.server.source_topics import Retention, sink_configs

_DAY = 86_400_000
_WEEK = Retention(7 * _DAY, is_own=False)  # what brokers have by default
_STREAM = "CREATE STREAM u AS SELECT * FROM s;"
_WINDOWS = "CREATE TABLE u AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR{}) GROUP BY id;"


@pytest.mark.parametrize(
    ("statement", "of_input", "configs"),
    [
        (_STREAM, None, {}),
        (_STREAM, _WEEK, {}),
        (_STREAM, Retention(30 * _DAY, is_own=True), {"retention.ms": str(30 * _DAY)}),
        (_STREAM, Retention(-1, is_own=True), {"retention.ms": "-1"}),
        (
            "CREATE STREAM u WITH (retention_ms=1000) AS SELECT * FROM s;",
            Retention(30 * _DAY, is_own=True),
            {"retention.ms": "1000"},
        ),
        (
            "CREATE TABLE u AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;",
            Retention(30 * _DAY, is_own=True),
            {"cleanup.policy": "compact"},
        ),
        (_WINDOWS.format(""), _WEEK, {}),
        (_WINDOWS.format(", RETENTION 30 DAYS"), _WEEK, {"retention.ms": str(30 * _DAY)}),
        (_WINDOWS.format(", RETENTION 30 DAYS"), None, {}),
        (_WINDOWS.format(", RETENTION 30 DAYS"), Retention(-1, is_own=False), {}),
        (_WINDOWS.format(", RETENTION 30 DAYS"), Retention(90 * _DAY, is_own=True), {"retention.ms": str(90 * _DAY)}),
        (
            _WINDOWS.format(", RETENTION 30 DAYS").replace("u AS", "u WITH (retention_ms=1000) AS"),
            _WEEK,
            {"retention.ms": str(30 * _DAY)},
        ),
    ],
)
def test_a_topic_keeps_what_its_query_reads_and_its_windows(
    statement: str, of_input: Retention | None, configs: dict[str, str]
) -> None:
    """It kept all as long as brokers do by default: windows whose RETENTION is longer were lost to pull queries."""
    session = Session()
    session.run("CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');")
    (parsed,) = session.parse(statement)
    assert isinstance(parsed, tree.CreateAs)
    session.run(statement)
    assert sink_configs(session.catalog.find("U"), parsed.properties, of_input) == configs

"""Which properties a session may set, and how SHOW PROPERTIES tells them."""

import pytest

from headwater.sql.language.errors import SqlError
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.settable import check_request, check_settable, defaults_of, properties


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "ksql.streams.auto.offset.reset",
        "ksql.streams.num.stream.threads",
        "processing.guarantee",
        "ksql.streams.consumer.max.poll.records",
        "producer.linger.ms",
        "ksql.query.pull.table.scan.enabled",
        "ksql.query.pull.interpreter.enabled",
        "ksql.query.push.v2.catchup.consumer.msg.window",
        "ksql.endpoint.migrate.query",
    ],
)
def test_what_scripts_of_ksqldb_set(name: str) -> None:
    check_settable(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("ksql.service.id", "prohibited by the KSQL server"), ("auto.offst.reset", "Not recognizable as ksql, streams")],
)
def test_what_is_refused(name: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        check_settable(name)


def test_a_misspelt_name_in_a_request_is_refused_with_a_suggestion() -> None:
    """The shell took it, and nothing changed."""
    with pytest.raises(SqlError, match=r"Did you mean 'auto.offset.reset'\?"):
        check_request({"auto.offst.reset": "earliest"})
    check_request({"auto.offset.reset": "earliest", "cache.max.bytes.buffering": "0"})


@pytest.mark.parametrize("name", ["ksql.fail.on.production.error", "ksql.headers.columns.enabled"])
def test_what_would_change_results_is_taken_only_as_it_is(name: str) -> None:
    check_request({name: "True"})
    with pytest.raises(SqlError, match=r"cannot be 'false'. It is 'true': .* UNSET"):
        check_request({name: "false"})


def test_the_session_counts_before_the_system_and_that_before_the_server() -> None:
    config, _ = SqlServerConfig.of({"ksql.service.id": "x_"})
    rows = properties(config, {"auto.offset.reset": "latest"}, {})
    shown = {each["name"]: (each["value"], each["level"], each["editable"]) for each in rows}
    assert shown["ksql.service.id"] == ("x_", "SERVER", False)
    assert shown["auto.offset.reset"] == ("latest", "SYSTEM", True)
    assert shown["ksql.query.push.max"] == ("100", "", False)
    assert "ksql.schema.registry.basic.auth.user.info" not in shown  # a password
    rows = properties(config, {"auto.offset.reset": "latest"}, {"auto.offset.reset": "earliest"})
    assert ("auto.offset.reset", "earliest") in [(each["name"], each["value"]) for each in rows]


def test_a_server_may_be_given_what_statements_set() -> None:
    given = {
        "ksql.streams.auto.offset.reset": "earliest",
        "ksql.persistence.default.format.value": "JSON",
        "ksql.timestamp.throw.on.invalid": "true",
    }
    config, warnings = SqlServerConfig.of(given)
    assert warnings == []
    assert defaults_of(config) == {name.removeprefix("ksql.streams."): value for name, value in given.items()}
    rows = {each["name"]: (each["value"], each["level"]) for each in properties(config, {}, {})}
    assert rows["auto.offset.reset"] == ("earliest", "SERVER")
    assert rows["ksql.persistence.default.format.key"] == (None, "")


def test_a_server_does_not_start_with_a_value_that_no_statement_may_have() -> None:
    config, _ = SqlServerConfig.of({"ksql.streams.auto.offset.reset": "middle"})
    with pytest.raises(SqlError, match=r"auto.offset.reset cannot be 'middle'"):
        defaults_of(config)

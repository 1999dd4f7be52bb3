"""What `headwater up` says when it is ready."""

from pathlib import Path

import pytest

from headwater.cli.announcement import announce
from headwater.cli.commands.status import _table
from headwater.cli.local_documents import local_documents
from headwater.cli.plans import ConnectPlan, Plan, RegistryPlan, SqlPlan
from headwater.cli.state import BrokerState, UpState


def _broker(at: int = 0) -> BrokerState:
    return BrokerState(id=at, pid=1, start_ticks=1, host="127.0.0.1", port=9092 + at, log_dirs=[], log_file=None)


@pytest.mark.parametrize("count", [1, 3])
def test_a_registry_that_was_planned_and_is_not_there_is_told(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    state = UpState("/data", "1", 1, 1, [_broker(at) for at in range(count)])
    registry = RegistryPlan(8081, Path("/data/logs/registry.log"))
    sql = SqlPlan(8088, Path("/data/sql"), Path("/data/logs/sql.log"))
    announce(state, "table", "is up", Plan(Path("/data"), None, [], None, None, registry, sql, ConnectPlan(8083, None)))
    said = capsys.readouterr().out
    assert "the schema registry did not start, see /data/logs/registry.log" in said
    assert "the SQL server did not start, see /data/logs/sql.log" in said
    assert "the Connect worker did not start\n" in said
    announce(state, "table", "is up", None)
    said = capsys.readouterr().out
    assert "registry" not in said
    assert "sql" not in said


def test_commands_to_try_next_can_be_typed_where_a_path_has_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    state = UpState("/my data", "1", 1, 1, [_broker()], client_config="/my data/secure/client.properties")
    announce(state, "table", "is running already")
    said = capsys.readouterr().out
    assert "status --data-dir '/my data'\n" in said
    assert "--command-config '/my data/secure/client.properties'\n" in said


def test_status_shows_where_the_metrics_of_each_broker_are() -> None:
    """docs/OPERATIONS.md said so, and only `-o json` did."""
    brokers = [_broker(0), _broker(1)]
    brokers[1].metrics_port = 9404
    said = _table(local_documents(UpState("/data", "1", 1, 1, brokers), asking=False))
    assert "\nmetrics of broker 1: http://127.0.0.1:9404/metrics\n" in said
    assert "metrics of broker 0" not in said

"""What `headwater up` says when it is ready."""

from pathlib import Path

import pytest

from headwater.cli.commands.up import _announce
from headwater.cli.plans import ConnectPlan, Plan, RegistryPlan, SqlPlan
from headwater.cli.state import BrokerState, UpState


@pytest.mark.parametrize("count", [1, 3])
def test_a_registry_that_was_planned_and_is_not_there_is_told(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    brokers = [
        BrokerState(id=at, pid=1, start_ticks=1, host="127.0.0.1", port=9092 + at, log_dirs=[], log_file=None)
        for at in range(count)
    ]
    state = UpState("/data", "1", 1, 1, brokers)
    registry = RegistryPlan(8081, Path("/data/logs/registry.log"))
    sql = SqlPlan(8088, Path("/data/sql"), Path("/data/logs/sql.log"))
    _announce(
        state, "table", "is up", Plan(Path("/data"), None, [], None, None, registry, sql, ConnectPlan(8083, None))
    )
    said = capsys.readouterr().out
    assert "the schema registry did not start, see /data/logs/registry.log" in said
    assert "the SQL server did not start, see /data/logs/sql.log" in said
    assert "the Connect worker did not start\n" in said
    _announce(state, "table", "is up", None)
    said = capsys.readouterr().out
    assert "registry" not in said
    assert "sql" not in said

"""What a server that does not lead says of the queries of the one that does."""

import pytest

from headwater.sql.server.peers import HostStatus, ServerName
from headwater.sql.server.query_host import StoreProgress
from headwater.sql.server.query_states import QueryState, Report, changes, state_elsewhere

_LEADER = ServerName("10.0.0.2", 8088, "two", "bb")
_WELL, _GONE = HostStatus(alive=True, updated_ms=0, leads=True), HostStatus(alive=False, updated_ms=0, leads=True)
_DIED = Report(str(_LEADER), "ERROR", "KafkaError: no")
_FORMER = Report(str(_LEADER._replace(life="aa")), "RUNNING")


@pytest.mark.parametrize(
    ("report", "leader", "shown"),
    [
        (_DIED, (_LEADER, _WELL), QueryState("ERROR", "KafkaError: no", "10.0.0.2:8088")),
        (_DIED, (_LEADER, _GONE), QueryState("UNRESPONSIVE", "", "10.0.0.2:8088")),
        (_FORMER, (_LEADER, _WELL), QueryState("STARTING", "", "10.0.0.2:8088")),  # of another life: that is over
        (None, (_LEADER, _WELL), QueryState("STARTING", "", "10.0.0.2:8088")),
        (_DIED, None, QueryState("STARTING", "", "")),  # nobody leads
    ],
)
def test_the_state_of_a_query_that_another_runs(
    report: Report | None, leader: tuple[ServerName, HostStatus] | None, shown: QueryState
) -> None:
    assert state_elsewhere(report, leader) == shown


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("STARTING", "RUNNING"),
        ("RESTORING", "RUNNING"),
        ("RUNNING", "RUNNING"),
        ("ERROR", "ERROR"),
        ("PAUSED", "PAUSED"),
        ("UNRESPONSIVE", "UNRESPONSIVE"),
    ],
)
def test_clients_count_by_the_four_words_that_they_know(state: str, word: str) -> None:
    assert QueryState(state).word == word


def test_only_what_changed_is_written() -> None:
    one, two = Report("s", "RUNNING"), Report("s", "STARTING")
    assert changes({}, {"a": one}) == {"a": one}
    assert changes({"a": one, "b": two}, {"a": one, "b": one}) == {"b": one}
    assert changes({"a": one}, {}) == {"a": None}
    assert changes({"a": one}, {"a": one}) == {}


def test_a_report_is_read_as_it_was_written_and_its_error_is_bounded() -> None:
    report = Report("s", "RESTORING", "", (StoreProgress("store", 1, 2, 3),))
    assert Report.decode(report.encode()) == report
    long = Report.decode(Report("s", "ERROR", "x" * 100_000).encode())
    assert long is not None
    assert len(long.error) == 4_000


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"null", b"{}", b'{"server":"s","state":"","error":"","restoring":[1]}']
)
def test_what_is_no_report_is_none(data: bytes) -> None:
    assert Report.decode(data) is None

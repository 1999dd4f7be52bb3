"""A slot that is gone: a new one is made only after the offset of the old one is no longer there to be believed."""

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.connect.connectors.postgres_cdc import catalog, connector, replication
from headwater.connect.connectors.postgres_cdc.catalog import Moment, Slot
from headwater.connect.connectors.postgres_cdc.connector import PostgresCdcTask
from headwater.connect.connectors.postgres_cdc.snapshot import is_unfinished
from headwater.connect.errors import ConnectError

FINISHED = {"lsn": 50, "lsn_unit": 49, "lsn_nth": 0}
CONFIG = {
    "topic.prefix": "srv",
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "publication.autocreate.mode": "disabled",
}


class Postgres:
    """A server and the connections to it, without tables; its slot and the stored offset outlive tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, slot: Slot | None = None) -> None:
        self.the_slot = slot
        self.stored: Mapping[str, Any] | None = FINISHED
        monkeypatch.setattr(catalog, "Server", lambda *_given, **_more: self)
        monkeypatch.setattr(replication, "ReplicationConnection", lambda _parameters: self)
        monkeypatch.setattr(connector, "_STORED_S", 0)

    def task(self, mode: str) -> PostgresCdcTask:
        made = PostgresCdcTask()
        context: Any = SimpleNamespace(offset_reader=SimpleNamespace(offset=lambda _partition: self.stored))
        made.context = context
        made.start({**CONFIG, "snapshot.mode": mode})
        return made

    def version(self) -> int:
        return 150000

    def publication_tables(self, _name: str) -> set[Any]:
        return set()

    def types(self) -> dict[int, Any]:
        return {}

    def tables(self) -> list[Any]:
        return []

    def slot(self, _name: str) -> Slot | None:
        return self.the_slot

    @contextlib.contextmanager
    def snapshot(self, _exported: str | None) -> Iterator[Any]:
        yield SimpleNamespace(moment=lambda: Moment(100, 1, 1))

    def create_slot(self, _name: str, *, failover: bool) -> Any:
        del failover
        self.the_slot = Slot("pgoutput", False, 100, False)
        return SimpleNamespace(snapshot_name="s", consistent_lsn=100)

    def start(self, *_given: Any) -> None: ...

    def close(self) -> None: ...


def test_a_new_slot_waits_until_the_old_offset_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Postgres(monkeypatch)
    task = server.task("when_needed")
    [record] = task.poll() or []
    assert record.source_offset is not None
    assert is_unfinished(record.source_offset)
    for _ in range(3):
        assert task.poll() is None
        assert server.the_slot is None  # the worker may die here: the next one begins anew too
    server.stored = record.source_offset
    assert task.poll() is None
    assert server.the_slot is not None
    assert task._stream is not None
    assert task._stream.heartbeat_offset()["lsn_unit"] == 99  # a transaction that ends at 100 is still to come


def test_who_finds_the_new_slot_takes_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Postgres(monkeypatch)
    [record] = server.task("when_needed").poll() or []
    server.stored, server.the_slot = record.source_offset, Slot("pgoutput", False, 100, False)
    assert server.task("when_needed")._snapshot_wanted(True)


def test_a_connector_of_rows_alone_that_has_given_them_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Postgres(monkeypatch, slot=Slot("pgoutput", False, 60, False)).task("initial_only")
    assert task.poll() is None


def test_without_rows_a_slot_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Postgres(monkeypatch)
    with pytest.raises(
        ConnectError, match="is gone, and with it what changed since: stop the connector and delete its offsets"
    ):
        server.task("no_data").poll()
    assert server.the_slot is None  # nothing was made that would hide it from the next start
    server.stored = None  # its offsets were deleted
    server.task("no_data")._open()
    assert server.the_slot is not None


def test_the_offset_of_a_prefix_that_the_connector_had_before_can_be_taken_away() -> None:
    """A reset takes all of them: one that was refused kept the others, too."""
    made = connector.PostgresCdcConnector()
    assert made.alter_offsets({"topic.prefix": "new"}, [({"server": "old"}, None), ({"server": "new"}, None)])
    with pytest.raises(ConnectError, match="partition of this connector"):
        made.alter_offsets({"topic.prefix": "new"}, [({"server": "old"}, {"lsn": 1})])

"""The clients of a slot: what each reads, and that none stays behind where a slot does not come to life."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.types import EARLIEST, LATEST, READ_COMMITTED
from headwater.streams import App, Processor, Record, key_value_store
from headwater.streams.slot import slot as slot_module
from headwater.streams.slot.global_tables import GlobalTables
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.slot import Slot


class Made(Exception):
    """A client, with these settings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.settings = settings


def _made(settings: dict[str, Any]) -> None:
    raise Made(settings)


def _slot(app: App, settings: RunSettings) -> Slot:
    admin = SimpleNamespace(describe_cluster=lambda: SimpleNamespace(cluster_id="c"))
    lead: Any = SimpleNamespace(admin=admin, application_id="app")
    program: Any = SimpleNamespace(
        state_directory=lambda _: settings.state_dir,
        settings=settings,
        sub_topologies=app.topology().sub_topologies(),
        task_settings=app.settings(),
        topics=SimpleNamespace(tasks={}, globals={"names": 1}),
        reset="earliest",
    )
    run: Any = SimpleNamespace(producers={"id": None})
    return Slot(lead, run, "id", program, None, (), threading.Event())  # type: ignore[arg-type]


def _plain() -> App:
    app = App("app", key="text", value="text")
    app.stream("in").to("out")
    return app


def test_changelogs_are_read_committed_whatever_isolation_the_user_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A replay took what transactions had aborted for the state of the task."""
    monkeypatch.setattr(slot_module, "RangeReader", _made)
    with pytest.raises(Made) as made:
        _slot(_plain(), RunSettings("localhost:1", tmp_path, client={"isolation.level": "read_uncommitted"}))
    assert made.value.settings["isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("guarantee", "client", "isolation"),
    [
        ("exactly_once_v2", {"isolation.level": "read_uncommitted"}, "read_committed"),
        ("at_least_once", {}, "read_uncommitted"),
        ("at_least_once", {"isolation.level": "read_committed"}, "read_committed"),
    ],
)
def test_inputs_are_read_as_the_user_says_unless_exactly_once_says_otherwise(
    guarantee: str, client: dict[str, str], isolation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At least once took no notice of it: aborted records were processed though the user wanted none."""
    monkeypatch.setattr(slot_module, "RangeReader", lambda _: None)
    monkeypatch.setattr(slot_module, "Consumer", _made)
    with pytest.raises(Made) as made:
        _slot(_plain(), RunSettings("localhost:1", tmp_path, processing_guarantee=guarantee, client=client))
    given = made.value.settings
    assert given["isolation.level"] == isolation
    assert (given["enable.auto.commit"], given["auto.offset.reset"]) == (False, "earliest")


class _Raises(Processor):
    def init(self, context: Any) -> None:
        raise OSError("the licence is not there")

    def process(self, record: Record) -> None:
        """Never called."""


def test_a_processor_that_does_not_come_to_life_leaves_no_client_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The reader and the consumer stayed, with their threads and connections: nobody had them to close."""
    monkeypatch.setattr(slot_module, "RangeReader", _made)
    app = _plain()
    app.add_global_store(key_value_store("kept"), "names", _Raises)
    with pytest.raises(Exception, match="the licence is not there"):
        _slot(app, RunSettings("localhost:1", tmp_path))


def test_a_global_table_does_not_wait_for_a_transaction_of_others_that_is_open() -> None:
    """A producer that hung kept applications from starting: what must be there, it was thought, would never come."""
    place = TopicPartition("names", 0)
    read: list[tuple[int, int]] = []

    class Brokers:
        def list_offsets(self, wanted: dict[TopicPartition, int], *, isolation_level: int = 0) -> Any:
            last = 7 if isolation_level == READ_COMMITTED else 9
            return {each: SimpleNamespace(offset={EARLIEST: 2, LATEST: last}[at]) for each, at in wanted.items()}

        def records(self, partition: TopicPartition, begin: int, end: int, **_: Any) -> Any:
            assert partition == place
            read.append((begin, end))
            return iter(())

    app = App("app", key="text", value="text")
    table = app.global_table("names")
    app.stream("in").join(table, lambda a, b: a, on=lambda key, value: key).to("out")
    plans = [sub for sub in app.topology().sub_topologies() if sub.is_global]
    clients: Any = SimpleNamespace(admin=Brokers(), reader=Brokers())
    assert GlobalTables(plans, app.settings(), {"names": 1}).restore(clients) == {place: 7}
    assert read == [(2, 7)]

"""Where inputs begin that have no committed offset."""

import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.types import EARLIEST, LATEST, OffsetAt
from headwater.streams import App
from headwater.streams.slot.open_task import Clients
from headwater.streams.slot.start_offsets import StartOffsets

NOW_S = 1_000_000.0


class Cluster:
    """An admin client of a group that may have committed something. Partitions have records from 20 to 50; those from
    40 on are an hour old.
    """

    def __init__(self, committed: int | None = None) -> None:
        self.asked: list[dict[TopicPartition, int]] = []
        self._committed = committed

    def list_group_offsets(
        self, group: str, partitions: list[TopicPartition], *, require_stable: bool
    ) -> dict[Any, Any]:
        if self._committed is None:
            return {}
        return {each: SimpleNamespace(offset=self._committed, metadata="times") for each in partitions}

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        self.asked.append(dict(wanted))
        return {each: OffsetAt(self._offset(timestamp), -1, -1) for each, timestamp in wanted.items()}

    def _offset(self, timestamp: int) -> int:
        if timestamp in (EARLIEST, LATEST):
            return 20 if timestamp == EARLIEST else 50
        return 40 if timestamp <= (NOW_S - 3600) * 1000 else -1


def begins(app: App, topic: str, reset: str, monkeypatch: pytest.MonkeyPatch, committed: int | None = None) -> int:
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    clients = Clients(cast("Any", Cluster(committed)), cast("Any", None), threading.Event())
    offsets = StartOffsets(clients, "app", app.topology().sub_topologies(), reset)
    return offsets.of([TopicPartition(topic, 0)], stable=True)[TopicPartition(topic, 0)][0]


@pytest.mark.parametrize(
    ("reset", "offset"),
    [("earliest", 20), ("latest", 50), ("by_duration:PT2H", 40), ("by_duration:PT1M", 50)],
)
@pytest.mark.parametrize("by_source", [True, False])
def test_an_input_begins_where_its_source_says_or_the_application(
    reset: str, offset: int, by_source: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("app")
    app.stream("in", reset=reset if by_source else None).to("out")
    assert begins(app, "in", "latest" if by_source else reset, monkeypatch) == offset


def test_a_repartition_topic_is_read_from_its_beginning_whatever_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("app")
    app.stream("in").repartition(name="again").to("out")
    assert begins(app, "app-again-repartition", "latest", monkeypatch) == 20


def test_without_any_place_to_begin_the_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("app")
    app.stream("in", reset="none").to("out")
    with pytest.raises(UserError, match="in-0 has no committed offset of app"):
        begins(app, "in", "earliest", monkeypatch)


@pytest.mark.parametrize(
    ("reset", "committed", "offset"),
    [
        ("latest", 30, 30),
        ("latest", 19, 50),
        ("latest", 51, 50),
        ("by_duration:PT2H", 51, 40),
        ("latest", 50, 50),
        ("by_duration:PT2H", 19, 40),
        ("earliest", 19, 19),
        ("earliest", 51, 51),
        ("none", 20, 20),
        ("none", 50, 50),
    ],
)
def test_the_reset_decides_again_where_the_log_does_not_hold_what_comes_next(
    reset: str, committed: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers begin at the first record that is left by themselves, as `earliest` has it."""
    app = App("app")
    app.stream("in", reset=reset).to("out")
    assert begins(app, "in", "earliest", monkeypatch, committed) == offset


@pytest.mark.parametrize("committed", [19, 51])
def test_records_that_are_gone_are_told_where_no_reset_is_given(
    committed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention has deleted them, or the topic was made anew."""
    app = App("app")
    app.stream("in", reset="none").to("out")
    with pytest.raises(UserError, match=rf"in-0 holds no offset {committed} \(any more\)"):
        begins(app, "in", "earliest", monkeypatch, committed)


@pytest.mark.parametrize(("resets", "of_the_consumer"), [((None, "earliest"), "earliest"), ((None, "latest"), "none")])
def test_a_consumer_goes_on_by_itself_only_where_all_would_go_on_at_the_first_record_that_is_left(
    resets: tuple[str | None, str], of_the_consumer: str
) -> None:
    app = App("app")
    for topic, reset in zip(("a", "b"), resets, strict=True):
        app.stream(topic, reset=reset).to("out")
    clients = Clients(cast("Any", None), cast("Any", None), threading.Event())
    assert StartOffsets(clients, "app", app.topology().sub_topologies()).consumer_reset == of_the_consumer
